"""The wall clocks of leaders while they led, by their traces.

Every line of a member's trace has the member's wall clock beside the monotonic one. So the trace shows how long a
member led, by the clock that it writes into the log, and how far that clock was moved. Pure facts; this module knows no
promise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from upheaval.records import Json, RunFolder, TraceEvent
from upheaval_chaos.host_faults import LONGEST_JUMP_MS, HostFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, S

ROUNDING_MS: Final = 10
"""Allowed for clocks that are read one after the other, in whole milliseconds."""

AFTER_DEATH_MS: Final = 60_000
"""How long a killed process may have written to the log after the last line of its trace."""

_JUMPS_WITHIN_NS: Final = S
"""How long after a clock was moved its member may go on with the time before."""

_LEADING: Final = frozenset({"LEADER_LOG_REPLICATION", "LEADER_REPLAY", "LEADER_INIT", "LEADER_READY", "CLOSED"})
"""Election states of a member that has won, if it is named as the leader."""


@dataclass(frozen=True, slots=True)
class LeaderClock:
    """The wall clock of a term's leader while it led. `where` names the trace lines."""

    leadership_term_id: int
    member_id: int
    begin_ms: int
    end_ms: int | None
    """None if nothing shows how long the member led."""
    moved_ms: int
    """How far the clock was moved meanwhile, beside the monotonic one."""
    where: str
    offset_ms: int = 0
    """The wall clock minus the monotonic one when the member began to lead."""
    ready_ns: int = -1
    """When the election was over and clients were served; -1 for never."""
    is_startup: bool = False
    """Whether it was the first election of its process, in which no client can be connected."""
    busy: tuple[tuple[int, int], ...] = ()
    """When its module accepted no requests, or had only just begun to again."""
    left_position: int | None = None
    """Its commit position when an election took the term from it; None if its process ended first."""

    @property
    def begin_ns(self) -> int:
        """When it began to lead, by the host's clock."""
        return (self.begin_ms - self.offset_ms) * MS

    @property
    def end_ns(self) -> int:
        """When it knew that it led no more, by the host's clock; `NEVER_NS` if nothing shows that."""
        return NEVER_NS if self.end_ms is None else (self.end_ms - self.offset_ms) * MS

    @property
    def slack_ns(self) -> int:
        """How far a time of the log may be off by the host's clock."""
        return (self.moved_ms + ROUNDING_MS) * MS

    def ns_of(self, timestamp: int, units_per_ms: int) -> int:
        """A time of the log by the host's clock."""
        return timestamp * MS // units_per_ms - self.offset_ms * MS

    def busy_ns(self, begin_ns: int, end_ns: int) -> int:
        """For how much of an interval its module accepted no requests."""
        return sum(max(min(until, end_ns) - max(since, begin_ns), 0) for since, until in self.busy)


def leader_clocks(run: RunFolder, members: int) -> tuple[LeaderClock, ...]:
    """The clock of every term that a traced member led."""
    readings = []
    for member_id in range(members):
        folder = run.member(member_id)
        if folder.trace.exists():
            reading = _Reading(member_id)
            for event in folder.read_trace():
                reading.add(event)
            readings.append(reading)
    jumps = [fault for fault in run.read_faults() if fault.what == HostFaultKind.CLOCK_JUMP]
    end_ms = max((reading.last_ms for reading in readings), default=0)
    for reading in readings:
        reading.close(end_ms if len(readings) > 1 else None)
    clocks = [clock for reading in readings for clock in reading.clocks]
    # A clock that jumps there and back leaves no line in the trace of an idle leader.
    return tuple(
        replace(clock, moved_ms=clock.moved_ms + LONGEST_JUMP_MS)
        if any(_may_move(jump, clock) for jump in jumps)
        else clock
        for clock in clocks
    )


