"""The promise about clients' time: answers and sessions come in time, and the cluster times out silent sessions alone.

`sessions.jsonl` says when a client left. The log says when its session ended, in the leader's time; the leader's trace
relates that to the clock of the host. Each fault and each admin command restarts a time-out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.call_times import TakenCall
from upheaval.checkers.evidence.events import LogEvents, SessionFacts, units_of_ms
from upheaval.checkers.evidence.leader_clocks import ROUNDING_MS, LeaderClock, clocks_by_term
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.positions import completed_ns, finals_of
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.stalls import excused
from upheaval.checkers.evidence.troubles import Trouble, failover_ns, timeouts_of
from upheaval.checkers.liveness.openings import missed_openings
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict, raise_latest
from upheaval.records import Function, Manifest, Operation, Outcome, RunFolder, SessionCause, SessionEnd
from upheaval_node.client.connect import MESSAGE_TIMEOUT_NS
from upheaval_node.protocol.cluster_messages import CloseReason
from upheaval_node.settings import profile_settings
from upheaval_node.types import MS, S

MARGIN_NS: Final = S
"""Added to every bound, for delays that have no time-out of their own."""


@dataclass(frozen=True, slots=True)
class ClientTimes:
    """Facts about clients that history and log do not hold, and how long clients may have to wait."""

    answer_ns: int = 0
    """The longest wait for an answer, with a change of leader."""
    session_ns: int = 0
    """The session time-out."""
    liveness_ns: int = 0
    """The shortest time that a silent connection stays open."""
    ends: tuple[SessionEnd, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    """The faults and admin commands of the run."""
    completed_ns: int = 0
    """When the run had converged in term `last_term`; 0 if it did not."""
    last_term: int = -1

    @property
    def disturbances(self) -> list[tuple[int, int]]:
        """The times of faults and admin commands, in order."""
        return sorted((trouble.begin_ns, trouble.end_ns) for trouble in self.troubles)


def liveness_ns(manifest: Manifest) -> int:
    """The shortest life of a session when both client and connection are silent."""
    media = profile_settings(manifest.profile).media
    return min(timeouts_of(manifest).session_ns, media.connection_timeout_ns, media.image_liveness_timeout_ns)


def client_times(run: RunFolder, manifest: Manifest, troubles: Sequence[Trouble]) -> ClientTimes:
    """Read the small files of the run. Raises `UsageError` for a malformed line."""
    timeouts, finals = timeouts_of(manifest), finals_of(manifest)
    return ClientTimes(
        failover_ns(timeouts) + MESSAGE_TIMEOUT_NS,
        timeouts.session_ns,
        liveness_ns(manifest),
        tuple(run.read_session_ends()),
        tuple(troubles),
        completed_ns(manifest),
        finals[0].leadership_term_id if finals else -1,
    )


def is_slow(operation: Operation, known: ClientTimes) -> bool:
    """Whether the answer took too long. A custom service answers when it likes, so of a call the log entry counts."""
    if operation.f is Function.CALL or operation.outcome is not Outcome.OK or operation.complete_ns is None:
        return False
    return operation.complete_ns - operation.invoke_ns > known.answer_ns


def judge_client_times(
    known: ClientTimes,
    slow: Iterable[Operation],
    events: LogEvents,
    clocks: Iterable[LeaderClock],
    taken: Iterable[TakenCall] = (),
    openings: Iterable[Broken] = (),
) -> list[Result]:
    """Judge answers and session time-outs. `openings` are missed openings of sessions."""
    missed = [broken for operation in slow if (broken := _late_answer(operation, known))]
    missed += openings
    missed += [broken for call in taken if (broken := _late_entry(call, known))]
    judge = _Sessions(known, events, clocks)
    judged = 0
    try:
        raise_latest(missed)
        for end in known.ends:
            facts = events.sessions.get(end.session)
            if facts is not None and facts.opened and facts.open_term == end.leadership_term_id:
                judge.look_at(end, facts)
                judged += end.cause is not SessionCause.OPEN
        raise_latest(judge.missed)
    except Broken as broken:
        return [broken.finding(Promise.CLIENTS_IN_TIME)]
    if not any(facts.opened for facts in events.sessions.values()):
        return [NotApplicable(Promise.CLIENTS_IN_TIME, "no session was opened")]
    detail = f"{judged} sessions ended when their clients were gone (allowed: {judge.allowed_ns // MS} ms)"
    return [Finding(Promise.CLIENTS_IN_TIME, Verdict.VALID, detail)]


def _late_answer(operation: Operation, known: ClientTimes) -> Broken | None:
    assert operation.complete_ns is not None
    late_ns = operation.complete_ns - _due_ns(operation.invoke_ns, known.answer_ns, known.disturbances)
    if late_ns <= 0:
        return None
    detail = (
        f"{operation} was answered only after {(operation.complete_ns - operation.invoke_ns) // MS} ms (allowed: "
        f"{known.answer_ns // MS} ms from then, or from what was done to the cluster)"
    )
    late_ms = -(-late_ns // MS)
    return Broken(Verdict.INVALID, detail, position=operation.position, operation=operation.id, late_ms=late_ms)


def _late_entry(taken: TakenCall, known: ClientTimes) -> Broken | None:
    call = taken.call
    if taken.earliest_ns - call.invoke_ns <= known.answer_ns:
        return None
    # `leaderless` judges the time without a leader.
    begin_ns = max(call.invoke_ns, taken.ready_ns)
    late_ns = taken.earliest_ns - _due_ns(begin_ns, known.answer_ns, sorted([*known.disturbances, *taken.busy]))
    if late_ns <= 0:
        return None
    waited_ms = (taken.earliest_ns - call.invoke_ns) // MS
    detail = (
        f"call {call.key} (operation {call.id}) is in the log only {waited_ms} ms after it was sent, at position "
        f"{taken.position} (allowed: {known.answer_ns // MS} ms from then, or from what was done to the cluster)"
    )
    return Broken(
        Verdict.INVALID,
        detail,
        members=(taken.member_id,),
        position=taken.position,
        operation=call.id,
        late_ms=-(-late_ns // MS),
    )


def _due_ns(start_ns: int, allowed_ns: int, disturbances: Iterable[tuple[int, int]]) -> int:
    """When a time-out that begins at a moment ends. Each disturbance within it restarts it."""
    for begin_ns, end_ns in disturbances:
        if begin_ns <= start_ns + allowed_ns:
            start_ns = max(start_ns, end_ns)
    return start_ns + allowed_ns


class _Sessions:
    """Compares the ends of sessions in the log with what their clients recorded."""

    def __init__(self, known: ClientTimes, events: LogEvents, clocks: Iterable[LeaderClock]) -> None:
        self.missed: list[Broken] = []
        self.allowed_ns = known.session_ns + known.session_ns // 10 + MARGIN_NS
        self._known = known
        self._times = events.times
        self._unit = units_of_ms(events.time_unit)
        self._clocks = clocks_by_term(clocks)

    def look_at(self, end: SessionEnd, facts: SessionFacts) -> None:
        """Raises `Broken` for an end that must not be. Keeps an end that came late or never."""
        if facts.closed:
            self._require_reason(end, facts)
        for term, clock in self._clocks.items():
            if facts.open_term is None or term < facts.open_term or term not in self._times:
                continue
            if facts.ended is not None and facts.ended[0] < term:
                break
            self._look_at_term(end, facts, clock)

    def _require_reason(self, end: SessionEnd, facts: SessionFacts) -> None:
        position, reason = facts.closed[0]
        if reason == CloseReason.CLIENT_ACTION and end.cause is not SessionCause.CLIENT:
            detail = f"session {end.session} closed at position {position} by its client, which did not close it"
            raise Broken(Verdict.INVALID, detail, position=position)
        if reason != CloseReason.TIMEOUT or facts.ended is None:
            return
        term, timestamp = facts.ended
        clock = self._clocks.get(term)
        if clock is not None and end.followed_term_id == term and end.sent_ns is not None:
            self._require_taken(end, end.sent_ns, position, clock.ns_of(timestamp, self._unit), clock)
        if clock is None or facts.last is None or facts.last[0] != term:
            return
        silent_ns = (timestamp - facts.last[1]) * MS // self._unit + clock.slack_ns
        closed_ns = clock.ns_of(timestamp, self._unit)
        if end.cause is SessionCause.CLUSTER:
            due_ns, calm_ns = self._known.liveness_ns, closed_ns - self.allowed_ns
            is_calm = 0 <= clock.ready_ns < calm_ns
        elif end.cause is SessionCause.SILENT and end.held_ns is not None:
            # Its connection lives, so only its silence can end the session.
            due_ns, calm_ns = self._known.session_ns, clock.ns_of(facts.last[1], self._unit)
            is_calm = closed_ns < end.held_ns
        else:
            return
        is_calm &= not any(begin <= closed_ns and calm_ns <= until for begin, until in self._disturbances(clock))
        if is_calm and silent_ns < due_ns:
            detail = (
                f"session {end.session} closed at position {position} by time-out, {silent_ns // MS} ms after its last "
                f"message, while nothing was done to the cluster (time-out: {self._known.session_ns // MS} ms)"
            )
            late_ms = self._known.liveness_ns if end.cause is SessionCause.CLUSTER else due_ns - silent_ns
            raise Broken(
                Verdict.INVALID, detail, position=position, members=(clock.member_id,), late_ms=-(-late_ms // MS)
            )

    def _require_taken(self, end: SessionEnd, sent_ns: int, position: int, closed_ns: int, clock: LeaderClock) -> None:
        """The leader takes what the connection of a client took: keep-alives, and the request to close the session.

        Raises `Broken` for a time-out in a calm time. Half a time-out is long enough for a keep-alive to arrive.
        """
        calm_ns = min(closed_ns, end.ended_ns) - self._known.session_ns // 2
        until_ns = max(closed_ns, end.ended_ns)
        if not 0 <= clock.ready_ns < calm_ns or any(
            begin <= until_ns and calm_ns <= healed for begin, healed in self._disturbances(clock)
        ):
            return
        early_ns = self._known.session_ns - (closed_ns - sent_ns) - clock.slack_ns
        has_asked = end.cause is SessionCause.CLIENT and sent_ns >= end.ended_ns - ROUNDING_MS * MS
        is_kept = end.cause is SessionCause.CLUSTER and early_ns > self._known.session_ns // 2
        if not has_asked and not is_kept:
            return
        what = "after its client had asked to close it" if has_asked else "while its client kept it alive"
        detail = (
            f"session {end.session} closed at position {position} by time-out {what}, at {closed_ns / S:.3f} s of "
            f"the machine's clock, and nothing was done to the cluster"
        )
        raise Broken(
            Verdict.INVALID, detail, position=position, members=(clock.member_id,), late_ms=max(early_ns // MS, 1)
        )

    def _look_at_term(self, end: SessionEnd, facts: SessionFacts, clock: LeaderClock) -> None:
        """Check how long a session stays open in the log of a term after its time-out."""
        if clock.ready_ns < 0:
            return
        due_ns = _due_ns(max(end.ended_ns, clock.ready_ns), self.allowed_ns, self._disturbances(clock))
        term = clock.leadership_term_id
        if facts.ended is not None and facts.ended[0] == term:
            position, open_ns = facts.closed[0][0], clock.ns_of(facts.ended[1], self._unit)
        else:
            latest, position = self._times[term].latest
            open_ns = clock.ns_of(latest, self._unit)
            if term == self._known.last_term:
                open_ns = max(open_ns, self._known.completed_ns)
        late_ns = open_ns - due_ns - clock.slack_ns
        if late_ns <= 0:
            return
        detail = (
            f"session {end.session} was open for {(open_ns - end.ended_ns) // MS} ms without its client, up to "
            f"position {position} of term {term} (allowed: {self.allowed_ns // MS} ms)"
        )
        broken = Broken(
            Verdict.INVALID, detail, members=(clock.member_id,), position=position, late_ms=-(-late_ns // MS)
        )
        self.missed.append(broken)

    def _disturbances(self, clock: LeaderClock) -> Sequence[tuple[int, int]]:
        return sorted([*self._known.disturbances, *((begin, end) for begin, end in clock.busy)])


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    known = client_times(evidence.run, evidence.manifest, evidence.troubles)
    history = evidence.operations
    times = enumerate(zip(history.invoked, history.completed, strict=True))
    long = (history.at(row) for row, (invoke_ns, complete_ns) in times if complete_ns - invoke_ns > known.answer_ns)
    slow = [operation for operation in long if is_slow(operation, known)]
    calls = evidence.call_times
    taken = () if calls is None else calls.taken.values()
    attempts = evidence.run.read_attempts()
    openings = missed_openings(
        attempts, evidence.spans, evidence.clocks, known.troubles, known.session_ns, evidence.full_times
    )
    return excused(
        judge_client_times(known, slow, log.events, evidence.clocks, taken, openings),
        lambda: evidence.stall_with_clients,
    )


CLIENT_TIMES: Final = by_log(
    "client-times",
    (Promise.CLIENTS_IN_TIME,),
    _check,
    {Source.ATTEMPTS, Source.HISTORY, Source.SESSIONS, Source.STALLS, Source.CONTROLS},
)
