"""Sessions live on under a new leader, which tells their clients: the rules on values, without files."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.events import LogEvents, SessionFacts
from upheaval.checkers.evidence.leader_clocks import LeaderClock
from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.liveness.session_failovers import Failovers, judge_failovers
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict
from upheaval.records import SessionCause, SessionEnd
from upheaval_node.protocol.cluster_messages import CloseReason
from upheaval_node.types import NEVER_NS, S

# The wall clock of the leaders is a million seconds ahead of the monotonic one.
OFFSET_MS = 10**9
FIRST = LeaderClock(0, 0, OFFSET_MS, OFFSET_MS + 20_000, 0, "member-0", OFFSET_MS, S, is_startup=True)
NEXT = LeaderClock(1, 2, OFFSET_MS, OFFSET_MS + 90_000, 0, "member-2", OFFSET_MS, 30 * S)
OPEN = SessionEnd(7, 0, 80 * S, SessionCause.OPEN, 1)
SILENT = SessionEnd(7, 0, 15 * S, SessionCause.SILENT, 0, 80 * S)
LOST = SessionEnd(7, 0, 40 * S, SessionCause.LOST, 0)


def log(closed_ms: int | None = None, reason: CloseReason = CloseReason.TIMEOUT, term: int = 1) -> LogEvents:
    """Of a session that opened at 2 s, in the term before."""
    events = LogEvents()
    for its_term, ms in ((0, 1_000), (1, 30_000), (1, 80_000)):
        events.add_time(its_term, ms, OFFSET_MS + ms)
    facts = events.session(7)
    facts.add_open(2_000, 0, OFFSET_MS + 2_000)
    facts.add_message(15_000, 0, OFFSET_MS + 15_000)
    if closed_ms is not None:
        facts.add_close(closed_ms, reason, term, OFFSET_MS + closed_ms)
    return events


def judged(
    events: LogEvents,
    end: SessionEnd,
    *troubles: Trouble,
    clocks: tuple[LeaderClock, ...] = (FIRST, NEXT),
    clients_wait: bool = True,
) -> Finding:
    by_term = {clock.leadership_term_id: clock for clock in clocks}
    (result,) = judge_failovers(Failovers(10 * S, S, 5 * S, (end,), troubles, by_term, clients_wait), events)
    assert isinstance(result, Finding)
    assert result.promise is Promise.SESSIONS_OUTLIVE_LEADERS
    return result


def is_found(events: LogEvents, end: SessionEnd, *troubles: Trouble, clocks: tuple[LeaderClock, ...]) -> bool:
    return judged(events, end, *troubles, clocks=clocks).verdict is Verdict.INVALID


def test_a_session_that_lives_on_is_as_it_should_be() -> None:
    found = judged(log(), OPEN)
    assert (found.verdict, found.detail) == (Verdict.VALID, "sessions lived on under a new leader 1 times")


@pytest.mark.parametrize(("end", "least_s"), [(OPEN, 5), (SILENT, 10), (replace(LOST, ended_ns=50 * S), 5)])
def test_one_that_a_new_leader_closes_too_early_is_found(end: SessionEnd, least_s: int) -> None:
    """Who had a connection may have lost it; who went without a word has none to a new leader."""
    closed_ms = 30_000 + least_s * 1_000
    assert judged(log(closed_ms), end, clients_wait=False).verdict is Verdict.VALID
    found = judged(log(closed_ms - 100), end, clients_wait=False)
    assert (found.verdict, found.position, found.members, found.late_ms) == (
        Verdict.INVALID,
        closed_ms - 100,
        (2,),
        90,
    )


def test_a_client_that_followed_another_member_than_the_leader_is_found() -> None:
    found = judged(log(), replace(OPEN, followed_member_id=1))
    assert (found.verdict, found.members, found.position) == (Verdict.INVALID, (2,), 30_000)
    assert found.detail == "the client of session 7 followed member 1 in term 1, which member 2 led (member-2)"
    assert judged(log(), replace(OPEN, followed_member_id=2)).verdict is Verdict.VALID
    assert judged(log(), replace(OPEN, followed_term_id=5, followed_member_id=1)).verdict is Verdict.VALID


def test_its_last_message_to_the_new_leader_gives_it_time() -> None:
    events = log(37_000)
    assert judged(events, OPEN).verdict is Verdict.VALID
    events.session(7).last = (1, OFFSET_MS + 36_000)
    assert judged(events, OPEN).verdict is Verdict.INVALID


@pytest.mark.parametrize("reason", [CloseReason.CLIENT_ACTION, CloseReason.SERVICE_ACTION])
def test_clients_and_services_may_close_it_at_once(reason: CloseReason) -> None:
    assert judged(log(30_001, reason), OPEN).verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("trouble", "is_wrong"),
    [
        (Trouble(20 * S, NEVER_NS, (0,)), True),
        (Trouble(20 * S, 29 * S, (2,)), True),
        (Trouble(32 * S, 33 * S, (2,)), True),
        (Trouble(20 * S, 30 * S + 1, (2,)), False),
        (Trouble(20 * S, 31 * S), False),
    ],
)
def test_what_is_done_to_the_new_leader_may_cost_it_connections(trouble: Trouble, is_wrong: bool) -> None:
    clocks = (FIRST, NEXT)
    assert is_found(log(31_000), OPEN, trouble, clocks=clocks) is is_wrong
    later = replace(LOST, ended_ns=31 * S + S // 2)
    assert is_found(log(), later, trouble, clocks=clocks) is is_wrong


def test_a_leader_that_was_just_started_closes_all_sessions() -> None:
    (result,) = judge_failovers(
        Failovers(10 * S, S, 5 * S, (OPEN,), (), {0: FIRST, 1: replace(NEXT, is_startup=True)}), log(30_001)
    )
    assert isinstance(result, NotApplicable)


def test_who_led_before_may_have_decided_it_then() -> None:
    assert not is_found(log(30_001), OPEN, clocks=(replace(FIRST, member_id=2), NEXT))
    assert is_found(log(30_001), OPEN, clocks=(FIRST, NEXT))


@pytest.mark.parametrize("cause", [SessionCause.LOST, SessionCause.CLIENT])
def test_who_has_left_has_no_connection(cause: SessionCause) -> None:
    assert judged(log(33_000), SessionEnd(7, 0, 32 * S, cause, 1)).verdict is Verdict.VALID
    assert judged(log(33_000), SessionEnd(7, 0, 34 * S, cause, 1)).verdict is Verdict.INVALID


def test_one_whose_client_an_earlier_leader_sent_away_may_close_at_once() -> None:
    """A paused leader led its term up to 33 s by its own knowledge; the next one led from 30 s on."""
    unaware = replace(FIRST, end_ms=OFFSET_MS + 33_000)
    sent_away = SessionEnd(7, 0, 33 * S + S // 10, SessionCause.CLUSTER, 1)
    closed_ms = 33_100
    assert not is_found(log(closed_ms), sent_away, clocks=(unaware, NEXT))
    assert is_found(log(closed_ms), OPEN, clocks=(unaware, NEXT))
    assert is_found(log(closed_ms), replace(sent_away, ended_ns=34 * S), clocks=(unaware, NEXT))
    assert is_found(log(closed_ms), sent_away, clocks=(FIRST, NEXT))
    too_late = replace(unaware, end_ms=OFFSET_MS + 31_000)
    assert is_found(log(closed_ms), sent_away, clocks=(too_late, NEXT))


@pytest.mark.parametrize(
    ("led_until_s", "cut_s", "left_position", "is_wrong"),
    [
        (26, (16, 27), 15_000, False),
        (25, (16, 27), 15_000, False),
        (24, (16, 27), 15_000, True),
        (26, (16, 20), 15_000, True),
        (26, None, 15_000, True),
        (26, (16, 27), None, True),
        (21, (16, 27), 15_000, True),
    ],
    ids=["", "just due", "not due", "heard again", "not cut off", "killed", "long before"],
)
@pytest.mark.parametrize("asks_the_next", [False, True])
@pytest.mark.parametrize("has_written", [False, True])
def test_a_leader_that_was_cut_off_may_have_closed_it_without_a_quorum(
    led_until_s: int,
    cut_s: tuple[int, int] | None,
    left_position: int | None,
    is_wrong: bool,
    asks_the_next: bool,
    has_written: bool,
) -> None:
    """Seed 4000619: its message was late, and the client had already written to the next leader. The last sign of the
    client in the first term is of 15 s, the time-out 10 s.
    """
    cut_off = replace(FIRST, end_ms=OFFSET_MS + led_until_s * 1_000, left_position=left_position)
    events = log(32_000)
    if not has_written:
        events.sessions[7] = SessionFacts(7)
        events.session(7).add_open(15_000, 0, OFFSET_MS + 15_000)
        events.session(7).add_close(32_000, CloseReason.TIMEOUT, 1, OFFSET_MS + 32_000)
    if asks_the_next:
        events.session(7).add_message(31_500, 1, OFFSET_MS + 31_500)
    troubles = [] if cut_s is None else [Trouble(cut_s[0] * S, cut_s[1] * S, (0,))]
    sent_away = SessionEnd(7, 0, 32 * S, SessionCause.CLUSTER, 1)
    assert is_found(events, sent_away, *troubles, clocks=(cut_off, NEXT)) is is_wrong
    assert is_found(events, replace(sent_away, ended_ns=33 * S), *troubles, clocks=(cut_off, NEXT))


@pytest.mark.parametrize(("left_position", "is_wrong"), [(1_999, False), (2_000, True), (None, True)])
def test_a_deposed_leader_may_end_what_it_had_not_committed(left_position: int | None, is_wrong: bool) -> None:
    """The session opened at position 2000, in the term of the deposed leader."""
    deposed = replace(FIRST, left_position=left_position)
    sent_away = SessionEnd(7, 0, 31 * S, SessionCause.CLUSTER, 1)
    assert is_found(log(31_000), sent_away, clocks=(deposed, NEXT)) is is_wrong


@pytest.mark.parametrize(
    ("busy", "is_wrong"),
    [((), True), (((30 * S, 39 * S),), False), (((30 * S, 38 * S),), True), (((31 * S, NEVER_NS),), False)],
)
def test_a_leader_is_given_time_to_reach_its_clients(busy: tuple[tuple[int, int], ...], is_wrong: bool) -> None:
    """What its module spends on a snapshot, or on its own end, is none of it."""
    assert is_found(log(), LOST, clocks=(FIRST, replace(NEXT, busy=busy))) is is_wrong


def test_a_client_that_hears_of_no_new_leader_is_found() -> None:
    found = judged(log(), LOST)
    assert (found.verdict, found.position, found.members, found.late_ms) == (Verdict.INVALID, 30_000, (2,), 9_000)
    assert "the client of session 7 found no leader up to 40.000 s of the machine's clock, where " in found.detail
    assert "member 2 had led term 1 for 10000 ms" in found.detail


@pytest.mark.parametrize(
    ("events", "end", "next_leader"),
    [
        (log(), replace(LOST, ended_ns=31 * S), NEXT),
        (log(), replace(LOST, followed_term_id=1), NEXT),
        (log(), replace(LOST, followed_term_id=None), NEXT),
        (log(), LOST, replace(NEXT, end_ms=OFFSET_MS + 35_000)),
        (log(), LOST, replace(NEXT, end_ms=None)),
        (log(), LOST, replace(NEXT, ready_ns=-1)),
        (log(39_000), LOST, NEXT),
        (log(19_000, term=0), LOST, NEXT),
    ],
)
def test_one_that_could_not_hear_of_it_is_none(events: LogEvents, end: SessionEnd, next_leader: LeaderClock) -> None:
    by_term = {0: FIRST, 1: next_leader}
    (result,) = judge_failovers(Failovers(10 * S, S, 5 * S, (end,), (), by_term), events)
    assert not (isinstance(result, Finding) and result.verdict is Verdict.INVALID)


def test_clients_behind_a_bridge_are_not_asked_why() -> None:
    assert judged(log(), LOST, clients_wait=False).verdict is Verdict.VALID


def test_a_run_without_a_change_gives_no_occasion() -> None:
    (result,) = judge_failovers(Failovers(10 * S, S, 5 * S, (OPEN,), (), {0: FIRST}), log())
    assert result == NotApplicable(
        Promise.SESSIONS_OUTLIVE_LEADERS, "clients recorded no session that was open when the leader changed"
    )
