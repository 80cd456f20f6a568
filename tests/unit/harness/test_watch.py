"""A watch says of a run that grows what `verify` says of it in the end, as far as that is known."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import BuiltRun, good_run, operation_index, payload_index, session_message, trace_line
from support.growing_runs import GrowingRun, answers
from support.watching import Reported
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Function, RunFolder, encode_operation, seal
from upheaval.watch.watch import IN_VOLUMES, POWER_LOST, Watch
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.record import FaultRecord, Proof

OPERATIONS = 1200


def grown(folder: Path, damage: Callable[[BuiltRun], None] = lambda _: None) -> GrowingRun:
    """Nothing of a run, which can be put there."""
    run = good_run(OPERATIONS)
    damage(run)
    run.write(folder / "finished")
    return GrowingRun(folder / "finished", folder / "run")


def watched(growing: GrowingRun, unsealed_s: float = 0.0) -> tuple[Watch, Reported]:
    reported = Reported()
    watch = Watch(growing.run, reported, unsealed_s)
    watch.begin()
    return watch, reported


def ended(growing: GrowingRun, watch: Watch) -> Verdict:
    """What it says when the whole run is there, and its members are gone."""
    growing.end()
    assert watch.look()
    return watch.end()


def test_a_good_run_is_followed_to_its_end(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    watch, reported = watched(growing)
    for share in (0.3, 0.31, 0.7):
        growing.put(share)
        assert not watch.look()
        assert 0 < growing.log_end(0) * share - reported.now.read[0] < 2000
        assert reported.now.followed > OPERATIONS * (share - 0.05)
    assert ended(growing, watch) is Verdict.VALID, reported.report
    assert reported.findings == []
    assert reported.report == verify_run(growing.run.path)
    assert (reported.now.followed, reported.now.waiting, reported.now.unread_bytes) == (answers(growing.run), 0, 0)


def stale_read(run: BuiltRun) -> None:
    index = operation_index(run, lambda o: o.f is Function.READ and o.result is not None, after=400)
    run.operations[index] = replace(run.operations[index], result=-1)


def short_list(run: BuiltRun) -> None:
    index = operation_index(run, lambda o: o.f is Function.LIST and bool(o.result), after=400)
    run.operations[index] = replace(run.operations[index], result=[])


def lost(run: BuiltRun) -> None:
    victim = run.operations[operation_index(run, lambda o: o.f is Function.ECHO, after=400)]
    for payloads in run.payloads:
        payloads[payload_index(payloads, victim.id)] = session_message(
            encode_operation(10**6, Function.ECHO, "", victim.value)
        )


def diverging(run: BuiltRun) -> None:
    victim = run.operations[operation_index(run, lambda o: o.f is Function.WRITE, after=400)]
    payloads = run.payloads[1]
    index = payload_index(payloads, victim.id)
    payloads[index] = payloads[index][:-1] + b"#"


def two_leaders(run: BuiltRun) -> None:
    run.traces[0].append(trace_line(0, 1))


BROKEN = {
    stale_read: Promise.LINEARIZABLE,
    short_list: Promise.LINEARIZABLE,
    lost: Promise.ACKNOWLEDGED_NOT_LOST,
    diverging: Promise.LOGS_EQUAL,
    two_leaders: Promise.ONE_LEADER_A_TERM,
}


@pytest.mark.parametrize("damage", BROKEN)
def test_what_is_broken_is_reported_while_the_run_goes_on_in_the_words_of_verify(
    damage: Callable[[BuiltRun], None], tmp_path: Path
) -> None:
    growing = grown(tmp_path, damage)
    watch, reported = watched(growing)
    growing.put(0.2)
    watch.look()
    assert reported.findings == []
    growing.put(0.95)
    growing.put_trace(0, 1)
    watch.look()
    (finding,) = reported.findings
    assert finding.promise is BROKEN[damage]
    known = verify_run(growing.source.path).finding(BROKEN[damage])
    if damage is two_leaders:  # of two claims on a term the one that was read first comes first
        assert set(finding.members) == set(known.members)
    else:
        assert known.detail.startswith(finding.detail)
        assert replace(finding, detail=known.detail) == known
    assert ended(growing, watch) is Verdict.INVALID
    assert reported.findings == [finding]


def test_logs_may_come_before_answers_and_answers_before_logs(tmp_path: Path) -> None:
    growing = grown(tmp_path, stale_read)
    watch, reported = watched(growing)
    for member in range(3):
        growing.put_log(member, growing.log_end(member))
    watch.look()
    assert reported.now.followed == 0
    growing.put_history(1)
    watch.look()
    assert reported.broken == {Promise.LINEARIZABLE}
    other = grown(tmp_path / "other", stale_read)
    watch, reported = watched(other)
    other.put_history(1)
    watch.look()
    assert (reported.now.followed, reported.now.waiting) == (0, answers(other.run))
    other.put(1)
    watch.look()
    assert reported.now.waiting == 0
    assert reported.broken == {Promise.LINEARIZABLE}


def test_what_is_not_whole_is_waited_for(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    segment = next(RecordedLog(growing.source.member(0)).segments())
    begin = segment.offsets[len(segment.offsets) // 2]
    watch, reported = watched(growing)
    growing.put_log(0, begin + 16, committed=growing.log_end(0))
    growing.put_history(0.3)
    assert not growing.run.history_file.read_bytes().endswith(b"\n")
    watch.look()
    assert reported.now.read[0] == begin
    assert reported.now.unread_bytes > 0
    assert ended(growing, watch) is Verdict.VALID
    assert reported.findings == []
    assert reported.now.followed == answers(growing.run)


def without_end(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.pop()


def test_what_only_the_end_shows_is_in_the_verdict(tmp_path: Path) -> None:
    growing = grown(tmp_path, without_end)
    watch, reported = watched(growing)
    assert ended(growing, watch) is Verdict.INVALID
    assert reported.report is not None
    assert reported.report.finding(Promise.ACKNOWLEDGED_NOT_LOST).verdict is Verdict.INVALID


def test_what_was_seen_broken_stays_so_when_the_files_do_not_show_it_any_more(tmp_path: Path) -> None:
    growing = grown(tmp_path, stale_read)
    watch, reported = watched(growing)
    growing.put(1)
    watch.look()
    good = grown(tmp_path / "good")
    growing.run.history_file.write_bytes(good.source.history_file.read_bytes())
    assert ended(growing, watch) is Verdict.INVALID
    assert reported.report is not None
    finding = reported.report.finding(Promise.LINEARIZABLE)
    assert finding.detail.endswith("seen while the run went on, its files do not show it any more")


def test_an_unsealed_run_is_over_when_it_converged_and_no_member_runs(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    watch, reported = watched(growing)
    growing.put(1)
    assert not watch.look()
    growing.end()
    assert watch.look()
    patient, _ = watched(growing, unsealed_s=3600)
    assert not patient.look()
    assert watch.end() is verify_run(growing.run.path).verdict
    assert reported.findings == []


def in_containers(run: BuiltRun) -> None:
    run.manifest = replace(run.manifest, runtime="docker")


def test_logs_in_volumes_are_judged_when_the_run_is_collected(tmp_path: Path) -> None:
    growing = grown(tmp_path, in_containers)
    watch, reported = watched(growing)
    growing.put_history(1)
    watch.look()
    assert IN_VOLUMES in reported.notes
    assert reported.now.waiting == answers(growing.run)
    growing.end()
    assert not watch.look()
    seal(growing.run)
    assert watch.look()
    assert watch.end() is verify_run(growing.run.path).verdict


def test_faults_are_reported_once_when_they_come_and_when_they_are_healed(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    watch, reported = watched(growing)
    fault = FaultRecord("kill", "member-1", 5, 6, inject_proof=Proof(True, "gone: process 7"))
    growing.run.add_fault(fault)
    watch.look()
    watch.look()
    assert reported.faults == ["kill member-1: gone: process 7"]
    growing.run.heal_fault(replace(fault, heal_begin_ns=7, heal_end_ns=8, heal_proof=Proof(True, "running")))
    watch.look()
    assert reported.faults[1:] == ["kill member-1, healed: running"]


def without_sync(run: BuiltRun) -> None:
    run.manifest = replace(run.manifest, sync_level=0)


def test_logs_that_go_back_after_a_power_cut_are_left_to_the_verdict(tmp_path: Path) -> None:
    growing = grown(tmp_path, without_sync)
    watch, reported = watched(growing)
    growing.put(0.5)
    watch.look()
    growing.run.add_fault(FaultRecord("power-cut", "member-1", 5, 6, members=(1,)))
    growing.put_log(0, 0)
    growing.put_history(1)
    watch.look()
    assert POWER_LOST in reported.notes
    assert reported.findings == []


def test_a_malformed_line_is_noted_and_the_rest_is_followed(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    watch, reported = watched(growing)
    growing.run.history_file.write_text("{]\n")
    growing.run.faults_file.write_text("{]\n")
    watch.look()
    watch.look()
    assert [note.partition(": not JSON")[0] for note in reported.notes[1:]] == [
        f"{growing.run.faults_file}:1",
        f"{growing.run.history_file}:1",
    ]


def test_a_member_with_another_host_is_read_from_its_new_log(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    watch, reported = watched(growing)
    growing.put(0.5)
    watch.look()
    member = growing.run.member(1)
    member.path.rename(member.path.with_name("elsewhere"))
    (member.path / "replaced-1").mkdir(parents=True)
    growing.put_history(0.6)
    watch.look()
    member.path.with_name("elsewhere").rename(member.path.with_name("again"))
    (member.path / "replaced-1").rmdir()
    member.path.rmdir()
    member.path.with_name("again").rename(member.path)
    assert ended(growing, watch) is Verdict.VALID
    assert reported.findings == []


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_every_line_has_the_time_and_the_exit_status_is_the_verdicts(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    growing = grown(tmp_path, stale_read)
    growing.end()
    growing.run.add_fault(FaultRecord("kill", "member-1", 5, 6))
    seal(growing.run)
    assert main(["watch", "--dir", str(growing.run.path), *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    if options:
        objects = [json.loads(line) for line in lines]
        assert [each["kind"] for each in objects if each["kind"] != "status"] == ["note", "fault", "finding", "end"]
        assert all(re.fullmatch(r"20..-..-..T..:..:..\.\d{3}\+00:00", each["time"]) for each in objects)
        assert objects[-1]["verdict"] == "invalid"
        assert objects[-1]["followed"] == answers(growing.run)
        assert {each["promise"]: each["verdict"] for each in objects[-1]["promises"]}["linearizable"] == "invalid"
    else:
        assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3} ", line) for line in lines[:4])
        assert " invalid: linearizable: operation id=" in lines[2]
        assert any(line.startswith("verdict: invalid, ") for line in lines)
        assert lines[-1] == str(growing.run.path)


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--dir", str(tmp_path / "nothing")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_run_that_cannot_be_judged_is_one_line_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growing = grown(tmp_path)
    growing.end()
    with growing.run.history_file.open("a") as history:
        history.write("{]\n")
    seal(growing.run)
    assert main(["watch", "--dir", str(growing.run.path)]) == 2
    captured = capsys.readouterr()
    assert f"history.jsonl:{OPERATIONS + 1}: not JSON" in captured.err
    assert "verdict" not in captured.out.splitlines()[-1]
    assert RunFolder(growing.run.path).read_manifest().sealed is not None


def test_it_ends_with_its_reader(tmp_path: Path) -> None:
    good_run().write(tmp_path / "run")
    command = [sys.executable, "-m", "upheaval.cli.main", "watch", "--dir", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        watch.stdout.close()
        _, errors = watch.communicate()
    assert watch.returncode == CommandStatus.READER_GONE, errors.decode()
