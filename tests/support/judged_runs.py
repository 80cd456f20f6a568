"""Runs that Spark judges, in one job for many tests: what it and the in-process checker say of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Report
from upheaval.errors import UsageError

Build = Callable[[Path], None]
"""Writes a run into an empty folder."""
RUNS_ON_DISK = 64
"""They take some ten megabytes each."""


@dataclass(frozen=True)
class JudgedRun:
    """What came of a run; an error is the malformed line that kept it from being judged."""

    on_spark: Report | UsageError
    here: Report | UsageError

    @property
    def report(self) -> Report:
        """What Spark says."""
        assert isinstance(self.on_spark, Report), self.on_spark
        return self.on_spark


def judged_together(spark: Any, builds: Sequence[Build]) -> Iterator[JudgedRun | Exception]:
    """In the order of the runs; an exception is that of the `Build`."""
    for begin in range(0, len(builds), RUNS_ON_DISK):
        yield from _job(spark, builds[begin : begin + RUNS_ON_DISK])


def _job(spark: Any, builds: Sequence[Build]) -> list[JudgedRun | Exception]:
    from upheaval_pipeline.whole import judge_each

    with TemporaryDirectory(prefix="judged-runs-") as name:
        built = {
            Path(name) / str(number): _built(Path(name) / str(number), build) for number, build in enumerate(builds)
        }
        folders = [folder for folder, failure in built.items() if failure is None]
        judged = dict(zip(folders, judge_each(spark, folders), strict=True))
        return [failure or JudgedRun(judged[folder], _here(folder)) for folder, failure in built.items()]


def _built(folder: Path, build: Build) -> Exception | None:
    folder.mkdir()
    try:
        build(folder)
    except Exception as failure:  # noqa: BLE001 - shown by the test of that run
        return failure
    return None


def _here(folder: Path) -> Report | UsageError:
    try:
        return verify_run(folder)
    except UsageError as error:
        return error
