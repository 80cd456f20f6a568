"""The arithmetic of quorums, candidates and votes, case by case."""

import pytest

from unit.cluster.test_members import NOW_NS, TIMEOUT_NS, member, voter
from upheaval_node.cluster.members import (
    encode_members,
    has_quorum_at_position,
    is_quorum_candidate,
    is_quorum_leader,
    is_unanimous_candidate,
    is_unanimous_leader,
    parse_members,
    quorum_position,
    quorum_threshold,
)


@pytest.mark.parity("ME-02", "ME-03")
@pytest.mark.parametrize("extra", [(), ("a:6",), ("a:6", "a:7")])
def test_optional_endpoints_are_kept(extra: tuple[str, ...]) -> None:
    text = ",".join(("3", "a:1", "a:2", "a:3", "a:4", "a:5", *extra))
    (parsed,) = parse_members(text).values()
    assert parsed.extra_endpoints == extra
    assert encode_members([parsed]) == text


@pytest.mark.parity("ME-04")
def test_a_quorum_is_more_than_half() -> None:
    assert [quorum_threshold(count) for count in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parity("ME-05")
@pytest.mark.parametrize(
    ("last", "timeout", "now", "is_active"),
    [
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, 5, 4, True),
        (0, 5, 5, False),
        (0, 5, 6, False),
        (10, 5, 10, True),
        (10, 5, 14, True),
        (10, 5, 15, False),
        (10, 5, 9, True),
        (None, 5, 0, False),
        (None, 1 << 62, 1, False),
    ],
)
def test_a_member_is_active_before_its_time_is_up(last: int | None, timeout: int, now: int, is_active: bool) -> None:
    assert member(0, heard_ns=last).is_active(now, timeout) is is_active


@pytest.mark.parity("ME-06")
def test_nothing_is_reached_at_the_start() -> None:
    assert quorum_position([member(each) for each in range(3)], NOW_NS, TIMEOUT_NS) == 0


@pytest.mark.parity("ME-07")
@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ((0, 0, 0), 0),
        ((123, 0, 0), 0),
        ((123, 123, 0), 123),
        ((123, 0, 123), 123),
        ((0, 123, 123), 123),
        ((0, 123, 200), 123),
        ((5, 3, 1), 3),
        ((5, 1, 3), 3),
        ((1, 3, 5), 3),
        ((1, 5, 3), 3),
        ((3, 1, 5), 3),
        ((3, 5, 1), 3),
        ((3, 3, 3), 3),
    ],
)
def test_two_of_three_have_reached_the_middle_position(positions: tuple[int, ...], expected: int) -> None:
    members = [member(each, 0, position) for each, position in enumerate(positions)]
    assert quorum_position(members, NOW_NS, TIMEOUT_NS) == expected


@pytest.mark.parity("ME-08")
@pytest.mark.parametrize(
    ("positions", "active", "expected"),
    [
        ((1, 2, 3, 4, 5), "11111", 3),
        ((1, 2, 3, 4, 5), "01111", 3),
        ((1, 2, 3, 4, 5), "00111", 3),
        ((1, 2, 3, 4, 5), "11100", 1),
        ((1, 2, 3, 4, 5), "11001", 1),
        ((1, 2, 3, 4, 5), "00011", 0),
        ((5, 5, 5, 0, 0), "11011", 0),
        ((9, 9, 9, 9, 9), "10101", 9),
        ((9, 9, 9, 9, 9), "00000", 0),
    ],
)
def test_only_active_members_count(positions: tuple[int, ...], active: str, expected: int) -> None:
    members = [
        member(each, 0, position, NOW_NS if active[each] == "1" else NOW_NS - TIMEOUT_NS)
        for each, position in enumerate(positions)
    ]
    assert quorum_position(members, NOW_NS, TIMEOUT_NS) == expected


# --- candidates ---


