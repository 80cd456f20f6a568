"""A member that is asked for a session redirects its client to the leader: the rule on values, without files."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from upheaval.checkers.evidence.events import LogEvents
from upheaval.checkers.evidence.leader_clocks import LeaderClock
from upheaval.checkers.evidence.session_limit import full_times
from upheaval.checkers.evidence.spans import MemberSpans, Span
from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.liveness.openings import missed_openings
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import ConnectAnswer, ConnectAttempt, WrongCredentials
from upheaval_node.protocol.cluster_messages import CloseReason
from upheaval_node.types import S

LEADER, FOLLOWER = 0, 1
EMPTY = 1
"""A term without an entry in the log."""
CLOCK = LeaderClock(3, LEADER, 0, None, 0, "member-0/trace.jsonl", ready_ns=5 * S)
ASKED = ConnectAttempt(None, ConnectAnswer.NONE, 22 * S, 20 * S, FOLLOWER)


def spans() -> list[MemberSpans]:
    """Of a leader since 5 s, and of a follower since 6 s."""
    led, joined = Span(LEADER, "CLOSED", 1, 5 * S), Span(FOLLOWER, "CLOSED", 1, 6 * S)
    election = Span(FOLLOWER, "INIT", 1, 1 * S, 6 * S)
    return [MemberSpans(LEADER, led=[led], there=[led]), MemberSpans(FOLLOWER, elections=[election], there=[joined])]


def missed(
    attempt: ConnectAttempt = ASKED,
    of: list[MemberSpans] | None = None,
    clock: LeaderClock = CLOCK,
    troubles: tuple[Trouble, ...] = (),
    others: tuple[LeaderClock, ...] = (),
    full: Sequence[tuple[int, int]] = (),
) -> list[Broken]:
    return list(missed_openings([attempt], of or spans(), [clock, *others], troubles, 5 * S, full))


def full_in(*lives: tuple[float, float | None]) -> list[tuple[int, int]]:
    """When a cluster that may have three sessions had three, each of which was open from one second to another."""
    events = LogEvents()
    for session_id, (opened, closed) in enumerate(lives):
        facts = events.session(session_id)
        facts.add_open(64 * session_id, CLOCK.leadership_term_id, int(opened * 1_000))
        if closed is not None:
            facts.add_close(6_400, CloseReason.TIMEOUT, CLOCK.leadership_term_id, int(closed * 1_000))
    return list(full_times(3, events, [CLOCK]))


@pytest.mark.parametrize(
    ("answer", "text"), [(ConnectAnswer.NONE, "got no session"), (ConnectAnswer.REFUSED, "was refused a session")]
)
def test_a_client_that_asks_a_follower_gets_a_session(answer: ConnectAnswer, text: str) -> None:
    (broken,) = missed(replace(ASKED, answer=answer))
    found = broken.finding(Promise.CLIENTS_IN_TIME)
    assert (found.verdict, found.members, found.late_ms) == (Verdict.INVALID, (FOLLOWER,), 2000)
    assert found.detail.startswith(f"a client that knew member 1 alone {text} within 2000 ms, up to 22.000 s of the")
    assert not missed(replace(ASKED, answer=ConnectAnswer.ADMITTED))


def test_so_does_one_that_asks_the_leader() -> None:
    assert missed(replace(ASKED, member=LEADER))


@pytest.mark.parametrize(
    ("lives", "is_missed"),
    [
        ([(6, None), (7, None), (8, None)], False),
        ([(6, 30), (7, 20.5), (8, 25)], False),
        ([(6, None), (7, None), (22.5, None)], False),
        ([(6, None), (7, None), (8, 18.9)], True),
        ([(6, None), (7, None), (23.1, None)], True),
        ([(6, 21), (7, None), (21.1, None)], True),
    ],
)
def test_a_cluster_that_has_all_its_sessions_admits_no_other_client(
    lives: list[tuple[float, float | None]], is_missed: bool
) -> None:
    """Chained seed 21: each snapshot restarts the time-outs of all sessions, so lost sessions took all ten places."""
    assert bool(missed(full=full_in(*lives))) is is_missed


@pytest.mark.parametrize(
    ("term", "clocks", "is_missed"),
    [
        (2, [], False),
        (2, [replace(CLOCK, begin_ms=18_000)], True),
        (2, [replace(CLOCK, begin_ms=19_000)], False),
        (4, [replace(CLOCK, begin_ms=21_000)], False),
        (4, [replace(CLOCK, begin_ms=24_000)], True),
        (2, [replace(CLOCK, leadership_term_id=1), replace(CLOCK, begin_ms=30_000)], False),
        (2, [replace(CLOCK, leadership_term_id=1), replace(CLOCK, begin_ms=18_000)], True),
        (4, [replace(CLOCK, leadership_term_id=EMPTY, begin_ms=23_000), replace(CLOCK, begin_ms=6_000)], False),
    ],
)
def test_a_session_of_a_term_without_a_clock_counts_for_as_long_as_terms_beside_it_allow(
    term: int, clocks: list[LeaderClock], is_missed: bool
) -> None:
    """The leader of a later term with entries had those of earlier ones when it began to lead."""
    untraced = LogEvents()
    for session_id in range(3):
        untraced.session(session_id).add_open(64 * session_id, term, 6_000)
        untraced.session(session_id).add_close(6_400, CloseReason.TIMEOUT, term, 7_000)
    for clock in clocks:
        if clock.leadership_term_id != EMPTY:
            untraced.add_time(clock.leadership_term_id, 64, 6_000)
    assert bool(missed(full=list(full_times(3, untraced, clocks)))) is is_missed
    assert missed(full=list(full_times(4, untraced, clocks)))


def test_attempts_of_strangers_are_not_judged_here() -> None:
    assert not missed(ConnectAttempt(WrongCredentials.SECRET, ConnectAnswer.REFUSED, 22 * S))


@pytest.mark.parametrize(
    "trouble", [Trouble(10 * S, 19 * S + S // 2), Trouble(22 * S, 30 * S), Trouble(21 * S, 21 * S)]
)
def test_in_a_fault_or_just_after_it_a_client_may_go_without(trouble: Trouble) -> None:
    assert not missed(troubles=(trouble,))
    assert missed(troubles=(Trouble(10 * S, 18 * S), Trouble(23 * S, 30 * S)))


def test_a_member_without_a_leader_sends_nobody_anywhere() -> None:
    assert not missed(clock=replace(CLOCK, ready_ns=20 * S))
    assert not missed(clock=replace(CLOCK, ready_ns=-1))
    assert not missed(clock=replace(CLOCK, busy=((20 * S, 21 * S),)))
    ended = spans()
    ended[LEADER].led[0].end_ns = 21 * S
    assert not missed(of=ended)


@pytest.mark.parametrize(
    ("busy", "is_missed"),
    [
        ((10, 15), False),
        ((10, 14), True),
        ((14, 14.5), True),
        ((14, 15.5), False),
        ((23, 30), True),
    ],
)
def test_after_a_long_snapshot_requests_of_clients_that_gave_up_may_take_all_sessions(
    busy: tuple[float, float], is_missed: bool
) -> None:
    """Until they time out, after 5 s; the attempt counts from 1 s before it begins at 20 s."""
    since, until = busy
    assert bool(missed(clock=replace(CLOCK, busy=((int(since * S), int(until * S)),)))) is is_missed


def test_the_last_term_of_a_leader_counts() -> None:
    """Seed 9630431: the leader took a snapshot for 10 s, and had led an earlier term without one."""
    before = replace(CLOCK, leadership_term_id=1, ready_ns=2 * S, end_ms=4_000)
    busy = replace(CLOCK, busy=((20 * S, 21 * S),))
    assert not missed(clock=busy, others=(before,))
    assert not missed(clock=before, others=(busy,))
    (broken,) = missed(others=(replace(before, busy=((20 * S, 21 * S),)),))
    assert "member 0 led term 3" in broken.finding(Promise.CLIENTS_IN_TIME).detail


def test_nor_does_one_that_is_down_or_in_an_election() -> None:
    down, electing = spans(), spans()
    down[FOLLOWER].there[0].end_ns = 21 * S
    electing[FOLLOWER].elections.append(Span(FOLLOWER, "CANVASS", 9, 21 * S, 23 * S))
    assert not missed(of=down)
    assert not missed(of=electing)
