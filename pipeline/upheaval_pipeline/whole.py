"""Judges whole runs by the in-process checkers, each in a task of Spark's: many at a time, wherever its workers are.

A run that fits into the memory of a task costs there what it costs in process; cut up into columns it costs many times
that. What does not fit is spread over tasks by `verify`. This module knows nothing of tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Report
from upheaval.errors import UsageError
from upheaval.records import RunFolder

WHOLE_MIB: Final = 128
"""Of history, of which a task holds about seven times as much as objects."""
Judged = Report | UsageError
"""What came of a run: a malformed line of one keeps no other from being judged."""
_TASKS: Final = 1000


def fits(folder: Path, whole_mib: int) -> bool:
    """Whether a run has no longer history than that."""
    history = RunFolder(folder).history_file
    return not history.exists() or history.stat().st_size <= whole_mib << 20


def judge_whole(spark: SparkSession, folders: Sequence[Path]) -> list[Judged]:
    """What comes of each run, in their order."""
    judged = in_tasks(spark, judged_whole, [folder.absolute() for folder in folders])
    return [_named(str(folder), each) for folder, each in zip(folders, judged, strict=True)]


def judged_whole(folder: str) -> Judged:
    """What comes of one run, in this process."""
    try:
        return verify_run(folder)
    except UsageError as error:
        return error


def _named(folder: str, judged: Judged) -> Judged:
    return replace(judged, run=folder) if isinstance(judged, Report) else judged


def in_tasks(spark: SparkSession, work: Callable[[str], Any], folders: Sequence[Path]) -> list[Any]:
    """What comes of each folder, in their order, the longest histories begun first."""
    if not folders:
        return []
    order = sorted(range(len(folders)), key=lambda place: -_history_bytes(folders[place]))
    paths = [str(folders[place]) for place in order]
    found = spark.sparkContext.parallelize(paths, min(len(paths), _TASKS)).map(work).collect()
    by_place = dict(zip(order, found, strict=True))
    return [by_place[place] for place in range(len(folders))]


def _history_bytes(folder: Path) -> int:
    history = RunFolder(folder).history_file
    return history.stat().st_size if history.exists() else 0
