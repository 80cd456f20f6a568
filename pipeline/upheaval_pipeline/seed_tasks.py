"""Runs seeds of a campaign in tasks of Spark, one each, on any of its workers.

A task whose executor is lost runs again elsewhere, which changes nothing: a seed gives the same run wherever it runs.
This module knows nothing of lakes.
"""

import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from upheaval.campaign.kept import keep_run
from upheaval.campaign.seed import Keep, SeedOrigin, SeedOutcome, try_origin
from upheaval.records import owned_folder
from upheaval_pipeline.tasks import cancel_group, cores_of, run_in_tasks, set_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS_OF_A_CORE: Final = 2
"""In a job: outcomes come back with the jobs, so that a short one shows progress."""
JOBS_AT_ONCE: Final = 3
"""The next ones occupy the cores that the longest seed of a job leaves free."""
_CANCEL_AGAIN_S: Final = 0.2


class SeedDefect(RuntimeError):
    """A seed raised what no seed may, in a task; the message has its trace there."""


@contextmanager
def in_seed_tasks(
    spark: "SparkSession", origins: Sequence[SeedOrigin], keep: Path | None
) -> Iterator[Iterator[SeedOutcome]]:
    """The runner of Spark. Jobs that still run at the end of the block are cancelled."""
    group, length = uuid4().hex, SEEDS_OF_A_CORE * cores_of(spark)
    jobs = [origins[begin : begin + length] for begin in range(0, len(origins), length)]
    work = partial(_tried, keep=None if keep is None else partial(keep_run, out=keep.absolute()))

    def run(job: Sequence[SeedOrigin]) -> list[SeedOutcome | str]:
        set_group(spark, group)
        return run_in_tasks(spark, work, job)

    with ThreadPoolExecutor(JOBS_AT_ONCE) as threads:
        running: list[Future[list[SeedOutcome | str]]] = []

        def outcomes() -> Iterator[SeedOutcome]:
            running.extend(threads.submit(run, job) for job in jobs)
            for job in running:
                yield from map(_outcome, job.result())

        try:
            yield outcomes()
        finally:
            for job in running:
                job.cancel()
            while True:
                cancel_group(spark, group)
                # A thread may have been about to start its job.
                if not wait(running, _CANCEL_AGAIN_S).not_done:
                    break


def _tried(origin: SeedOrigin, keep: Keep | None) -> SeedOutcome | str:
    """The outcome, or the trace of a defect, which no other task would be without."""
    with owned_folder("campaign") as scratch:
        try:
            return try_origin(origin, scratch, keep)
        except Exception:  # noqa: BLE001 - the driver raises it
            return traceback.format_exc()


def _outcome(tried: SeedOutcome | str) -> SeedOutcome:
    if isinstance(tried, str):
        raise SeedDefect(f"in a task of Spark: {tried}")
    return tried
