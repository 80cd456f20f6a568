"""When in a run the thing happened that a finding is about. Nothing here judges."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from upheaval.checkers.verdict import Finding
from upheaval.errors import HarnessError
from upheaval.records import Operation, RuleBroken, RunFolder, TraceEvent, messages_of
from upheaval.report.figures import FaultFigures, duration, extent_of
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

COMMIT: Final = "CommitPosition"
"""The message by which a leader says how far the log is committed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Nanoseconds since the first thing that members, clients or faults of the run recorded."""

    ns: int
    is_exact: bool
    """Whether a record dates the finding itself, and not the first answer or commit from its position on."""
    since_ns: int | None = None
    """The begin of what lasted until `ns`; None of an event."""

    @property
    def begin(self) -> int:
        """The begin of what lasted, or the moment of an event."""
        return self.ns if self.since_ns is None else self.since_ns

    def __str__(self) -> str:
        if self.begin != self.ns:
            return f"{self.begin / S:.3f} s to {self.ns / S:.3f} s into the run"
        return f"{'' if self.is_exact else 'about '}{self.ns / S:.3f} s into the run"


class Moments:
    """The moments of findings of one run, which is read once, and only when the first of them asks for it."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    def of(self, finding: Finding) -> Moment | None:
        """As who ran it saw it, else as a record dates it, else that of its operation or position; None where the run
        does not show it.
        """
        if self._recorded is None:
            return None
        operations, start = self._recorded.operations, self._recorded.start_ns
        rule = self.rule_of(finding)
        if rule is not None:
            return Moment(rule.ns - start, is_exact=True)
        if finding.when_ns is not None:
            begin_ns, end_ns = finding.when_ns
            return Moment(end_ns - start, is_exact=True, since_ns=begin_ns - start if begin_ns < end_ns else None)
        if finding.operation is None and finding.position is None:
            return None
        operation = _operation_of(finding, operations)
        if operation is not None:
            end_ns = operation.invoke_ns if operation.complete_ns is None else operation.complete_ns
            return Moment(end_ns - start, operation.id == finding.operation)
        commits = (ns for ns, position in self._recorded.commits if position >= (finding.position or 0))
        committed_ns = None if finding.position is None else min(commits, default=None)
        return None if committed_ns is None else Moment(committed_ns - start, is_exact=False)

    def rule_of(self, finding: Finding) -> RuleBroken | None:
        """The rule that was seen to be broken while the run went on, if its moment is known."""
        failures = () if self._recorded is None else self.run.read_manifest().failures
        of_it = (failure.rule for failure in failures if failure.promise == finding.promise)
        return next((rule for rule in of_it if rule is not None and rule.ns), None)

    @property
    def start_ns(self) -> int | None:
        """The first thing that was recorded, on the run's clock; None of a run that cannot be read."""
        return None if self._recorded is None else self._recorded.start_ns

    @cached_property
    def _recorded(self) -> "_Recorded | None":
        """None for a run that cannot be read."""
        try:
            operations = self.run.known_operations()
            members = [self.run.member(member_id) for member_id in range(self.run.read_manifest().members)]
            traces = [list(member.read_trace()) for member in members if member.trace.exists()]
            start_ns, _ = extent_of(operations, list(self.run.read_faults()), traces)
            seen = [event for _, event in messages_of(self.run)]
            return _Recorded(operations, start_ns, list(_commits([*chain.from_iterable(traces), *seen])))
        except (HarnessError, OSError):
            # The verdict does not depend on it: what cannot be read has a separate finding.
            return None


@dataclass(frozen=True, slots=True)
class _Recorded:
    operations: Sequence[Operation]
    start_ns: int
    commits: Sequence[tuple[int, int]]
    """When leaders sent which commit positions."""


def _commits(events: Iterable[TraceEvent]) -> Iterator[tuple[int, int]]:
    for event in events:
        position = event.fields.get("log_position")
        if event.event == TraceKind.SEND and event.fields.get("message") == COMMIT and type(position) is int:
            yield event.ns, position


def _operation_of(finding: Finding, operations: Sequence[Operation]) -> Operation | None:
    """The one that the finding names, unless an entry after it in the log broke the promise; else the first one that
    was answered from the finding's position on.
    """
    named = next((operation for operation in operations if operation.id == finding.operation), None)
    if named is not None and (named.position is None or named.position >= (finding.position or 0)):
        return named
    if finding.position is None:
        return None
    position = finding.position
    answered = [o for o in operations if o.position is not None and o.position >= position]
    return min(answered, key=lambda operation: operation.position or 0, default=None)


def beside_fault(moment: Moment, faults: Sequence[FaultFigures]) -> str:
    """Where the moment is among the faults of the run, in words; empty for a run without faults."""
    if not faults:
        return ""
    begun = [fault for fault in faults if fault.begin <= moment.ns]
    # What was on meanwhile says more than what began later and was over.
    begun = [fault for fault in begun if fault.end is None or fault.end >= moment.begin] or begun
    if not begun:
        first = min(faults, key=lambda fault: fault.begin)
        return f"{duration(first.begin - moment.ns)} before the first fault, {first.what} {first.where}"
    last = max(begun, key=lambda fault: fault.begin)
    return f"{duration(moment.ns - last.begin)} after {last.what} {last.where} began"
