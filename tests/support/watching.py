"""What a watch reports, for tests that make its run grow between two looks."""

from dataclasses import dataclass, field

from upheaval.checkers.verdict import Finding, Report
from upheaval.watch.output import Status


@dataclass
class Reported:
    """Implements `Output`."""

    findings: list[Finding] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last: Status | None = None
    report: Report | None = None

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def status(self, status: Status) -> None:
        self.last = status

    def end(self, report: Report, followed: int) -> None:
        self.report = report

    @property
    def broken(self) -> set[str]:
        return {str(finding.promise) for finding in self.findings}

    @property
    def now(self) -> Status:
        assert self.last is not None
        return self.last
