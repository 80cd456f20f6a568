"""The demo gives a valid run, and every way to tamper with a copy of it is found."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.valid import require_valid
from upheaval.checkers.evidence import logs
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import WORKBENCH, Function, Operation, Outcome, RunFolder
from upheaval.system.process_table import processes_of
from upheaval_chaos.exit_status import CommandStatus

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "run"
    assert main(["demo", "--dir", str(folder), "--operations", "1000"]) in (CommandStatus.VALID, CommandStatus.UNKNOWN)
    require_valid(verify_run(folder))
    return folder


@pytest.fixture
def copy(good_run: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(good_run, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_the_demo_is_valid_with_thousands_of_operations_of_every_kind(good_run: Path) -> None:
    require_valid(verify_run(good_run))
    operations = list(RunFolder(good_run).read_history())
    assert len(operations) >= 3000
    assert {operation.f for operation in operations if operation.outcome is Outcome.OK} == set(WORKBENCH)


def test_the_demo_took_two_leaders_away_and_others_led_after_them(good_run: Path) -> None:
    folder = RunFolder(good_run)
    faults = list(folder.read_faults())
    assert [fault.what for fault in faults] == ["kill", "blackhole"]
    assert all(fault.heal_end_ns is not None for fault in faults)
    log = logs.compare_logs(folder, (), 3, None).witness
    assert log is not None
    assert len({term.leader_member_id for term in log.terms}) >= 2


def test_the_demo_leaves_no_process(good_run: Path) -> None:
    assert processes_of(RunFolder(good_run).read_manifest().run_id) == []


def test_the_demo_prints_verdict_and_folder_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["demo", "--dir", str(tmp_path / "run"), "--operations", "300", "--components", "split"])
    require_valid(verify_run(tmp_path / "run"))
    captured = capsys.readouterr()
    report, verdict, folder = captured.out.splitlines()
    assert (report, folder) == (f"report: {tmp_path / 'run' / 'report.html'}", str(tmp_path / "run"))
    verdicts = {CommandStatus.VALID: "verdict: valid, ", CommandStatus.UNKNOWN: "verdict: unknown"}
    assert verdict.startswith(verdicts[CommandStatus(status)])
    assert "fault 'killed': gone: process" in captured.err
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def operations_of(folder: RunFolder) -> list[Operation]:
    return list(folder.read_history())


def rewrite_history(folder: RunFolder, operations: list[Operation]) -> None:
    folder.history_file.unlink()
    with folder.history_writer() as history:
        for operation in operations:
            history.add(operation)


def chosen(operations: list[Operation], wanted: Callable[[Operation], bool]) -> Operation:
    """An acknowledged operation from the middle of the run."""
    found = [operation for operation in operations if operation.outcome is Outcome.OK and wanted(operation)]
    return found[len(found) // 2]


def frame_place(folder: RunFolder, member_id: int, position: int) -> tuple[Path, int]:
    """The segment file, and the offset in it, of the frame that ends at a position."""
    log = RecordedLog(folder.member(member_id))
    for segment in log.segments():
        for offset, following in zip(segment.offsets, [*segment.offsets[1:], segment.end], strict=True):
            if segment.base + following == position:
                return folder.member(member_id).archive / f"{log.recording_id}-{segment.base}.rec", offset
    raise LookupError(position)


def test_an_entry_dropped_from_one_members_log_is_found(copy: RunFolder) -> None:
    victim = chosen(operations_of(copy), lambda operation: operation.f is Function.WRITE)
    assert victim.position is not None
    segment, offset = frame_place(copy, 1, victim.position)
    data = bytearray(segment.read_bytes())
    data[offset + 6 : offset + 8] = b"\0\0"  # the frame becomes padding
    segment.write_bytes(data)
    finding = verify_run(copy.path).finding(Promise.LOGS_EQUAL)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert "position" in finding.detail
    assert main(["verify", str(copy.path)]) == 1


def test_an_acknowledged_write_that_never_happened_is_found(copy: RunFolder) -> None:
    operations = operations_of(copy)
    known = chosen(operations, lambda operation: operation.f is Function.WRITE)
    rewrite_history(copy, [*operations, replace(known, id=1 << 59, value=-1)])
    finding = verify_run(copy.path).finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert finding.verdict is Verdict.INVALID
    assert f"id={1 << 59} " in finding.detail
    assert f"position {known.position}" in finding.detail
    assert main(["verify", str(copy.path)]) == 1


def test_two_swapped_results_are_found(copy: RunFolder) -> None:
    operations = operations_of(copy)
    first = chosen(operations, lambda operation: operation.f is Function.READ and operation.result is not None)
    second = chosen(
        operations,
        lambda operation: operation.f is Function.READ and operation.result not in (None, first.result),
    )
    swapped = {first.id: second.result, second.id: first.result}
    rewrite_history(copy, [replace(o, result=swapped.get(o.id, o.result)) for o in operations])
    finding = verify_run(copy.path).finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.INVALID
    assert any(f"id={o.id} " in finding.detail and f"position {o.position}" in finding.detail for o in (first, second))
    assert main(["verify", str(copy.path)]) == 1


def test_a_changed_read_value_is_found(copy: RunFolder) -> None:
    operations = operations_of(copy)
    victim = chosen(operations, lambda operation: operation.f is Function.READ and operation.result is not None)
    rewrite_history(copy, [replace(o, result=123_456_789) if o is victim else o for o in operations])
    finding = verify_run(copy.path).finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert f"position {victim.position}" in finding.detail
    assert main(["verify", str(copy.path)]) == 1


def test_two_leaders_in_a_term_are_found(copy: RunFolder) -> None:
    log = logs.compare_logs(copy, (), 3, None).witness
    assert log is not None
    term = log.terms[-1]
    other = copy.member((term.leader_member_id + 1) % 3)
    line = {"ts": 1, "event": "role", "role": "LEADER", "leadership_term_id": term.leadership_term_id}
    with other.trace.open("a") as stream:
        stream.write(json.dumps(line) + "\n")
    finding = verify_run(copy.path).finding(Promise.ONE_LEADER_A_TERM)
    assert finding.verdict is Verdict.INVALID
    assert f"term {term.leadership_term_id} has leader" in finding.detail
    assert f"member-{other.member_id}/trace.jsonl" in finding.detail
    assert main(["verify", str(copy.path)]) == 1


def test_a_recording_cut_below_the_final_positions_is_found(copy: RunFolder) -> None:
    operations = [operation for operation in operations_of(copy) if operation.position is not None]
    last = max(operations, key=lambda operation: operation.position or 0)
    assert last.position is not None
    segment, offset = frame_place(copy, 2, last.position)
    segment.write_bytes(segment.read_bytes()[:offset])
    finding = verify_run(copy.path).finding(Promise.LOGS_COMPLETE)
    assert finding.verdict is Verdict.INVALID
    assert "member 2" in finding.detail
    assert main(["verify", str(copy.path)]) == 1


def test_without_the_converge_phase_the_same_run_is_unknown(copy: RunFolder) -> None:
    copy.write_manifest(replace(copy.read_manifest(), converge=None))
    assert verify_run(copy.path).finding(Promise.RUN_CONVERGED).verdict is Verdict.UNKNOWN
    assert main(["verify", str(copy.path)]) == 3
