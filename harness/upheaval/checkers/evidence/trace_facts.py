"""Processes, progress and errors in the trace of a member: read once, judged elsewhere.

Pure facts; this module knows no promise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_LOOP, OF_MODULE
from upheaval.checkers.evidence.term_facts import TermFacts, TermReader
from upheaval.records import LOST_EVENTS, MemberFolder, RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, S

_BEFORE_START: Final = (TraceKind.CERTIFICATES_READ, TraceKind.ERROR)
"""Events that a process may trace before its start event: it reads certificates first."""
GAP_NS: Final = 5 * S
"""A process of a cluster sends or receives something more often than this while another member runs."""
_POSITIONS: Final = ("log_position", "commit_position", "append_position")
_TAKING: Final = "SNAPSHOT"
_SNAPSHOT: Final = "snapshot"
"""In the kinds of errors about snapshots."""
_TERMINATING: Final = "TERMINATING"
_NO_POSITION: Final = 1 << 62
"""Numbers from here on mean that there is no position."""


@dataclass(slots=True)
class ProcessLife:
    """One process of a member. `next_ns` is the start of the next one of its component; None without one."""

    member_id: int
    component: str
    line: int
    begin_ns: int
    last_ns: int
    booted_ms: int | None = None
    """The wall-clock time at which its monotonic clock was 0; None if its last line has no wall clock."""
    booted_at_begin_ms: int | None = None
    """The same by its first line. It differs from `booted_ms` if the wall clock was set while the process ran."""
    pid: int = -1
    version: str = ""
    """That of the system, in a member of Aeron."""
    is_ending: bool = False
    """Whether its cluster was ending, or its member was ending in order."""
    is_service_ending: bool = False
    """Whether its module ended a service."""
    has_failed: bool = False
    """Whether a component of our node ended it unexpectedly, and no service's own code. That ends its services, too."""
    cluster_end_ns: int | None = None
    """When its consensus module began to end with the cluster."""
    started_ns: int | None = None
    """When it traced its first line of an election."""
    end_line: int = 0
    status: int | None = None
    """None if it did not trace its end."""
    reason: str = ""
    """Why it ended, in words, in a member of Aeron."""
    next_ns: int | None = None
    next_booted_ms: int | None = None

    @property
    def has_started(self) -> bool:
        """Whether it reached an election."""
        return self.started_ns is not None

    def has_line(self, line: int) -> bool:
        """Whether the line is between its start and the end that it traced."""
        return self.line < line < self.end_line


@dataclass(frozen=True, slots=True)
class TracedError:
    """The first error of a kind that a process reported."""

    member_id: int
    line: int
    ns: int
    kind: str
    is_in_term: bool
    """Whether the member had joined a term."""
    where: str = ""
    """The class and method in which it was raised, in a member of Aeron."""
    component: str = ""
    """The process that reported it."""


@dataclass(frozen=True, slots=True)
class RaisedException:
    """An exception that a service raised at one place of its code, by the last line about it."""

    line: int
    """The line of the event with the traceback."""
    service_id: int
    callback: str
    error: str
    where: str
    """File, line and function in the service's code."""
    position: int
    """The log position at the first occurrence."""
    count: int
    """The least number of occurrences: a process traces the count only when it has doubled."""
    traceback: str


@dataclass(frozen=True, slots=True)
class ModuleMove:
    """A change of the consensus module's state, by the states' names."""

    line: int
    ns: int
    old: str
    new: str


