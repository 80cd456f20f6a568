"""Writes Parquet files of a lake's tables, from within tasks or beside them, and counts their rows.

A file counts for nothing until a commit names it (`delta`). Its pages have checksums, and its name ends in a checksum
of its footer, which no checksum of pages covers. This module knows nothing of what tables mean.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from upheaval.errors import EnvironmentFault
from upheaval_pipeline.lake_file import File, file_name
from upheaval_pipeline.place import Place
from upheaval_pipeline.tables import REJECT

REJECTS: Final = "rejects"
BATCH: Final = "batch"
"""The column that says by which ingest or judgement a row was written."""
GROUP_BYTES: Final = 1 << 24
"""Of the rows of a group, in memory."""
FILE_BYTES: Final = 1 << 27
"""A file that has so many bytes takes no further group."""
_TAIL_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class Written:
    """A file, how many rows of each run it has, and how many of them say why something could not be read."""

    file: File
    rows: Mapping[str, int]
    rejects: Mapping[str, int]


def write_file(where: str, table: str, batch: str, rows: Iterable[pa.RecordBatch]) -> list[Written]:
    """The rows with their batch, as files of `write_rows`."""
    return write_rows(where, table, (with_batch(some, batch) for some in rows))


def with_batch(rows: pa.RecordBatch, batch: str) -> pa.RecordBatch:
    """Rows with the name of a batch in their last column."""
    return rows.append_column(BATCH, pa.repeat(batch, rows.num_rows))


def write_rows(where: str, table: str, rows: Iterable[pa.RecordBatch]) -> list[Written]:
    """Files with checksums, under unique names; none without rows. Raises `EnvironmentFault`."""
    try:
        place = Place(where)
        return list(_files(place, table, _groups(rows)))
    except OSError as error:
        raise EnvironmentFault(f"cannot write to {where}/{table}, or read what belongs there: {error}") from error


def _files(place: Place, table: str, groups: Iterator[pa.Table]) -> Iterator[Written]:
    """Each is made in memory, so that its name is known before anything is written."""
    while (first := next(groups, None)) is not None:
        buffer = pa.BufferOutputStream()
        rows: Counter[str] = Counter()
        rejects: Counter[str] = Counter()
        batches: set[str] = set()
        with pq.ParquetWriter(buffer, first.schema, write_page_checksum=True) as writer:
            some: pa.Table | None = first
            while some is not None:
                writer.write_table(some, row_group_size=some.num_rows)
                rows.update(_by_run(some))
                if REJECT in some.schema.names:
                    rejects.update(_by_run(some.filter(pc.is_valid(some[REJECT]))))
                batches |= set(pc.unique(some[BATCH]).to_pylist())
                some = next(groups, None) if buffer.tell() < FILE_BYTES else None
        data = buffer.getvalue()
        name = file_name(uuid4().hex, _footer(pa.BufferReader(data), data.size))
        place.files.create_dir(place.path(table))
        with place.files.open_output_stream(place.path(f"{table}/{name}")) as stream:
            stream.write(data)
        ends = (min(rows), max(rows)), (min(batches), max(batches))
        yield Written(File(table, name, data.size, sum(rows.values()), *ends), dict(rows), dict(rejects))


def _groups(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches that follow each other, in groups that are worth one."""
    some: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if not batch.num_rows:
            continue
        some.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(some)
            some, size = [], 0
    if some:
        yield pa.Table.from_batches(some)


def footer_is_whole(files: fs.FileSystem, path: str, size: int) -> bool:
    """Whether the footer of a file is the one in its name."""
    with files.open_input_file(path) as stream:
        return path.removesuffix(".parquet").endswith(f"-{_footer(stream, size):08x}")


def _footer(stream: pa.NativeFile, size: int) -> int:
    """CRC-32 of the footer of a Parquet file of that size, with its length (Parquet format: file metadata)."""
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
        for run, number in one.rows.items():
            bad = one.rejects.get(run, 0)
            totals[run][one.file.table] += number - bad
            totals[run][REJECTS] += bad
    return totals


def files_of(written: Sequence[Written]) -> list[File]:
    """The files, for a commit."""
    return [one.file for one in written]
