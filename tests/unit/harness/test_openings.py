"""A member that is asked for a session redirects its client to the leader: the rule on values, without files."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.leader_clocks import LeaderClock
from upheaval.checkers.evidence.spans import MemberSpans, Span
from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.liveness.openings import missed_openings
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import ConnectAnswer, ConnectAttempt, WrongCredentials
from upheaval_node.types import S

LEADER, FOLLOWER = 0, 1
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
) -> list[Broken]:
    return list(missed_openings([attempt], of or spans(), [clock, *others], troubles, 5 * S))


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
