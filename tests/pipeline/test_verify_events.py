"""Spark and the in-process checker say the same about sessions, timers, money, snapshots and orders."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.built_events import ledger_log, timers_log
from support.built_locks import locks_run
from support.built_runs import good_run
from support.judged_runs import JudgedRun
from support.lakes import judged_in_lake
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.identities import SECURITY_FILE
from upheaval.checkers.verdict import Verdict
from upheaval.records import CompanionConfig, ControlRecord, Function, RunFolder, note_companion
from upheaval.report import measure_run
from upheaval_chaos.record import Proof
from upheaval_node.protocol import cluster_messages as cm
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.measure import measure, measure_lake

_END = (
    '{"ts":2,"component":"all","event":"cluster-end","log_position":AT,'
    '"leadership_term_id":0,"requested_term_id":0,"services":0}\n'
)


def ledger(folder: Path) -> None:
    run = ledger_log().write(folder)
    run.add_control(ControlRecord("snapshot", 1, 2, 0, {}, Proof(True, "snapshot at position 1")))


@pytest.mark.parametrize("judged", [ledger], indirect=True)
def test_a_good_ledger_is_valid_word_for_word(judged: JudgedRun) -> None:
    not_valid = [finding.promise for finding in judged.report.findings if finding.verdict is not Verdict.VALID]
    assert not_valid == [Promise.ENOUGH_TRAFFIC, Promise.SNAPSHOTS_TAKEN]
    assert judged.report == judged.here


def broken(folder: Path) -> None:
    log = timers_log()
    del log.snapshots[1][0].service[1]
    log.fire(0)
    log.close()
    log.close(reason=cm.CloseReason.TIMEOUT)
    run = log.write(folder)
    run.add_control(ControlRecord("suspend", 1, 2, 0, {}, Proof(False, "nobody leads")))
    for member_id, position in ((0, 64), (1, 96)):
        with run.member(member_id).trace.open("a") as trace:
            trace.write(_END.replace("AT", str(position)))


@pytest.mark.parametrize("judged", [broken], indirect=True)
def test_broken_sessions_timers_and_snapshots_are_the_same_in_both(
    judged: JudgedRun, tmp_path: Path, spark: Any
) -> None:
    invalid = [finding for finding in judged.report.findings if finding.verdict is Verdict.INVALID]
    assert len(invalid) == 4, judged.report.findings
    assert "member 0 ended at 64, member 1 at 96" in judged.report.finding(Promise.ENDS_AT_ONE_POSITION).detail
    assert judged.report == judged.here
    broken(tmp_path)
    figures = measure_run(RunFolder(tmp_path))
    assert figures.timers is not None
    assert figures.timers.p50 == 3
    assert list(measure(spark, [tmp_path])) == [figures]


def with_action(flags: int, folder: Path) -> None:
    log = ledger_log()
    log.add(cm.SCHEMA.encode(cm.ClusterActionRequest(0, 0, log.tick(), cm.ClusterAction.SNAPSHOT, flags)))
    log.ask(Function.BALANCES, result=log.operations[-1].result)
    log.write(folder)


@pytest.mark.parametrize(
    ("judged", "verdict"),
    [(partial(with_action, 0), Verdict.UNKNOWN), (partial(with_action, 1), Verdict.VALID)],
    indirect=["judged"],
)
def test_a_snapshot_for_standbys_alone_is_not_asked_of_members_in_both(judged: JudgedRun, verdict: Verdict) -> None:
    assert judged.report.finding(Promise.EVIDENCE_COMPLETE).verdict is verdict
    assert judged.report == judged.here


def stalled(folder: Path) -> None:
    log = timers_log()
    log.ask(Function.SCHEDULE, "h", 10, log.time + 20)
    for _ in range(110):
        log.tick()
        log.ask(Function.FIRED, "h", result=[])
    log.snapshots.clear()
    run = log.write(folder)
    for member_id, durations in ((1, (300, 9000)), (2, (9000, 20))):
        with run.member(member_id).trace.open("a") as trace:
            for duration in durations:
                trace.write(f'{{"ts":2,"event":"loop-stall","stall_ns":{duration}000000}}\n')


@pytest.mark.parametrize("judged", [stalled], indirect=True)
def test_a_stall_excuses_a_late_timer_in_both(judged: JudgedRun, tmp_path: Path) -> None:
    stalled(tmp_path)
    line = len((tmp_path / "member-1" / "trace.jsonl").read_text().splitlines())
    finding = judged.report.finding(Promise.TIMERS_KEPT)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert f"a stall of 9000 ms (member-1/trace.jsonl:{line}) explains" in finding.detail
    assert judged.report == judged.here


def without_logs(folder: Path) -> None:
    good_run().write(folder)
    (folder / SECURITY_FILE).write_text('{"principals": ["alice"]}')
    note_companion(folder, CompanionConfig("backup-0", position=4096))
    for path in folder.glob("member-*/archive/*.rec"):
        path.unlink()


@pytest.mark.parametrize("judged", [without_logs], indirect=True)
def test_who_was_let_in_and_what_was_backed_up_is_judged_without_a_log_as_well(judged: JudgedRun) -> None:
    assert judged.report == judged.here
    assert judged.report.finding(Promise.ONLY_CREDENTIALS).verdict is Verdict.UNKNOWN
    assert judged.report.finding(Promise.BACKED_UP).verdict is Verdict.INVALID


def test_a_lake_of_them_says_the_same(tmp_path: Path, spark: Any) -> None:
    folders = {name: tmp_path / name for name in ("ledger", "stalled", "model", "promises")}
    ledger(folders["ledger"])
    stalled(folders["stalled"])
    locks_run("fenced_model:Locks").write(folders["model"])
    locks_run("fenced_promises").write(folders["promises"])
    for name, folder in folders.items():
        RunFolder(folder).write_manifest(replace(RunFolder(folder).read_manifest(), run_id=name))
    ingest(spark, list(folders.values()), str(tmp_path / "lake"))
    lake = open_lake(str(tmp_path / "lake"))
    assert list(judged_in_lake(spark, lake, list(folders))) == [verify_run(folder) for folder in folders.values()]
    assert [snapshot.length_ns for snapshot in measure_run(RunFolder(folders["ledger"])).snapshots] == [1]
    assert list(measure_lake(spark, lake, ["ledger"])) == [measure_run(RunFolder(folders["ledger"]))]
