"""Run folders become tables; bad lines and files become rejects; doing it again changes nothing."""

from pathlib import Path
from typing import Any

import pytest

from support.built_runs import good_run
from upheaval.errors import UsageError
from upheaval_pipeline import sources
from upheaval_pipeline.ingest import ingest


def files(lake: Path) -> dict[str, int]:
    return {table.name: sum(1 for _ in table.glob("run=*/*.parquet")) for table in lake.iterdir()}


def test_a_run_is_ingested_once_however_often(tmp_path: Path, spark: Any) -> None:
    run, lake = tmp_path / "run", tmp_path / "lake"
    built = good_run()
    built.write(run)
    first = ingest(spark, [run], str(lake))
    before = files(lake)
    assert ingest(spark, [run], str(lake)) == first
    assert files(lake) == before
    assert first["run-1"]["history"] == len(built.operations)
    assert first["run-1"]["rejects"] == 0
    history = spark.read.parquet(str(lake / "history"))
    assert history.select("run").distinct().first()[0] == "run-1"
    assert history.select("id").distinct().count() == len(built.operations)


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
    reasons = [row.reason for row in spark.read.parquet(str(lake / "rejects")).orderBy("reason").collect()]
    assert len(reasons) == counts["rejects"] == 6
    shown = "\n".join(reasons)
    assert "history.jsonl:401: not UTF-8 text" in shown
    assert "history.jsonl:402: " in shown
    assert f"trace.jsonl:{bad_line}: not a JSON object" in shown
    assert spark.read.parquet(str(lake / "runs")).count() == 1
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
    built = good_run(1500, echo_length=4000)
    built.write(tmp_path)
    recording = sources.load(spark, "recording", [tmp_path])
    assert recording.rdd.getNumPartitions() > 3  # a member has one recording
    pieces = spark.read.format("history").option("piece", "100000").load(str(tmp_path))
    assert pieces.rdd.getNumPartitions() > 5
    assert pieces.count() == pieces.select("id").distinct().count() == len(built.operations)
    whole = recording.where("member = 0 AND operation_id IS NOT NULL").count()
    assert whole == sum(1 for o in built.operations if o.position or o.id % 40 == 19)
