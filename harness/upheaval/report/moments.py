"""When in a run the thing happened that a finding is about. Nothing here judges."""

from dataclasses import dataclass
from typing import Final

from upheaval.checkers.verdict import Finding
from upheaval.errors import HarnessError
from upheaval.records import Operation, RunFolder

_NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since the first thing that members or clients of the run recorded."""

    seconds: float
    is_exact: bool
    """Whether it is that of the operation itself, and not that of the first answer from its position on."""

    def __str__(self) -> str:
        return f"{'' if self.is_exact else 'about '}{self.seconds:.3f} s into the run"


def moment_of(finding: Finding, run: str) -> Moment | None:
    """That of its operation, else that of its position; None where it has neither or the run does not show it."""
    if finding.operation is None and finding.position is None:
        return None
    try:
        folder = RunFolder(run)
        operations = list(folder.read_history())
        operation = _operation_of(finding, operations)
        return None if operation is None else _since_start(operation, folder, operations, finding)
    except (HarnessError, OSError):
        # The verdict does not depend on it: what cannot be read has a finding of its own.
        return None


def _operation_of(finding: Finding, operations: list[Operation]) -> Operation | None:
    if finding.operation is not None:
        return next((operation for operation in operations if operation.id == finding.operation), None)
    position = finding.position or 0
    answered = [o for o in operations if o.position is not None and o.position >= position]
    return min(answered, key=lambda operation: operation.position or 0, default=None)


def _since_start(operation: Operation, folder: RunFolder, operations: list[Operation], finding: Finding) -> Moment:
    traces = [folder.member(member_id) for member_id in range(folder.read_manifest().members)]
    begins = [next((event.ns for event in member.read_trace()), None) for member in traces if member.trace.exists()]
    start = min([ns for ns in begins if ns is not None] + [asked.invoke_ns for asked in operations])
    end_ns = operation.invoke_ns if operation.complete_ns is None else operation.complete_ns
    return Moment((end_ns - start) / _NS_PER_S, finding.operation is not None)
