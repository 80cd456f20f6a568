"""Doorbell and error sink of the process runtime."""

from pathlib import Path

import pytest

from unit.runtime.parties import child, run_until
from upheaval_node.errors import ContradictionError, StorageError, TerminationError
from upheaval_node.files import layout
from upheaval_node.member_config import MemberConfig
from upheaval_node.runtime.doorbell import Doorbell
from upheaval_node.runtime.error_sink import MAX_KINDS, MAX_TEXT_LENGTH, ProcessErrorSink
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.process import ALL, MemberProcess
from upheaval_node.runtime.programs import status_of
from upheaval_node.runtime.shared_counters import create_cnc
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.types import Now


def test_a_ring_ends_the_wait_of_another_process(loop: Loop, tmp_path: Path) -> None:
    code = """
        import sys
        from upheaval_node.runtime.doorbell import Doorbell
        from upheaval_node.runtime.loop import Loop
        Doorbell(Loop(), sys.argv[1], [sys.argv[2]]).ring_others()
    """
    bell = Doorbell(loop, str(tmp_path / "a"), [])
    with child(code, str(tmp_path / "b"), str(tmp_path / "a")):
        run_until(loop, lambda: bell.ring_count)
    bell.close()


def test_a_bell_that_is_missing_or_full_does_no_harm(loop: Loop, tmp_path: Path) -> None:
    other_loop = Loop()
    sleeper = Doorbell(other_loop, str(tmp_path / "sleeper"), [])
    bell = Doorbell(loop, str(tmp_path / "a"), [str(tmp_path / "sleeper"), str(tmp_path / "missing")])
    for _ in range(5000):
        bell.ring_others()
    sleeper.close()
    other_loop.close()
    bell.ring_others()
    bell.close()
    assert not (tmp_path / "a").exists()


def test_an_error_is_counted_always_and_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracer = FileTracer(str(tmp_path / "trace"), member_id=0, component="all")
    sink = ProcessErrorSink("member 0", tracer)
    log: list[str] = []
    for number in range(3):
        sink.report(Now(1, 1), "bad frame", f"length\n{number}")
    sink.attach_error_log(lambda _, text: log.append(text))
    sink.report(Now(2, 2), "bad frame", "x" * 10_000)
    assert sink.counts == {"bad frame": 4}
    assert capsys.readouterr().err == "member 0: bad frame: length 0\n"
    assert log[:3] == [f"bad frame: length {number}" for number in range(3)]
    assert len(log[3]) == len("bad frame: ") + MAX_TEXT_LENGTH
    assert (tmp_path / "trace").read_text().count("\n") == 1


def test_an_error_that_cannot_be_written_down_ends_nothing() -> None:
    sink = ProcessErrorSink("member 0")

    def refuse(_: Now, text: str) -> None:
        raise StorageError(f"no space for {text}")

    sink.attach_error_log(refuse)
    sink.report(Now(1, 1), "bad frame", "text")
    assert sink.counts == {"bad frame": 1}


def test_kinds_of_errors_are_bounded() -> None:
    sink = ProcessErrorSink("member 0")
    for number in range(2 * MAX_KINDS):
        sink.report(Now(1, 1), f"kind {number}", "text")
    assert len(sink.counts) <= MAX_KINDS + 1
    assert sum(sink.counts.values()) == 2 * MAX_KINDS
    assert sink.counts["other"] == MAX_KINDS


def test_exit_statuses_have_the_numbers_that_were_promised() -> None:
    assert {status.name: status.value for status in ExitStatus} == {
        "OK": 0,
        "INTERNAL_ERROR": 1,
        "USAGE": 2,
        "ADDRESS_UNAVAILABLE": 3,
        "STORAGE_FAILED": 4,
        "ALREADY_RUNNING": 5,
        "COMPONENT_LOST": 6,
        "TERMINATED": 7,
        "STOP_TIMED_OUT": 8,
        "PEER_FAULT": 9,
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ContradictionError("ack out of sequence"), ExitStatus.INTERNAL_ERROR),
        (TerminationError("the archive is gone", expected=False), ExitStatus.TERMINATED),
        (StorageError("no space"), ExitStatus.STORAGE_FAILED),
        (AssertionError(), ExitStatus.INTERNAL_ERROR),
    ],
)
def test_parts_of_a_member_that_disagree_are_a_defect(error: Exception, status: ExitStatus) -> None:
    """No fault explains the status of a defect (`no-unexplained-end`)."""
    assert status_of(error) is status


def test_challenges_do_not_come_again_after_a_restart_with_the_same_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = MemberConfig(0, "0,a:1,a:2,a:3,a:4,a:5", folder=str(tmp_path), seed=7)
    nonces: list[bytes] = []
    for start in ("first", "second"):
        (tmp_path / start).mkdir()
        monkeypatch.chdir(tmp_path / start)
        process = MemberProcess(config, ALL)
        cnc = create_cnc(layout.CNC, pid=1, now_ms=1, is_shared=False)
        ports = process._ports(cnc, None)
        assert ports.nonces is not None
        nonces.append(ports.nonces.randbytes(24))
        process._parts.close()
        process._parts.loop.close()
        cnc.close()
    assert nonces[0] != nonces[1]