def _may_move(jump: FaultRecord, clock: LeaderClock) -> bool:
    """Whether the leader's clock may have been moved or put back while it led."""
    over_ns = NEVER_NS if jump.heal_end_ns is None else jump.heal_end_ns + _JUMPS_WITHIN_NS
    is_then = jump.inject_begin_ns <= clock.end_ns + clock.moved_ms * MS and clock.begin_ns <= over_ns
    return clock.member_id in jump.members and is_then


def clocks_by_term(clocks: Iterable[LeaderClock]) -> dict[int, LeaderClock]:
    """The clocks in the order of terms. A term that several traces claim is left out."""
    led: dict[int, list[LeaderClock]] = {}
    for clock in clocks:
        led.setdefault(clock.leadership_term_id, []).append(clock)
    return {term: claims[0] for term, claims in sorted(led.items()) if len(claims) == 1}


class _Reading:
    """The trace of one member, line by line. `offset` is the wall clock minus the monotonic one."""

    def __init__(self, member_id: int) -> None:
        self.clocks: list[LeaderClock] = []
        self.last_ms = 0
        self._member_id = member_id
        self._term: int | None = None
        self._begin_ms = self._line = self._last_line = 0
        self._offset = self._least = self._most = self._first = 0
        self._ready_ns = -1
        self._is_first_election = self._is_startup = False
        self._busy: list[tuple[int, int]] = []

    def add(self, event: TraceEvent) -> None:
        epoch_ms = event.fields.get("epoch_ms")
        if not isinstance(epoch_ms, int):
            return
        self.last_ms = event.ns // MS
        self._offset = epoch_ms - self.last_ms
        if self._term is not None:
            self._least = min(self._least, self._offset)
            self._most = max(self._most, self._offset)
        if event.event == TraceKind.PROCESS_START:
            self._end(epoch_ms)
            self._is_first_election = True
        elif event.event == TraceKind.ELECTION_STATE:
            term = self._led(event.fields)
            if term != self._term:
                self._end(epoch_ms, event.fields.get("log_position"))
                self._begin(term, epoch_ms, event.line)
            if event.fields.get("state") == "CLOSED":
                self._is_first_election = False
        elif self._term is not None:
            self._serve(event)
        self._last_line = event.line

    def _serve(self, event: TraceEvent) -> None:
        """Take a line that shows whether the leader serves clients."""
        if event.event == TraceKind.LEADERSHIP_TERM and event.fields.get("source") == "election":
            self._ready_ns = event.ns
        elif event.event == TraceKind.MODULE_STATE:
            if self._busy and self._busy[-1][1] == NEVER_NS:
                self._busy[-1] = self._busy[-1][0], event.ns
            self._busy.append((event.ns, event.ns if event.fields.get("new") == "ACTIVE" else NEVER_NS))

    def close(self, end_ms: int | None) -> None:
        """End the trace. The last line of any member was written at `end_ms`."""
        self._end(None if end_ms is None else end_ms + self._offset + AFTER_DEATH_MS)

    def _led(self, fields: Mapping[str, Json]) -> int | None:
        """The term that the member leads according to a line."""
        term = fields.get("leadership_term_id")
        is_leader = fields.get("state") in _LEADING and fields.get("leader_member_id") == self._member_id
        return term if is_leader and isinstance(term, int) else None

    def _begin(self, term: int | None, epoch_ms: int, line: int) -> None:
        self._term, self._begin_ms, self._line = term, epoch_ms, line
        self._least = self._most = self._first = self._offset
        self._ready_ns, self._busy = -1, []
        self._is_startup = self._is_first_election

    def _end(self, end_ms: int | None, left_position: Json = None) -> None:
        if self._term is None:
            return
        where = f"member-{self._member_id}/trace.jsonl:{self._line}-{self._last_line}"
        moved_ms = self._most - self._least
        clock = LeaderClock(
            self._term,
            self._member_id,
            self._begin_ms,
            end_ms,
            moved_ms,
            where,
            self._first,
            self._ready_ns,
            self._is_startup,
            tuple(self._busy),
            left_position if isinstance(left_position, int) else None,
        )
        self.clocks.append(clock)
        self._term = None
