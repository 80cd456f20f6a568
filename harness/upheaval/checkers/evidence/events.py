"""What the log says beside the operations of clients: sessions, timers, messages of services, snapshots.

Readers of the log collect it; `sessions`, `timers`, `ledger` and `snapshots` judge it. Pure data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from upheaval.records import AdminCommand, Credit
from upheaval_node.protocol.cluster_messages import ClusterAction
from upheaval_node.protocol.codec import NULL_INT32

MS_OF_UNIT: Final = (1, 1_000, 1_000_000)
"""A millisecond in each unit of the cluster's time, by its code (Aeron Cluster: ClusterTimeUnit)."""

_STANDBY_FLAG: Final = 1
GAP_MS: Final = 100
EVIDENCE_MS: Final = 1_000
"""What the cluster still owes after the log went on for so long, it has lost."""


@dataclass(slots=True)
class SessionFacts:
    """One client session: where it opened, where and why it closed, and the ends of its first and last message."""

    session_id: int
    opened: list[int] = field(default_factory=list)
    closed: list[tuple[int, int]] = field(default_factory=list)
    first_message: int = -1
    last_message: int = -1
    principals: list[bytes] = field(default_factory=list)
    """Of whom it was, for each time that it opened."""
    open_term: int | None = None
    """The leadership term in which it opened first."""
    ended: tuple[int, int] | None = None
    """Term and time of its first close."""
    last: tuple[int, int] | None = None
    """Term and time of its last message."""

    def add_open(self, position: int, term: int) -> None:
        """Take its opening, in log order; `position` is where the entry ends."""
        self.opened.append(position)
        if self.open_term is None:
            self.open_term = term

    def add_close(self, position: int, reason: int, term: int, timestamp: int) -> None:
        """Take its end, in log order."""
        self.closed.append((position, reason))
        if self.ended is None:
            self.ended = term, timestamp

    def add_message(self, position: int, term: int, timestamp: int) -> None:
        """Take a message of the session, in log order; `position` is where its entry ends."""
        self.last = term, timestamp
        if self.first_message < 0:
            self.first_message = position
        self.last_message = position


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The expiry of a timer in the log: where its entry ends, and the cluster time of it."""

    position: int
    timer_id: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ServiceMessage:
    """A message that a service offered. `number` is what the cluster gave it (Aeron Cluster: service session id)."""

    position: int
    number: int
    timestamp: int
    credit: Credit | None = None
    requests: int = 0
    """How many messages of clients the log has before it."""


@dataclass(frozen=True, slots=True)
class StrayEntry:
    """An entry that is of another leadership term than its place in the log; `due` is None before the first term."""

    kind: str
    position: int
    term: int
    due: int | None


class EntryKind(StrEnum):
    """The kinds of entries that only a leader of an active cluster appends, in the words of findings."""

    OPEN = "a session opens"
    MESSAGE = "a client's message"
    CLOSE = "a session closes"
    TIMER = "a timer fires"
    SERVICE_MESSAGE = "a service's message"


OF_CLIENTS: Final = (EntryKind.OPEN, EntryKind.MESSAGE)


@dataclass(frozen=True, slots=True)
class SuspendedEntry:
    """An entry of an active cluster that the log has while the cluster is suspended; `since` is where that begins."""

    kind: EntryKind
    position: int
    since: int


@dataclass(frozen=True, slots=True)
class StrangeEntry:
    """An entry that is none of a log. `name` is that of the message, None for one that the schema does not have."""

    position: int
    template_id: int
    name: str | None


@dataclass(frozen=True, slots=True)
class OrderedAction:
    """An entry that orders something of the members (Aeron Cluster: ClusterActionRequest): the command that does so."""

    what: AdminCommand
    position: int


@dataclass(slots=True)
class TermTimes:
    """The cluster times of one leadership term's entries; each has the position at which the first such entry ends."""

    earliest: tuple[int, int]
    latest: tuple[int, int]
    step_back: tuple[int, int] = (0, -1)
    """The longest way back from the latest time before an entry to its own."""

    @classmethod
    def of(cls, position: int, timestamp: int) -> "TermTimes":
        """Of a term whose first entry this is."""
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
    """Whether it is for a snapshot of all members, not of standbys alone (Aeron Cluster: ClusterActionRequest)."""
    return action == ClusterAction.SNAPSHOT and flags in (0, NULL_INT32)


def asks_standbys(action: int, flags: int) -> bool:
    """Whether it is for a snapshot of standbys alone."""
    return action == ClusterAction.SNAPSHOT and flags == _STANDBY_FLAG


