"""What the tests of live members take for valid: a machine may starve a process, and nothing else is excused."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.valid import require_valid
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.records import Manifest, RunFolder
from upheaval_chaos.record import FaultRecord

KEPT = Finding(Promise.LINEARIZABLE, Verdict.VALID, "as the log")
LATE = Finding(Promise.BOUNDS_KEPT, Verdict.UNKNOWN, "a stall explains it", late_ms=5536)


def report_of(path: Path, runtime: str, *findings: Finding) -> Report:
    RunFolder(path).create(Manifest("run-1", runtime, 1, "test", 1))
    return Report(str(path), findings)


def test_what_a_stall_explains_is_excused_of_live_members(tmp_path: Path) -> None:
    require_valid(report_of(tmp_path / "simulated", "simulated", KEPT))
    require_valid(report_of(tmp_path / "live", "process", KEPT, LATE))


def test_a_pause_excuses_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path, "process", KEPT, LATE)
    RunFolder(tmp_path).add_fault(FaultRecord("pause", "member-0", 1, 1, members=(0,)))
    with pytest.raises(AssertionError):
        require_valid(report)


@pytest.mark.parametrize(
    ("runtime", "findings"),
    [
        ("simulated", (KEPT, LATE)),
        ("process", (KEPT, replace(LATE, late_ms=0))),
        ("process", (KEPT, replace(LATE, verdict=Verdict.INVALID))),
        ("process", ()),
    ],
)
def test_nothing_else_is(runtime: str, findings: tuple[Finding, ...], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        require_valid(report_of(tmp_path / "run", runtime, *findings))
