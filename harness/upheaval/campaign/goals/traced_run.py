"""What goals read of a run: the lives of its members, their states, rare messages, faults and sessions.

Times are those of the run's monotonic clock, which simulated members and processes on one machine share. Heartbeats
(CommitPosition, AppendPosition) are the bulk of a trace and no goal needs them, so they only extend a life.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.errors import UsageError
from upheaval.records import (
    FieldError,
    Json,
    MemberFolder,
    RunFolder,
    SessionEnd,
    TraceEvent,
    companion_folders,
    jsonfields,
)
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NEVER_NS

CLOSED: Final = "CLOSED"
"""The state of a finished election."""
_HEARTBEATS: Final = frozenset({"CommitPosition", "AppendPosition"})
_MESSAGES: Final = frozenset({TraceKind.SEND, TraceKind.RECEIVE})


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of a member. `life` numbers the member's starts from 0."""

    member_id: int
    life: int
    ns: int
    fields: Mapping[str, Json]

    def integer(self, name: str) -> int:
        """A field that is an integer. Raises `FieldError`."""
        return jsonfields.integer(self.fields, name)


@dataclass(slots=True)
class Span:
    """The time of a member in one state of its election or of its module. `moment` is the event of its begin.

    `next` is the span after it in the same life; None if the life ended in it. It ends with the next span, or with the
    life's last trace line.
    """

    state: str
    moment: Moment
    previous: "Span | None" = None
    next: "Span | None" = None
    end_ns: int = NEVER_NS
    has_died: bool = False
    """Whether the process ended in it, not in order, and a later one started."""

    @property
    def member_id(self) -> int:
        """The member's id."""
        return self.moment.member_id

    @property
    def begin_ns(self) -> int:
        """The time of the move to its state."""
        return self.moment.ns

    @property
    def leads(self) -> bool:
        """Whether the election made this member the leader."""
        return self.state == CLOSED and self.moment.fields.get("leader_member_id") == self.moment.member_id

    @property
    def term(self) -> int:
        """The leadership term that the member knew. Raises `FieldError` for a span of a module."""
        return self.moment.integer("leadership_term_id")

    def overlaps(self, other: "Span") -> bool:
        """Whether both have a common moment."""
        return self.is_within(other.begin_ns, other.end_ns)

    def is_within(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it has a moment in that interval."""
        return self.begin_ns < end_ns and begin_ns < self.end_ns


@dataclass(slots=True)
class Life:
    """One process of a member, up to its last trace line."""

    member_id: int
    number: int
    begin_ns: int
    last_ns: int
    status: int | None = None
    """Its exit status, if it traced one."""
    elections: list[Span] = field(default_factory=list)
    modules: list[Span] = field(default_factory=list)

    @property
    def start(self) -> Moment | None:
        """The begin of its first election; None if it had none."""
        return self.elections[0].moment if self.elections else None


@dataclass(frozen=True)
class TracedRun:
    """The parts of a run at rest that goals are about.

    `lives` has the lives of each member. `messages` has the rare messages by kind of event (`send`, `receive`) and
    name, `events` all other events by kind, both member by member.
    """

    lives: Sequence[Sequence[Life]]
    messages: Mapping[tuple[str, str], Sequence[Moment]]
    events: Mapping[str, Sequence[Moment]]
    companions: Sequence[Sequence[TraceEvent]] = ()
    faults: Sequence[FaultRecord] = ()
    session_ends: Sequence[SessionEnd] = ()

    @classmethod
    def of(cls, run: RunFolder) -> "TracedRun":
        """Read the folder of a run at rest. Raises `UsageError` for a malformed file."""
        members = run.read_manifest().members
        try:
            return cls.from_traces(
                [run.member(member_id).read_trace() for member_id in range(members)],
                companions=[list(MemberFolder(path, -1, path.name).traced()) for path in companion_folders(run.path)],
                faults=list(run.read_faults()),
                session_ends=list(run.read_session_ends()),
            )
        except FieldError as error:
            raise UsageError(f"{run.path}: {error}") from None

    @classmethod
    def from_traces(
        cls,
        traces: Sequence[Iterable[TraceEvent]],
        *,
        companions: Sequence[Sequence[TraceEvent]] = (),
        faults: Sequence[FaultRecord] = (),
        session_ends: Sequence[SessionEnd] = (),
    ) -> "TracedRun":
        """From the traces of all members, by their ids."""
        reader = _Reader()
        lives = [reader.read(member_id, trace) for member_id, trace in enumerate(traces)]
        return cls(lives, reader.messages, reader.events, companions, faults, session_ends)

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.lives)

    @cached_property
    def elections(self) -> Sequence[Span]:
        """The spans of all elections, in the order of time."""
        spans = [span for lives in self.lives for life in lives for span in life.elections]
        return sorted(spans, key=lambda span: span.begin_ns)

    @cached_property
    def by_state(self) -> Mapping[str, Sequence[Span]]:
        """The spans of all elections by their state."""
        spans: dict[str, list[Span]] = defaultdict(list)
        for span in self.elections:
            spans[span.state].append(span)
        return spans

    @cached_property
    def leaderships(self) -> Sequence[Span]:
        """The spans in which a member led, in the order of time."""
        return [span for span in self.by_state[CLOSED] if span.leads]

    @cached_property
    def modules(self) -> Sequence[Span]:
        """The spans of all modules, in the order of time."""
        spans = [span for lives in self.lives for life in lives for span in life.modules]
        return sorted(spans, key=lambda span: span.begin_ns)

    def moves(self) -> Counter[str]:
        """How often elections made each move, as `OLD>NEW`. The start of a member or of an election is no move."""
        spans = (span for span in self.elections if span.previous is not None and span.previous.state != CLOSED)
        return Counter(f"{span.previous.state}>{span.state}" for span in spans if span.previous is not None)

    def in_states(self, *states: str) -> Iterator[Span]:
        """The spans of elections in these states."""
        for state in states:
            yield from self.by_state.get(state, ())

    def moved(self, old: str, new: str) -> bool:
        """Whether a member's election moved from `old` to `new`."""
        return any(span.next is not None and span.next.state == new for span in self.by_state.get(old, ()))

    def sent(self, message: str) -> Sequence[Moment]:
        """The moments at which members sent a rare message."""
        return self.messages.get((TraceKind.SEND, message), ())

    def received(self, message: str) -> Sequence[Moment]:
        """The moments at which members received a rare message."""
        return self.messages.get((TraceKind.RECEIVE, message), ())

    def election_at(self, moment: Moment) -> Span | None:
        """The election state of a member at one of its moments; a move at that time is not made yet."""
        life = self.lives[moment.member_id][moment.life]
        return next((span for span in life.elections if span.begin_ns < moment.ns <= span.end_ns), None)


class _Reader:
    """Reads the traces of members one after the other."""

    def __init__(self) -> None:
        self.messages: dict[tuple[str, str], list[Moment]] = defaultdict(list)
        self.events: dict[str, list[Moment]] = defaultdict(list)

    def read(self, member_id: int, trace: Iterable[TraceEvent]) -> list[Life]:
        """The lives of a member."""
        lives: list[Life] = []
        for event in trace:
            fields = event.fields
            if event.event == TraceKind.PROCESS_START and fields.get("component") in OF_MODULE:
                if lives:
                    _end(lives[-1], is_followed=True)
                lives.append(Life(member_id, len(lives), event.ns, event.ns))
            elif lives:
                self._add(lives[-1], event)
        if lives:
            _end(lives[-1], is_followed=False)
        return lives

    def _add(self, life: Life, event: TraceEvent) -> None:
        life.last_ns = event.ns
        fields = event.fields
        if event.event in _MESSAGES:
            name = str(fields.get("message"))
            if name not in _HEARTBEATS:
                self.messages[event.event, name].append(Moment(life.member_id, life.number, event.ns, fields))
            return
        moment = Moment(life.member_id, life.number, event.ns, fields)
        match event.event:
            case TraceKind.ELECTION_STATE:
                _move(life.elections, str(fields.get("state")), moment)
            case TraceKind.MODULE_STATE:
                _move(life.modules, str(fields.get("new")), moment)
            case TraceKind.PROCESS_END if fields.get("component") in OF_MODULE:
                life.status = moment.integer("status")
            case _:
                self.events[event.event].append(moment)


def _move(spans: list[Span], state: str, moment: Moment) -> None:
    span = Span(state, moment)
    if spans:
        span.previous, spans[-1].next, spans[-1].end_ns = spans[-1], span, moment.ns
    spans.append(span)


def _end(life: Life, *, is_followed: bool) -> None:
    for spans in (life.elections, life.modules):
        if spans:
            spans[-1].end_ns = life.last_ns
            spans[-1].has_died = is_followed and life.status != 0
