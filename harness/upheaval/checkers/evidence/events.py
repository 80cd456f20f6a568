"""The log's entries apart from client operations: sessions, timers, messages of services, snapshots.

Readers of the log collect them; `sessions`, `timers`, `ledger` and `snapshots` judge them. Pure data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import le
from typing import Final

from upheaval.records import AdminCommand, Credit
from upheaval_node.protocol.cluster_messages import ClusterAction
from upheaval_node.protocol.codec import NULL_INT32

MS_OF_UNIT: Final = (1, 1_000, 1_000_000)
"""One millisecond in each unit of cluster time, by the unit's code (Aeron Cluster: ClusterTimeUnit)."""

_STANDBY_FLAG: Final = 1
GAP_MS: Final = 100
EVIDENCE_MS: Final = 1_000
"""Once the log has gone on for this long, an overdue entry counts as lost."""


@dataclass(slots=True)
class SessionFacts:
    """One client session: where it opened, where and why it closed, and the ends of its first and last message."""

    session_id: int
    opened: list[int] = field(default_factory=list)
    closed: list[tuple[int, int]] = field(default_factory=list)
    first_message: int = -1
    last_message: int = -1
    principals: list[bytes] = field(default_factory=list)
    """The principal of each opening."""
    open_term: int | None = None
    """The leadership term of its first opening."""
    open_time: int = 0
    """The time of its first opening."""
    ended: tuple[int, int] | None = None
    """Term and time of its first close."""
    last: tuple[int, int] | None = None
    """Term and time of its last message."""
    last_by_term: dict[int, int] = field(default_factory=dict)
    """The time of its last message, or of its opening, in each term."""

    def add_open(self, position: int, term: int, timestamp: int) -> None:
        """Take an opening, in log order. `position` is the end of the entry."""
        self.opened.append(position)
        if self.open_term is None:
            self.open_term, self.open_time = term, timestamp
            self.last_by_term[term] = timestamp

    def add_close(self, position: int, reason: int, term: int, timestamp: int) -> None:
        """Take a close, in log order."""
        self.closed.append((position, reason))
        if self.ended is None:
            self.ended = term, timestamp

    def add_message(self, position: int, term: int, timestamp: int) -> None:
        """Take a message of the session, in log order. `position` is the end of its entry."""
        self.last = term, timestamp
        self.last_by_term[term] = timestamp
        if self.first_message < 0:
            self.first_message = position
        self.last_message = position


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The expiry of a timer in the log: the end of its entry and its cluster time."""

    position: int
    timer_id: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ServiceMessage:
    """A message from a service. `number` was assigned by the cluster (Aeron Cluster: service session id)."""

    position: int
    number: int
    timestamp: int
    credit: Credit | None = None
    requests: int = 0
    """The number of client messages before it in the log."""


@dataclass(frozen=True, slots=True)
class StrayEntry:
    """An entry whose leadership term is not the term of its place in the log. `due` is None before the first term."""

    kind: str
    position: int
    term: int
    due: int | None


class EntryKind(StrEnum):
    """The kinds of entries that only the leader of an active cluster appends, as findings name them."""

    OPEN = "a session opens"
    MESSAGE = "a client's message"
    CLOSE = "a session closes"
    TIMER = "a timer fires"
    SERVICE_MESSAGE = "a service's message"


OF_CLIENTS: Final = (EntryKind.OPEN, EntryKind.MESSAGE)


@dataclass(frozen=True, slots=True)
class SuspendedEntry:
    """An entry of an active cluster within a suspension, which begins at `since`."""

    kind: EntryKind
    position: int
    since: int


@dataclass(frozen=True, slots=True)
class StrangeEntry:
    """An entry that does not belong in a log. `name` is that of its message, None for one outside the schema."""

    position: int
    template_id: int
    name: str | None


@dataclass(frozen=True, slots=True)
class OrderedAction:
    """An entry that orders the members to do something (Aeron Cluster: ClusterActionRequest), as a command."""

    what: AdminCommand
    position: int


@dataclass(slots=True)
class TermTimes:
    """The cluster times of the entries of one leadership term, each with the end of the first entry that has it."""

    earliest: tuple[int, int]
    latest: tuple[int, int]
    step_back: tuple[int, int] = (0, -1)
    """The longest step back from the latest time so far."""

    @classmethod
    def of(cls, position: int, timestamp: int) -> "TermTimes":
        """Start with the first entry of a term."""
        return cls((timestamp, position), (timestamp, position))

    def add(self, position: int, timestamp: int) -> None:
        """Take the next entry."""
        latest = self.latest[0]
        if timestamp > latest:
            self.latest = timestamp, position
        elif timestamp < latest:
            if latest - timestamp > self.step_back[0]:
                self.step_back = latest - timestamp, position
            if timestamp < self.earliest[0]:
                self.earliest = timestamp, position


def asks_members(action: int, flags: int) -> bool:
    """Whether the action orders a snapshot of all members (Aeron Cluster: ClusterActionRequest)."""
    return action == ClusterAction.SNAPSHOT and flags in (0, NULL_INT32)


def asks_standbys(action: int, flags: int) -> bool:
    """Whether the action orders a snapshot of standbys only."""
    return action == ClusterAction.SNAPSHOT and flags == _STANDBY_FLAG


def _command_of(action: int, flags: int) -> AdminCommand | None:
    """The command for an action; None if no command orders it."""
    if asks_members(action, flags):
        return AdminCommand.SNAPSHOT
    if asks_standbys(action, flags):
        return AdminCommand.STANDBY_SNAPSHOT
    if action == ClusterAction.SUSPEND:
        return AdminCommand.SUSPEND
    return AdminCommand.RESUME if action == ClusterAction.RESUME else None


@dataclass(slots=True)
class LogEvents:
    """The entries in log order. `snapshots` are the positions at which the log orders a snapshot of all members."""

    sessions: dict[int, SessionFacts] = field(default_factory=dict)
    timers: list[TimerFired] = field(default_factory=list)
    service_messages: list[ServiceMessage] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    standby_snapshots: list[int] = field(default_factory=list)
    """The positions at which the log orders a snapshot of standbys only."""
    actions: list[OrderedAction] = field(default_factory=list)
    """All orders to members and standbys."""
    times: dict[int, TermTimes] = field(default_factory=dict)
    """By leadership term."""
    time_unit: int = 0
    with_term: int = 0
    """The number of entries that name their leadership term."""
    stray: StrayEntry | None = None
    """The first entry in the place of another term."""
    entries: int = 0
    """The number of entries of any kind."""
    requests: int = 0
    """The number of client messages."""
    strange: list[StrangeEntry] = field(default_factory=list)
    """The first entry that does not belong in a log, and the first one of an unknown kind."""
    suspensions: int = 0
    """How often the log suspends the cluster."""
    while_suspended: dict[EntryKind, SuspendedEntry] = field(default_factory=dict)
    """The first entry of each kind within a suspension."""
    _term: int | None = None
    _suspended_at: int | None = None

    def add_term(self, kind: str, position: int, term: int, *, begins: bool = False) -> None:
        """Take the term of an entry, in log order. An entry that `begins` a term must have a later one than before."""
        due = self._term
        self.with_term += 1
        is_right = (due is None or term > due) if begins else term == due
        if not is_right and self.stray is None:
            self.stray = StrayEntry(kind, position, term, due)
        if begins:
            self._term = term

    def add_action(self, position: int, action: int, flags: int) -> None:
        """Take a ClusterActionRequest, in log order."""
        what = _command_of(action, flags)
        if what is not None:
            self.actions.append(OrderedAction(what, position))
        if asks_members(action, flags):
            self.snapshots.append(position)
        elif asks_standbys(action, flags):
            self.standby_snapshots.append(position)
        elif action == ClusterAction.SUSPEND and self._suspended_at is None:
            self._suspended_at = position
            self.suspensions += 1
        elif action == ClusterAction.RESUME:
            self._suspended_at = None

    def add_active(self, kind: EntryKind, position: int) -> None:
        """Take an entry that only an active cluster has, in log order."""
        if self._suspended_at is not None and kind not in self.while_suspended:
            self.while_suspended[kind] = SuspendedEntry(kind, position, self._suspended_at)

    def add_requests(
        self, ends: Sequence[int], terms: Sequence[int], sessions: Sequence[int], timestamps: Sequence[int]
    ) -> None:
        """Take client messages that follow each other in the log: the end, term, session and time of each."""
        self.entries += len(ends)
        self.requests += len(ends)
        self.add_active(EntryKind.MESSAGE, ends[0])
        term, times = self._term, self.times.get(terms[0])
        is_of_term = terms.count(term) == len(terms)
        is_in_time = times is not None and all(map(le, (times.latest[0], *timestamps), timestamps))
        if times is not None and is_of_term and is_in_time:
            self.with_term += len(ends)
            if timestamps[-1] > times.latest[0]:
                times.latest = timestamps[-1], ends[timestamps.index(timestamps[-1])]
        else:
            for end, its_term, timestamp in zip(ends, terms, timestamps, strict=True):
                self.add_time(its_term, end, timestamp)
                self.add_term("SessionMessage", end, its_term)
        if terms.count(terms[0]) < len(terms):
            for end, its_term, session_id, timestamp in zip(ends, terms, sessions, timestamps, strict=True):
                self.session(session_id).add_message(end, its_term, timestamp)
            return
        for session_id, place in dict(zip(sessions, range(len(ends)), strict=True)).items():
            facts = self.session(session_id)
            if facts.first_message < 0:
                facts.add_message(ends[sessions.index(session_id)], terms[place], timestamps[place])
            facts.add_message(ends[place], terms[place], timestamps[place])

    def add_strange(self, position: int, template_id: int, name: str | None) -> None:
        """Take an entry that does not belong in a log."""
        if not any((entry.name is None) == (name is None) for entry in self.strange):
            self.strange.append(StrangeEntry(position, template_id, name))

    def session(self, session_id: int) -> SessionFacts:
        """The facts about a session; created for a new one."""
        known = self.sessions.get(session_id)
        if known is None:
            known = self.sessions[session_id] = SessionFacts(session_id)
        return known

    def add_time(self, term_id: int, position: int, timestamp: int) -> None:
        """Take the time of an entry of a leadership term. `position` is its end."""
        times = self.times.get(term_id)
        if times is None:
            self.times[term_id] = TermTimes.of(position, timestamp)
        else:
            times.add(position, timestamp)


def units_of_ms(time_unit: int) -> int:
    """One millisecond in the unit with that code; an unknown code counts as the first unit."""
    return MS_OF_UNIT[time_unit] if 0 <= time_unit < len(MS_OF_UNIT) else 1


class Clock:
    """How long the log went on after a position.

    A pause longer than GAP_MS counts as GAP_MS, since the cluster may have had no leader. Made of (position, timestamp)
    in log order; timestamps are cluster time in `time_unit`.
    """

    def __init__(self, moments: Sequence[tuple[int, int]], time_unit: int) -> None:
        self.unit = units_of_ms(time_unit)
        self._moments = moments
        self._left = [0] * (len(moments) + 1)
        for index in range(len(moments) - 2, -1, -1):
            gap = moments[index + 1][1] - moments[index][1]
            self._left[index] = self._left[index + 1] + max(0, min(gap, GAP_MS * self.unit))

    def ms_after(self, position: int, time: int) -> int:
        """Milliseconds of log after the first entry past `position` and later than `time`."""
        low = _first_past(self._moments, position)
        for index in range(low, len(self._moments)):
            if self._moments[index][1] > time:
                return self._left[index] // self.unit
        return 0

    def ms_between(self, position: int, time: int, end_position: int) -> int:
        """The same, up to the last entry that ends at or before `end_position`."""
        end = _first_past(self._moments, end_position) - 1
        for index in range(_first_past(self._moments, position), end):
            if self._moments[index][1] > time:
                return (self._left[index] - self._left[end]) // self.unit
        return 0

    def late_ms(self, position: int, time: int) -> int:
        """By how many milliseconds of log an entry is overdue; 0 while it may still come."""
        return max(0, self.ms_after(position, time) - EVIDENCE_MS + 1)


def _first_past(moments: Sequence[tuple[int, int]], position: int) -> int:
    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        if moments[middle][0] <= position:
            low = middle + 1
        else:
            high = middle
    return low
