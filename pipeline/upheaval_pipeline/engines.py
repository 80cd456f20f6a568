"""Which engine answers queries over a lake, and whether it is there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.extras import install_line
from upheaval_pipeline.connect import connect_session, is_connect
from upheaval_pipeline.engine import Engine
from upheaval_pipeline.session import require_spark
from upheaval_pipeline.shown_session import shown_session

DUCKDB, SPARK, AUTO = "duckdb", "spark", "auto"
_MODULES: Final = ("duckdb", "sqlglot", "pyarrow")


def require_lake_reader() -> None:
    """Raises `EnvironmentFault` where nothing can read files of a lake."""
    _require("pyarrow", "deltalake")


def chosen(wanted: str, master: str | None) -> str:
    """The engine that is wanted; `auto` is Spark for a master, and else DuckDB where it is installed.

    Raises `EnvironmentFault` when it is not there.
    """
    is_duckdb_there = all(find_spec(module) is not None for module in _MODULES)
    if wanted == AUTO:
        wanted = SPARK if master is not None or (not is_duckdb_there and find_spec("pyspark") is not None) else DUCKDB
    if wanted == DUCKDB:
        _require(*_MODULES)
    elif is_connect(master):
        _require("pyspark", "pandas", extra="spark")
    else:
        require_spark()
    return wanted


@contextmanager
def engine_of(name: str, master: str | None) -> Iterator[Engine]:
    """An engine with nothing in it, ended on the way out. Raises `EnvironmentFault` when Spark does not start."""
    if name == DUCKDB:
        from upheaval_pipeline.duck import duck_engine

        with duck_engine() as engine:
            yield engine
        return
    with ExitStack() as stack:
        if master is not None and is_connect(master):
            spark = stack.enter_context(connect_session(master))
        else:
            spark = stack.enter_context(shown_session(master)).spark
        from upheaval_pipeline.spark_engine import SparkEngine

        yield SparkEngine(spark)


def _require(*modules: str, extra: str = "lake") -> None:
    for module in modules:
        if find_spec(module) is None:
            raise EnvironmentFault(f"{module} is not installed: {install_line(extra)}")
