"""DuckDB as the engine of queries: in this process, without Java."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import duckdb
import pyarrow as pa

from upheaval.errors import UsageError
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_files import BATCH
from upheaval_pipeline.sql_dialects import as_duckdb

_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "preserve_insertion_order = true",
    "enable_progress_bar = false",
)
"""A query sees what was added here, and neither files nor variables of this program. It prints nothing, where DuckDB
would show its progress on standard output: in `python -c` and notebooks.
"""


class DuckEngine:
    """One connection; implements `Engine`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}")

    def add_table(self, name: str, lake: Lake, table: str, schema: str, runs: Sequence[str]) -> None:
        """The rows of runs in a table of a lake, read by Arrow when a query asks for them."""
        columns = arrow_schema(schema)
        parts = lake.parts(table, runs)
        reads = []
        whole = [part.path for part in parts if part.is_whole]
        if whole or not parts:
            self._connection.register(f"{name} whole", lake.dataset(whole, columns))
            reads.append(f'SELECT * FROM "{name} whole"')
        mixed = [part.path for part in parts if not part.is_whole]
        if mixed:
            batches = lake.counting(table, runs)
            counting = pa.table({"run": pa.array(batches, pa.string()), BATCH: pa.array(batches.values(), pa.string())})
            self._connection.register(f"{name} counting", counting)
            rows = lake.dataset(mixed, columns.append(pa.field(BATCH, pa.string())))
            self._connection.register(f"{name} mixed", rows)
            where = f'WHERE (run, {BATCH}) IN (SELECT run, {BATCH} FROM "{name} counting")'
            reads.append(f'SELECT * EXCLUDE ({BATCH}) FROM "{name} mixed" {where}')
        self._connection.execute(f'CREATE TEMP VIEW "{name}" AS {" UNION ALL ".join(reads)}')

    def add_rows(self, name: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        """A small table."""
        columns = arrow_schema(schema)
        values = zip(*rows, strict=True) if rows else ([] for _ in columns)
        arrays = [pa.array(list(column), field.type) for column, field in zip(values, columns, strict=True)]
        self._connection.register(name, pa.Table.from_arrays(arrays, schema=columns))

    def add_view(self, name: str, sql: str) -> None:
        """A query by a name."""
        self._connection.execute(f'CREATE TEMP VIEW "{name}" AS {as_duckdb(sql)}')

    @contextmanager
    def sharing(self, views: Sequence[str]) -> Iterator[None]:
        """Tables in memory, or in DuckDB's temporary files, take the place of views."""
        execute = self._connection.execute
        with ExitStack() as stack:
            for view in views:
                with _reasons():
                    execute(f'ALTER VIEW "{view}" RENAME TO "{view} computed"')
                    stack.callback(execute, f'ALTER VIEW "{view} computed" RENAME TO "{view}"')
                    execute(f'CREATE TEMP TABLE "{view}" AS SELECT * FROM "{view} computed"')
                    stack.callback(execute, f'DROP TABLE "{view}"')
            yield

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Of a table or view, with DuckDB's names of their types."""
        described = self._connection.execute(f'DESCRIBE "{name}"').fetchall()
        return [(str(column), str(kind).lower()) for column, kind, *_ in described]

    def answer(self, sql: str, limit: int) -> Answer:
        """The first rows of a query. Raises `UsageError` for anything that is no query."""
        query = as_duckdb(sql)
        with _reasons():
            result = self._connection.execute(query)
            columns = tuple(column[0] for column in result.description or ())
            rows = result.fetchmany(limit + 1)
        return Answer(columns, tuple(rows[:limit]), len(rows) > limit)


@contextmanager
def duck_engine() -> Iterator[DuckEngine]:
    """An engine, closed on the way out."""
    with duckdb.connect() as connection:
        yield DuckEngine(connection)


def memory_limit() -> int:
    """Bytes that DuckDB allows itself: 80 % of the memory of the machine, or of its control group."""
    with duckdb.connect() as connection:
        (size,) = connection.execute("SELECT parse_formatted_bytes(current_setting('memory_limit'))").fetchall()[0]
    return int(size)


@contextmanager
def _reasons() -> Iterator[None]:
    """Errors of DuckDB as a `UsageError` of one line."""
    try:
        yield
    except (OSError, duckdb.IOException) as error:
        raise UsageError(f"the lake cannot be read: {_first_line(error)}") from None
    except duckdb.Error as error:
        raise UsageError(f"the query cannot be run: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
