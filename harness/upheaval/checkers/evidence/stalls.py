"""The stalls that members and clients recorded. They excuse what came late by less than the longest stall.

A member traces each time in which the loop of one of its processes could not react (`loop-stall`): a long duty cycle,
or a late wake-up because the machine starved it or a signal had stopped it. Processes of clients record theirs in
`client-stalls.jsonl`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from upheaval.checkers.verdict import Finding, Result, Verdict
from upheaval.records import RunFolder
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS


@dataclass(frozen=True, slots=True)
class Stall:
    """One stall of a process; `where` names the trace line."""

    duration_ms: int
    where: str

    def __str__(self) -> str:
        return f"a stall of {self.duration_ms} ms ({self.where})"


def longest_stall(run: RunFolder, members: int) -> Stall | None:
    """The longest stall of all members; None without any."""
    return _longest(stall for member_id in range(members) for stall in _stalls_of(run, member_id))


def longest_client_stall(run: RunFolder) -> Stall | None:
    """The longest stall of all processes of clients; None without any."""
    stalls = enumerate(run.read_client_stalls(), 1)
    name = run.client_stalls_file.name
    return _longest(Stall((stall.end_ns - stall.begin_ns) // MS, f"{name}:{line}") for line, stall in stalls)


def longer(one: Stall | None, other: Stall | None) -> Stall | None:
    """The longer of two stalls; None if there is neither."""
    return _longest(stall for stall in (one, other) if stall is not None)


def stalls_since(run: RunFolder, members: int, since_ns: int) -> list[Stall]:
    """The longest stall of each member that ended at or after that time."""
    longest = (_longest(_stalls_of(run, member_id, since_ns)) for member_id in range(members))
    return [stall for stall in longest if stall is not None]


def _longest(stalls: Iterable[Stall]) -> Stall | None:
    return max(stalls, key=lambda stall: stall.duration_ms, default=None)


def _stalls_of(run: RunFolder, member_id: int, since_ns: int = 0) -> Iterator[Stall]:
    folder = run.member(member_id)
    for event in folder.traced():
        stall_ns = event.fields.get("stall_ns")
        if event.event == TraceKind.LOOP_STALL and isinstance(stall_ns, int) and event.ns >= since_ns:
            yield Stall(stall_ns // MS, f"member-{member_id}/{folder.trace.name}:{event.line}")


def explained(
    finding: Finding, stalls: Iterable[tuple[int, int]], begin_ns: int, end_ns: int, whose: str = "they"
) -> Finding:
    """The finding about a missed bound in an interval; unknown if the stalls in it add up to the delay."""
    stalled_ns = stalled_within(stalls, begin_ns, end_ns)
    if finding.late_ms * MS > stalled_ns:
        return finding
    detail = f"{finding.detail}; {whose} recorded stalls of {stalled_ns // MS} ms in that time, which explain it"
    return replace(finding, verdict=Verdict.UNKNOWN, detail=detail)


def stalled_within(stalls: Iterable[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
    """The total stalled time within an interval. A starved machine stalls members often and briefly."""
    total_ns, until_ns = 0, begin_ns
    for stall_ns, over_ns in sorted(stalls):
        counted_ns = max(stall_ns, until_ns)
        until_ns = max(until_ns, min(over_ns, end_ns))
        total_ns += max(until_ns - counted_ns, 0)
    return total_ns


def excused(results: Iterable[Result], stall: Callable[[], Stall | None]) -> list[Result]:
    """The results, with bounds that were missed by no more than the stall as unknown. Calls `stall` only if needed."""
    return [
        excused_by(result, stall()) if isinstance(result, Finding) and result.late_ms else result for result in results
    ]


def excused_by(finding: Finding, stall: Stall | None) -> Finding:
    """The finding; unknown if it is a bound that was missed by no more than the stall."""
    if stall is None or not 0 < finding.late_ms <= stall.duration_ms:
        return finding
    detail = f"{finding.detail}; {stall} explains that it came {finding.late_ms} ms too late"
    return replace(finding, verdict=Verdict.UNKNOWN, detail=detail)
