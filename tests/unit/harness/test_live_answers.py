"""The answers of a run that goes on: when the last one came, and which are followed in the log."""

from upheaval.records import Function, Operation, Outcome, call_digest
from upheaval.watch.live_answers import LiveAnswers


def test_the_answer_to_a_call_is_the_last_one_and_is_not_followed() -> None:
    answers = LiveAnswers()
    call = Operation(2, 0, Function.CALL, "request", call_digest(b"a"), 50, 90, Outcome.OK)
    lost = Operation(3, 1, Function.CALL, "request", call_digest(b"b"), 60, None, Outcome.UNKNOWN)
    write = Operation(1, 2, Function.WRITE, "x", 1, 10, 20, Outcome.OK, position=64)
    assert list(answers.answered([write])) == []
    assert (answers.last_ns, answers.waiting) == (20, 1)
    assert list(answers.answered([call, lost])) == []
    assert (answers.last_ns, answers.waiting, answers.followed) == (90, 1, 0)
