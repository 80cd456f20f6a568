"""Which engine answers queries over a lake, and whether it is there."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from upheaval.errors import EnvironmentFault
from upheaval.extras import install_line
from upheaval_pipeline.connect import connect_session
from upheaval_pipeline.engine import Engine
from upheaval_pipeline.session import is_connect, missing_for_spark, missing_for_store, require_spark
from upheaval_pipeline.shown_session import shown_session

if TYPE_CHECKING:
    from upheaval_pipeline.lake import Lake

DUCKDB, SPARK, PYTHON, AUTO = "duckdb", "spark", "python", "auto"
BYTES_BEFORE_SPARK: Final = 128 << 20
"""Of lines of runs: about what this process reads and judges in the time in which Spark starts."""
_MODULES: Final = ("duckdb", "sqlglot", "pyarrow")


def require_lake_reader() -> None:
    """Raises `EnvironmentFault` where nothing can read or write files of a lake."""
    _require("pyarrow", "deltalake", "numpy")


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and why `auto` took it; no reason where the engine was wanted."""

    engine: str
    why: str = ""


def chosen(wanted: str, master: str | None) -> str:
    """The engine that is wanted. Raises `EnvironmentFault` when it is not there."""
    if wanted == DUCKDB:
        _require(*_MODULES)
    else:
        require_spark(master)
    return wanted


def chosen_for(
    lake: "Lake", queries: Sequence[str], wanted: str, master: str | None, limit: int | None = None
) -> Choice:
    """The engine for queries over a lake. `auto` is Spark for a master; else DuckDB where it is installed, and its
    `limit` of bytes, by default its own, holds what they read, or Spark cannot run.

    Raises `EnvironmentFault` when the engine is not there.
    """
    if wanted != AUTO:
        return Choice(chosen(wanted, master))
    if master is not None:
        return Choice(chosen(SPARK, master), "of --master")
    if any(find_spec(module) is None for module in _MODULES):
        name = SPARK if find_spec("pyspark") is not None else DUCKDB
        return Choice(chosen(name, None), "DuckDB is not installed")
    from upheaval_pipeline.duck import memory_limit
    from upheaval_pipeline.reading import why_too_large

    too_large = why_too_large(lake, queries, memory_limit() if limit is None else limit)
    if not too_large:
        return Choice(DUCKDB, "the lake fits in memory")
    if missing := _missing_for_spark(lake.place.text):
        return Choice(DUCKDB, f"Spark cannot run ({missing}), although {too_large}")
    return Choice(SPARK, too_large)


def chosen_to_ingest(size: int, where: str, wanted: str, master: str | None, limit: int = BYTES_BEFORE_SPARK) -> Choice:
    """The engine that takes runs with so many bytes of lines into a lake. `auto` is Spark for a master; else this
    process up to `limit` bytes, or where Spark cannot run.

    Raises `EnvironmentFault` when Spark is wanted and not there.
    """
    if wanted == PYTHON:
        return Choice(PYTHON)
    if wanted == SPARK or master is not None:
        require_spark(master)
        return Choice(SPARK, "" if wanted == SPARK else "of --master")
    have = f"the runs have {size / 1e6:.1f} MB of lines"
    if size <= limit:
        return Choice(PYTHON, have)
    if missing := _missing_for_spark(where):
        return Choice(PYTHON, f"Spark cannot run ({missing}), although {have}")
    return Choice(SPARK, have)


def _missing_for_spark(where: str) -> str:
    return missing_for_spark() or (missing_for_store() if where.startswith("s3://") else "")


@contextmanager
def engine_of(name: str, master: str | None) -> Iterator[Engine]:
    """An engine with nothing in it, ended on the way out. Raises `EnvironmentFault` when Spark does not start."""
    if name == DUCKDB:
        from upheaval_pipeline.duck import duck_engine

        with duck_engine() as engine:
            yield engine
        return
    with ExitStack() as stack:
        if is_connect(master):
            spark = stack.enter_context(connect_session(master))
        else:
            spark = stack.enter_context(shown_session(master)).spark
        from upheaval_pipeline.spark_engine import SparkEngine

        yield SparkEngine(spark)


def _require(*modules: str) -> None:
    for module in modules:
        if find_spec(module) is None:
            raise EnvironmentFault(f"{module} is not installed: {install_line('lake')}")
