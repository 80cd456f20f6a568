"""That a run is valid, on machines that may starve its processes."""

from pathlib import Path

from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.records import RunFolder
from upheaval.runtime_names import SIMULATED
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


def _is_starved(finding: Finding) -> bool:
    return finding.verdict is Verdict.UNKNOWN and finding.late_ms > 0