def _command_of(action: int, flags: int) -> AdminCommand | None:
    """None for what no command orders."""
    if asks_members(action, flags):
        return AdminCommand.SNAPSHOT
    if asks_standbys(action, flags):
        return AdminCommand.STANDBY_SNAPSHOT
    if action == ClusterAction.SUSPEND:
        return AdminCommand.SUSPEND
    return AdminCommand.RESUME if action == ClusterAction.RESUME else None


@dataclass(slots=True)
class LogEvents:
    """In log order. `snapshots` are the positions at which the log asks every member for one."""

    sessions: dict[int, SessionFacts] = field(default_factory=dict)
    timers: list[TimerFired] = field(default_factory=list)
    service_messages: list[ServiceMessage] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    standby_snapshots: list[int] = field(default_factory=list)
    """The positions at which it asks standbys alone for one."""
    actions: list[OrderedAction] = field(default_factory=list)
    """All that the log orders of members and standbys."""
    times: dict[int, TermTimes] = field(default_factory=dict)
    """By leadership term."""
    time_unit: int = 0
    with_term: int = 0
    """How many entries say of which leadership term they are."""
    stray: StrayEntry | None = None
    """The first one that is of another term than its place."""
    entries: int = 0
    """How many entries there are, of whatever kind."""
    requests: int = 0
    """How many messages of clients."""
    strange: list[StrangeEntry] = field(default_factory=list)
    """The first entry that does not belong in a log, and the first one of an unknown kind."""
    suspensions: int = 0
    """How often the log suspends the cluster."""
    while_suspended: dict[EntryKind, SuspendedEntry] = field(default_factory=dict)
    """Of each kind the first entry that the log has while the cluster is suspended."""
    _term: int | None = None
    _suspended_at: int | None = None

    def add_term(self, kind: str, position: int, term: int, *, begins: bool = False) -> None:
        """Take the term of an entry, in log order; of one that `begins` the term, it has to be later than the last."""
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

    def add_strange(self, position: int, template_id: int, name: str | None) -> None:
        """Take an entry that is none of a log."""
        if not any((each.name is None) == (name is None) for each in self.strange):
            self.strange.append(StrangeEntry(position, template_id, name))

    def session(self, session_id: int) -> SessionFacts:
        """What is known of a session; made when it is met for the first time."""
        known = self.sessions.get(session_id)
        if known is None:
            known = self.sessions[session_id] = SessionFacts(session_id)
        return known

    def add_time(self, term_id: int, position: int, timestamp: int) -> None:
        """Take the time of an entry of a leadership term; `position` is where it ends."""
        times = self.times.get(term_id)
        if times is None:
            self.times[term_id] = TermTimes.of(position, timestamp)
        else:
            times.add(position, timestamp)


def units_of_ms(time_unit: int) -> int:
    """A millisecond in the unit of that code; of an unknown one as in the first."""
    return MS_OF_UNIT[time_unit] if 0 <= time_unit < len(MS_OF_UNIT) else 1


class Clock:
    """How long the log went on after one of its positions.

    A pause longer than GAP_MS counts as GAP_MS, since the cluster may have had no leader.

    Made of (position, timestamp) in log order; timestamps are of the cluster's time, in `time_unit`.
    """

    def __init__(self, moments: Sequence[tuple[int, int]], time_unit: int) -> None:
        self.unit = units_of_ms(time_unit)
        self._moments = moments
        self._left = [0] * (len(moments) + 1)
        for index in range(len(moments) - 2, -1, -1):
            gap = moments[index + 1][1] - moments[index][1]
            self._left[index] = self._left[index + 1] + max(0, min(gap, GAP_MS * self.unit))

    def ms_after(self, position: int, time: int) -> int:
        """Milliseconds of log after the first entry that is past `position` and later than `time`."""
        low = _first_past(self._moments, position)
        for index in range(low, len(self._moments)):
            if self._moments[index][1] > time:
                return self._left[index] // self.unit
        return 0

    def ms_between(self, position: int, time: int, end_position: int) -> int:
        """The same, up to the last entry that does not end after `end_position`."""
        end = _first_past(self._moments, end_position) - 1
        for index in range(_first_past(self._moments, position), end):
            if self._moments[index][1] > time:
                return (self._left[index] - self._left[end]) // self.unit
        return 0

    def late_ms(self, position: int, time: int) -> int:
        """By how many milliseconds of log what was due then is overdue; 0 while it may still come."""
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
