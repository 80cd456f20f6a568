"""The promise of progress: while a leader and a quorum with it are well, clients get their answers in time.

Judged by the history, the members' traces and the faults of the run. Members do not count from the beginning of a fault
up to one bound after its end, and the others must do without them. Stalls of the members and of the clients explain a
silence as long as they are. A custom service answers when it likes, so a call waits until the log has it.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.call_times import CallTimes
from upheaval.checkers.evidence.protocol_events import quorum_of
from upheaval.checkers.evidence.stalls import explained
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.evidence.troubles import Trouble, calm_times, failover_ns, same_quorum, timeouts_of, troubles
from upheaval.checkers.history.columns import IS_CALL, IS_FAIL, IS_OK, History, in_order
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import ALL_DOWN, LEADER, Rule, Signature
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict, with_all
from upheaval.records import Manifest, RunFolder
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS

_SERVES: Final = "CLOSED"
"""The state of a finished election."""
_LOST_MAX: Final = 2
"""How many answers of one session may get lost before that says something about the cluster."""
_UNKNOWN: Final = -1
"""Where it is not known when a client stopped waiting."""
_TAKES: Final = "ACTIVE"
"""The state of a module that accepts requests."""


@dataclass(slots=True)
class _Service:
    """An interval in which a member was in a term without an election, and whether its module accepted requests."""

    member_id: int
    is_leader: bool
    takes: bool
    begin_ns: int
    end_ns: int = NEVER_NS


@dataclass(frozen=True, slots=True)
class _Silence:
    """The requests of one session in an interval in which no client was answered."""

    begin_ns: int
    end_ns: int
    answered_ns: int
    """The last answer of the session before the interval."""
    waited_ns: int
    """When the first request was made that was answered after the interval; `NEVER_NS` for none."""
    never: Sequence[int]
    """When the requests were made that were never answered."""

    def within(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """The part of an interval in which its client certainly waited; empty if nothing shows that.

        A client that was never answered may have given up at any time.
        """
        begin_ns, end_ns = max(begin_ns, self.begin_ns), min(end_ns, self.end_ns)
        asked = [ns for ns in self.never if begin_ns <= ns <= end_ns]
        begun = asked if len(asked) > _LOST_MAX else []
        if self.waited_ns <= end_ns:
            return min([max(self.waited_ns, begin_ns), *begun]), end_ns
        return (begun[0], begun[-1]) if begun else (end_ns, end_ns)


def check_progress(
    run: RunFolder,
    manifest: Manifest,
    traces: Sequence[TraceFacts],
    history: History,
    calls: CallTimes | None = None,
    full_times: Callable[[], Iterable[tuple[int, int]]] = tuple,
) -> list[Result]:
    """Judge the silences. Without the times of calls, only operations of shipped services count.

    `full_times` is called where clients were lost: when the cluster had as many sessions as it may have.
    """
    asked = _Asked(history, list(_fault_moments(run)), calls)
    services = [service for member_id in range(manifest.members) for service in _services(run, member_id)]
    if not asked.sessions:
        why = "no session took an operation of a shipped service, or a call at a time that the log and a trace show"
        return [NotApplicable(Promise.PROGRESS, why)]
    leaders_ns = [service.begin_ns for service in services if service.is_leader]
    if not leaders_ns:
        return [NotApplicable(Promise.PROGRESS, "no trace shows a member that led")]
    stalls = {facts.member_id: facts.stalls for facts in traces}
    stalled_clients = [(stall.begin_ns, stall.end_ns) for stall in run.read_client_stalls()]
    # In these times the log may have taken calls.
    untimed = [] if calls is None else [Trouble(*span) for span in calls.untimed]
    # Each admin command counts: during a snapshot the module accepts no requests.
    commands = [Trouble(control.begin_ns, control.end_ns) for control in run.read_controls()]
    done = [*troubles(run, traces), *commands, *untimed]
    judge = _Judge(manifest, services, done, stalls, stalled_clients, list(run.read_faults()), traces, full_times)
    missed: list[Finding] = []
    # What clients asked before the first leader may be lost, and they need time to find it.
    first_ns = min(leaders_ns) + judge.allowed_ns
    for begin_ns, end_ns in pairwise(chain([first_ns], asked.answers(), [NEVER_NS])):
        if end_ns - begin_ns > judge.allowed_ns:
            judge.look_at(asked.silences(begin_ns, end_ns))
            judge.look_at_idle_leaders(begin_ns, asked.last_before(end_ns))
            judge.look_at_lost_clients(asked.asking_between, begin_ns, end_ns)
            missed += judge.take_worst()
    if missed:
        # A silence at another time may have another cause.
        return [with_all(sorted(missed, key=lambda finding: -finding.late_ms))]
    detail = (
        f"{asked.answer_count} answers, none later than {judge.allowed_ns // MS} ms after the one before it while "
        "clients asked in a session that the leader had answered, and it and a quorum with it were healthy"
    )
    return [Finding(Promise.PROGRESS, Verdict.VALID, detail)]


class _Asked:
    """The operations that clients asked for, and when each stopped waiting: at its answer, or when the log took its
    call.
    """

    def __init__(self, history: History, fault_moments: Sequence[int], calls: CallTimes | None) -> None:
        self.sessions: dict[int, array[int]] = {}
        """The rows that each session took. Sessions that were never answered are left out."""
        self._history = history
        self._fault_moments = fault_moments
        self._entries_ns = () if calls is None else calls.entries_ns
        self._released = self._releases(calls)
        for row, (kind, session) in enumerate(zip(history.kinds, history.sessions, strict=True)):
            if session is not None and not IS_FAIL[kind] and self._released[row] != _UNKNOWN:
                self.sessions.setdefault(session, array("I")).append(row)
        for session, rows in list(self.sessions.items()):
            if all(self._released[row] == NEVER_NS for row in rows):
                del self.sessions[session]
        self.answer_count = sum(map(IS_OK.__getitem__, history.kinds))
        self._first_ns = next(self.answers(), NEVER_NS)

    def _releases(self, calls: CallTimes | None) -> "array[int]":
        """When each row stopped waiting: `NEVER_NS` for never, `_UNKNOWN` without evidence."""
        history = self._history
        answered = zip(history.completed, history.kinds, strict=True)
        released = array("q", (completed if IS_OK[kind] else NEVER_NS for completed, kind in answered))
        if history.has_calls():
            for row in compress(range(len(history)), map(IS_CALL.__getitem__, history.kinds)):
                released[row] = _release_of(history.ids[row], calls)
        return released

    def answers(self) -> Iterator[int]:
        """The times of all answers and of all calls that the log took, in order."""
        history = self._history
        times = array("q", compress(history.completed, map(IS_OK.__getitem__, history.kinds)))
        times.extend(self._entries_ns)
        return map(times.__getitem__, in_order(times))

    def last_before(self, end_ns: int) -> int:
        """When a client last asked for an operation or a session before that time."""
        return max(filter(end_ns.__gt__, self._history.invoked), default=0)

    def asking_between(self, begin_ns: int, end_ns: int, pause_ns: int) -> list[tuple[int, int]]:
        """The times in an interval without answers in which clients asked, each up to its last request.

        Counts only requests whose end of waiting is known. While no client waits, as between two loads, no answer is
        missing: a pause that is longer than `pause_ns` ends such a time. Requests that were not sent before the first
        answer of the run count for nothing: a cluster may refuse the session of a client.
        """
        history = self._history
        asking = sorted(
            (max(begin_ns, invoked_ns), released_ns)
            for kind, invoked_ns, released_ns in zip(history.kinds, history.invoked, self._released, strict=True)
            if invoked_ns < end_ns
            and (self._first_ns <= begin_ns if IS_FAIL[kind] else released_ns != _UNKNOWN)
            and (begin_ns < invoked_ns or begin_ns < released_ns < NEVER_NS)
        )
        times: list[tuple[int, int]] = []
        is_waiting = False
        for asked_ns, released_ns in asking:
            if times and (is_waiting or asked_ns - times[-1][1] <= pause_ns):
                times[-1] = times[-1][0], asked_ns
            else:
                times.append((asked_ns, asked_ns))
            is_waiting = is_waiting or released_ns < NEVER_NS
        return times

    def silences(self, begin_ns: int, end_ns: int) -> Iterator[_Silence]:
        """For each session that was answered before, what its client waited for in an interval without answers.

        The clients' process certainly ran when it asked; members go on while it is stopped.
        """
        invoked, released = self._history.invoked, self._released
        moments = chain((invoked[row] for rows in self.sessions.values() for row in rows), self._fault_moments)
        last_ns = max(filter(end_ns.__gt__, moments), default=begin_ns)
        for rows in self.sessions.values():
            answered_ns = max((released[row] for row in rows if released[row] <= begin_ns), default=None)
            if answered_ns is None:
                continue
            later = (row for row in rows if end_ns <= released[row] < NEVER_NS)
            waited_ns = min((max(begin_ns, invoked[row]) for row in later), default=NEVER_NS)
            never = (invoked[row] for row in rows if released[row] == NEVER_NS and begin_ns < invoked[row] < end_ns)
            yield _Silence(begin_ns, last_ns, answered_ns, waited_ns, sorted(never))


def _release_of(call_id: int, calls: CallTimes | None) -> int:
    if calls is None:
        return _UNKNOWN
    if call_id in calls.missing:
        return NEVER_NS
    return max(calls.taken[call_id].latest_ns, 0) if call_id in calls.taken else _UNKNOWN


def _fault_moments(run: RunFolder) -> Iterator[int]:
    for fault in run.read_faults():
        yield fault.inject_end_ns
        if fault.heal_begin_ns is not None:
            yield fault.heal_begin_ns


def _services(run: RunFolder, member_id: int) -> Iterator[_Service]:
    folder = run.member(member_id)
    service: _Service | None = None
    is_over, leads, takes = False, False, True
    for event in folder.traced():
        match event.event:
            case TraceKind.PROCESS_START | TraceKind.PROCESS_END:
                is_over, leads, takes = False, False, True
            case TraceKind.ELECTION_STATE:
                is_over = event.fields.get("state") == _SERVES
                leads = event.fields.get("leader_member_id") == member_id
            case TraceKind.MODULE_STATE:
                takes = event.fields.get("new") == _TAKES
            case _:
                continue
        is_leader = is_over and leads
        if service is not None and (not is_over or (service.is_leader, service.takes) != (is_leader, takes)):
            service.end_ns = event.ns
            yield service
            service = None
        if service is None and is_over:
            service = _Service(member_id, is_leader, takes, event.ns)
    if service is not None:
        yield service


class _Judge:
    def __init__(
        self,
        manifest: Manifest,
        services: Sequence[_Service],
        troubles: Sequence[Trouble],
        stalls: Mapping[int, Sequence[tuple[int, int]]],
        stalled_clients: Sequence[tuple[int, int]],
        faults: Sequence[FaultRecord],
        traces: Sequence[TraceFacts],
        full_times: Callable[[], Iterable[tuple[int, int]]],
    ) -> None:
        self._missed: list[Finding] = []
        # As long as a change of leader may take, although none is needed here.
        timeouts = timeouts_of(manifest)
        self.allowed_ns = failover_ns(timeouts)
        # A client may notice the end of its session, and of the next one, only by a time-out.
        self._found_again_ns = self.allowed_ns + 2 * timeouts.session_ns
        self._services = services
        self._troubles = troubles
        self._quorum = quorum_of(manifest.members)
        self._stalls = stalls
        self._stalled_clients = stalled_clients
        self._faults = faults
        self._lives = [life for facts in traces for life in facts.lives]
        self._full_times = full_times

    def take_worst(self) -> list[Finding]:
        """What the silence since the last call is reported by, whichever sessions and leaders it concerns."""
        worst = sorted(self._missed, key=lambda finding: (finding.verdict, finding.late_ms))[-1:]
        self._missed.clear()
        return worst

    def look_at(self, silences: Iterable[_Silence]) -> None:
        """Keep each silence that nothing explains."""
        for silence in silences:
            begin_ns, end_ns = silence.within(silence.begin_ns, silence.end_ns)
            for leader in self._services if end_ns - begin_ns > self.allowed_ns else ():
                # Clients of another leader may not know the new one yet, or ask in a closed session.
                if leader.is_leader and leader.takes and leader.begin_ns <= silence.answered_ns:
                    until_ns = self._begin_of_trouble(leader.member_id, begin_ns, end_ns)
                    self._look_at_parts(Rule.SILENT_LEADER, leader, begin_ns, until_ns, self.allowed_ns, silence)

    def look_at_idle_leaders(self, begin_ns: int, asked_ns: int) -> None:
        """Keep each leader that took no request although the log did not suspend it.

        The commands in the log set a module's state, and a quorum shares the log. While modules of others are active,
        no command has suspended the cluster.
        """
        for leader in self._services:
            if leader.is_leader and not leader.takes:
                self._look_at_parts(Rule.IDLE_LEADER, leader, begin_ns, asked_ns, self.allowed_ns)

    def look_at_lost_clients(
        self, asking_between: Callable[[int, int, int], Iterable[tuple[int, int]]], begin_ns: int, end_ns: int
    ) -> None:
        """Keep each leader that no client reached, although clients asked for longer than they need to find one.

        A fault of any member may mislead them, and a leader refuses them while it has as many sessions as it may.
        """
        done = [(trouble.begin_ns, trouble.end_ns) for trouble in self._troubles]
        of_any = [Trouble(*span) for span in (*done, *self._full_times())]
        for calm in calm_times(of_any, 0, begin_ns, end_ns, self.allowed_ns):
            for since_ns, asked_ns in asking_between(*calm, self._found_again_ns):
                for leader in self._services:
                    if leader.is_leader and leader.takes:
                        self._look_at_parts(Rule.LOST_CLIENTS, leader, since_ns, asked_ns, self._found_again_ns)

    def _begin_of_trouble(self, member_id: int, begin_ns: int, end_ns: int) -> int:
        """When the first fault of the member within an interval or shortly before it began; the end without one.

        After a fault of its leader a session may be over.
        """
        since_ns = begin_ns - self.allowed_ns
        hits = (trouble.begin_ns for trouble in self._troubles if trouble.hits(member_id, since_ns, end_ns))
        return min(hits, default=end_ns)

    def _look_at_parts(
        self,
        rule: Rule,
        leader: _Service,
        begin_ns: int,
        end_ns: int,
        allowed_ns: int,
        silence: _Silence | None = None,
    ) -> None:
        """Keep the parts of an interval that are longer than allowed and in which the leader and one quorum were well.
        With a silence, its client certainly waited in them, too.
        """
        begin_ns, end_ns = max(begin_ns, leader.begin_ns), min(end_ns, leader.end_ns)
        if end_ns - begin_ns <= allowed_ns:
            return
        well = [
            (service.member_id, *calm)
            for service in self._services
            if service.takes or service is leader
            for calm in self._calm_times(service, begin_ns, end_ns)
        ]
        for its_begin_ns, its_end_ns in [(since, until) for who, since, until in well if who == leader.member_id]:
            for since_ns, until_ns, members in same_quorum(well, self._quorum, its_begin_ns, its_end_ns):
                if silence is not None:
                    since_ns, until_ns = silence.within(since_ns, until_ns)
                if until_ns - since_ns > allowed_ns:
                    self._miss(rule, leader, members, since_ns, until_ns, allowed_ns)

    def _calm_times(self, service: _Service, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        since_ns, until_ns = max(begin_ns, service.begin_ns), min(end_ns, service.end_ns)
        return calm_times(self._troubles, service.member_id, since_ns, until_ns, self.allowed_ns)

    def _miss(
        self, rule: Rule, leader: _Service, well: Sequence[int], begin_ns: int, end_ns: int, allowed_ns: int
    ) -> None:
        silent_ns = end_ns - begin_ns
        idle = "" if leader.takes else " with a module that was not active"
        detail = (
            f"no client was answered for {silent_ns // MS} ms while clients asked, "
            f"member {leader.member_id} led{idle}, "
            f"and members {', '.join(map(str, well))} were healthy (allowed: {allowed_ns // MS} ms)"
        )
        late_ns = silent_ns - allowed_ns
        late_ms = -(-late_ns // MS)
        entry = ALL_DOWN if rule is Rule.LOST_CLIENTS and self._were_all_down(leader.begin_ns) else ""
        finding = Finding(
            Promise.PROGRESS,
            Verdict.INVALID,
            detail,
            members=tuple(well),
            late_ms=late_ms,
            signature=Signature(rule, role=LEADER, entry=entry, fault=self._faults_within(begin_ns, end_ns)),
            when_ns=(begin_ns, end_ns),
        )
        stalls = [stall for member_id in well for stall in self._stalls.get(member_id, ())]
        stalls += self._stalled_clients
        self._missed.append(explained(finding, stalls, begin_ns, end_ns, "they and the clients"))

    def _were_all_down(self, until_ns: int) -> bool:
        """Whether at some moment before that all members had run and none did."""
        every = {life.member_id for life in self._lives}
        for moment_ns in (life.last_ns for life in self._lives if life.last_ns < until_ns):
            begun = [life for life in self._lives if life.begin_ns <= moment_ns]
            if all(life.last_ns <= moment_ns for life in begun) and {life.member_id for life in begun} == every:
                return True
        return False

    def _faults_within(self, begin_ns: int, end_ns: int) -> str:
        """The faults of members in an interval, with the component of each."""
        kinds = (
            f"{fault.what} {fault.component or ''}".strip()
            for fault in self._faults
            if fault.inject_begin_ns <= end_ns and (fault.heal_end_ns is None or begin_ns <= fault.heal_end_ns)
        )
        return ", ".join(sorted(set(kinds)))


PROGRESS: Final = Checker(
    "progress",
    (Promise.PROGRESS,),
    OF_LOG | {Source.HISTORY, Source.STALLS, Source.CONTROLS},
    lambda evidence: check_progress(
        evidence.run,
        evidence.manifest,
        evidence.traces,
        evidence.operations,
        evidence.call_times,
        lambda: evidence.full_times,
    ),
)
