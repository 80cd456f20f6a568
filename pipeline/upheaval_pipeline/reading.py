"""How much memory queries over a lake take, by Delta's log: nothing of the rows is read."""

from collections.abc import Iterable
from typing import Final

from upheaval.errors import UsageError
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_file import File
from upheaval_pipeline.query import ALL
from upheaval_pipeline.sql_dialects import names_in
from upheaval_pipeline.tables import STORED
from upheaval_pipeline.views import VIEWS

ROW_BYTES: Final = 1 << 10
"""Of a row, beside the bytes of its file: the question `slo` took 550 MB for 525,000 rows, 1,730 MB for 2,100,000."""
_STREAMED: Final = ("loads",)
"""Aggregates of one column to a row a run: the rows that they read are not kept in memory."""


def tables_read(queries: Iterable[str]) -> set[str]:
    """The tables that queries read, by themselves or through views; all, where a query is none that we can parse.

    Views of `_STREAMED` count for nothing, nor does `rejects`, which reads one column of each table.
    """
    views = {view.name: view.sql for view in VIEWS if view.name not in _STREAMED}
    seen: set[str] = set()
    try:
        to_do = {name for sql in queries for name in names_in(sql)}
        while to_do:
            name = to_do.pop()
            seen.add(name.removesuffix(f"_{ALL}"))
            to_do |= names_in(views[name]) - seen if name in views else set()
    except UsageError:
        return set(STORED)
    return seen & STORED.keys()


def memory_of(files: Iterable[File]) -> int:
    """Bytes of memory that reading the files takes."""
    return sum(file.size + file.rows * ROW_BYTES for file in files)


def why_too_large(lake: Lake, queries: Iterable[str], limit: int) -> str:
    """Why a process with so much memory should not answer queries over a lake; empty where it should."""
    if memory_of(file for files in lake.tables.values() for file in files) <= limit:
        return ""
    files = [file for table in sorted(tables_read(queries)) for file in lake.tables[table]]
    needed = memory_of(files)
    if needed <= limit:
        return ""
    on_disk, rows = _shown(sum(file.size for file in files)), sum(file.rows for file in files)
    return f"the lake's {on_disk} with {rows:,} rows exceed {_shown(limit)} of memory: they take about {_shown(needed)}"


def _shown(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
