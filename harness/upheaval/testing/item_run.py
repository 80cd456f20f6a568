"""The run of one test of pytest: how the test ended, what its run is judged to be, and what its folder keeps.

This module knows none of pytest's hooks.
"""

from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Final

import pytest

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import Failure, RunFolder, add_failure
from upheaval.testing.cluster import Cluster
from upheaval.testing.run_folders import remove_folder
from upheaval.testing.summary import UNENDED, WITH_GAPS
from upheaval_node.suggestions import did_you_mean

DETAIL_MAX: Final = 300


class Wanted(StrEnum):
    """Which verdict the run of a test needs to pass, as `upheaval_verify` and the marker say."""

    ALWAYS = "always"
    """One that is not invalid."""
    VALID = "valid"
    """Valid and nothing else."""
    ASKED = "asked"
    """One that is not invalid, if the test asks for it."""
    ANY = "any"
    """The test looks at it, or does not."""


_NAMED: Final = (Wanted.ALWAYS, Wanted.VALID, Wanted.ASKED)


def wanted_verdict(value: object, where: str) -> Wanted:
    """The meaning of a value of `upheaval_verify`, or of the marker, which also takes booleans. Raises `UsageError`."""
    if isinstance(value, bool):
        return Wanted.ALWAYS if value else Wanted.ANY
    if value in _NAMED:
        return Wanted(str(value))
    raise UsageError(f"{where} {value!r}: use {', '.join(_NAMED)}{did_you_mean(str(value), _NAMED)}")


class ItemEnd(Enum):
    """How a test ended; `ItemRun.note` alone decides it, and `settle` what that means for the run's folder."""

    OPEN = auto()
    """Its body has no end: it runs, or was interrupted."""
    SKIPPED = auto()
    XFAILED = auto()
    """It failed as expected."""
    PASSED = auto()
    FAILED = auto()


class ItemRun:
    """The run of one test: its folder, its seed if that decides it, the command that repeats it, and the test's end."""

    def __init__(self, folder: Path, seed: int | None, replay: str) -> None:
        self.folder = folder
        self.seed = seed
        self.replay = replay
        self.end = ItemEnd.OPEN
        self.will_be_reported = False
        """Whether the end of its fixtures is: not after an interrupt."""
        self.is_ending = False
        """Its cluster is being judged and ended. An error in that fails the test, expected to fail or not."""
        self.verdict = ""
        """The verdict on its run, and what decided it; empty while the run is not judged."""
        self._is_red_by_verdict = False
        """`verify` fails it without a failure in the manifest."""
        self._error: BaseException | None = None
        self._why = ""

    @property
    def has_failed(self) -> bool:
        """Whether a phase of the test has failed so far."""
        return self.end is ItemEnd.FAILED

    @property
    def has_passed(self) -> bool:
        """Whether its body passed, and nothing after it has failed so far."""
        return self.end is ItemEnd.PASSED

    @property
    def faults(self) -> int:
        """The number of faults in its folder, healed or not."""
        file = RunFolder(self.folder).faults_file
        return len(file.read_bytes().splitlines()) if file.exists() else 0

    def note(self, report: pytest.TestReport, error: BaseException | None) -> None:
        """What a phase, or a subtest, of the test came to."""
        if report.failed:
            if not self.has_failed:
                self._error, self._why = error, report.longrepr if isinstance(report.longrepr, str) else ""
            self.end = ItemEnd.FAILED
        elif not self.has_failed and report.when != "teardown" and (report.when == "call" or report.skipped):
            left = ItemEnd.XFAILED if hasattr(report, "wasxfail") else ItemEnd.SKIPPED
            self.end = ItemEnd.PASSED if report.passed else left

    def judge(self, cluster: Cluster, wanted: Wanted) -> None:
        """A test that passed fails here when its run broke a promise, asked for or not, when its model or promises are
        at fault, or when its verdict is not the wanted one. So does a test that asked for such a verdict and then
        skipped the rest.
        """
        report, unended = cluster.report, ""
        if report is None and self.will_be_reported and self.has_passed and wanted in (Wanted.ALWAYS, Wanted.VALID):
            try:
                report = cluster.verify()
            except UnknownOutcome as error:
                # The cluster does not heal, or its load failed. What the test did until then is judged all the same.
                cluster.down()
                report, unended = cluster.verify(), " ".join(str(error).split())
        if report is None:
            return
        self.verdict = _words_of(report, unended)
        if wanted is Wanted.ANY or not self.will_be_reported or self.end not in (ItemEnd.PASSED, ItemEnd.SKIPPED):
            return
        if any(finding.fails_test for finding in report.findings):
            is_invalid = report.verdict is Verdict.INVALID
            self._fail("its run is invalid" if is_invalid else "its model or promises judge nothing", report)
        if wanted is Wanted.VALID and report.verdict is not Verdict.VALID and not cluster.load_failure:
            self._fail(f"the verdict on its run is {report.verdict.text}", report)

    def _fail(self, what: str, report: Report) -> None:
        off = "if you intend this, use @pytest.mark.upheaval(verify=False)"
        self._is_red_by_verdict = True
        pytest.fail(f"the test {self.end.name.lower()}, but {what}; {off}\n{report}", pytrace=False)

    def settle(self, nodeid: str, *, keeps: bool) -> None:
        """When all of a test is over its run folder goes, or says why the test failed, so that `verify` reports it
        too.
        """
        if not self.has_failed:
            if not keeps:
                remove_folder(self.folder)
        elif not self._is_red_by_verdict:
            error = self._error
            why = self._why if error is None else " ".join(f"{type(error).__name__}: {error}".split())
            promise = Promise.RUN_ENDED if isinstance(error, UnknownOutcome) else Promise.TEST_PASSED
            add_failure(RunFolder(self.folder), Failure(promise, f"{nodeid}: {why[:DETAIL_MAX]}"))

    def require_load(self, cluster: Cluster, wanted: Wanted) -> None:
        """Raises `UnknownOutcome` if the load of a cluster that is down failed, unless the test may lose it."""
        if self.will_be_reported and wanted is not Wanted.ANY and cluster.load_failure:
            raise UnknownOutcome(cluster.load_failure)


def _words_of(report: Report, unended: str) -> str:
    verdict = report.verdict
    if verdict is Verdict.VALID:
        return f"{WITH_GAPS}: {'; '.join(report.gaps)}"[:DETAIL_MAX] if report.gaps else verdict.text
    worst = next(iter(report.worst_first), None)
    why = "no promise was checked" if worst is None else f"{worst.promise.sentence}: {worst.detail}"
    if unended:
        why = f"{UNENDED}: {unended}"
    return f"{verdict.text}: {' '.join(why.split())[:DETAIL_MAX]}"
