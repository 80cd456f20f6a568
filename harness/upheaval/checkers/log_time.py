"""The promise about the cluster's time: entries of a leadership term have times that their leader's clock showed.

Every line of a member's trace has the member's wall clock beside the monotonic one. So the trace says from when to when
a member led, by the clock that it writes into the log, and by how much somebody moved that clock meanwhile. No other
clock is asked: members' clocks may differ, and cluster time may do anything from one leader to the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.checkers.events import TermTimes, units_of_ms
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import Json, RunFolder, TraceEvent
from upheaval_chaos.host_faults import LONGEST_JUMP_MS, HostFaultKind
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS

ROUNDING_MS: Final = 10
"""Of two clocks that are read one after the other, and of whole milliseconds."""

AFTER_DEATH_MS: Final = 60_000
"""What a member may have written into the log after the last line of its trace, in a process that was killed."""

_LEADING: Final = frozenset({"LEADER_LOG_REPLICATION", "LEADER_REPLAY", "LEADER_INIT", "LEADER_READY", "CLOSED"})
"""States of an election in which a member that is named as its leader has won it."""


@dataclass(frozen=True, slots=True)
class LeaderClock:
    """What the wall clock of a term's leader showed while it led; `where` are the lines of its trace that say so."""

    leadership_term_id: int
    member_id: int
    begin_ms: int
    end_ms: int | None
    """None when nothing says how long the member led."""
    moved_ms: int
    """By how much the clock was moved meanwhile, beside the monotonic one."""
    where: str
    offset_ms: int = 0
    """What it was ahead of the monotonic one when the member began to lead."""
    ready_ns: int = -1
    """When the election was over and clients were served; -1 for never."""
    busy: tuple[tuple[int, int], ...] = ()
    """From when to when its module took nothing of clients, or had just let them wait."""


def leader_clocks(run: RunFolder, members: int) -> tuple[LeaderClock, ...]:
    """Of every term that a member led, as far as there are traces."""
    readings = []
    for member_id in range(members):
        folder = run.member(member_id)
        if folder.trace.exists():
            reading = _Reading(member_id)
            for event in folder.read_trace():
                reading.add(event)
            readings.append(reading)
    jumped = {
        member_id
        for fault in run.read_faults()
        if fault.what == HostFaultKind.CLOCK_JUMP
        for member_id in fault.members
    }
    end_ms = max((reading.last_ms for reading in readings), default=0)
    for reading in readings:
        reading.close(end_ms if len(readings) > 1 else None)
    clocks = [clock for reading in readings for clock in reading.clocks]
    # A jump there and back shows in no line where a leader has nothing to say.
    return tuple(
        replace(clock, moved_ms=clock.moved_ms + LONGEST_JUMP_MS) if clock.member_id in jumped else clock
        for clock in clocks
    )


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
        elif event.event == TraceKind.ELECTION_STATE:
            term = self._led(event.fields)
            if term != self._term:
                self._end(epoch_ms)
                self._begin(term, epoch_ms, event.line)
        elif self._term is not None:
            self._serve(event)
        self._last_line = event.line

    def _serve(self, event: TraceEvent) -> None:
        """What a leader tells of whether it serves clients."""
        if event.event == TraceKind.LEADERSHIP_TERM and event.fields.get("source") == "election":
            self._ready_ns = event.ns
        elif event.event == TraceKind.MODULE_STATE:
            if self._busy and self._busy[-1][1] == NEVER_NS:
                self._busy[-1] = self._busy[-1][0], event.ns
            self._busy.append((event.ns, event.ns if event.fields.get("new") == "ACTIVE" else NEVER_NS))

    def close(self, end_ms: int | None) -> None:
        """Nothing follows; the last line of any member was written at `end_ms`."""
        self._end(None if end_ms is None else end_ms + self._offset + AFTER_DEATH_MS)

    def _led(self, fields: Mapping[str, Json]) -> int | None:
        """The term that a line says the member leads."""
        term = fields.get("leadership_term_id")
        is_leader = fields.get("state") in _LEADING and fields.get("leader_member_id") == self._member_id
        return term if is_leader and isinstance(term, int) else None

    def _begin(self, term: int | None, epoch_ms: int, line: int) -> None:
        self._term, self._begin_ms, self._line = term, epoch_ms, line
        self._least = self._most = self._first = self._offset
        self._ready_ns, self._busy = -1, []

    def _end(self, end_ms: int | None) -> None:
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
            tuple(self._busy),
        )
        self.clocks.append(clock)
        self._term = None


def judge_time(times: Mapping[int, TermTimes], clocks: Iterable[LeaderClock], time_unit: int) -> list[Finding]:
    """One finding; none for a log of whose terms no leader left a trace."""
    unit = units_of_ms(time_unit)
    by_term: dict[int, list[LeaderClock]] = {}
    for clock in clocks:
        by_term.setdefault(clock.leadership_term_id, []).append(clock)
    judged = sorted(times.keys() & by_term.keys())
    if not judged:
        return []
    try:
        for term in judged:
            _require_kept(term, times[term], by_term[term], unit)
    except Broken as broken:
        return [broken.finding(Promise.TIME_KEPT)]
    detail = f"entries of {len(judged)} of {len(times)} terms have times at which their leader led"
    return [Finding(Promise.TIME_KEPT, Verdict.VALID, detail)]


def _require_kept(term: int, times: TermTimes, clocks: Sequence[LeaderClock], unit: int) -> None:
    allowed_ms = sum(clock.moved_ms for clock in clocks) + ROUNDING_MS
    begin, clock = min(clocks, key=lambda each: each.begin_ms), clocks[-1]
    back, position = times.step_back
    if back > allowed_ms * unit:
        what = f"{back / unit:g} ms earlier than an entry before it, while the clock of member {clock.member_id}"
        raise _broken(term, position, f"{what} was moved by {allowed_ms - ROUNDING_MS} ms at most", clock)
    early, position = times.earliest
    if early < (begin.begin_ms - allowed_ms) * unit:
        what = f"{begin.begin_ms - early / unit:g} ms before member {begin.member_id} began to lead"
        raise _broken(term, position, what, begin)
    late, position = times.latest
    ends = [each.end_ms for each in clocks if each.end_ms is not None]
    if len(ends) == len(clocks) and late > (max(ends) + allowed_ms) * unit:
        what = f"{late / unit - max(ends):g} ms after member {clock.member_id} had ceased to lead"
        raise _broken(term, position, what, clock)


def _broken(term: int, position: int, what: str, clock: LeaderClock) -> Broken:
    detail = f"the entry of term {term} at position {position} has a time {what} ({clock.where})"
    return Broken(Verdict.INVALID, detail, members=(clock.member_id,), position=position)
