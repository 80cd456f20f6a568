"""Run folders become tables; bad lines and files become rejects; doing it again changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import good_run
from support.lakes import asked, judged_in_lake, table_files
from upheaval.checkers.judge import verify_run
from upheaval.errors import UsageError
from upheaval_pipeline import run_parts, sources
from upheaval_pipeline.contents import contents_of_runs, new_runs
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake


def test_a_run_is_ingested_once_however_often(tmp_path: Path, spark: Any) -> None:
    run, lake = tmp_path / "run", tmp_path / "lake"
    built = good_run()
    built.write(run)
    first = ingest(spark, [run], str(lake))
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file()}
    said: list[str] = []
    assert ingest(spark, [run], str(lake), said.append) == first
    assert said == ["1 of 1 runs are in the lake already"]
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*") if path.is_file()} == before
    assert first["run-1"]["history"] == len(built.operations)
    assert first["run-1"]["rejects"] == 0
    history = asked(str(lake), "SELECT DISTINCT run, id FROM history", 1000).rows
    assert sorted(history) == [("run-1", o.id) for o in sorted(built.operations, key=lambda o: o.id)]


def test_pages_that_are_written_later_change_no_run(tmp_path: Path) -> None:
    run, lake = good_run(40).write(tmp_path / "run"), str(tmp_path / "lake")
    ingest(None, [run.path], lake)
    for name in ("report.html", "maintainers.md"):
        (run.path / name).write_text("for people")
    assert new_runs(open_lake(lake), contents_of_runs([run.path])) == []
    (run.path / "member-0" / "report.html").write_text("no page of the run")
    assert new_runs(open_lake(lake), contents_of_runs([run.path])) == ["run-1"]


def test_runs_of_one_ingest_share_files_and_are_replaced_one_by_one(tmp_path: Path, spark: Any) -> None:
    lake = str(tmp_path / "lake")
    for number in range(3):
        built = good_run(40 + number)
        built.manifest = replace(built.manifest, run_id=f"run-{number}")
        built.write(tmp_path / str(number))
    folders = [tmp_path / str(number) for number in range(3)]
    ingest(spark, folders, lake)
    assert len(table_files(Path(lake), "history")) == 1
    history = folders[1] / "history.jsonl"
    history.write_text("".join(history.read_text().splitlines(keepends=True)[:-1]))
    said: list[str] = []
    counts = ingest(spark, folders, lake, said.append)
    assert said == ["2 of 3 runs are in the lake already", "1 of 1 runs ingested"]
    sql = "SELECT run, count(*), count(DISTINCT id) FROM history GROUP BY run ORDER BY run"
    assert asked(lake, sql, 9).rows == (("run-0", 40, 40), ("run-1", 40, 40), ("run-2", 42, 42))
    assert [counts[f"run-{number}"]["history"] for number in range(3)] == [40, 40, 42]
    opened = open_lake(lake)
    assert judged_in_lake(spark, opened, opened.runs("runs")) == [verify_run(folder) for folder in folders]


def test_bad_lines_and_files_are_rejects_that_say_where(tmp_path: Path, spark: Any) -> None:
    run, lake = tmp_path / "run", tmp_path / "lake"
    built = good_run()
    built.write(run)
    with (run / "history.jsonl").open("ab") as stream:
        stream.write(b'{"id": \xff}\n{"id": 99999999999999999999}\n')
    trace = run / "member-0" / "trace.jsonl"
    bad_line = len(trace.read_text().splitlines()) + 1
    with trace.open("a") as stream:
        stream.write("[]\n")
    (run / "faults.jsonl").write_text("nothing\n")
    (run / "member-1" / "archive" / "archive.catalog").unlink()
    segment = run / "member-2" / "archive" / "7-0.rec"
    data = bytearray(segment.read_bytes())
    data[4] = 9
    segment.write_bytes(data)
    counts = ingest(spark, [run], str(lake))["run-1"]
    assert counts["history"] == len(built.operations)
    reasons = [reason for (reason,) in asked(str(lake), "SELECT reason FROM rejects ORDER BY 1", 99).rows]
    assert len(reasons) == counts["rejects"] == 6
    shown = "\n".join(reasons)
    assert "history.jsonl:401: not UTF-8 text" in shown
    assert "history.jsonl:402: " in shown
    assert f"trace.jsonl:{bad_line}: not a JSON object" in shown
    assert asked(str(lake), "SELECT run FROM runs", 9).rows == (("run-1",),)
    assert "faults.jsonl:1: not JSON" in shown
    assert "archive.catalog" in shown
    assert "no valid frame at position 0" in shown


def test_a_repaired_run_loses_its_rejects(tmp_path: Path, spark: Any) -> None:
    run, lake = tmp_path / "run", tmp_path / "lake"
    good_run().write(run)
    good = (run / "history.jsonl").read_bytes()
    (run / "history.jsonl").write_bytes(good + b"{\n")
    assert ingest(spark, [run], str(lake))["run-1"]["rejects"] == 1
    (run / "history.jsonl").write_bytes(good)
    assert ingest(spark, [run], str(lake))["run-1"]["rejects"] == 0


def test_the_same_run_twice_is_refused(tmp_path: Path, spark: Any) -> None:
    good_run().write(tmp_path / "a")
    good_run().write(tmp_path / "b")
    with pytest.raises(UsageError, match="are the same run"):
        ingest(spark, [tmp_path / "a", tmp_path / "b"], str(tmp_path / "lake"))


def test_files_are_read_in_several_parts_without_loss(tmp_path: Path, spark: Any) -> None:
    built = good_run(6000, echo_length=4000)
    built.write(tmp_path)
    recording = sources.load(spark, "recording", [tmp_path])
    assert recording.rdd.getNumPartitions() > 3  # a member has one recording
    pieces = spark.read.format("history").option("piece", "100000").load(str(tmp_path))
    assert pieces.rdd.getNumPartitions() > 5
    assert pieces.count() == pieces.select("id").distinct().count() == len(built.operations)
    whole = recording.where("member = 0 AND operation_id IS NOT NULL").count()
    assert whole == sum(1 for o in built.operations if o.position or o.id % 40 == 19)


def test_many_small_runs_are_written_by_few_tasks_and_long_ones_by_many(tmp_path: Path) -> None:
    """A task costs some 30 ms and leaves a file."""
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        good_run(4000).write(folder)
    sizes = {count: len(run_parts.tasks(folders, count)) for count in (1, 16)}
    assert sizes[1] == len(run_parts.OF_LAKE) < sizes[16] <= len(run_parts.OF_LAKE) + 16
    assert sum(len(task.parts) for task in run_parts.tasks(folders, 1)) >= 3 * len(run_parts.OF_LAKE)
