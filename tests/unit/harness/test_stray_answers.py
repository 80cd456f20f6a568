"""Answers that no operation waited for are late, and nothing else: the rule on values, without files."""

import pytest

from upheaval.checkers.history.answer_order import judge_answer_order
from upheaval.checkers.history.columns import LogEntry, PlacedHistory
from upheaval.checkers.history.stray_answers import judge_strays, with_news
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict
from upheaval.records import Function, Operation, Outcome, Stray
from upheaval_node.types import MS, S

LATE = Stray(7, 9 * S, 1, 64)


def asked(number: int, outcome: Outcome = Outcome.UNKNOWN, session: int | None = 7) -> Operation:
    complete_ns = 2 * S if outcome is Outcome.OK else None
    return Operation(number, number, Function.READ, "k", None, S, complete_ns, outcome, None, None, session)


def entry(number: int, term: int = 0) -> LogEntry:
    return LogEntry(number * 64, number, Function.READ, "k", None, session=7, term=term)


def judged(strays: list[Stray], *operations: Operation, entries: tuple[int, ...] = (1, 2)) -> Finding:
    (result,) = judge_strays(strays, PlacedHistory.of(operations, [entry(number) for number in entries]))
    assert isinstance(result, Finding)
    assert result.promise is Promise.ANSWERED_ONCE
    return result


def test_a_late_answer_is_as_it_should_be() -> None:
    found = judged([LATE], asked(1), asked(2, Outcome.OK))
    assert (found.verdict, found.detail) == (
        Verdict.VALID,
        "2 operations, none was answered again; 1 answers were late",
    )


@pytest.mark.parametrize(
    ("strays", "operation", "what"),
    [
        ([LATE], asked(1, Outcome.OK), ", which had been answered"),
        ([Stray(7, 8 * S, 1, 64), LATE], asked(1), ", which had been answered"),
        ([LATE], asked(1, Outcome.FAIL, session=None), ", which was never sent"),
        ([Stray(8, 9 * S, 1, 64)], asked(1), ", which was sent in session 7"),
        ([Stray(7, S - 1, 1, 64)], asked(1), ", which was invoked only later"),
        ([Stray(7, 9 * S, 1, 96)], asked(1), " as if at position 96, which is at position 64"),
    ],
)
def test_every_other_answer_is_found(strays: list[Stray], operation: Operation, what: str) -> None:
    found = judged(strays, operation)
    assert (found.verdict, found.position, found.operation) == (Verdict.INVALID, 64, 1)
    assert found.detail.endswith(what)
    last = strays[-1]
    received = f"session {last.session} received at {last.received_ns / S:.3f} s of the machine's clock"
    assert f"{received} an answer to" in found.detail


def test_an_answer_to_what_the_log_does_not_have_is_found() -> None:
    found = judged([LATE], asked(1), entries=(2,))
    assert (found.verdict, found.position) == (Verdict.INVALID, 64)
    assert found.detail.endswith("at position 64, which is not in the log")


def test_an_answer_to_an_operation_of_nobody_is_found_unless_the_log_has_it() -> None:
    stranger = Stray(7, 9 * S, 3, 192)
    assert judged([stranger], asked(1)).verdict is Verdict.INVALID
    assert judged([stranger], asked(1), entries=(1, 3)).verdict is Verdict.UNKNOWN


def test_a_message_that_answers_nothing_is_found() -> None:
    found = judged([Stray(7, 9 * S)], asked(1))
    assert (found.verdict, found.detail) == (
        Verdict.INVALID,
        "session 7 received at 9.000 s of the machine's clock a message that answers nothing",
    )


@pytest.mark.parametrize(
    ("terms", "late_ns", "is_wrong"), [((0, 0), 2 * S - MS, True), ((0, 1), 2 * S - MS, False), ((0, 0), 3 * S, False)]
)
def test_a_late_answer_keeps_the_order_of_its_leader(terms: tuple[int, int], late_ns: int, is_wrong: bool) -> None:
    """The second in the log is answered late; the leader of another term answers on another stream."""
    operations = [asked(1, Outcome.OK), asked(2)]
    entries = [entry(1, terms[0]), entry(2, terms[1])]
    (found,) = judge_answer_order(PlacedHistory.of(operations, entries), [Stray(7, late_ns, 2, 128)])
    assert isinstance(found, Finding)
    assert (found.verdict is Verdict.INVALID) is is_wrong
    if is_wrong:
        assert (found.position, found.operation) == (128, 2)


ONCE = Promise.ANSWERED_ONCE
RIGHT, WRONG = Finding(ONCE, Verdict.VALID, "all late"), Finding(ONCE, Verdict.INVALID, "answered twice")
NEWS, STRANGE = Finding(ONCE, Verdict.VALID, "all of a replay"), Finding(ONCE, Verdict.INVALID, "a strange message")


def test_messages_of_a_custom_service_count_beside_answers() -> None:
    assert with_news(RIGHT, NEWS) == Finding(ONCE, Verdict.VALID, "all late; all of a replay")
    assert with_news(RIGHT, STRANGE) == STRANGE
    assert with_news(WRONG, NEWS) == WRONG
    assert with_news(NotApplicable(ONCE, "no record"), STRANGE) == STRANGE


def test_messages_that_are_not_replayed_are_a_gap_in_words() -> None:
    text = "all late; messages of a custom service were not judged: two services"
    assert with_news(RIGHT, "two services") == Finding(ONCE, Verdict.VALID, text)
    assert with_news(NotApplicable(ONCE, "no record"), "two services") == NotApplicable(ONCE, "no record")
