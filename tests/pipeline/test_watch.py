"""A watch says of a run that grows what `verify` says of it in the end, as far as that is known."""

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import BuiltRun, good_run, operation_index, payload_index, trace_line
from support.growing_runs import GrowingRun, answers
from support.watching import command, watching
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Function, RunFolder, seal
from upheaval.waits import wait_until
from upheaval_chaos.exit_status import CommandStatus
from upheaval_pipeline.watch import IN_VOLUMES, open_checkpoint

OPERATIONS = 1200


def grown(folder: Path, damage: Callable[[BuiltRun], None] = lambda _: None) -> GrowingRun:
    """Nothing of a run, which can be put there."""
    run = good_run(OPERATIONS)
    damage(run)
    run.write(folder / "finished")
    return GrowingRun(folder / "finished", folder / "run")


def over_twenty_minutes(run: BuiltRun) -> None:
    """So that what waits too long is given up."""
    for index, operation in enumerate(run.operations):
        times = (None if ns is None else ns * 10**6 for ns in (operation.invoke_ns, operation.complete_ns))
        invoke, complete = times
        assert invoke is not None
        run.operations[index] = replace(operation, invoke_ns=invoke, complete_ns=complete)


def test_a_good_run_is_followed_to_its_end(spark: Any, tmp_path: Path) -> None:
    growing = grown(tmp_path, over_twenty_minutes)
    with watching(spark, growing.run.path, tmp_path / "checkpoint") as watch:
        for share in (0.3, 0.7):
            growing.put(share)
            watch.until_read(0, round(growing.log_end(0) * share) - 2000)
        growing.end()
        assert watch.until_over() is Verdict.VALID, watch.said
        assert watch.said.last is not None
        assert watch.said.last.followed == answers(growing.run)
        assert watch.said.findings == []


def stale_read(run: BuiltRun) -> None:
    index = operation_index(run, lambda o: o.f is Function.READ and o.result is not None, after=400)
    run.operations[index] = replace(run.operations[index], result=-1)


def lost(run: BuiltRun) -> None:
    victim = run.operations[operation_index(run, lambda o: o.f is Function.ECHO, after=400)]
    for payloads in run.payloads:
        del payloads[payload_index(payloads, victim.id)]


def diverging(run: BuiltRun) -> None:
    victim = run.operations[operation_index(run, lambda o: o.f is Function.WRITE, after=400)]
    payloads = run.payloads[1]
    index = payload_index(payloads, victim.id)
    payloads[index] = payloads[index][:-1] + b"#"


def two_leaders(run: BuiltRun) -> None:
    run.traces[0].append(trace_line(0, 1))


BROKEN = {
    Promise.LINEARIZABLE: stale_read,
    Promise.ACKNOWLEDGED_NOT_LOST: lost,
    Promise.LOGS_EQUAL: diverging,
    Promise.ONE_LEADER_A_TERM: two_leaders,
}


def all_of_it(run: BuiltRun) -> None:
    for damage in BROKEN.values():
        damage(run)


def test_what_is_broken_is_told_while_the_run_goes_on(spark: Any, tmp_path: Path) -> None:
    growing = grown(tmp_path, all_of_it)
    report = verify_run(growing.source.path)
    assert {promise for promise in BROKEN if report.finding(promise).verdict is Verdict.INVALID} == set(BROKEN)
    with watching(spark, growing.run.path, tmp_path / "checkpoint") as watch:
        growing.put(0.2)
        for member in range(3):
            watch.until_read(member, round(growing.log_end(member) * 0.2) - 2000)
        assert watch.said.findings == []
        growing.put(0.9)
        for promise in BROKEN:
            watch.until_found(promise)
        growing.end()
        assert watch.until_over() is Verdict.INVALID
        assert watch.said.broken == set(BROKEN)


