"""JSON lines on stderr: one an event that concerns an operator, whatever the event says."""

import json
import logging
import signal
from pathlib import Path

import pytest

from unit.runtime.member_processes import Members, ended
from upheaval_node.runtime import log_lines
from upheaval_node.runtime.error_sink import ProcessErrorSink
from upheaval_node.runtime.log_lines import JSON, VARIABLE
from upheaval_node.runtime.programs import run_program
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.types import Now

NOW = Now(5, 1_700_000_000_123)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.fixture
def tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileTracer:
    monkeypatch.setenv(VARIABLE, JSON)
    return FileTracer(str(tmp_path / "trace.jsonl"), member_id=2, component="all", run_id="r1")


def test_a_change_of_state_is_a_line_of_its_component(tracer: FileTracer, capsys: pytest.CaptureFixture[str]) -> None:
    tracer.emit(NOW, "role", old="FOLLOWER", new="LEADER")
    tracer.emit(NOW, "service-terminate", service_id=1, log_position=64)
    tracer.emit(NOW, "send", message="Vote")
    role, service = lines(capsys)
    assert role["time"] == "2023-11-14T22:13:20.123Z"
    assert (role["level"], role["event"], role["component"]) == ("info", "role", "consensus")
    assert (role["member"], role["run"], role["old"], role["new"]) == (2, "r1", "FOLLOWER", "LEADER")
    assert (service["component"], service["log_position"]) == ("service-1", 64)


@pytest.mark.parametrize(
    ("kind", "component"), [("service-3-module", "service-3"), ("media-peer", "media"), ("peer", "all")]
)
def test_an_error_is_one_line_of_its_kind(
    tracer: FileTracer, capsys: pytest.CaptureFixture[str], kind: str, component: str
) -> None:
    errors = ProcessErrorSink("member 2 all", tracer)
    errors.report(NOW, kind, "two\nlines")
    errors.report(NOW, kind, "again")
    (line,) = lines(capsys)
    assert (line["level"], line["event"], line["kind"], line["text"]) == ("error", "error", kind, "two lines")
    assert line["component"] == component


def test_fields_do_not_hide_whose_line_it_is(tracer: FileTracer, capsys: pytest.CaptureFixture[str]) -> None:
    tracer.emit(NOW, "terminated", reason="x", expected=False, level="debug", member=9, time="never")
    (line,) = lines(capsys)
    assert (line["level"], line["member"], line["time"]) == ("error", 2, "2023-11-14T22:13:20.123Z")


def test_without_the_variable_an_error_is_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    tracer = FileTracer(str(tmp_path / "trace.jsonl"), member_id=2, component="all")
    tracer.emit(NOW, "role", old="FOLLOWER", new="LEADER")
    ProcessErrorSink("member 2 all", tracer).report(NOW, "peer", "gone")
    assert capsys.readouterr().err == "member 2 all: peer: gone\n"


def test_a_bug_is_one_line_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, JSON)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def make() -> None:
        raise ZeroDivisionError("a bug")

    root = logging.getLogger()
    before = list(root.handlers)
    try:
        assert run_program("upheaval-member all", make) == 1  # type: ignore[arg-type]
    finally:
        root.handlers[:] = before
    (line,) = lines(capsys)
    assert (line["level"], line["event"], line["program"], line["status"]) == (
        "error",
        "failed",
        "upheaval-member all",
        1,
    )
    assert "ZeroDivisionError" in str(line["traceback"])


def test_what_a_service_logs_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("bank")
    handler = log_lines._JsonHandler("upheaval-member service-0")
    logger.addHandler(handler)
    try:
        logger.warning("account %s is empty", "a")
    finally:
        logger.removeHandler(handler)
    (line,) = lines(capsys)
    assert (line["level"], line["event"], line["logger"], line["text"]) == (
        "warning",
        "log",
        "bank",
        "account a is empty",
    )


def test_a_member_says_all_of_its_life_in_json(tmp_path: Path) -> None:
    members = Members(tmp_path)
    members.environment = {VARIABLE: JSON}
    try:
        process = members.start(0)
        members.wait_until_leader()
        process.send_signal(signal.SIGTERM)
        status, errors = ended(process)
    finally:
        members.end()
    assert status == 0
    told = [json.loads(line) for line in errors.splitlines()]
    events = [line["event"] for line in told]
    assert (events[0], events[-1]) == ("process-start", "process-end")
    assert {"role", "module_state", "service-role", "service-terminate"} <= set(events)
    assert {line["component"] for line in told} == {"all", "consensus", "service-0"}
    assert all({"time", "level", "member", "pid"} <= line.keys() for line in told)


def test_a_start_that_fails_is_one_line(tmp_path: Path) -> None:
    members = Members(tmp_path, service="nothing.here:Service")
    members.environment = {VARIABLE: JSON}
    try:
        status, errors = ended(members.start(0))
    finally:
        members.end()
    assert status == 2
    failed = [json.loads(line) for line in errors.splitlines() if '"failed"' in line]
    assert len(failed) == 1
    assert failed[0]["status"] == 2
