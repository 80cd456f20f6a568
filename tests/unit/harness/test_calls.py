"""Calls to a service of a user's own: acknowledged ones lie in the log, by the digest of their payload."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import upheaval
from support.built_runs import BuiltRun, built_calls, session_message, session_open
from support.search import linearizable_by_search
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import Function, Outcome, RunFolder, call_digest, call_payload, encode_operation
from upheaval_node.protocol.session_header import LENGTH, pack_session_header


@pytest.mark.parametrize("payload", [b"text", bytearray(b"text"), memoryview(b"text")])
def test_a_payload_is_bytes(payload: bytes) -> None:
    assert call_payload(payload) == b"text"


@pytest.mark.parametrize(("payload", "name"), [("text", "str"), (5, "int"), (None, "NoneType")])
def test_text_and_numbers_are_no_payload(payload: object, name: str) -> None:
    with pytest.raises(TypeError, match=f"a payload is bytes or an SBE message, got {name}: encode it, as in "):
        call_payload(payload)  # type: ignore[arg-type]


def test_a_prompt_completes_the_names_of_the_package() -> None:
    assert {"Cluster", "Model", "promise"} <= set(dir(upheaval))


END_NS = 2 * 10**9
"""After all calls of `built_calls`."""


def test_calls_alone_are_valid_and_no_result_is_judged(tmp_path: Path) -> None:
    built = built_calls()
    built.write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.VALID, report.findings
    assert Promise.LINEARIZABLE not in {finding.promise for finding in report.findings}
    acknowledged = sum(call.outcome is Outcome.OK for call in built.operations)
    detail = report.finding(Promise.ACKNOWLEDGED_NOT_LOST).detail
    assert detail == f"{acknowledged} acknowledged calls found in the log by their payload"


def test_calls_beside_operations_of_a_shipped_service_are_judged_with_them(tmp_path: Path) -> None:
    built_calls(beside_operations=True).write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.VALID, report.findings
    assert "operations found in the log; " in report.finding(Promise.ACKNOWLEDGED_NOT_LOST).detail
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.VALID


def _drop(run: BuiltRun, index: int) -> None:
    digest = run.operations[index].value
    for payloads in run.payloads:
        at = next(i for i, payload in enumerate(payloads) if call_digest(payload[LENGTH:]) == digest)
        del payloads[at]


def lost(run: BuiltRun) -> None:
    _drop(run, 20)


def one_of_two_equal_ones_lost(run: BuiltRun) -> None:
    _drop(run, 0)


def once_more(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(payloads[-1])


def never_sent(run: BuiltRun) -> None:
    run.operations[20] = replace(run.operations[20], outcome=Outcome.FAIL, complete_ns=None)


def from_somebody_else(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(session_message(b"who?"))


def an_operation_of_somebody_else(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(session_message(encode_operation(1 << 50, Function.ECHO, "", "who?")))


def two_sessions(run: BuiltRun, *, ok: bool, in_log: tuple[int, ...]) -> None:
    """Calls with one payload in two sessions. The first is answered, the second if `ok`."""
    for session, outcome in ((1, Outcome.OK), (2, Outcome.OK if ok else Outcome.UNKNOWN)):
        complete_ns = END_NS + session * 10 + 5 if outcome is Outcome.OK else None
        run.operations.append(
            replace(
                run.operations[-2],
                id=len(run.operations),
                process=len(run.operations),
                value=call_digest(b"ping"),
                invoke_ns=END_NS + session * 10,
                complete_ns=complete_ns,
                outcome=outcome,
                session=session,
            )
        )
    for payloads in run.payloads:
        payloads.insert(1, session_open(2))
        payloads += [pack_session_header(0, session, 1000) + b"ping" for session in in_log]


def lost_and_in_the_log_of_another_session(run: BuiltRun) -> None:
    two_sessions(run, ok=False, in_log=(2,))


def once_more_before_a_later_call_of_its_session(run: BuiltRun) -> None:
    """As often as both sessions sent it together."""
    two_sessions(run, ok=False, in_log=(1, 1))
    last = run.operations[-2]
    later = replace(last, id=last.id + 2, process=last.id + 2, value=call_digest(b"later"), invoke_ns=END_NS + 100)
    run.operations.append(replace(later, complete_ns=END_NS + 200))
    for payloads in run.payloads:
        payloads.append(session_message(b"later"))


@pytest.mark.parametrize(
    ("damage", "promise", "verdict", "text"),
    [
        (lost, Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "acknowledged 1 times and is in the log 0 times"),
        (
            one_of_two_equal_ones_lost,
            Promise.ACKNOWLEDGED_NOT_LOST,
            Verdict.INVALID,
            "acknowledged 2 times and is in the log 1 times",
        ),
        (
            lost_and_in_the_log_of_another_session,
            Promise.ACKNOWLEDGED_NOT_LOST,
            Verdict.INVALID,
            "was acknowledged 1 times in session 1 and is in the log 0 times",
        ),
        (
            once_more_before_a_later_call_of_its_session,
            Promise.APPLIED_ONCE,
            Verdict.INVALID,
            "was sent 1 times in session 1 and is in the log again at position",
        ),
        (once_more, Promise.APPLIED_ONCE, Verdict.UNKNOWN, "was sent 1 times and is in the log 2 times"),
        (never_sent, Promise.APPLIED_ONCE, Verdict.UNKNOWN, "was sent 0 times and is in the log 1 times"),
        (from_somebody_else, Promise.HISTORY_COMPLETE, Verdict.UNKNOWN, "is not in the history"),
        (an_operation_of_somebody_else, Promise.HISTORY_COMPLETE, Verdict.UNKNOWN, "is not in the history"),
    ],
)
def test_damage_is_found_and_named(
    tmp_path: Path, damage: Callable[[BuiltRun], None], promise: str, verdict: Verdict, text: str
) -> None:
    built = built_calls()
    damage(built)
    built.write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is verdict, report.findings
    assert report.finding(promise).verdict is verdict
    assert text in report.finding(promise).detail


def test_equal_calls_of_two_sessions_are_valid_whether_the_log_has_the_unanswered_one(tmp_path: Path) -> None:
    for name, ok, in_log in (("both", True, (2, 1)), ("given-up", False, (1, 2)), ("lost", False, (1,))):
        built = built_calls()
        two_sessions(built, ok=ok, in_log=in_log)
        built.write(tmp_path / name)
        report = verify_run(tmp_path / name)
        assert report.verdict is Verdict.VALID, report.findings


def test_a_call_without_a_digest_is_a_malformed_line(tmp_path: Path) -> None:
    built = built_calls()
    built.operations[3] = replace(built.operations[3], value="deposit 5")
    built.write(tmp_path)
    with pytest.raises(UsageError, match=r"history.jsonl:4: the value of a call must be the SHA-256"):
        list(RunFolder(tmp_path).read_history())


def test_the_search_leaves_calls_out() -> None:
    assert linearizable_by_search(built_calls().operations).verdict is Verdict.VALID