@pytest.mark.parity("ME-09", "ME-24")
def test_who_is_not_heard_of_would_not_vote() -> None:
    members = [member(0, 2, 100), member(1, 2, 50), member(2)]
    assert not is_unanimous_candidate(members, members[0], -1)
    assert not is_quorum_candidate([members[0], members[2], member(3)], members[0])


@pytest.mark.parity("ME-25")
@pytest.mark.parametrize(("term", "position"), [(2, 101), (3, 0)])
def test_who_has_more_log_would_not_vote(term: int, position: int) -> None:
    candidate = member(0, 2, 100)
    assert not is_unanimous_candidate([candidate, member(1, term, position), member(2, 2, 100)], candidate, -1)


@pytest.mark.parity("ME-26")
@pytest.mark.parametrize(("term", "position"), [(2, 100), (2, 99), (1, 5000)])
def test_who_has_as_much_log_or_less_would_vote(term: int, position: int) -> None:
    candidate = member(0, 2, 100)
    assert is_unanimous_candidate([candidate, member(1, term, position), member(2, 2, 100)], candidate, -1)


@pytest.mark.parity("ME-13", "ME-14")
def test_a_quorum_is_enough_for_a_candidate_and_less_is_not() -> None:
    candidate = member(0, 2, 800)
    better, unknown, worse = member(1, 2, 1000), member(2), member(3, 2, 700)
    assert not is_quorum_candidate([candidate, better, unknown], candidate)
    assert is_quorum_candidate([candidate, better, worse], candidate)


# --- leaders ---


@pytest.mark.parity("ME-19")
def test_of_two_members_one_that_closed_in_good_order_leaves_no_leader() -> None:
    assert not is_unanimous_leader([voter(0, True), voter(1, None)], 5, 1)


@pytest.mark.parity("ME-21")
def test_a_vote_for_another_term_is_none() -> None:
    assert not is_unanimous_leader([voter(0, True), voter(1, True), voter(2, True, term=4)], 5, -1)
    assert is_unanimous_leader([voter(0, True), voter(1, True), voter(2, True)], 5, -1)


@pytest.mark.parity("ME-15", "ME-16", "ME-17")
def test_a_quorum_leads_unless_somebody_refused() -> None:
    assert is_quorum_leader([voter(0, True), voter(1, True), voter(2, None)], 5)
    assert not is_quorum_leader([voter(0, True), voter(1, True), voter(2, False)], 5)
    assert not is_quorum_leader([voter(0, True), voter(1, None), voter(2, None)], 5)


# --- positions ---


def reached(*members: tuple[int, int, int]) -> bool:
    """Whether a quorum is at position 100 of term 2; members are (term, position, when heard)."""
    return has_quorum_at_position(
        [member(number, *each) for number, each in enumerate(members)], 2, 100, NOW_NS, TIMEOUT_NS
    )


@pytest.mark.parity("ME-27")
def test_a_silent_member_has_reached_nothing() -> None:
    assert not reached((2, 100, NOW_NS - TIMEOUT_NS))


@pytest.mark.parity("ME-28")
@pytest.mark.parametrize("term", [1, 3])
def test_a_member_of_another_term_has_reached_nothing(term: int) -> None:
    assert not reached((term, 100, NOW_NS))


@pytest.mark.parity("ME-29")
def test_a_member_below_the_position_has_not_reached_it() -> None:
    assert not reached((2, 99, NOW_NS))


@pytest.mark.parity("ME-30")
@pytest.mark.parametrize("position", [100, 101])
def test_a_member_at_the_position_or_past_it_has_reached_it(position: int) -> None:
    assert reached((2, position, NOW_NS))


@pytest.mark.parity("ME-31", "ME-32")
def test_a_quorum_has_to_have_reached_it() -> None:
    there, short = (2, 100, NOW_NS), (2, 96, NOW_NS)
    assert not reached(there, short, short)
    assert reached(there, there, short)
