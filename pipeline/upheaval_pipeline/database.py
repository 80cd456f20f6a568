"""`upheaval lake export`: a DuckDB database with the tables of a lake and its views, for programs that show charts.

Its tables are copies, so it needs the lake no more. Of recordings it has only what could not be read: no view needs
their frames, which are most of a lake.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

import duckdb

from upheaval.errors import EnvironmentFault
from upheaval_pipeline.duck import DuckEngine
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.query import open_views
from upheaval_pipeline.sql_dialects import as_duckdb
from upheaval_pipeline.tables import REJECT

_REJECTS_ALONE: Final = ("recording",)


class DuckDatabase:
    """A database that is written; implements `Engine`. Tables become its own, views stay queries."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._engine = DuckEngine(connection)

    def add_table(self, name: str, lake: Lake, table: str, schema: str, runs: Sequence[str]) -> None:
        """A copy of the rows of runs."""
        self._engine.add_table(name, lake, table, schema, runs)
        self._copy(name, f"WHERE {REJECT} IS NOT NULL" if table in _REJECTS_ALONE else "")

    def add_rows(self, name: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        """A small table."""
        self._engine.add_rows(name, schema, rows)
        self._copy(name)

    def add_view(self, name: str, sql: str) -> None:
        """A query by a name, which is run anew by each reader."""
        self._connection.execute(f'CREATE VIEW main."{name}" AS {as_duckdb(sql)}')

    def sharing(self, views: Sequence[str]) -> AbstractContextManager[None]:
        """A block whose queries compute views once."""
        return self._engine.sharing(views)

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Of a table or view."""
        return self._engine.columns(name)

    def answer(self, sql: str, limit: int) -> Answer:
        """The first rows of a query."""
        return self._engine.answer(sql, limit)

    def _copy(self, name: str, where: str = "") -> None:
        """The rows are read through a temporary view, whose name goes before that of the table."""
        self._connection.execute(f'CREATE TABLE main."{name}" AS SELECT * FROM temp."{name}" {where}')
        self._connection.execute(f'DROP VIEW temp."{name}"')


def write_database(lake: Lake, file: Path) -> None:
    """A file that is there whole or not at all; one that is there is replaced.

    Raises `EnvironmentFault` when it cannot be written, and `UsageError` for a run with a damaged file.
    """
    temporary = file.with_name(f"{file.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        with duckdb.connect(temporary) as connection:
            open_views(DuckDatabase(connection), lake)
        temporary.replace(file)
    except (OSError, duckdb.Error) as error:
        raise EnvironmentFault(f"cannot write {file}: {str(error).splitlines()[0]}") from error
    finally:
        for left in (temporary, temporary.with_name(f"{temporary.name}.wal")):
            with suppress(OSError):
                left.unlink()
