"""The longest stall that a run's members recorded: what came too late by less than that is not held against them.

A member traces each time in which the loop of one of its processes could not have reacted (`loop-stall`): its work in
one cycle, and the time by which it woke up too late, because the machine starved it or somebody had stopped it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import RunFolder
from upheaval_node.trace_kinds import TraceKind


@dataclass(frozen=True, slots=True)
class Stall:
    """One stall of a process; `where` names the line of the trace."""

    duration_ms: int
    where: str

    def __str__(self) -> str:
        return f"a stall of {self.duration_ms} ms ({self.where})"


def longest_stall(run: RunFolder, members: int) -> Stall | None:
    """The longest one of all members. None when no trace tells of any."""
    longest = None
    for member_id in range(members):
        folder = run.member(member_id)
        for event in folder.read_trace() if folder.trace.exists() else ():
            stall_ns = event.fields.get("stall_ns")
            if event.event == TraceKind.LOOP_STALL and isinstance(stall_ns, int):
                stall = Stall(stall_ns // 1_000_000, f"member-{member_id}/{folder.trace.name}:{event.line}")
                longest = stall if longest is None or stall.duration_ms > longest.duration_ms else longest
    return longest


def excused(findings: Iterable[Finding], stall: Callable[[], Stall | None]) -> list[Finding]:
    """The findings; a bound on time that was missed by no more than the stall is unknown. `stall` is asked at need."""
    found = list(findings)
    if not any(finding.late_ms for finding in found):
        return found
    longest = stall()
    return [finding if longest is None else _excused(finding, longest) for finding in found]


def _excused(finding: Finding, stall: Stall) -> Finding:
    if not 0 < finding.late_ms <= stall.duration_ms:
        return finding
    detail = f"{finding.detail}; {stall} explains that it came {finding.late_ms} ms too late"
    return replace(finding, verdict=Verdict.UNKNOWN, detail=detail)
