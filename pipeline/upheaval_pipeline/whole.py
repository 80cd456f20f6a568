"""Judges whole runs by the in-process checkers, each in a task of Spark's: many at a time, wherever its workers are.

A run that fits into the memory of a task costs there what it costs in process; cut up into columns it costs many times
that. What does not fit is spread over tasks by `verify`. This module knows nothing of tables.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Report
from upheaval.errors import HarnessError, UsageError
from upheaval.records import RunFolder
from upheaval_pipeline.workers import settle

WHOLE_MIB: Final = 256
"""Of lines, of which a task holds about seven times as much as objects."""
TASKS_OF_A_CORE: Final = 8
"""A task costs about 30 ms whatever it does; more of them share the work more evenly."""
T = TypeVar("T")
Judged = Report | UsageError
"""What came of a run: a malformed line of one keeps no other from being judged."""


def that_fit(spark: SparkSession, folders: Iterable[Path], whole_mib: int) -> list[Path]:
    """The runs to judge as a whole: with no more lines than that (0: none), and nothing to judge by that is here alone.

    What people say of their own services is code, which workers elsewhere need not have.
    """
    is_here = spark.sparkContext.master.startswith("local")
    return [folder for folder in folders if whole_mib and _fits(folder, whole_mib << 20, has_code=is_here)]


def _fits(folder: Path, bytes_max: int, *, has_code: bool) -> bool:
    try:
        manifest = RunFolder(folder).read_manifest()
    except HarnessError:
        return False
    return (has_code or not (manifest.source or manifest.model)) and _bytes_of_lines(folder) <= bytes_max


def _bytes_of_lines(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def judge_each(spark: SparkSession, folders: Sequence[Path]) -> list[Judged]:
    """What comes of each run, in their order. Raises `HarnessError` for what a worker cannot read."""
    judged = in_tasks(spark, _judged, [folder.absolute() for folder in folders])
    return [_named(str(folder), each) for folder, each in zip(folders, judged, strict=True)]


def _judged(folder: str) -> Report | HarnessError:
    """What comes of one run, in this process."""
    try:
        return verify_run(folder)
    except HarnessError as error:
        return error


def _named(folder: str, judged: Report | HarnessError) -> Judged:
    if isinstance(judged, Report):
        return replace(judged, run=folder)
    if isinstance(judged, UsageError):
        return judged
    raise judged


def in_tasks(spark: SparkSession, work: Callable[[str], T], folders: Sequence[Path]) -> list[T]:
    """What comes of each folder, in their order; the largest are begun first, small ones share tasks."""
    context = spark.sparkContext
    shares = _shares([_bytes_of_lines(folder) for folder in folders], TASKS_OF_A_CORE * context.defaultParallelism)
    if not shares:
        return []
    paths = [[str(folders[place]) for place in share] for share in shares]
    found = context.parallelize(paths, len(paths)).map(partial(_each, work)).collect()
    by_place = dict(zip(chain.from_iterable(shares), chain.from_iterable(found), strict=True))
    return [by_place[place] for place in range(len(folders))]


def _each(work: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    settle()
    return [work(path) for path in paths]


def _shares(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """The places of sizes in about equal shares, the largest first: each goes to where there is least so far."""
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(sizes)))]
    least = [(0, number) for number in range(len(shares))]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        total, number = least[0]
        shares[number].append(place)
        heapq.heapreplace(least, (total + sizes[place] + 1, number))
    return shares