@dataclass(slots=True)
class TraceFacts:
    """Facts of one member, or of a companion (then `member_id` is -1)."""

    member_id: int
    is_there: bool
    lives: list[ProcessLife] = field(default_factory=list)
    unstarted: TraceEvent | None = None
    """The first event of a process whose start is not in the trace."""
    entered: set[int] = field(default_factory=set)
    """The terms that the member entered."""
    position: int = -1
    """The highest log position that it names."""
    snapshots: dict[int, TraceEvent] = field(default_factory=dict)
    """By position, the event that ended a snapshot."""
    errors: list[TracedError] = field(default_factory=list)
    raised: list[RaisedException] = field(default_factory=list)
    lost: TraceEvent | None = None
    """The first event before which events were lost."""
    stalls: list[tuple[int, int]] = field(default_factory=list)
    """The interval of each traced stall."""
    folder: str = ""
    terms: dict[int, TermFacts] = field(default_factory=dict)
    """For each leadership term, when it led, and the positions that it sent and received."""
    services: set[int] = field(default_factory=set)
    """The ids of the services of which it has states."""
    module_moves: list[ModuleMove] = field(default_factory=list)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    """Intervals longer than GAP_NS in which a process traced no election or message, each with the next line."""
    backwards: TraceEvent | None = None
    """The first election or message event that is earlier than a previous one of the same process."""
    tls_peer: TraceEvent | None = None
    """Its first connection over TLS."""
    has_caught_up: bool = False
    """Whether it ever reported a position of an earlier part of a leader's log."""

    @property
    def name(self) -> str:
        """The trace's path in the run folder, for messages."""
        return f"{self.folder}/trace.jsonl"

    @property
    def components(self) -> set[str]:
        """The components whose starts it traced."""
        return {life.component for life in self.lives}

    @property
    def has_ended(self) -> bool:
        """Whether it ran, and the last process of each component traced its end."""
        return bool(self.lives) and all(life.status is not None or life.next_ns is not None for life in self.lives)

    @property
    def snapshot_failures(self) -> Sequence[int]:
        """The times of its errors about snapshots."""
        return [error.ns for error in self.errors if _SNAPSHOT in error.kind]


def ran_through(life: ProcessLife, begin_ns: int, end_ns: int) -> bool:
    """Whether it is a process with a consensus module that ran from before the one time to after the other."""
    return life.component in OF_MODULE and life.begin_ns <= begin_ns and end_ns <= life.last_ns


def has_failed(life: ProcessLife, snapshot_failures: Iterable[int], by_ns: int) -> bool:
    """Whether a snapshot had failed by then while the process ran. A process reports only its first failure."""
    return any(life.begin_ns <= ns <= by_ns for ns in snapshot_failures)


def facts_of_members(run: RunFolder, members: int) -> list[TraceFacts]:
    """The facts of all members. Raises `UsageError` for a malformed line."""
    return [facts_of(run.member(member_id)) for member_id in range(members)]


def facts_of(folder: MemberFolder) -> TraceFacts:
    """The facts of one member or companion. Raises `UsageError` for a malformed line."""
    facts = TraceFacts(folder.member_id, folder.trace.exists(), folder=folder.path.name)
    if not facts.is_there:
        return facts
    raised = _RaisedExceptions(facts)
    running: dict[str, ProcessLife] = {}
    latest: dict[str, int] = {}
    snapshots = _FinishedSnapshots(facts)
    terms = TermReader()
    for event in folder.read_trace():
        if LOST_EVENTS in event.fields and facts.lost is None:
            facts.lost = event
        component = str(event.fields.get("component", ""))
        terms.add(facts.member_id, event)
        if event.event == TraceKind.PROCESS_START:
            before = running.get(component)
            if before is not None:
                before.next_ns, before.next_booted_ms = event.ns, _booted_ms(event)
            begun = ProcessLife(facts.member_id, component, event.line, event.ns, event.ns, _booted_ms(event))
            begun.booted_at_begin_ms = begun.booted_ms
            begun.pid = event.number("pid")
            begun.version = str(event.fields.get("version") or "")
            running[component] = begun
            latest.pop(component, None)
            if component in OF_MODULE:
                snapshots.start()
            facts.lives.append(begun)
            continue
        life = running.get(component)
        if life is None or life.status is not None:
            if facts.unstarted is None and event.event not in _BEFORE_START:
                facts.unstarted = event
        else:
            if event.event in OF_LOOP:
                before_ns = latest.get(component, event.ns)
                if event.ns < before_ns and facts.backwards is None:
                    facts.backwards = event
                if event.ns - before_ns > GAP_NS:
                    facts.gaps.append((before_ns, event.ns, event.line))
                latest[component] = event.ns
            _add_to_life(life, event)
        _add(facts, event)
        snapshots.add(event)
        if event.event == TraceKind.SERVICE_RAISED:
            raised.add(event)
    facts.terms, facts.has_caught_up = terms.terms, terms.has_caught_up
    return facts


def _booted_ms(event: TraceEvent) -> int | None:
    epoch_ms = event.fields.get("epoch_ms")
    return epoch_ms - event.ns // MS if type(epoch_ms) is int else None


