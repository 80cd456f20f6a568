"""Judges runs by `verify_run`, each in a task of Spark: many at a time, on any of its workers.

This module knows nothing of tables.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Report
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.records import RunFolder
from upheaval_pipeline.tasks import are_tasks_here, cores_of, run_in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_OF_A_CORE: Final = 8
"""A task costs about 30 ms whatever it does; more of them share the work more evenly."""
T = TypeVar("T")
Judged = Report | UsageError | EnvironmentFault
"""A report, or why there is none: a run that cannot be read keeps no other from being judged.

What failed on this machine (`EnvironmentFault`) says nothing of the run.
"""


def judge_each(
    spark: "SparkSession | None", folders: Sequence[Path], finished: Callable[[int], None] = lambda _: None
) -> list[Judged]:
    """The reports of runs, in their order; without Spark they are judged one after the other in this process, and
    `finished` gets their number after each.

    Code that people wrote about their own services is on this machine alone, so runs that need it are judged here.
    """
    local = [] if spark is None or are_tasks_here(spark) else [folder for folder in folders if _needs_own_code(folder)]
    shared = [folder for folder in folders if folder not in local]
    absolute = [folder.absolute() for folder in shared]
    reports = dict(zip(shared, in_tasks(spark, _judged, absolute, finished), strict=True))
    reports |= {folder: _judged(str(folder)) for folder in local}
    return [_named(str(folder), reports[folder]) for folder in folders]


def _needs_own_code(folder: Path) -> bool:
    try:
        manifest = RunFolder(folder).read_manifest()
    except HarnessError:
        return False
    return bool(manifest.source or manifest.model)


def _judged(folder: str) -> Judged:
    try:
        return verify_run(folder)
    except EnvironmentFault as error:
        return EnvironmentFault(str(error))
    except HarnessError as error:
        return UsageError(str(error))


def _named(folder: str, judged: Judged) -> Judged:
    return replace(judged, run=folder) if isinstance(judged, Report) else judged


def in_tasks(
    spark: "SparkSession | None",
    work: Callable[[str], T],
    folders: Sequence[Path],
    finished: Callable[[int], None] = lambda _: None,
) -> list[T]:
    """The results of `work`, in the order of the folders; the largest are begun first, small ones share tasks.

    Without Spark, `finished` gets the number of results after each.
    """
    if spark is None:
        results: list[T] = []
        for folder in folders:
            results.append(work(str(folder)))
            finished(len(results))
        return results
    if not folders:
        return []
    shares = _shares([bytes_of_lines(folder) for folder in folders], tasks_of(spark))
    paths = [[str(folders[place]) for place in share] for share in shares]
    by_share = run_in_tasks(spark, partial(_of_share, work), paths)
    by_place = dict(zip(chain.from_iterable(shares), chain.from_iterable(by_share), strict=True))
    return [by_place[place] for place in range(len(folders))]


def tasks_of(spark: "SparkSession | None") -> int:
    """How many tasks share work evenly: one without Spark."""
    return 1 if spark is None else TASKS_OF_A_CORE * cores_of(spark)


def _of_share(work: Callable[[str], T], paths: Iterable[str]) -> list[T]:
    return [work(path) for path in paths]


def bytes_of_lines(folder: Path) -> int:
    """Of the histories, traces and records of a run, which are what its judgement and its tables take time for."""
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def _shares(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """The places of sizes in about equal shares, the largest first: each goes to where there is least so far."""
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(sizes)))]
    least = [(0, number) for number in range(len(shares))]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        total, number = least[0]
        shares[number].append(place)
        heapq.heapreplace(least, (total + sizes[place] + 1, number))
    return shares
