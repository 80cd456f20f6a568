"""Spark and the in-process checker say the same about good runs and about every way to break one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import (
    BuiltRun,
    good_run,
    new_term,
    operation_index,
    payload_index,
    session_message,
    trace_line,
)
from support.judged_runs import JudgedRun
from support.lakes import judged_in_lake
from support.schema_versions import in_version
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import (
    Converge,
    FinalPosition,
    Function,
    Outcome,
    RunFolder,
    encode_operation,
)
from upheaval.report import measure_run
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.measure import measure_lake

Damage = Callable[[BuiltRun], None]


def good(folder: Path) -> None:
    good_run(1500, echo_length=4000).write(folder)


@pytest.mark.parametrize("judged", [good], indirect=True)
def test_a_good_run_is_valid_word_for_word(judged: JudgedRun) -> None:
    assert judged.report.verdict is Verdict.VALID, judged.report.findings
    assert judged.report == judged.here


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


def of_version_12(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads[:] = [in_version(payload, 12) for payload in payloads]


def one_too_old(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads[60] = in_version(payloads[60], 6)


def one_of_another_schema(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads[60] = in_version(payloads[60], 17, 112)


def unproved_fault(run: BuiltRun) -> None:
    run.faults.append(FaultRecord("kill", "member-1", 5, 6, 7, 8, Proof(False, "it still runs")))


INVALID, UNKNOWN = Verdict.INVALID, Verdict.UNKNOWN


def damaged(damages: Sequence[Damage], folder: Path) -> None:
    built = good_run()
    for damage in damages:
        damage(built)
    built.write(folder)


DAMAGES: list[tuple[Sequence[Damage], dict[Promise, Verdict]]] = [
    (
        (lost_everywhere,),
        {Promise.ACKNOWLEDGED_NOT_LOST: INVALID, Promise.LINEARIZABLE: UNKNOWN},
    ),
    (
        (wrong_read, two_leaders, unexplained_entry),
        {
            Promise.LINEARIZABLE: INVALID,
            Promise.ONE_LEADER_A_TERM: INVALID,
            Promise.HISTORY_COMPLETE: UNKNOWN,
        },
    ),
    (
        (applied_twice, out_of_time, announced_otherwise, lost_on_one, unproved_fault),
        {
            Promise.APPLIED_ONCE: INVALID,
            Promise.LINEARIZABLE: INVALID,
            Promise.ONE_LEADER_A_TERM: INVALID,
            Promise.LOGS_EQUAL: INVALID,
            Promise.FAULTS_PROVED: UNKNOWN,
        },
    ),
    ((never_sent, not_converged), {Promise.APPLIED_ONCE: INVALID, Promise.RUN_CONVERGED: UNKNOWN}),
    ((no_history,), {Promise.LINEARIZABLE: UNKNOWN}),
    ((of_version_12,), {Promise.APPLIED_ONCE: Verdict.VALID, Promise.LINEARIZABLE: Verdict.VALID}),
    ((one_too_old,), {Promise.APPLIED_ONCE: UNKNOWN, Promise.ACKNOWLEDGED_NOT_LOST: UNKNOWN}),
    ((one_of_another_schema,), {Promise.APPLIED_ONCE: UNKNOWN, Promise.ACKNOWLEDGED_NOT_LOST: UNKNOWN}),
]


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        pytest.param(partial(damaged, damages), expected, id="-".join(damage.__name__ for damage in damages))
        for damages, expected in DAMAGES
    ],
    indirect=["judged"],
)
def test_both_engines_say_the_same_of_the_damage(judged: JudgedRun, expected: dict[Promise, Verdict]) -> None:
    assert {promise: judged.report.finding(promise).verdict for promise in expected} == expected
    assert judged.report == judged.here


def cut(folder: Path) -> None:
    built = good_run()
    full = list(built.payloads[0])
    del built.payloads[2][-40:]
    built.write(folder)
    assert len(full) > len(built.payloads[2])
    finals = tuple(FinalPosition(i, built.end_positions[0], built.end_positions[0], 1) for i in range(3))
    RunFolder(folder).write_manifest(replace(built.manifest, converge=Converge(True, 1, finals)))


@pytest.mark.parametrize("judged", [cut], indirect=True)
def test_a_log_that_was_cut_is_invalid_in_both(judged: JudgedRun) -> None:
    assert judged.report.finding(Promise.LOGS_COMPLETE).verdict is INVALID
    assert judged.report == judged.here


def corrupt(folder: Path) -> None:
    good_run().write(folder)
    catalog = folder / "member-1" / "archive" / "archive.catalog"
    catalog.write_bytes(b"\xff" * 64)
    (folder / "member-2" / "trace.jsonl").unlink()


@pytest.mark.parametrize("judged", [corrupt], indirect=True)
def test_a_corrupt_catalog_is_unknown_in_both(judged: JudgedRun) -> None:
    finding = judged.report.finding(Promise.LOGS_COMPLETE)
    assert finding.verdict is UNKNOWN
    assert "archive.catalog" in finding.detail
    assert judged.report == judged.here


def malformed(file: str, text: str, folder: Path) -> None:
    good_run().write(folder)
    with (folder / file).open("a") as stream:
        stream.write(text)


@pytest.mark.parametrize(
    ("judged", "file"),
    [
        (partial(malformed, file, text), file)
        for file, text in (
            ("history.jsonl", '{"id": 7, "pro'),
            ("member-1/trace.jsonl", "{]\n"),
            ("controls.jsonl", "{]\n"),
        )
    ],
    indirect=["judged"],
)
def test_a_malformed_line_is_the_same_error_in_both(judged: JudgedRun, file: str) -> None:
    """A history that ends within a line is malformed too: what came after it is not known. Other runs are judged."""
    assert isinstance(judged.on_spark, UsageError)
    assert str(judged.on_spark) == str(judged.here)
    assert file in str(judged.here)


def malformed_twice(folder: Path) -> None:
    malformed("controls.jsonl", "{]\n", folder)
    with (folder / "member-1" / "trace.jsonl").open("a") as stream:
        stream.write("{]\n")


@pytest.mark.parametrize("judged", [malformed_twice], indirect=True)
def test_of_two_malformed_files_both_name_the_same(judged: JudgedRun) -> None:
    assert isinstance(judged.on_spark, UsageError)
    assert str(judged.on_spark) == str(judged.here)
    assert ".jsonl:" in str(judged.here)


def twice(folder: Path) -> None:
    built = good_run()
    built.operations += built.operations[20:22]
    built.write(folder)


@pytest.mark.parametrize("judged", [twice], indirect=True)
def test_an_operation_id_that_is_there_twice_is_the_same_error_in_both(judged: JudgedRun) -> None:
    assert isinstance(judged.on_spark, UsageError)
    assert str(judged.on_spark) == str(judged.here)
    assert "duplicate operation id 20" in str(judged.here)


def test_a_lake_gives_the_verdicts_of_the_folders(tmp_path: Path, spark: Any) -> None:
    lake = str(tmp_path / "lake")
    good, bad = good_run(), good_run(seed=2)
    bad.manifest = replace(bad.manifest, run_id="run 2/x")
    for damage in (wrong_read, lost_on_one, unproved_fault):
        damage(bad)
    good.write(tmp_path / "good")
    bad.write(tmp_path / "bad")
    segment = tmp_path / "bad" / "member-2" / "archive" / "7-0.rec"
    data = bytearray(segment.read_bytes())
    data[9600 + 4] = 9
    segment.write_bytes(data)
    (tmp_path / "bad" / "member-0" / "archive" / "archive.catalog").unlink()
    ingest(spark, [tmp_path / "good", tmp_path / "bad"], lake)
    opened = open_lake(lake)
    assert opened.runs("runs") == ["run 2/x", "run-1"]
    assert list(judged_in_lake(spark, opened, ["run 2/x", "run-1"])) == [
        verify_run(tmp_path / name) for name in ("bad", "good")
    ]
    assert list(measure_lake(spark, opened, ["run-1"])) == [measure_run(RunFolder(tmp_path / "good"))]
    with pytest.raises(UsageError, match="has no run 'nobody'"):
        judged_in_lake(spark, opened, ["run-1", "nobody"])
    with pytest.raises(UsageError, match="is not a lake"):
        open_lake(str(tmp_path / "good"))