def _add_to_life(life: ProcessLife, event: TraceEvent) -> None:
    life.last_ns, life.booted_ms = event.ns, _booted_ms(event)
    if event.event == TraceKind.PROCESS_END:
        life.status = event.number("status")
        life.end_line = event.line
        life.reason = str(event.fields.get("reason") or "")
    elif event.event == TraceKind.ELECTION_STATE:
        life.started_ns = event.ns if life.started_ns is None else life.started_ns
    elif event.event == TraceKind.SERVICE_TERMINATE:
        life.is_service_ending = True
    elif event.event == TraceKind.TERMINATED:
        life.has_failed |= event.fields.get("expected") is False and event.fields.get("by_service") is not True
    elif event.event == TraceKind.CLUSTER_END or event.fields.get("new") == _TERMINATING:
        life.is_ending = True
        if event.event in (TraceKind.CLUSTER_END, TraceKind.MODULE_STATE) and life.cluster_end_ns is None:
            life.cluster_end_ns = event.ns


def _add(facts: TraceFacts, event: TraceEvent) -> None:
    fields = event.fields
    term = fields.get("leadership_term_id")
    if event.event == TraceKind.LEADERSHIP_TERM and type(term) is int:
        facts.entered.add(term)
    for name in _POSITIONS:
        position = fields.get(name)
        if type(position) is int and facts.position < position < _NO_POSITION:
            facts.position = position
    if event.event == TraceKind.ERROR:
        kind = str(fields.get("kind", ""))
        where, component = str(fields.get("where", "")), str(fields.get("component", ""))
        is_in_term = bool(facts.entered)
        facts.errors.append(TracedError(facts.member_id, event.line, event.ns, kind, is_in_term, where, component))
    elif event.event == TraceKind.SERVICE_STATE:
        facts.services.add(event.number("service_id"))
    elif event.event == TraceKind.MODULE_STATE:
        facts.module_moves.append(ModuleMove(event.line, event.ns, str(fields.get("old")), str(fields.get("new"))))
    elif event.event == TraceKind.TLS_PEER and facts.tls_peer is None:
        facts.tls_peer = event
    elif event.event == TraceKind.LOOP_STALL:
        stall_ns = fields.get("stall_ns")
        facts.stalls.append((event.ns - (stall_ns if type(stall_ns) is int else 0), event.ns))


@dataclass(slots=True)
class _RaisedExceptions:
    """Joins the counts that a process traces for one place."""

    facts: TraceFacts
    seen: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The index of an exception, by process and place."""

    def add(self, event: TraceEvent) -> None:
        fields = event.fields
        callback, error, where, traceback = (
            str(fields.get(name) or "") for name in ("callback", "error", "where", "traceback")
        )
        service_id, position, count = (event.number(name) for name in ("service_id", "log_position", "count"))
        kind = error.partition(":")[0]
        key = (fields.get("component"), fields.get("pid"), service_id, callback, kind, where)
        raised = self.facts.raised
        if key in self.seen and not traceback:
            index = self.seen[key]
            raised[index] = replace(raised[index], count=max(count, raised[index].count))
        else:
            self.seen[key] = len(raised)
            raised.append(RaisedException(event.line, service_id, callback, error, where, position, count, traceback))


@dataclass(slots=True)
class _FinishedSnapshots:
    """Follows the states of one module. It leaves SNAPSHOT when all is written, or when it gives the snapshot up."""

    facts: TraceFacts
    acked: int | None = None
    """The positions of the services' snapshots."""
    ended: TraceEvent | None = None
    has_failed: bool = False
    """A process traces only its first failure, so a later snapshot that it traces may have failed, too."""

    def start(self) -> None:
        """Follow the module of a new process."""
        self.acked, self.ended, self.has_failed = None, None, False

    def add(self, event: TraceEvent) -> None:
        fields = event.fields
        if event.event == TraceKind.ERROR and _SNAPSHOT in str(fields.get("kind")):
            self.has_failed = True
        elif event.event in (TraceKind.ELECTION_STATE, TraceKind.ROLE):
            self._give_up(event)
        elif event.event == TraceKind.SERVICE_ACK:
            position = fields.get("log_position")
            self.acked = position if type(position) is int else None
        elif event.event == TraceKind.MODULE_STATE and fields.get("new") == _TAKING:
            self.acked = None
        elif event.event == TraceKind.MODULE_STATE and fields.get("old") == _TAKING:
            self._end(event)

    def _end(self, event: TraceEvent) -> None:
        if self.acked is not None and not self.has_failed:
            self.ended = event
            self.facts.snapshots[self.acked] = event

    def _give_up(self, event: TraceEvent) -> None:
        """An election puts the module back into its initial state at once."""
        if self.acked is not None and self.ended is not None and self.ended.ns == event.ns:
            self.facts.snapshots.pop(self.acked, None)
        self.acked = None
