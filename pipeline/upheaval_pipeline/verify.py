"""`upheaval verify --engine spark`: run folders, and runs of a lake, judged by `verify_run` in Spark's tasks.

A lake answers from the findings that it keeps, as long as the same version of Upheaval made them; the others are judged
anew from their folders, as long as these are what was ingested, and the lake keeps what was found.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from upheaval.errors import UsageError
from upheaval_pipeline import tables
from upheaval_pipeline.ingest import contents_of
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.run_tables import why_unreadable
from upheaval_pipeline.verdicts import judged_by_this_version, write_verdicts
from upheaval_pipeline.version import digest_in
from upheaval_pipeline.whole import Judged, in_tasks, judge_each


def verify(spark: SparkSession, folders: Sequence[Path]) -> list[Judged]:
    """The reports of run folders, in their order."""
    return judge_each(spark, folders)


def verify_lake(spark: SparkSession, lake: Lake, runs: Sequence[str]) -> list[Judged]:
    """The reports of runs of a lake, in their order; new ones are written to it.

    Raises `UsageError` when a run is not there.
    """
    reports: dict[str, Judged] = {run: why for run in runs if (why := why_unreadable(lake, run)) is not None}
    reports |= judged_by_this_version(spark, lake, [run for run in runs if run not in reports])
    left = [run for run in runs if run not in reports]
    folder_of = _folders(spark, lake, left)
    there = [run for run in left if (folder_of[run] / "manifest.json").exists()]
    digests = in_tasks(spark, contents_of, [folder_of[run] for run in there])
    same = [run for run, (digest, _) in zip(there, digests, strict=True) if digest == _digest(lake, run)]
    fresh = dict(zip(same, judge_each(spark, [folder_of[run] for run in same]), strict=True))
    for run in left:
        if run not in fresh:
            what = "has changed since it was ingested: ingest it again" if run in there else "is gone"
            reports[run] = UsageError(
                f"{lake.where} keeps no verdict of this version on run {run!r}, and its folder {folder_of[run]} {what}"
            )
    if fresh:
        write_verdicts(lake, fresh)
    reports |= fresh
    return [reports[run] for run in runs]


def _folders(spark: SparkSession, lake: Lake, runs: Sequence[str]) -> dict[str, Path]:
    if not runs:
        return {}
    rows = lake.rows(spark, "runs", tables.RUNS, runs).select("run", "folder").collect()  # a row a run
    return {row.run: Path(row.folder) for row in rows}


def _digest(lake: Lake, run: str) -> str:
    entry = lake.entry("runs", run)
    return "" if entry is None else digest_in(entry.contents)
