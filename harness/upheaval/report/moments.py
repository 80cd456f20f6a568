"""When in a run the thing happened that a finding is about. Nothing here judges."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from upheaval.checkers.verdict import Finding
from upheaval.errors import HarnessError
from upheaval.records import Operation, RuleBroken, RunFolder
from upheaval.report.figures import FaultFigures, duration, extent_of
from upheaval_node.types import S


@dataclass(frozen=True, slots=True)
class Moment:
    """Nanoseconds since the first thing that members, clients or faults of the run recorded."""

    ns: int
    is_exact: bool
    """Whether it is that of the operation itself, and not that of the first answer from its position on."""

    def __str__(self) -> str:
        return f"{'' if self.is_exact else 'about '}{self.ns / S:.3f} s into the run"


class Moments:
    """The moments of findings of one run, which is read once, and only when the first of them asks for it."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    def of(self, finding: Finding) -> Moment | None:
        """As who ran it saw it, else that of its operation or position; None where the run does not show it."""
        if self._recorded is None:
            return None
        operations, start = self._recorded
        rule = self.rule_of(finding)
        if rule is not None:
            return Moment(rule.ns - start, is_exact=True)
        if finding.operation is None and finding.position is None:
            return None
        operation = _operation_of(finding, operations)
        if operation is None:
            return None
        end_ns = operation.invoke_ns if operation.complete_ns is None else operation.complete_ns
        return Moment(end_ns - start, finding.operation is not None)

    def rule_of(self, finding: Finding) -> RuleBroken | None:
        """The rule that was seen to be broken while the run went on, if its moment is known."""
        failures = () if self._recorded is None else self.run.read_manifest().failures
        of_it = (failure.rule for failure in failures if failure.promise == finding.promise)
        return next((rule for rule in of_it if rule is not None and rule.ns), None)

    @property
    def start_ns(self) -> int | None:
        """The first thing that was recorded, on the run's clock; None of a run that cannot be read."""
        return None if self._recorded is None else self._recorded[1]

    @cached_property
    def _recorded(self) -> tuple[Sequence[Operation], int] | None:
        """The operations, and the first moment of the run; None for a run that cannot be read."""
        try:
            operations = list(self.run.read_history())
            members = [self.run.member(member_id) for member_id in range(self.run.read_manifest().members)]
            traces = [list(member.read_trace()) for member in members if member.trace.exists()]
            return operations, extent_of(operations, list(self.run.read_faults()), traces)[0]
        except (HarnessError, OSError):
            # The verdict does not depend on it: what cannot be read has a separate finding.
            return None


def _operation_of(finding: Finding, operations: Sequence[Operation]) -> Operation | None:
    if finding.operation is not None:
        return next((operation for operation in operations if operation.id == finding.operation), None)
    position = finding.position or 0
    answered = [o for o in operations if o.position is not None and o.position >= position]
    return min(answered, key=lambda operation: operation.position or 0, default=None)


def beside_fault(moment: Moment, faults: Sequence[FaultFigures]) -> str:
    """Where the moment is among the faults of the run, in words; empty for a run without faults."""
    if not faults:
        return ""
    begun = [fault for fault in faults if fault.begin <= moment.ns]
    if not begun:
        first = min(faults, key=lambda fault: fault.begin)
        return f"{duration(first.begin - moment.ns)} before the first fault, {first.what} {first.where}"
    last = max(begun, key=lambda fault: fault.begin)
    return f"{duration(moment.ns - last.begin)} after {last.what} {last.where} began"
