"""Answers that clients recorded, beside those that copies of a service in Java send; no JVM runs."""

from collections.abc import Mapping, Sequence

import pytest

from upheaval.checkers.own.effects import Entry, EntryKind
from upheaval.checkers.own.java_answers import UNSTEADY, compare_answers
from upheaval.checkers.own.java_service import JavaEgress

Sent = Mapping[int, Sequence[tuple[str, int]]]

REQUESTS = [
    Entry(position, EntryKind.REQUEST, position, session, payload)
    for position, session, payload in ((100, 1, b"a"), (200, 2, b"b"), (300, 1, b"c"), (400, 2, b"d"))
]
SENT = {1: [("A", 100), ("news", 200), ("C", 300)], 2: [("early", 50), ("B", 200), ("D", 450)]}
RIGHT = {100: "A", 200: "B", 300: "C", 400: "D"}


def egress(follower: Sent, leader: Sent | None = None, *, is_steady: bool = True) -> JavaEgress:
    return JavaEgress(follower, follower if leader is None else leader, is_steady, (), REQUESTS)


def test_the_answers_of_a_copy_are_right() -> None:
    assert compare_answers(egress(SENT), RIGHT) == {"judged": 4}


def test_requests_without_a_judged_answer_do_not_count() -> None:
    assert compare_answers(egress(SENT), {300: "C"}) == {"judged": 1}


def test_the_first_message_to_a_session_may_be_news() -> None:
    assert compare_answers(egress({1: [("news", 100), ("A", 110)]}), {100: "A"}) == {"judged": 1}


@pytest.mark.parametrize(
    ("position", "got", "expected"),
    [
        pytest.param(100, "B", "'A'", id="another session's"),
        pytest.param(300, "A", "'C'", id="of the request before"),
        pytest.param(100, "C", "'A'", id="of the request after"),
        pytest.param(200, "early", "'B'", id="from before the request"),
        pytest.param(400, "late", "'D'", id="what no copy sends"),
    ],
)
def test_an_answer_that_no_copy_sends_to_that_request_is_wrong(position: int, got: str, expected: str) -> None:
    wrong = compare_answers(egress(SENT), {**RIGHT, position: got})["wrong"]
    assert (wrong["position"], wrong["got"], wrong["expected"]) == (position, repr(got), expected)
    assert "cause" not in wrong


def test_an_answer_where_a_copy_sends_nothing_is_wrong() -> None:
    assert compare_answers(egress({}), {200: "B"})["wrong"]["expected"] == "nothing"


def test_a_service_may_answer_only_while_it_leads() -> None:
    assert compare_answers(egress({}, SENT), RIGHT) == {"judged": 4}


def test_the_copy_that_explains_more_is_the_one_that_is_compared() -> None:
    wrong = compare_answers(egress({}, SENT), {**RIGHT, 300: "stale"})["wrong"]
    assert (wrong["position"], wrong["expected"]) == (300, "'C'")


def test_a_wrong_answer_of_copies_that_differ_names_that_as_a_cause() -> None:
    wrong = compare_answers(egress(SENT, is_steady=False), {**RIGHT, 100: "stale"})["wrong"]
    assert wrong["cause"] == UNSTEADY
