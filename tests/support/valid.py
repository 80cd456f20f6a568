"""That a run is valid, on machines that may starve its processes."""

from pathlib import Path

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.records import RunFolder
from upheaval.runtime_names import SIMULATED
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.faults import MemberFaultKind


def require_valid(report: Report) -> None:
    """Every promise holds or does not apply. Of live members one may be unknown that came too late: the judge says so
    only where a stall that the run recorded is at least as long. A pause, which is a stall too, excuses nothing.
    """
    run = RunFolder(Path(report.run))
    is_paused = any(fault.what == MemberFaultKind.PAUSE for fault in run.read_faults())
    is_live = run.read_manifest().runtime != SIMULATED and not is_paused
    wrong = [
        finding
        for finding in report.findings
        if finding.verdict is not Verdict.VALID and not (is_live and _is_starved(finding))
    ]
    assert report.findings
    assert not wrong, report.findings


def require_valid_end(status: int, run: Path, printed: object = None) -> None:
    """A command that judged a live run ended with valid, or with what `require_valid` excuses."""
    if status == CommandStatus.UNKNOWN:
        report = verify_run(run)
        assert report.verdict is Verdict.UNKNOWN, (printed, report.findings)
        require_valid(report)
    else:
        assert status == CommandStatus.VALID, printed


def is_only_late(report: Report) -> bool:
    """Whether a run shows nothing but that members were starved: a test that pauses one tries again then."""
    return all(finding.verdict is Verdict.VALID or _is_starved(finding) for finding in report.findings)


def _is_starved(finding: Finding) -> bool:
    return finding.verdict is Verdict.UNKNOWN and finding.late_ms > 0
