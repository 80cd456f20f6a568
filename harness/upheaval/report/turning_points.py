"""What members did that no fault and no admin command of the run shows: snapshots, and ends and starts of processes.

A snapshot lasts while the consensus module is in the state SNAPSHOT; the services acknowledge its position. What
several members did at about the same time is one turning point.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.records import AdminCommand, ControlRecord, TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

TOGETHER_NS: Final = S
"""What members did within this of one another is one turning point."""
_SNAPSHOT: Final = "SNAPSHOT"


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """Times are nanoseconds of the run's clock. `what` is the same for all members that did the same."""

    what: str
    members: tuple[int, ...]
    begin_ns: int
    end_ns: int
    evidence: str

    def __str__(self) -> str:
        """In words, with the members."""
        noun = "member" if len(self.members) == 1 else "members"
        return f"{self.what}, {noun} {', '.join(map(str, self.members))}"


def turning_points(traces: Mapping[int, Sequence[TraceEvent]], controls: Iterable[ControlRecord]) -> list[TurningPoint]:
    """In the order of their begins. A snapshot that the run records as ordered is left out."""
    ordered = [control for control in controls if control.what == AdminCommand.SNAPSHOT]
    points = [
        point
        for member_id, events in traces.items()
        for point in (*_snapshots(member_id, events, ordered), *_processes(member_id, events))
    ]
    return _joined(sorted(points, key=lambda point: (point.begin_ns, point.members)))


def _snapshots(
    member_id: int, events: Iterable[TraceEvent], ordered: Sequence[ControlRecord]
) -> Iterator[TurningPoint]:
    begin: TraceEvent | None = None
    position: int | None = None
    for event in events:
        if event.event == TraceKind.PROCESS_START:
            begin = None
        elif event.event == TraceKind.SERVICE_ACK and begin is not None:
            acknowledged = event.fields.get("log_position")
            position = acknowledged if type(acknowledged) is int else position
        elif event.event != TraceKind.MODULE_STATE:
            continue
        elif event.fields.get("new") == _SNAPSHOT:
            begin, position = event, None
        elif event.fields.get("old") == _SNAPSHOT and begin is not None:
            if not any(control.begin_ns <= event.ns and begin.ns <= control.end_ns for control in ordered):
                what = "snapshot" if position is None else f"snapshot at {position}"
                yield TurningPoint(what, (member_id,), begin.ns, event.ns, _place(member_id, begin))
            begin = None


def _processes(member_id: int, events: Iterable[TraceEvent]) -> Iterator[TurningPoint]:
    """Ends that a process traced, and the starts after them. Faults show the others."""
    has_ended = False
    for event in events:
        if event.fields.get("component") not in OF_MODULE:
            continue
        place = _place(member_id, event)
        if event.event == TraceKind.PROCESS_END:
            status, reason = event.fields.get("status"), event.fields.get("reason")
            what = "stop" if status == 0 else f"end with status {status}"
            evidence = f"{place}: {reason}" if reason else place
            yield TurningPoint(what, (member_id,), event.ns, event.ns, evidence)
            has_ended = True
        elif event.event == TraceKind.PROCESS_START:
            if has_ended:
                yield TurningPoint("start", (member_id,), event.ns, event.ns, place)
            has_ended = False


def _place(member_id: int, event: TraceEvent) -> str:
    return f"member-{member_id}/trace.jsonl:{event.line}"


def _joined(points: Iterable[TurningPoint]) -> list[TurningPoint]:
    joined: list[TurningPoint] = []
    last: dict[str, int] = {}
    for point in points:
        place = last.get(point.what)
        if place is not None and _are_together(joined[place], point):
            joined[place] = _both(joined[place], point)
        else:
            last[point.what] = len(joined)
            joined.append(point)
    return joined


def _are_together(one: TurningPoint, other: TurningPoint) -> bool:
    return other.begin_ns - one.end_ns <= TOGETHER_NS and not set(one.members) & set(other.members)


def _both(one: TurningPoint, other: TurningPoint) -> TurningPoint:
    return TurningPoint(
        one.what,
        tuple(sorted((*one.members, *other.members))),
        min(one.begin_ns, other.begin_ns),
        max(one.end_ns, other.end_ns),
        f"{one.evidence}; {other.evidence}",
    )
