"""Spark and the in-process checker say the same about good runs and about every way to break one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import BuiltRun, good_run, new_term, operation_index, payload_index, session_message, trace_line
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.history import Function, Outcome
from upheaval.run_folder import Converge, FinalPosition, RunFolder
from upheaval.service_messages import encode_operation
from upheaval_pipeline.verify import verify

Damage = Callable[[BuiltRun], None]


def verdicts(report: Any) -> dict[str, str]:
    return {finding.promise: finding.verdict.text for finding in report.findings}


def test_a_good_run_is_valid_word_for_word(tmp_path: Path, spark: Any) -> None:
    good_run(1500, echo_length=4000).write(tmp_path)
    report = verify(spark, tmp_path)
    assert report.verdict is Verdict.VALID, report.findings
    assert report == verify_run(tmp_path)


def wrong_read(run: BuiltRun) -> None:
    index = operation_index(run, lambda o: o.f is Function.READ, after=100)
    run.operations[index] = replace(run.operations[index], result="never written")


def lost_everywhere(run: BuiltRun) -> None:
    victim = run.operations[operation_index(run, lambda o: o.f is Function.ECHO, after=100)]
    for payloads in run.payloads:
        del payloads[payload_index(payloads, victim.id)]


def lost_on_one(run: BuiltRun) -> None:
    victim = run.operations[operation_index(run, lambda o: o.f is Function.WRITE, after=100)]
    del run.payloads[1][payload_index(run.payloads[1], victim.id)]


def applied_twice(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(payloads[50])


def two_leaders(run: BuiltRun) -> None:
    run.traces[0].append(trace_line(0, 1))


def announced_otherwise(run: BuiltRun) -> None:
    run.payloads[1][0] = new_term(0, 2)


def unexplained_entry(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(session_message(encode_operation(10**6, Function.ECHO, "", "who?")))


def out_of_time(run: BuiltRun) -> None:
    index = operation_index(run, lambda o: o.f is Function.ECHO, after=200)
    run.operations[index] = replace(run.operations[index], invoke_ns=0, complete_ns=1)


def never_sent(run: BuiltRun) -> None:
    index = operation_index(run, lambda o: True, after=30)
    run.operations[index] = replace(
        run.operations[index], outcome=Outcome.FAIL, complete_ns=None, result=None, position=None
    )


def not_converged(run: BuiltRun) -> None:
    run.converged = False


def no_history(run: BuiltRun) -> None:
    run.operations.clear()


@pytest.mark.parametrize(
    ("damage", "promise", "expected"),
    [
        (wrong_read, "linearizable", "invalid"),
        (lost_everywhere, "acknowledged operations are not lost", "invalid"),
        (lost_on_one, "logs are equal up to the commit position", "invalid"),
        (applied_twice, "no operation is applied twice", "invalid"),
        (two_leaders, "one leader a term", "invalid"),
        (announced_otherwise, "one leader a term", "invalid"),
        (unexplained_entry, "the history explains the log", "unknown"),
        (out_of_time, "linearizable", "invalid"),
        (never_sent, "no operation is applied twice", "invalid"),
        (not_converged, "the run converged", "unknown"),
        (no_history, "linearizable", "unknown"),
    ],
)
def test_both_engines_see_the_damage(tmp_path: Path, spark: Any, damage: Damage, promise: str, expected: str) -> None:
    built = good_run()
    damage(built)
    built.write(tmp_path)
    found = verdicts(verify(spark, tmp_path))
    assert found[promise] == expected
    assert found == verdicts(verify_run(tmp_path))


def test_a_log_that_was_cut_is_invalid_in_both(tmp_path: Path, spark: Any) -> None:
    built = good_run()
    full = list(built.payloads[0])
    del built.payloads[2][-40:]
    built.write(tmp_path)
    assert len(full) > len(built.payloads[2])
    finals = tuple(FinalPosition(i, built.end_positions[0], built.end_positions[0], 1) for i in range(3))
    RunFolder(tmp_path).write_manifest(replace(built.manifest, converge=Converge(True, 1, finals)))
    found = verdicts(verify(spark, tmp_path))
    assert found["every log reaches its final position"] == "invalid"
    assert found == verdicts(verify_run(tmp_path))


def test_a_missing_recording_is_unknown_in_both(tmp_path: Path, spark: Any) -> None:
    good_run().write(tmp_path)
    (tmp_path / "member-1" / "archive" / "archive.catalog").unlink()
    found = verdicts(verify(spark, tmp_path))
    assert found["every log reaches its final position"] == "unknown"
    assert found == verdicts(verify_run(tmp_path))


def test_a_malformed_history_is_the_same_error_in_both(tmp_path: Path, spark: Any) -> None:
    good_run().write(tmp_path)
    with (tmp_path / "history.jsonl").open("a") as stream:
        stream.write("{\n")
    with pytest.raises(UsageError) as here:
        verify_run(tmp_path)
    with pytest.raises(UsageError) as there:
        verify(spark, tmp_path)
    assert str(there.value) == str(here.value)


def test_keys_are_judged_by_several_tasks(tmp_path: Path, spark: Any) -> None:
    good_run().write(tmp_path)
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("tasks", "how many tasks one verdict takes")
    verify(spark, tmp_path)
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("tasks")]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    assert max(stage.numTasks for stage in stages if stage) > 1
