"""The tables of runs as data frames, read from their folders or from a lake.

Both have the same columns, so that what measures runs does not know where their tables lie.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval.errors import UsageError
from upheaval.records import (
    ControlRecord,
    FieldError,
    Manifest,
    RunFolder,
    jsonfields,
    parse_control,
    parse_manifest,
)
from upheaval_pipeline import sources, tables
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.spark_rows import rows_of
from upheaval_pipeline.verify import why_unreadable

RUNS_OF_A_JOB: Final = 200
"""So many are read at once: what comes back of them is in this process at one time."""
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """What is known of a run beside its tables."""

    manifest: Manifest
    controls: tuple[ControlRecord, ...] = ()
    """The commands of operators."""
    malformed: str = ""
    """Why these cannot be read."""


@dataclass(frozen=True)
class RunTables:
    """Many runs. The column `run` of each table is the place of the run in `runs`."""

    runs: tuple[Run, ...]
    history: DataFrame
    faults: DataFrame
    trace: DataFrame
    recording: DataFrame
    """Frames without their payloads, and extents with what ended them in `_reject`."""
    bad: DataFrame
    """What could not be read, `source` by `source`, with the columns of the rejects."""


@contextmanager
def of_folders(spark: SparkSession, folders: Sequence[Path]) -> Iterator[RunTables]:
    """Raises `UsageError` for a folder that is no run folder."""
    runs = {str(place): _of_folder(folder) for place, folder in enumerate(folders)}
    read = {source.name(): sources.load(spark, source.name(), folders, by_place=True) for source in sources.SOURCES}
    with _by_place(spark, runs, read) as read_tables:
        yield read_tables


def _of_folder(folder: Path) -> Run:
    run = RunFolder(folder)
    manifest = run.read_manifest()
    try:
        return Run(manifest, tuple(run.read_controls()))
    except UsageError as error:
        return Run(manifest, malformed=str(error))


@contextmanager
def of_lake(spark: SparkSession, lake: Lake, runs: Sequence[str]) -> Iterator[RunTables]:
    """Of runs whose files are whole."""
    rows = {row.run: row for row in rows_of(spark, lake, "runs", tables.RUNS, runs).collect()}
    known = {run: _of_row(lake.where, run, rows[run]) for run in runs}
    names = (source.name() for source in sources.SOURCES)
    read = {name: rows_of(spark, lake, name, tables.LAKE_SCHEMAS[name], runs) for name in names}
    with _by_place(spark, known, read) as read_tables:
        yield read_tables


def each_of_lake(
    spark: SparkSession, lake: Lake, runs: Sequence[str], work: Callable[[RunTables], Sequence[T | UsageError]]
) -> Iterator[T | UsageError]:
    """The result of each run of a lake, in their order, or why it cannot be read.

    Raises `UsageError` when one is not there.
    """
    results: dict[str, T | UsageError] = {run: why for run in runs if (why := why_unreadable(lake, run)) is not None}
    readable_runs = [run for run in runs if run not in results]
    for begin in range(0, len(readable_runs), RUNS_OF_A_JOB):
        some = readable_runs[begin : begin + RUNS_OF_A_JOB]
        with of_lake(spark, lake, some) as read_tables:
            results |= zip(some, work(read_tables), strict=True)
    return iter([results[run] for run in runs])


def _of_row(lake: str, run: str, row: Any) -> Run:
    try:
        manifest = parse_manifest(jsonfields.parse_object(row.manifest))
    except FieldError as error:
        raise UsageError(f"{lake}: the manifest of run {run!r}: {error}") from None
    if row.controls is None:
        return Run(manifest, malformed=f"{lake} has no readable commands of run {run!r}: ingest its folder again")
    return Run(manifest, tuple(map(parse_control, json.loads(row.controls))))


@contextmanager
def _by_place(spark: SparkSession, runs: Mapping[str, Run], read: Mapping[str, DataFrame]) -> Iterator[RunTables]:
    """Tables of the runs with their places for their ids, and nothing of members that they do not have; read once."""
    known = [(name, place, run.manifest.members) for place, (name, run) in enumerate(runs.items())]
    places = F.broadcast(spark.createDataFrame(known, "known_as string, run int, known_members int"))
    frames = {}
    for name, frame in read.items():
        rows = frame.drop("payload").withColumnRenamed("run", "known_as").join(places, "known_as").drop("known_as")
        if "member" in frame.columns:
            rows = rows.where("member IS NULL OR member < known_members")
        frames[name] = rows.drop("known_members").persist()
    good = {name: readable(name, frame) for name, frame in frames.items()}
    bad = {name: frame.where("kind IS NULL") if name == "recording" else frame for name, frame in frames.items()}
    try:
        yield RunTables(tuple(runs.values()), **good, bad=reduce(DataFrame.union, map(rejects, bad.values(), bad)))
    finally:
        for frame in frames.values():
            frame.unpersist()


def readable(source: str, rows: DataFrame) -> DataFrame:
    """What could be read. How far frames reach is known also where they end in something that is none."""
    return rows.where("kind IS NOT NULL" if source == "recording" else "_reject IS NULL")


def rejects(frame: DataFrame, source: str) -> DataFrame:
    """The rows of a source that say why something could not be read."""
    place = [
        F.col(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in (("member", "int"), ("line", "long"))
    ]
    bad = frame.where("_reject IS NOT NULL")
    return bad.select("run", F.lit(source).alias("source"), *place, F.col("_reject").alias("reason"))
