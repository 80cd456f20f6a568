"""Writes files of a lake's tables, from within tasks or beside them, and counts their rows.

Nothing counts of them until a commit names them (`lake`). This module knows nothing of what tables mean.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame

from upheaval.errors import EnvironmentFault
from upheaval_pipeline.tables import REJECT
from upheaval_pipeline.workers import settle

REJECTS: Final = "rejects"
_COUNTS = "name string, size long, run string, rows long, rejects long"


@dataclass(frozen=True, slots=True)
class File:
    """Of a table, in the folder of its batch; `rows` are how many of each run it has."""

    table: str
    name: str
    size: int
    rows: Mapping[str, int]


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
        for some in chain((first,), rows):
            writer.write_batch(some)
            count.update(_by_run(some))
            if REJECT in some.schema.names:
                rejects.update(_by_run(some.filter(pc.is_valid(some[REJECT]))))
    size = files.get_file_info(f"{folder}/{name}").size
    return [Written(File(table, name, size, dict(count)), dict(rejects))]


def _by_run(rows: pa.RecordBatch) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in pc.value_counts(rows["run"]).to_pylist()}


def totals_of(written: Iterable[Written], runs: Iterable[str], tables: Iterable[str]) -> dict[str, dict[str, int]]:
    """By run and table how many rows could be read, and how many could not (`rejects`)."""
    totals = {run: dict.fromkeys((*tables, REJECTS), 0) for run in runs}
    for one in written:
        for run, number in one.file.rows.items():
            bad = one.rejects.get(run, 0)
            totals[run][one.file.table] += number - bad
            totals[run][REJECTS] += bad
    return totals


def write_frame(frame: DataFrame, where: str, table: str, batch: str) -> list[Written]:
    """A file for each partition of a data frame."""
    counts = frame.mapInArrow(partial(_written_rows, where, table, batch), _COUNTS).collect()
    of_file: dict[tuple[str, int], tuple[dict[str, int], dict[str, int]]] = {}
    for row in counts:
        rows, rejects = of_file.setdefault((row.name, row.size), ({}, {}))
        rows[row.run], rejects[row.run] = row.rows, row.rejects
    return [Written(File(table, *file, rows), rejects) for file, (rows, rejects) in of_file.items()]


def _written_rows(where: str, table: str, batch: str, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle()
    for one in write_file(where, table, batch, rows):
        told = [
            {
                "name": one.file.name,
                "size": one.file.size,
                "run": run,
                "rows": number,
                "rejects": one.rejects.get(run, 0),
            }
            for run, number in one.file.rows.items()
        ]
        yield pa.RecordBatch.from_pylist(told)
