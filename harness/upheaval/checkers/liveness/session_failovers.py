"""The promise about sessions under a new leader: they stay open, and their clients learn of the new leader.

A leader that ran before its election gives each open session a full time-out and informs its client (NewLeaderEvent) of
itself. A leader that has just started closes all sessions: no client is connected after a start. Judged by the log and
by what clients recorded, while the leader had no fault.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.events import LogEvents, SessionFacts, units_of_ms
from upheaval.checkers.evidence.leader_clocks import LeaderClock, clocks_by_term
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.stalls import excused
from upheaval.checkers.evidence.troubles import MARGIN_NS, Trouble, timeouts_of
from upheaval.checkers.liveness.client_times import liveness_ns
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict, raise_latest
from upheaval.records import OWN_SYSTEM, SessionCause, SessionEnd
from upheaval_node.protocol.cluster_messages import CloseReason
from upheaval_node.types import MS, NEVER_NS, S

INFORM_NS: Final = S
"""A leader reaches its clients within that time: they dial all members as soon as they miss the old leader."""


@dataclass(frozen=True, slots=True)
class Failovers:
    """Facts beside the log. `clients_wait`: clients certainly wait for the message of a new leader."""

    session_ns: int
    heartbeat_ns: int
    liveness_ns: int
    """The shortest time that a silent connection stays open."""
    ends: Sequence[SessionEnd]
    troubles: Sequence[Trouble]
    clocks: Mapping[int, LeaderClock]
    clients_wait: bool = True


def judge_failovers(known: Failovers, events: LogEvents) -> list[Result]:
    """Judge sessions across changes of leader."""
    judge = _Judge(known, events)
    try:
        for end in known.ends:
            facts = events.sessions.get(end.session)
            if facts is not None and facts.opened and facts.open_term == end.leadership_term_id:
                judge.look_at(end, facts)
        raise_latest(judge.missed)
    except Broken as broken:
        return [broken.finding(Promise.SESSIONS_OUTLIVE_LEADERS)]
    if not judge.lived_on:
        why = "clients recorded no session that was open when the leader changed"
        return [NotApplicable(Promise.SESSIONS_OUTLIVE_LEADERS, why)]
    detail = f"sessions lived on under a new leader {judge.lived_on} times"
    return [Finding(Promise.SESSIONS_OUTLIVE_LEADERS, Verdict.VALID, detail)]


class _Judge:
    def __init__(self, known: Failovers, events: LogEvents) -> None:
        self.missed: list[Broken] = []
        self.lived_on = 0
        """How often a session was open in a term after that of its opening."""
        self._known = known
        self._times = events.times
        self._unit = units_of_ms(events.time_unit)

    def look_at(self, end: SessionEnd, facts: SessionFacts) -> None:
        """Judge a session in each term of a new leader, up to the one in which it closed."""
        self._require_leader(end)
        for clock in self._successors(facts):
            self.lived_on += 1
            self._require_time(end, facts, clock)
            if end.cause is SessionCause.LOST and self._known.clients_wait:
                self._require_word(end, facts, clock)

    def _require_leader(self, end: SessionEnd) -> None:
        """The leader that its client followed is the one that led. Raises `Broken`."""
        term, named = end.followed_term_id, end.followed_member_id
        clock = None if term is None else self._known.clocks.get(term)
        if clock is None or named is None or named == clock.member_id:
            return
        detail = (
            f"the client of session {end.session} followed member {named} in term {term}, which member "
            f"{clock.member_id} led ({clock.where})"
        )
        at = self._times.get(clock.leadership_term_id)
        position = None if at is None else at.earliest[1]
        raise Broken(Verdict.INVALID, detail, members=(clock.member_id,), position=position)

    def _successors(self, facts: SessionFacts) -> Iterator[LeaderClock]:
        assert facts.open_term is not None
        last = None if facts.ended is None else facts.ended[0]
        for term, clock in self._known.clocks.items():
            is_open = term > facts.open_term and (last is None or term <= last)
            if is_open and term in self._times and clock.ready_ns >= 0 and not clock.is_startup:
                yield clock

    def _require_time(self, end: SessionEnd, facts: SessionFacts, clock: LeaderClock) -> None:
        """A session that its term closed by time-out had a full time-out from the leader's first moment on."""
        if facts.ended is None or facts.ended[0] != clock.leadership_term_id:
            return
        (position, reason), closed_ns = facts.closed[0], clock.ns_of(facts.ended[1], self._unit)
        if reason != CloseReason.TIMEOUT or self._may_be_closed_at_once(end, facts, clock, closed_ns):
            return
        last_ns = clock.ready_ns
        if facts.last is not None and facts.last[0] == clock.leadership_term_id:
            last_ns = max(last_ns, clock.ns_of(facts.last[1], self._unit))
        known = self._known
        # A client that does not look for a new leader has no connection to it.
        due_ns = known.session_ns if end.cause is SessionCause.SILENT else known.liveness_ns
        early_ns = due_ns - (closed_ns - last_ns) - clock.slack_ns
        if early_ns <= 0 or self._is_troubled(clock, clock.ready_ns, closed_ns):
            return
        detail = (
            f"session {end.session} closed at position {position} by time-out, {(closed_ns - last_ns) // MS} ms after "
            f"member {clock.member_id} began to lead term {clock.leadership_term_id} or had its last message, at "
            f"{closed_ns / S:.3f} s of the machine's clock (time-out: {known.session_ns // MS} ms)"
        )
        self._miss(detail, clock, early_ns, position)

    def _may_be_closed_at_once(self, end: SessionEnd, facts: SessionFacts, clock: LeaderClock, closed_ns: int) -> bool:
        """Whether its client had left, or an earlier leader had closed it.

        A client that learns of the end of its session disconnects from all members. The new leader sees a lost
        connection and closes the session, although it did not decide that.
        """
        had_gone = end.ended_ns <= closed_ns + clock.slack_ns
        if had_gone and end.cause in (SessionCause.LOST, SessionCause.CLIENT):
            return True
        assert facts.open_term is not None
        earlier = [
            leader for term, leader in self._known.clocks.items() if facts.open_term <= term < clock.leadership_term_id
        ]
        if any(leader.member_id == clock.member_id for leader in earlier):
            return True
        has_learned = had_gone and end.cause is SessionCause.CLUSTER
        return has_learned and any(
            _may_have_ended(leader, end, facts, clock) or self._may_have_timed_out(leader, end, facts)
            for leader in earlier
        )

    def _may_have_timed_out(self, earlier: LeaderClock, end: SessionEnd, facts: SessionFacts) -> bool:
        """Whether a leader that was cut off closed the session by time-out before it gave up its term.

        No quorum has the entry, and its message may reach the client when the next leader has the session open.
        """
        last = facts.last_by_term.get(earlier.leadership_term_id)
        if last is None or earlier.left_position is None:
            return False
        known = self._known
        due_ns = earlier.ns_of(last, self._unit) + known.session_ns - earlier.slack_ns
        is_due = due_ns <= min(earlier.end_ns, end.ended_ns)
        was_cut_off = self._is_troubled(earlier, earlier.end_ns - known.heartbeat_ns - MARGIN_NS, earlier.end_ns)
        return is_due and was_cut_off and end.ended_ns <= earlier.end_ns + known.session_ns

    def _require_word(self, end: SessionEnd, facts: SessionFacts, clock: LeaderClock) -> None:
        """While the new leader has a session open, its client must not give it up for lack of a leader."""
        term = clock.leadership_term_id
        if end.followed_term_id is None or end.followed_term_id >= term:
            return
        is_closed = facts.ended is not None and facts.ended[0] == term
        if is_closed and facts.ended is not None and clock.ns_of(facts.ended[1], self._unit) <= end.ended_ns:
            return
        is_led = end.ended_ns < clock.end_ns < NEVER_NS
        waited_ns = end.ended_ns - clock.ready_ns
        late_ns = waited_ns - clock.busy_ns(clock.ready_ns, end.ended_ns) - INFORM_NS
        if not is_led or late_ns <= 0 or self._is_troubled(clock, clock.ready_ns, end.ended_ns):
            return
        detail = (
            f"the client of session {end.session} found no leader up to {end.ended_ns / S:.3f} s of the machine's "
            f"clock, where member {clock.member_id} had led term {term} for {waited_ns // MS} ms with the session "
            f"open (allowed: {INFORM_NS // MS} ms)"
        )
        self._miss(detail, clock, late_ns, self._times[term].earliest[1])

    def _miss(self, detail: str, clock: LeaderClock, by_ns: int, position: int) -> None:
        late_ms = -(-by_ns // MS)
        self.missed.append(
            Broken(Verdict.INVALID, detail, members=(clock.member_id,), position=position, late_ms=late_ms)
        )

    def _is_troubled(self, clock: LeaderClock, begin_ns: int, end_ns: int) -> bool:
        return any(trouble.hits(clock.member_id, begin_ns, end_ns) for trouble in self._known.troubles)


def _may_have_ended(earlier: LeaderClock, end: SessionEnd, facts: SessionFacts, successor: LeaderClock) -> bool:
    """Whether a leader of an earlier term may have informed the client that its session is closed.

    A leader that does not know of its successor goes on closing sessions by its own clock, for example when it wakes up
    from a pause. A deposed leader ends the sessions whose opening was not committed, although the successor's log may
    have the opening.
    """
    is_deposed_late = successor.ready_ns <= earlier.end_ns and end.ended_ns <= earlier.end_ns + INFORM_NS
    is_opening_left = (
        earlier.leadership_term_id == facts.open_term
        and earlier.left_position is not None
        and earlier.left_position < facts.opened[0]
    )
    return is_deposed_late or is_opening_left


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    manifest = evidence.manifest
    timeouts = timeouts_of(manifest)
    known = Failovers(
        timeouts.session_ns,
        timeouts.leader_heartbeat_ns,
        liveness_ns(manifest),
        evidence.session_ends,
        evidence.troubles,
        clocks_by_term(evidence.clocks),
        # The bridge of Aeron's clients does not say whether cluster or client ended a session.
        clients_wait=manifest.system == OWN_SYSTEM,
    )
    return excused(judge_failovers(known, log.events), lambda: evidence.stall_with_clients)


SESSION_FAILOVERS: Final = by_log(
    "session-failovers", (Promise.SESSIONS_OUTLIVE_LEADERS,), _check, {Source.SESSIONS, Source.STALLS, Source.CONTROLS}
)
