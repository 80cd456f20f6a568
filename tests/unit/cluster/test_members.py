"""Members strings, quorums and eligibility."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.cluster.members import (
    ClusterMember,
    Endpoints,
    compare_logs,
    encode_members,
    has_active_quorum,
    has_quorum_at_position,
    ingress_endpoints,
    is_quorum_candidate,
    is_quorum_leader,
    is_unanimous_candidate,
    is_unanimous_leader,
    parse_members,
    quorum_position,
    quorum_threshold,
)
from upheaval_node.errors import UsageError

TIMEOUT_NS = 10
NOW_NS = 100
TEXT = "0,a:1,a:2,a:3,a:4,a:5|1,b:1,b:2,b:3,b:4,b:5|2,c:1,c:2,c:3,c:4,c:5,c:6"


def member(member_id: int, term: int = -1, position: int = -1, heard_ns: int | None = NOW_NS) -> ClusterMember:
    result = ClusterMember(member_id, Endpoints("i:1", "c:1", "l:1", "u:1", "a:1"))
    result.leadership_term_id = term
    result.log_position = position
    result.time_of_last_append_position_ns = heard_ns
    return result


@pytest.mark.parity("ME-01", "ME-02")
def test_a_members_string_survives_parsing_and_encoding() -> None:
    members = parse_members(TEXT)

    assert list(members) == [0, 1, 2]
    assert members[1].endpoints.catchup == "b:4"
    assert encode_members(members.values()) == TEXT
    assert ingress_endpoints(members.values()) == "0=a:1,1=b:1,2=c:1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "needs id"),
        ("0,a:1,a:2,a:3,a:4", "needs id"),
        ("0,a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8", "needs id"),
        ("x,a:1,a:2,a:3,a:4,a:5", "not a number"),
        ("0,a:1,a:2,a:3,a:4,a:5|0,a:1,a:2,a:3,a:4,a:5", "duplicate member id 0"),
    ],
)
def test_a_wrong_members_string_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_members(text)


@pytest.mark.parity("ME-07", "ME-08")
@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), min_size=1, max_size=7))
def test_the_quorum_position_was_reported_by_a_quorum_of_active_members(reports: list[tuple[int, bool]]) -> None:
    members = [
        member(i, 0, position, NOW_NS if active else NOW_NS - TIMEOUT_NS)
        for i, (position, active) in enumerate(reports)
    ]

    reached = quorum_position(members, NOW_NS, TIMEOUT_NS)

    there = sum(active and position >= reached for position, active in reports)
    beyond = sum(active and position > reached for position, active in reports)
    threshold = quorum_threshold(len(reports))
    assert reached == 0 or there >= threshold
    assert beyond < threshold


def test_members_that_fell_silent_do_not_count_for_the_quorum() -> None:
    members = [member(0), member(1, heard_ns=None), member(2, heard_ns=NOW_NS - TIMEOUT_NS)]

    assert not has_active_quorum(members, NOW_NS, TIMEOUT_NS)
    members[1].record(0, 0, NOW_NS)
    assert has_active_quorum(members, NOW_NS, TIMEOUT_NS)


def test_a_member_is_silent_when_the_time_out_is_over() -> None:
    heard = member(1, heard_ns=NOW_NS)

    assert heard.is_active(NOW_NS + TIMEOUT_NS - 1, TIMEOUT_NS)
    assert not heard.is_active(NOW_NS + TIMEOUT_NS, TIMEOUT_NS)


@pytest.mark.parametrize(
    ("term", "position", "heard_ns", "is_there"),
    [
        (3, 96, NOW_NS, True),
        (3, 97, NOW_NS, True),
        (3, 95, NOW_NS, False),
        (2, 200, NOW_NS, False),
        (4, 96, NOW_NS, False),
        (3, 96, NOW_NS - TIMEOUT_NS, False),
    ],
)
def test_a_quorum_is_at_a_position_of_a_term(term: int, position: int, heard_ns: int, is_there: bool) -> None:
    members = [member(0, 3, 96), member(1, term, position, heard_ns), member(2)]

    assert has_quorum_at_position(members, 3, 96, NOW_NS, TIMEOUT_NS) is is_there


def test_members_that_have_no_position_yet_count_as_at_the_start_of_the_log() -> None:
    assert quorum_position([member(0), member(1), member(2)], NOW_NS, TIMEOUT_NS) == 0


def test_the_log_of_another_term_counts_for_no_quorum_position() -> None:
    members = [member(0, 3, 96), member(1, 2, 500), member(2, 4, 500), member(3, 3, 64), member(4)]

    assert quorum_position(members, NOW_NS, TIMEOUT_NS, (3,)) == 0
    assert quorum_position(members, NOW_NS, TIMEOUT_NS, (2, 3)) == 64
    assert quorum_position(members, NOW_NS, TIMEOUT_NS) == 96


@pytest.mark.parametrize(("count", "threshold"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_a_quorum_is_more_than_half(count: int, threshold: int) -> None:
    assert quorum_threshold(count) == threshold


LOGS = st.tuples(st.integers(-1, 3), st.integers(0, 3))


@pytest.mark.parity("ME-23")
@given(LOGS, LOGS)
def test_logs_compare_by_term_and_then_by_position(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert compare_logs(*a, *b) == -compare_logs(*b, *a)
    assert (compare_logs(*a, *b) == 0) == (a == b)
    if a[0] != b[0]:
        assert (compare_logs(*a, *b) > 0) == (a[0] > b[0])


@pytest.mark.parity("ME-10", "ME-12")
@given(st.lists(LOGS, min_size=1, max_size=5))
def test_some_member_is_always_a_candidate_once_all_were_heard(logs: list[tuple[int, int]]) -> None:
    members = [member(i, term, position) for i, (term, position) in enumerate(logs)]

    candidates = [m for m in members if is_unanimous_candidate(members, m, -1)]

    best = max(logs)
    assert candidates == [m for m, log in zip(members, logs, strict=True) if log == best]
    assert all(is_quorum_candidate(members, m) for m in candidates)


def test_two_survivors_of_three_need_not_ask_the_leader_that_closed_gracefully() -> None:
    members = [member(0, 0, 64), member(1, 0, 64), member(2)]

    assert not is_unanimous_candidate(members, members[0], -1)
    assert is_unanimous_candidate(members, members[0], 2)


@pytest.mark.parity("ME-11")
def test_one_survivor_of_two_is_no_quorum() -> None:
    assert not is_unanimous_candidate([member(0, 0, 64), member(1)], member(0, 0, 64), 1)


def voter(member_id: int, vote: bool | None, term: int = 5) -> ClusterMember:
    result = member(member_id)
    result.vote = vote
    result.candidate_term_id = term
    return result


@pytest.mark.parity("ME-15", "ME-16", "ME-17", "ME-18", "ME-20", "ME-22")
@pytest.mark.parametrize(
    ("votes", "unanimous", "quorum"),
    [
        ((True, True, True), True, True),
        ((True, True, None), False, True),
        ((True, True, False), False, False),
        ((True, None, None), False, False),
    ],
)
def test_a_ballot_is_won_by_all_or_by_a_quorum_without_a_refusal(
    votes: tuple[bool | None, ...], unanimous: bool, quorum: bool
) -> None:
    members = [voter(i, vote) for i, vote in enumerate(votes)]

    assert is_unanimous_leader(members, 5, -1) == unanimous
    assert is_quorum_leader(members, 5) == quorum


def test_votes_of_another_ballot_do_not_count() -> None:
    members = [voter(0, True), voter(1, True, term=4), voter(2, False, term=4)]

    assert not is_unanimous_leader(members, 5, -1)
    assert not is_quorum_leader(members, 5)
