"""Writes files of a lake's tables, from within tasks or beside them, and counts their rows.

Nothing counts of them until a commit names them (`lake`). This module knows nothing of what tables mean.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from upheaval.errors import EnvironmentFault
from upheaval_pipeline.tables import REJECT
from upheaval_pipeline.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REJECTS: Final = "rejects"
GROUP_BYTES: Final = 1 << 24
"""Of the rows of a group, in memory."""
_TAIL_LENGTH: Final = 8
_COUNTS = "name string, size long, footer long, run string, rows long, rejects long"


@dataclass(frozen=True, slots=True)
class File:
    """Of a table, in the folder of its batch; `rows` are how many of each run it has."""

    table: str
    name: str
    size: int
    rows: Mapping[str, int]
    footer: int | None = None
    """CRC-32 of where its pages are and what they hold, which no checksum of pages covers; None in older lakes."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file, and how many of its rows say by run why something could not be read."""

    file: File
    rejects: Mapping[str, int]


def write_file(where: str, table: str, batch: str, rows: Iterable[pa.RecordBatch]) -> list[Written]:
    """One file with checksums of its pages, under a name of its own; none without rows. Raises `EnvironmentFault`."""
    try:
        return _write(where, table, batch, rows)
    except OSError as error:
        raise EnvironmentFault(f"cannot write to {where}/{table}, or read what belongs there: {error}") from error


def _write(where: str, table: str, batch: str, rows: Iterable[pa.RecordBatch]) -> list[Written]:
    files, root = fs.FileSystem.from_uri(where)
    folder, name = f"{root}/{table}/batch={batch}", f"{uuid4().hex}.parquet"
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return []
    files.create_dir(folder)
    count: Counter[str] = Counter()
    rejects: Counter[str] = Counter()
    with (
        files.open_output_stream(f"{folder}/{name}") as stream,
        pq.ParquetWriter(stream, first.schema, write_page_checksum=True) as writer,
    ):
        for some in _groups(chain((first,), rows)):
            writer.write_table(some, row_group_size=some.num_rows)
            count.update(_by_run(some))
            if REJECT in some.schema.names:
                rejects.update(_by_run(some.filter(pc.is_valid(some[REJECT]))))
    size = files.get_file_info(f"{folder}/{name}").size
    footer = footer_of(files, f"{folder}/{name}", size)
    return [Written(File(table, name, size, dict(count), footer), dict(rejects))]


def _groups(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches that follow each other, in groups that are worth one."""
    some: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        some.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(some)
            some, size = [], 0
    if some:
        yield pa.Table.from_batches(some)


def footer_of(files: fs.FileSystem, path: str, size: int) -> int:
    """CRC-32 of the footer of a Parquet file of that size, with its length (Parquet format: file metadata)."""
    with files.open_input_file(path) as stream:
        stream.seek(max(size - _TAIL_LENGTH, 0))
        length = int.from_bytes(stream.read(4), "little") + _TAIL_LENGTH
        stream.seek(max(size - length, 0))
        return zlib.crc32(stream.read(length))


def _by_run(rows: pa.Table) -> dict[str, int]:
    return {counted["values"]: counted["counts"] for counted in pc.value_counts(rows["run"]).to_pylist()}


def totals_of(written: Iterable[Written], runs: Iterable[str], tables: Iterable[str]) -> dict[str, dict[str, int]]:
    """By run and table how many rows could be read, and how many could not (`rejects`)."""
    totals = {run: dict.fromkeys((*tables, REJECTS), 0) for run in runs}
    for one in written:
        for run, number in one.file.rows.items():
            bad = one.rejects.get(run, 0)
            totals[run][one.file.table] += number - bad
            totals[run][REJECTS] += bad
    return totals


def write_frame(frame: "DataFrame", where: str, table: str, batch: str) -> list[Written]:
    """A file for each partition of a data frame."""
    counts = frame.mapInArrow(partial(_written_rows, where, table, batch), _COUNTS).collect()
    of_file: dict[tuple[str, int, int], tuple[dict[str, int], dict[str, int]]] = {}
    for row in counts:
        rows, rejects = of_file.setdefault((row.name, row.size, row.footer), ({}, {}))
        rows[row.run], rejects[row.run] = row.rows, row.rejects
    return [
        Written(File(table, name, size, rows, footer), rejects)
        for (name, size, footer), (rows, rejects) in of_file.items()
    ]


def _written_rows(where: str, table: str, batch: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle()
    for one in write_file(where, table, batch, rows):
        entries = [
            {
                "name": one.file.name,
                "size": one.file.size,
                "footer": one.file.footer,
                "run": run,
                "rows": number,
                "rejects": one.rejects.get(run, 0),
            }
            for run, number in one.file.rows.items()
        ]
        yield pa.RecordBatch.from_pylist(entries)
