"""Spark and the in-process checker say the same about sessions, timers, money, snapshots and orders."""

from pathlib import Path
from typing import Any

import pytest

from support.built_events import ledger_log, timers_log
from support.built_runs import good_run
from upheaval.checkers.identities import SECURITY_FILE
from upheaval.checkers.promises import Promise
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.records import CompanionConfig, ControlRecord, Function, note_companion
from upheaval.report import measure_run
from upheaval_chaos.record import Proof
from upheaval_node.protocol import cluster_messages as cm
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.measure import measure, measure_lake
from upheaval_pipeline.verify import verify, verify_lake

_END = (
    '{"ts":2,"component":"all","event":"cluster-end","log_position":AT,'
    '"leadership_term_id":0,"requested_term_id":0,"services":0}\n'
)


def test_a_good_ledger_is_valid_word_for_word_and_in_a_lake(tmp_path: Path, spark: Any) -> None:
    run = ledger_log().write(tmp_path / "run")
    run.add_control(ControlRecord("snapshot", 1, 2, 0, {}, Proof(True, "snapshot at position 1")))
    expected = verify_run(run.path)
    assert [finding.verdict for finding in expected.findings[-5:]] == [Verdict.VALID] * 5
    assert verify(spark, run.path) == expected
    ingest(spark, [run.path], str(tmp_path / "lake"))
    assert verify_lake(spark, str(tmp_path / "lake"), "run-1").findings == expected.findings
    assert [snapshot.length_ns for snapshot in measure_run(run).snapshots] == [1]
    assert measure_lake(spark, str(tmp_path / "lake"), "run-1") == measure_run(run)


def test_broken_sessions_timers_and_snapshots_are_the_same_in_both(tmp_path: Path, spark: Any) -> None:
    log = timers_log()
    del log.snapshots[1][0].service[1]
    log.fire(0)
    log.close()
    log.close(reason=cm.CloseReason.TIMEOUT)
    run = log.write(tmp_path)
    run.add_control(ControlRecord("suspend", 1, 2, 0, {}, Proof(False, "nobody leads")))
    for member_id, position in ((0, 64), (1, 96)):
        with run.member(member_id).trace.open("a") as trace:
            trace.write(_END.replace("AT", str(position)))
    expected = verify_run(tmp_path)
    broken = [finding for finding in expected.findings if finding.verdict is Verdict.INVALID]
    assert len(broken) == 4, expected.findings
    assert "member 0 ended at 64, member 1 at 96" in expected.finding(Promise.ENDS_AT_ONE_POSITION).detail
    assert verify(spark, tmp_path) == expected
    figures = measure_run(run)
    assert figures.timers is not None
    assert figures.timers.p50 == 3
    assert measure(spark, tmp_path) == figures


@pytest.mark.parametrize(("flags", "verdict"), [(0, Verdict.UNKNOWN), (1, Verdict.VALID)])
def test_a_snapshot_for_standbys_alone_is_not_asked_of_members_in_both(
    flags: int, verdict: Verdict, tmp_path: Path, spark: Any
) -> None:
    log = ledger_log()
    log.add(cm.SCHEMA.encode(cm.ClusterActionRequest(0, 0, log.tick(), cm.ClusterAction.SNAPSHOT, flags)))
    log.ask(Function.BALANCES, result=log.operations[-1].result)
    log.write(tmp_path)
    expected = verify_run(tmp_path)
    assert expected.finding(Promise.EVIDENCE_COMPLETE).verdict is verdict
    assert verify(spark, tmp_path) == expected


def test_a_stall_excuses_a_late_timer_in_both_and_in_a_lake(tmp_path: Path, spark: Any) -> None:
    log = timers_log()
    log.ask(Function.SCHEDULE, "h", 10, log.time + 20)
    for _ in range(110):
        log.tick()
        log.ask(Function.FIRED, "h", result=[])
    log.snapshots.clear()
    run = log.write(tmp_path / "run")
    line = len(run.member(1).trace.read_text().splitlines()) + 2
    for member_id, durations in ((1, (300, 9000)), (2, (9000, 20))):
        with run.member(member_id).trace.open("a") as trace:
            for duration in durations:
                trace.write(f'{{"ts":2,"event":"loop-stall","stall_ns":{duration}000000}}\n')
    expected = verify_run(run.path)
    finding = expected.finding(Promise.TIMERS_KEPT)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert f"a stall of 9000 ms (member-1/trace.jsonl:{line}) explains" in finding.detail
    assert verify(spark, run.path) == expected
    ingest(spark, [run.path], str(tmp_path / "lake"))
    assert verify_lake(spark, str(tmp_path / "lake"), "run-1").findings == expected.findings


def test_who_was_let_in_and_what_was_backed_up_is_judged_without_a_log_as_well(tmp_path: Path, spark: Any) -> None:
    good_run().write(tmp_path)
    (tmp_path / SECURITY_FILE).write_text('{"principals": ["alice"]}')
    note_companion(tmp_path, CompanionConfig("backup-0", position=4096))
    for path in tmp_path.glob("member-*/archive/*.rec"):
        path.unlink()
    report = verify(spark, tmp_path)
    assert report == verify_run(tmp_path)
    assert report.finding(Promise.ONLY_CREDENTIALS).verdict is Verdict.UNKNOWN
    assert report.finding(Promise.BACKED_UP).verdict is Verdict.INVALID
