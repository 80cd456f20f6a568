"""Sessions that one member was asked for: a follower has to redirect the client to the leader, which opens it.

`attempts.jsonl` has each attempt of a client that knew a single member. It counts if the member followed or led, one
member led, the cluster had sessions to spare, and nothing was done to it all the while. This module knows no promise.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from upheaval.checkers.evidence.leader_clocks import LeaderClock
from upheaval.checkers.evidence.spans import MemberSpans, Span
from upheaval.checkers.evidence.troubles import MARGIN_NS, Trouble
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import ConnectAnswer, ConnectAttempt
from upheaval_node.types import MS, S

_ANSWERS: Final = {ConnectAnswer.NONE: "got no session", ConnectAnswer.REFUSED: "was refused a session"}


def missed_openings(
    attempts: Iterable[ConnectAttempt],
    spans: Sequence[MemberSpans],
    clocks: Iterable[LeaderClock],
    troubles: Sequence[Trouble],
    session_ns: int,
    full: Sequence[tuple[int, int]] = (),
) -> Iterator[Broken]:
    """The attempts that had to lead to a session and did not. `session_ns` is the session time-out, and `full` is when
    the cluster had as many sessions as it may have.
    """
    leaders = sorted(clocks, key=lambda clock: clock.ready_ns)
    for attempt in attempts:
        answer, member = _ANSWERS.get(attempt.answer), attempt.member
        if answer is None or member is None or attempt.begin_ns is None or member >= len(spans):
            continue
        begin_ns, end_ns = attempt.begin_ns - MARGIN_NS, attempt.ended_ns
        # The clock of a member's earlier term says nothing of when it was busy in a later one.
        latest = {clock.member_id: clock for clock in leaders if 0 <= clock.ready_ns <= begin_ns}
        leader = next((clock for clock in latest.values() if _serves(clock, spans, begin_ns, end_ns, session_ns)), None)
        is_calm = not any(trouble.is_within(begin_ns, end_ns) for trouble in troubles)
        if leader is None or not is_calm or not _takes_part(spans[member], begin_ns, end_ns):
            continue
        # A leader counts a session from its request, and the log has it only when the client is connected.
        if any(since <= end_ns + MARGIN_NS and begin_ns <= until for since, until in full):
            continue
        waited_ms = (end_ns - attempt.begin_ns) // MS
        detail = (
            f"a client that knew member {member} alone {answer} within {waited_ms} ms, up to {end_ns / S:.3f} s of "
            f"the machine's clock, where member {leader.member_id} led term {leader.leadership_term_id} and nothing "
            "was done to the cluster"
        )
        yield Broken(Verdict.INVALID, detail, members=(member,), late_ms=waited_ms)


def _serves(clock: LeaderClock, spans: Sequence[MemberSpans], begin_ns: int, end_ns: int, session_ns: int) -> bool:
    """Whether the leader of a term led, and accepted requests, during a whole interval.

    While it accepts none, clients give up and ask again. When it goes on, what they asked before may take all sessions
    that it has, until these time out.
    """
    is_busy = any(
        since <= end_ns and begin_ns < until + (session_ns if until - since > MARGIN_NS else 0)
        for since, until in clock.busy
    )
    return not is_busy and any(_covers(led, begin_ns, end_ns) for led in spans[clock.member_id].led)


def _takes_part(member: MemberSpans, begin_ns: int, end_ns: int) -> bool:
    """Whether a member followed or led during a whole interval."""
    is_electing = any(span.begin_ns <= end_ns and begin_ns <= span.end_ns for span in member.elections)
    return not is_electing and any(_covers(there, begin_ns, end_ns) for there in member.there)


def _covers(span: Span, begin_ns: int, end_ns: int) -> bool:
    return span.begin_ns <= begin_ns and end_ns <= span.end_ns
