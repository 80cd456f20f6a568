"""A model and promises of a user's own: each rule is tried on a log and a history that break it and nothing else."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_locks import CALLS, SERVICES, asked, call, locks_run, message, wrong_answer
from support.built_runs import BuiltRun
from support.services import fenced_model
from support.services.fenced_promises import stays_small
from upheaval.checkers.history.calls import CallEntry
from upheaval.checkers.history.placed_calls import place_calls
from upheaval.checkers.judge import verify_run, verify_to_first_failure
from upheaval.checkers.own import interpreters
from upheaval.checkers.own.own_model import judge_answers
from upheaval.checkers.own.own_model_process import judge, judged, shown_value
from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.states.replay import LoggedMessage
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.model import Model, OwnRun, PlainPromise, Request, promise, says
from upheaval.records import Outcome, answer_bytes, answer_text, call_digest, source_digest
from upheaval.records.jsonfields import parse_object
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import LENGTH


def judged_here(run: BuiltRun, model: type[Model] = fenced_model.Locks) -> list[Finding]:
    """What the checker finds, with the model in this process; a message ends where the next one begins."""
    log = [LoggedMessage(100 * number, content) for number, content in enumerate(run.payloads[0], 1)]
    entries = [
        CallEntry(each.position, call_digest(each.content[LENGTH:]), int.from_bytes(each.content[16:24], "little"))
        for each in log
        if len(each.content) > LENGTH and each.content[LENGTH : LENGTH + 1] == b"{"
    ]
    placed = place_calls(run.operations, entries)
    answers = {at: str(each.result) for at, each in placed.by_position.items() if each.outcome is Outcome.OK}
    return [*placed.broken, judge_answers("the model Locks", placed, entries, judged(model, log, answers, {}))]


def bad(findings: list[Finding]) -> dict[str, str]:
    return {each.promise: f"{each.verdict.text}: {each.detail}" for each in findings if each.verdict > Verdict.VALID}


def first_entry(run: BuiltRun) -> int:
    return next(at for at, content in enumerate(run.payloads[0]) if content[LENGTH:] == asked(0))


# --- each rule ---


def applied_in_another_order(run: BuiltRun) -> None:
    """The answers fit this order, the times of the calls do not."""
    run.operations[50] = replace(run.operations[50], invoke_ns=run.operations[55].invoke_ns)
    run.operations[50] = replace(run.operations[50], complete_ns=run.operations[55].complete_ns)


def in_the_log_again(run: BuiltRun) -> None:
    run.payloads[0].insert(first_entry(run) + 40, run.payloads[0][first_entry(run) + 20])


def lost_in_its_session(run: BuiltRun) -> None:
    """The log has the payload as often as it was sent, of two sessions in one of them."""
    run.operations.append(call(CALLS, asked(0), '{"ok": true, "token": 1}', session=2))
    run.payloads[0].append(message(asked(0)))


def asked_twice_by_nobody_knows_whom(run: BuiltRun) -> None:
    run.operations[0] = replace(run.operations[0], session=None)
    run.operations.append(call(CALLS, asked(0), '{"ok": true, "token": 1}', session=None))
    run.payloads[0].append(message(asked(0), 2))


def not_written_down(run: BuiltRun) -> None:
    run.operations[7] = replace(run.operations[7], result=None)


@pytest.mark.parametrize(
    ("damage", "promise", "says"),
    [
        (wrong_answer, Promise.LINEARIZABLE, "invalid: call request (operation 20) at position "),
        (applied_in_another_order, Promise.LINEARIZABLE, "had completed before operation 50 was invoked"),
        (in_the_log_again, Promise.APPLIED_ONCE, "sent 1 times in session 1 and is in the log again at position"),
        (lost_in_its_session, Promise.ACKNOWLEDGED_NOT_LOST, "acknowledged 1 times in session 2 and is in the log 0"),
        (
            asked_twice_by_nobody_knows_whom,
            Promise.LINEARIZABLE,
            "unknown: call request (operation 0): its place in the log is unknown",
        ),
    ],
)
def test_a_damage_breaks_its_promise_and_no_other(
    damage: Callable[[BuiltRun], None], promise: Promise, says: str
) -> None:
    run = locks_run()
    assert bad(judged_here(run)) == {}
    damage(run)
    found = bad(judged_here(run))
    assert list(found) == [promise]
    assert says in found[promise]


def test_a_wrong_answer_is_named_with_what_was_expected_and_what_came() -> None:
    run = locks_run()
    wrong_answer(run)
    (finding,) = judged_here(run)
    assert (finding.operation, finding.position) == (20, 100 * (first_entry(run) + 21))
    assert 'r20", "do": "release"' in finding.detail
    assert 'expected {"ok": true} by the model Locks, got {"ok": true, "token": 3}' in finding.detail


def test_a_call_without_an_answer_may_be_in_the_log_or_not() -> None:
    run = locks_run()
    run.operations.append(call(CALLS, asked(0), None, session=2))
    assert bad(judged_here(run)) == {}
    run.payloads[0].append(message(asked(0), 2))
    assert bad(judged_here(run)) == {}


def test_one_that_has_no_answer_does_not_take_the_place_of_one_that_has() -> None:
    """In one session, without and with an answer, and one of them in the log: which one cannot be determined."""
    run = locks_run()
    run.operations.append(call(CALLS, asked(CALLS), None))
    run.operations.append(call(CALLS + 1, asked(CALLS), '{"ok": true, "token": 41}'))
    run.payloads[0].append(message(asked(CALLS)))
    assert bad(judged_here(run))[Promise.LINEARIZABLE].endswith("its place in the log is unknown")
    run.payloads[0].append(message(asked(CALLS)))
    assert bad(judged_here(run)) == {}


def test_a_call_after_one_that_was_given_up_has_no_certain_place_while_the_log_lacks_one() -> None:
    """The client went on in its session, and gave up the last call, too."""
    run = BuiltRun()
    for number, answer in enumerate(["1", None, "2", None]):
        run.operations.append(call(number, b"{}", answer))
    run.payloads[0] += [message(b"{}")] * 3
    assert bad(judged_here(run, Counting)) == {
        Promise.LINEARIZABLE: "unknown: call request (operation 2): its place in the log is unknown"
    }
    run.operations[0] = replace(run.operations[0], result="5")
    assert "(operation 0) at position" in bad(judged_here(run, Counting))[Promise.LINEARIZABLE]


def test_a_duplicate_that_the_end_of_a_torn_history_may_explain_is_not_judged_here() -> None:
    """Another checker calls it unknown."""
    run = locks_run()
    run.payloads[0].append(message(asked(3)))
    assert bad(judged_here(run)) == {}


def test_equal_payloads_are_distinguished_by_their_sessions_and_their_order() -> None:
    run = BuiltRun()
    for number, (session, answer) in enumerate([(1, "1"), (2, "2"), (1, "3"), (1, "4"), (2, "5")]):
        run.operations.append(call(number, b"{}", answer, session))
        run.payloads[0].append(message(b"{}", session))
    assert bad(judged_here(run, Counting)) == {}
    run.operations[2], run.operations[3] = (
        replace(run.operations[2], result="4"),
        replace(run.operations[3], result="3"),
    )
    assert "expected 3 by the model Locks, got 4" in bad(judged_here(run, Counting))[Promise.LINEARIZABLE]


class Counting(Model):
    def __init__(self) -> None:
        self.count = 0

    def apply(self, request: Request) -> int:
        self.count += 1
        return self.count


class CountingEach(Counting):
    @staticmethod
    def partition(request: Request) -> str:
        return request.text


class Lenient(Counting):
    def agrees(self, request: Request, expected: Any, answer: bytes) -> bool:
        return abs(int(answer) - expected) <= 1


class OfSessions(Model):
    """Takes from a session what it held when the log closes it, or a timer fires."""

    def __init__(self) -> None:
        self.held = 0

    def apply(self, request: Request) -> int:
        self.held += 1
        return self.held

    def session_closed(self, session_id: int, timestamp: int) -> None:
        self.held = 0

    def timer_fired(self, timer_id: int, timestamp: int) -> None:
        self.held += timer_id


def answers_of(model: type[Model], messages: list[bytes], answers: list[str]) -> dict[str, Any]:
    log = [LoggedMessage(number, content) for number, content in enumerate(messages)]
    requests = [each.position for each in log if each.content[LENGTH:].startswith(b"{")]
    return judged(model, log, dict(zip(requests, answers, strict=True)), {})


def test_keys_have_states_of_their_own_and_answers_may_be_less_than_equal() -> None:
    asked_of_two = [message(b'{"a"}'), message(b'{"b"}'), message(b'{"a"}')]
    assert answers_of(CountingEach, asked_of_two, ["1", "1", "2"]) == {"judged": 3}
    assert answers_of(Counting, asked_of_two, ["1", "1", "2"])["wrong"]["position"] == 1
    assert answers_of(Lenient, asked_of_two, ["2", "1", "2"]) == {"judged": 3}


def test_a_model_hears_of_sessions_that_close_and_of_timers() -> None:
    closed = cm.SCHEMA.encode(
        cm.SessionCloseEvent(leadership_term_id=0, cluster_session_id=1, timestamp=1, close_reason=0)
    )
    fired = cm.SCHEMA.encode(cm.TimerEvent(leadership_term_id=0, correlation_id=5, timestamp=1))
    log = [message(b"{1}"), closed, message(b"{2}"), fired, message(b"{3}")]
    assert answers_of(OfSessions, log, ["1", "1", "7"]) == {"judged": 3}


class OfEvents(Model):
    """Answers with all that it has heard."""

    def __init__(self) -> None:
        self.heard: list[list[object]] = []

    def apply(self, request: Request) -> Any:
        return self.heard

    @staticmethod
    def partition(request: Request) -> str:
        return request.text

    def session_opened(self, session_id: int, timestamp: int) -> None:
        self.heard.append(["opened", session_id, timestamp])

    def term_began(self, term_id: int, timestamp: int) -> None:
        self.heard.append(["term", term_id, timestamp])

    def service_message(self, payload: bytes, timestamp: int) -> None:
        self.heard.append(["own", payload.decode(), timestamp])

    def time_passed(self, timestamp: int) -> None:
        self.heard.append(["time", timestamp])


def test_a_model_hears_what_its_log_has_in_order_whichever_key_comes_first() -> None:
    opened = cm.SCHEMA.encode(cm.SessionOpenEvent(leadership_term_id=0, cluster_session_id=4, timestamp=900))
    term = cm.SCHEMA.encode(cm.NewLeadershipTermEvent(leadership_term_id=3, timestamp=1000))
    log = [opened, message(b"{a"), term, message(b"own", session=-5), message(b"{b"), message(b"{a")]
    first = [["time", 900], ["opened", 4, 900], ["time", 1000]]
    heard = [*first, ["term", 3, 1000], ["own", "own", 1000]]
    assert answers_of(OfEvents, log, list(map(json.dumps, [first, heard, heard]))) == {"judged": 3}


@pytest.mark.parametrize(
    ("answer", "expected", "agrees"),
    [
        (b"ok", "ok", True),
        (b"ok", b"ok", True),
        (b"ok", "no", False),
        (b'{"b": 1, "a": [null]}', {"a": (None,), "b": 1}, True),
        (b"1", True, False),
        (b"not json", 1, False),
        (b"\xff", 1, False),
        (b"null", None, True),
    ],
)
def test_answers_are_bytes_text_or_json(answer: bytes, expected: Any, agrees: bool) -> None:
    assert says(answer, expected) is agrees


def test_an_integer_that_python_does_not_read_is_no_wrong_answer() -> None:
    with pytest.raises(ValueError, match="4300 digits"):
        says(b"9" * 5000, 10**4999)


def test_binary_requests_are_shown_in_one_line_of_a_terminal() -> None:
    assert [shown_value(each) for each in (b")\0\x1b\n\xff", "ü\t", b"plain")] == [r")\x00\x1b\n\xff", r"ü\t", "plain"]


def test_answers_stand_in_the_history_byte_for_byte() -> None:
    for answer in (b"plain", "ä".encode(), bytes(range(256)), "\U0010f080\U0010f0ff".encode()):
        line = parse_object(json.dumps({"result": answer_text(answer)}))
        assert answer_bytes(str(line["result"])) == answer


# --- promises ---


def held(own: PlainPromise) -> tuple[bool | None, str, int | None]:
    judged_own = judgement(own)
    return judged_own["kept"], judged_own["detail"], judged_own["position"]


def judgement(own: PlainPromise) -> dict[str, Any]:
    requests = [Request(b"%d" % number, position=10 * number) for number in range(1, 5)]
    return judge("s", own, OwnRun(requests, lambda: ((each, int(each.payload)) for each in requests)))


def kept(run: OwnRun) -> None:
    assert [state for _, state in run.states()] == [1, 2, 3, 4]


def broken(run: OwnRun) -> None:
    for request in run.requests():
        assert request.json() < 3, "three"


def says_no(run: OwnRun) -> bool:
    return False


def never_begins(run: OwnRun) -> Iterator[None]:
    assert not list(run.requests())
    yield


def fails(run: OwnRun) -> None:
    for request in run.requests():
        request.json()["token"]


@pytest.mark.parametrize(
    ("own", "is_kept", "says", "position"),
    [
        (kept, True, "holds up to position 40", None),
        (broken, False, "({file}:{line} in broken) at position 30", 30),
        (stays_small, False, "AssertionError: assert state < 2 ({services}/fenced_promises.py:", 20),
        (says_no, False, "it returned False", None),
        (never_begins, None, "it returned ", None),
        (fails, None, "raised TypeError: 'int' object is not subscriptable ({file}:", 10),
    ],
)
def test_a_promise_is_kept_broken_or_unknown(
    own: PlainPromise, is_kept: bool | None, says: str, position: int | None
) -> None:
    found, detail, at = held(own)
    line = own.__code__.co_firstlineno + 2  # type: ignore[attr-defined]
    assert (found, at) == (is_kept, position)
    assert says.format(file=__file__, line=line, services=SERVICES) in detail


@pytest.mark.parametrize("own", [fails, never_begins])
def test_a_promise_that_raises_or_returns_no_verdict_is_at_fault_itself(own: PlainPromise) -> None:
    assert judgement(own)["at_fault"]


@pytest.mark.parametrize("own", [kept, broken, says_no])
def test_a_promise_that_judges_is_not_at_fault(own: PlainPromise) -> None:
    assert not judgement(own).get("at_fault")


def test_two_promises_with_one_sentence_are_an_error() -> None:
    promise("a sentence of two")(kept)
    promise("a sentence of two")(kept)
    with pytest.raises(ValueError, match="duplicate promise 'a sentence of two'"):
        promise("a sentence of two")(broken)
    with pytest.raises(TypeError, match="expected the sentence of a promise"):
        promise(kept)  # type: ignore[arg-type]


def test_a_module_of_promises_may_be_imported_by_two_names(tmp_path: Path) -> None:
    path = tmp_path / "promised.py"
    path.write_text("from upheaval.model import promise\n@promise('imported twice')\ndef one(run): pass\n")
    for name in ("promised", "package.promised"):
        exec(compile(path.read_text(), path, "exec"), {"__name__": name})
    path = tmp_path / "other.py"
    with pytest.raises(ValueError, match=r"package.promised.one and other.one"):
        exec(compile((tmp_path / "promised.py").read_text(), path, "exec"), {"__name__": "other"})


# --- the whole, with the code in a process of its own ---


def verified(run: BuiltRun, folder: Path) -> Report:
    run.write(folder)
    return verify_run(folder)


def test_a_good_run_is_valid_by_its_model(tmp_path: Path) -> None:
    report = verified(locks_run(), tmp_path)
    assert report.verdict is Verdict.VALID, report
    detail = report.finding(Promise.LINEARIZABLE).detail
    assert detail == f"{CALLS} answers of calls are those of the model fenced_model:Locks in the order of the log"
    assert Promise.LINEARIZABLE not in {each.promise for each in report.unchecked}


def test_a_run_without_a_model_is_judged_by_its_service(tmp_path: Path) -> None:
    run = locks_run("")
    wrong_answer(run)
    report = verified(run, tmp_path)
    finding = report.finding(Promise.LINEARIZABLE)
    assert (finding.verdict, finding.operation) == (Verdict.INVALID, 20)
    assert 'expected {"ok": true} by a replay of fenced:Fenced, got {"ok": true, "token": 3}' in finding.detail


def test_without_its_code_no_answer_is_judged_and_evidence_is_missing(tmp_path: Path) -> None:
    run = locks_run("")
    run.manifest = replace(run.manifest, source_digest="0" * 64)
    wrong_answer(run)
    report = verified(run, tmp_path)
    assert report.verdict is Verdict.UNKNOWN
    (missing,) = (finding for finding in report.findings if finding.verdict is not Verdict.VALID)
    assert missing.promise is Promise.EVIDENCE_COMPLETE
    assert "was changed since the run began: judge the run where that code is" in missing.detail
    why = {each.promise: each.why for each in report.unchecked}[Promise.LINEARIZABLE]
    assert why == "no answer of calls was judged: its code was changed since the run"


def test_calls_that_overlap_in_their_session_do_not_count_as_wrong(tmp_path: Path) -> None:
    """The one before was given up in the same session: its answer may have come in the place of the next one."""
    run = locks_run("")
    wrong_answer(run)
    given_up = replace(run.operations[19], outcome=Outcome.UNKNOWN, complete_ns=None, result=None)
    run.operations[19] = given_up
    report = verified(run, tmp_path)
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.VALID
    detail = report.finding(Promise.LINEARIZABLE).detail
    assert detail.startswith("19 answers of calls are those of a replay of ")
    assert detail.endswith(f"; {CALLS - 20} answers of overlapping calls were not judged")
    run.operations = [replace(each, matched=each.result is not None or None) for each in run.operations]
    report = verified(run, tmp_path / "told apart")
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.INVALID
    assert report.finding(Promise.LINEARIZABLE).operation == 20


@pytest.mark.parametrize(
    ("model", "damage", "says"),
    [
        ("fenced_model:Failing", None, "raised KeyError: 'lock-0' ({services}/fenced_model.py:"),
        ("fenced_model:Nobody", None, "module fenced_model has no class 'Nobody'"),
        ("fenced:Fenced", lambda run: None, ""),
        ("fenced:Fenced", wrong_answer, 'expected {{"ok": true}} by the model fenced:Fenced, got'),
        ("fenced_model:Loud", None, ""),
        ("fenced_model:Loud", wrong_answer, 'expected {{"ok": true}} by the model fenced_model:Loud, got'),
        ("nowhere:Locks", None, "No module named 'nowhere'"),
        ("fenced_model:Locks", not_written_down, "its answer was not written down"),
    ],
)
def test_what_the_users_code_does_is_no_pass(
    model: str, damage: Callable[[BuiltRun], None] | None, says: str, tmp_path: Path
) -> None:
    run = locks_run(model)
    if damage is not None:
        damage(run)
    report = verified(run, tmp_path)
    assert (report.verdict is Verdict.VALID) is (not says)
    finding = report.finding(Promise.LINEARIZABLE)
    assert says.format(services=SERVICES) in finding.detail
    wanted = Verdict.INVALID if damage is wrong_answer else Verdict.UNKNOWN
    assert finding.verdict is (wanted if says else Verdict.VALID)


@pytest.mark.parametrize("model", ["fenced_model:Failing", "fenced_model:Nobody", "nowhere:Locks"])
def test_a_model_that_raises_or_is_not_there_fails_a_test(model: str, tmp_path: Path) -> None:
    report = verify_to_first_failure(locks_run(model).write(tmp_path))
    (finding,) = [finding for finding in report.findings if finding.fails_test]
    assert (finding.promise, finding.verdict) == (Promise.LINEARIZABLE, Verdict.UNKNOWN)


def test_what_is_unknown_for_another_reason_fails_no_test(tmp_path: Path) -> None:
    run = locks_run()
    not_written_down(run)
    folder = run.write(tmp_path)
    assert verify_run(folder.path).verdict is Verdict.UNKNOWN
    assert not any(finding.fails_test for finding in verify_to_first_failure(folder).findings)


def test_a_model_that_never_ends_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "TIMEOUT_S", 1.0)
    finding = verified(locks_run("fenced_model:Endless"), tmp_path).finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.UNKNOWN
    assert "its code did not end within 1 s" in finding.detail


def test_a_service_that_was_changed_since_is_no_model_of_itself(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "changed_locks.py").write_text((SERVICES / "fenced.py").read_text())
    run = locks_run("changed_locks:Fenced")
    service = "changed_locks:Fenced"
    digest = source_digest(str(source), service)
    run.manifest = replace(
        run.manifest, service=service, source=str(source), source_digest=digest, model_source=str(source)
    )
    folder = run.write(tmp_path / "run")
    with (source / "changed_locks.py").open("a") as module:
        module.write("# changed")
    finding = verify_run(folder.path).finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.UNKNOWN
    assert "its code was changed since the run" in finding.detail


def test_own_promises_stand_in_the_report_by_their_sentences(tmp_path: Path) -> None:
    run = locks_run("fenced_promises")
    index = next(at for at in range(60, CALLS) if "token" in str(run.operations[at].result))
    run.operations[index] = replace(run.operations[index], result='{"ok": true, "token": 1}')
    report = verified(run, tmp_path)
    assert report.verdict is Verdict.INVALID
    twice = report.finding(OwnPromise.of("a fencing token is never given twice"))
    assert twice.verdict is Verdict.INVALID
    assert "AssertionError: token 1 after " in twice.detail
    assert report.finding(OwnPromise.of("a lock that is held has a holder")).verdict is Verdict.VALID
    assert "invalid: a fencing token is never given twice: " in str(report)
    assert {"promise": str(twice.promise), "sentence": "a fencing token is never given twice"}.items() <= (
        twice.to_fields().items()
    )
