"""What answers queries over a lake: DuckDB within this process, or Spark."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from upheaval_pipeline.lake import Lake


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave; `is_cut` when there were more rows than wanted."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    is_cut: bool


class Engine(Protocol):
    """Tables and views by name, and queries over them in Spark's SQL."""

    def add_table(self, name: str, lake: "Lake", table: str, schema: str, runs: Sequence[str]) -> None:
        """The rows of runs in a table of a lake, whose files must be whole."""

    def add_rows(self, name: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        """A small table."""

    def add_view(self, name: str, sql: str) -> None:
        """A query by a name."""

    def sharing(self, views: Sequence[str]) -> AbstractContextManager[None]:
        """A block whose queries compute views once; each may read the ones before it. Raises as `answer` does."""

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Of a table or view, with their types."""

    def answer(self, sql: str, limit: int) -> Answer:
        """The first rows of a query. Raises `UsageError` for anything that is no query."""