def test_what_is_not_whole_is_waited_for(spark: Any, tmp_path: Path) -> None:
    growing = grown(tmp_path)
    segment = next(RecordedLog(growing.source.member(0)).segments())
    begin = segment.offsets[len(segment.offsets) // 2]
    with watching(spark, growing.run.path, tmp_path / "checkpoint") as watch:
        growing.put_log(0, begin + 16, committed=growing.log_end(0))
        watch.until_read(0, begin)
        growing.put_history(0.3)
        assert not growing.run.history_file.read_bytes().endswith(b"\n")
        watch.until_followed(200)
        assert watch.said.last is not None
        assert watch.said.last.read[0] == begin
        growing.end()
        assert watch.until_over() is Verdict.VALID, watch.said
        assert watch.said.last.followed == answers(growing.run)
        assert watch.said.findings == []


def without_end(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.pop()


def test_an_answer_past_all_logs_is_lost(spark: Any, tmp_path: Path) -> None:
    growing = grown(tmp_path, without_end)
    with watching(spark, growing.run.path, tmp_path / "checkpoint") as watch:
        growing.end()
        assert watch.until_over() is Verdict.INVALID
        assert watch.said.broken == {Promise.ACKNOWLEDGED_NOT_LOST}


def test_what_was_lost_or_did_not_converge_is_not_called_valid(spark: Any, tmp_path: Path) -> None:
    growing = grown(tmp_path)
    (growing.run.member(1).path / "replaced-1").mkdir()
    with watching(spark, growing.run.path, tmp_path / "checkpoint") as watch:
        growing.put(0.9)
        growing.put_history(1)
        manifest = growing.source.read_manifest()
        assert manifest.converge is not None
        growing.run.write_manifest(replace(manifest, converge=replace(manifest.converge, reached=False)))
        assert watch.until_over() is Verdict.UNKNOWN, watch.said
        assert watch.said.findings == []
        assert any("did not converge" in note for note in watch.said.notes)
        assert any("member 1 lost files" in note for note in watch.said.notes)


def in_containers(run: BuiltRun) -> None:
    run.manifest = replace(run.manifest, runtime="docker")


def test_logs_in_volumes_are_judged_when_the_run_is_collected(spark: Any, tmp_path: Path) -> None:
    growing = grown(tmp_path, in_containers)
    with watching(spark, growing.run.path, tmp_path / "checkpoint") as watch:
        growing.put_history(1)
        watch.until_waiting(answers(growing.run))
        assert IN_VOLUMES in watch.said.notes
        growing.end()
        watch.until_followed(answers(growing.run))
        assert watch.thread.is_alive()
        seal(growing.run)
        assert watch.until_over() is Verdict.VALID, watch.said


@pytest.mark.nightly
def test_it_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    growing = grown(tmp_path, stale_read)
    options = ("--dir", str(growing.run.path), "--checkpoint", str(tmp_path / "checkpoint"))
    growing.put(0.6)
    with command(tmp_path / "first", *options) as first:
        first.until_said("finding")
        first.send(signal.SIGKILL)
        assert first.status() == -signal.SIGKILL
    with command(tmp_path / "second", *options) as second:
        growing.end()
        assert second.status() == 1
        (end,) = second.said("end")
        assert end["followed"] == answers(growing.run)
        assert end["broken"] == [Promise.LINEARIZABLE]
        told = [*first.said("finding"), *second.said("finding")]
        assert {finding["promise"] for finding in told} == {Promise.LINEARIZABLE}
        assert len(told) <= 2


@pytest.mark.nightly
def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    growing.put(0.5)
    with command(tmp_path / "watch", "--dir", str(growing.run.path)) as watch:
        watch.until_said("status")
        watch.send(signal.SIGINT)
        assert watch.status() == 128 + signal.SIGINT
        assert list(watch.temporary.iterdir()) == []


@pytest.mark.nightly
def test_it_ends_with_its_reader(tmp_path: Path) -> None:
    good_run().write(tmp_path / "run")
    command = [sys.executable, "-m", "upheaval.cli.main", "watch", "--dir", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        watch.stdout.close()
        _, errors = watch.communicate()
    assert watch.returncode == CommandStatus.READER_GONE, errors.decode()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growing = grown(tmp_path)
    growing.end()
    open_checkpoint(tmp_path / "checkpoint", "another")
    assert main(["watch", "--dir", str(growing.run.path), "--checkpoint", str(tmp_path / "checkpoint")]) == 2
    said = capsys.readouterr().err
    assert "is the checkpoint of run another, this is run run-1" in said
    assert len(said.splitlines()) == 1


def test_a_file_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growing = grown(tmp_path)
    (tmp_path / "letter").write_text("dear")
    assert main(["watch", "--dir", str(growing.run.path), "--checkpoint", str(tmp_path / "letter")]) == 2
    assert capsys.readouterr().err == f"upheaval: {tmp_path / 'letter'} is not a folder: name a new one\n"


@pytest.mark.parametrize("folder", ["nothing", "checkpoint"])
def test_what_is_no_run_or_no_checkpoint_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    growing = grown(tmp_path)
    run = growing.run.path if folder == "checkpoint" else tmp_path / folder
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "letter").write_text("dear")
    assert main(["watch", "--dir", str(run), "--checkpoint", str(tmp_path / "checkpoint")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_real_cluster_is_followed_to_its_end(spark: Any, tmp_path: Path) -> None:
    """Its leader is killed under load, and comes back."""
    run = RunFolder(tmp_path / "run")
    options = ["run", "leader-killed", "--runtime", "process", "--dir", str(run.path)]
    with subprocess.Popen([sys.executable, "-m", "upheaval.cli.main", *options], stdout=subprocess.PIPE) as scenario:
        wait_until(run.history_file.exists, timeout_s=60, describe=lambda: "there is no load")
        with watching(spark, run.path, tmp_path / "checkpoint") as watch:
            assert watch.until_over() is Verdict.VALID, watch.said
            assert watch.said.findings == []
            assert watch.said.last is not None
            assert watch.said.last.followed == answers(run)
        scenario.communicate()
        assert scenario.returncode == 0
