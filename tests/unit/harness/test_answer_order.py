"""Answers of a session come in the order in which the log has its operations: the rule on values, without files."""

from dataclasses import replace

import pytest

from upheaval.checkers.history.answer_order import judge_answer_order
from upheaval.checkers.history.columns import LogEntry, PlacedHistory
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Function, Operation, Outcome
from upheaval_node.types import MS


def answered(number: int, complete_ms: int, session: int | None = 7) -> Operation:
    return Operation(
        number, number, Function.READ, "k", None, 0, complete_ms * MS, Outcome.OK, None, number * 64, session
    )


def judged(*operations: Operation) -> Result:
    """The log has them in the order of their ids."""
    entries = [LogEntry(each.id * 64, each.id, each.f, each.key, each.value) for each in operations]
    entries.sort(key=lambda entry: entry.position)
    (result,) = judge_answer_order(PlacedHistory.of(operations, entries))
    return result


def test_answers_in_the_order_of_the_log_are_as_they_should_be() -> None:
    assert judged(answered(1, 5), answered(2, 5), answered(3, 6)) == Finding(
        Promise.ANSWERS_IN_ORDER, Verdict.VALID, "3 answers of 1 sessions, each in the order of the log"
    )


@pytest.mark.parametrize("between", [(), (answered(2, 2, session=8),)])
def test_one_that_overtakes_another_is_found(between: tuple[Operation, ...]) -> None:
    found = judged(answered(1, 5), *between, answered(3, 3))
    assert isinstance(found, Finding)
    assert (found.verdict, found.position, found.operation) == (Verdict.INVALID, 192, 3)
    assert "at position 192 of session 7 was answered 2.000 ms before operation id=1" in found.detail


def test_sessions_wait_for_each_other_in_nothing() -> None:
    found = judged(answered(1, 5), answered(2, 3, session=8))
    assert isinstance(found, Finding)
    assert found.verdict is Verdict.VALID


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.FAIL])
def test_what_was_not_answered_overtakes_nothing(outcome: Outcome) -> None:
    unanswered = replace(answered(2, 3), outcome=outcome, complete_ns=None)
    found = judged(answered(1, 5), unanswered, answered(3, 6))
    assert isinstance(found, Finding)
    assert found.verdict is Verdict.VALID


@pytest.mark.parametrize("operations", [(), (answered(1, 5, session=None), answered(2, 3, session=None))])
def test_a_history_without_sessions_gives_no_occasion(operations: tuple[Operation, ...]) -> None:
    assert judged(*operations) == NotApplicable(
        Promise.ANSWERS_IN_ORDER, "the history has no answered operation of a shipped service with its session"
    )
