"""Which message answers which request: the rules on bytes, and what is known of calls where more than answers came."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import built_calls
from upheaval import CorrelationAt, TemplateId
from upheaval.accepts import tells_requests_apart, test_of as rule_of
from upheaval.checkers.history.attribution import attributed
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import Function, Operation, Outcome, RunFolder, Stray, call_digest
from upheaval_node.types import S


def call(number: int, outcome: Outcome = Outcome.OK, *, session: int = 7, matched: bool | None = None) -> Operation:
    complete_ns = (number * 10 + 1) * S if outcome is Outcome.OK else None
    digest = call_digest(b"%d" % number)
    times = number * 10 * S, complete_ns
    return Operation(
        number, 0, Function.CALL, "request", digest, *times, outcome, "yes", session=session, matched=matched
    )


def news(at_s: int, session: int = 7) -> Stray:
    return Stray(session, at_s * S, text="the price has changed")


def outcomes(calls: list[Operation], strays: list[Stray]) -> list[Outcome]:
    return [each.outcome for each in attributed(calls, strays).calls]


def test_a_correlation_id_of_the_request_is_that_of_its_answer() -> None:
    request = b"ab" + bytes(range(8)) + b"rest"
    test = rule_of(CorrelationAt(2, answer_offset=0), request)
    assert test is not None
    assert [test(bytes(range(8))), test(b"ab" + bytes(range(8))), test(b"")] == [True, False, False]
    assert tells_requests_apart(CorrelationAt(2))


def test_a_request_without_room_for_its_id_is_refused() -> None:
    with pytest.raises(UsageError, match=r"CorrelationAt\(offset=2.*: the request has only 6 bytes"):
        rule_of(CorrelationAt(2), b"123456")


@pytest.mark.parametrize("make", [lambda: CorrelationAt(-1), lambda: CorrelationAt(0, length=0), lambda: TemplateId()])
def test_a_rule_that_fits_nothing_is_refused(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]


def test_a_template_id_is_that_of_the_header_of_sbe() -> None:
    test = rule_of(TemplateId(7, 300), b"")
    assert test is not None
    header = b"\x10\x00%b\x01\x00\x00\x00"
    assert [test(header % template) for template in (b"\x07\x00", b"\x2c\x01", b"\x08\x00")] == [True, True, False]
    assert not test(b"\x10")
    assert not tells_requests_apart(TemplateId(7))


def test_a_function_sees_the_answer_alone_and_may_take_that_to_another_request() -> None:
    assert not tells_requests_apart(lambda answer: b"ok" in bytes(answer))


def test_a_session_that_hears_more_than_it_asked_acknowledges_nothing() -> None:
    found = attributed([call(1), call(2), call(3, session=8)], [news(15), news(16)])
    assert [each.outcome for each in found.calls] == [Outcome.UNKNOWN] * 3
    assert {each.result for each in found.calls} == {None}
    for word in (
        "session 7 heard 2 messages more than it asked for",
        "3 calls",
        "accepts=...",
        "CorrelationAt(offset)",
    ):
        assert word in found.doubt


def test_calls_whose_answers_a_test_has_taken_stay_acknowledged() -> None:
    matched = [call(1, matched=True), call(2, matched=True)]
    assert attributed(matched, [news(15)]) == attributed(matched, [])
    assert outcomes([*matched, call(3)], [news(15), news(31)]) == [Outcome.OK, Outcome.OK, Outcome.UNKNOWN]


def test_a_late_answer_is_no_message_more_than_was_asked_for() -> None:
    calls = [call(1), call(2, Outcome.UNKNOWN), call(3)]
    assert outcomes(calls, [news(25)]) == [Outcome.OK, Outcome.UNKNOWN, Outcome.OK]
    assert outcomes(calls, [news(25), news(26)]) == [Outcome.UNKNOWN] * 3
    assert outcomes(calls, [news(15)]) == [Outcome.UNKNOWN] * 3


def test_what_sessions_without_doubtful_calls_hear_says_nothing() -> None:
    assert outcomes([call(1)], [news(15, session=9), Stray(7, 15 * S, 4, 64)]) == [Outcome.OK]


def test_a_lost_call_of_a_service_that_broadcasts_is_unknown_and_no_loss(tmp_path: Path) -> None:
    """A message to all came in the place of the answer of a call that the log does not have."""
    built = built_calls()
    lost = built.operations[20]
    extra = replace(lost, id=len(built.operations), value=call_digest(b"lost with its leader"), session=7)
    built.operations = [replace(each, session=7) for each in built.operations] + [extra]
    run = built.write(tmp_path)
    assert verify_run(tmp_path).finding(Promise.ACKNOWLEDGED_NOT_LOST).verdict is Verdict.INVALID
    run.add_stray(news(0))
    report = verify_run(tmp_path)
    finding = report.finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert (report.verdict, finding.verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert "say which message answers" in finding.detail


def test_news_is_read_back_and_leaves_lines_of_other_strays_as_they_were(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.add_stray(news(15))
    assert list(run.read_strays()) == [news(15)]
    assert Stray(7, 5, 4, 64).to_json() == '{"session":7,"received_ns":5,"operation":4,"position":64}'
