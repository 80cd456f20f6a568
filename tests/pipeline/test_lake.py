"""What counts of a lake: a writer that is killed leaves nothing half, and a file that is not as it was is named."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.built_runs import good_run, lost_operation
from support.lakes import as_of_another_version, asked, judged_in_lake, killed_at, table_files
from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import RunFolder
from upheaval_pipeline.delta import snapshot
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_file import file_name
from upheaval_pipeline.lake_files import write_file
from upheaval_pipeline.place import Place
from upheaval_pipeline.run_tables import why_unreadable
from upheaval_pipeline.tables import LAKE_SCHEMAS, batches
from upheaval_pipeline.upkeep import optimize
from upheaval_pipeline.verdicts import judged_by_this_version

RUNS = 2


def built(folder: Path, count: int) -> list[Path]:
    """Runs with so many operations."""
    for number in range(RUNS):
        run = good_run(count)
        run.manifest = replace(run.manifest, run_id=f"run-{number}")
        run.write(folder / str(number))
    return [folder / str(number) for number in range(RUNS)]


def operations(spark: Any, lake: str) -> dict[str, int]:
    return dict(asked(lake, "SELECT run, count(*) FROM history GROUP BY run", 99).rows)


@pytest.mark.nightly
def test_who_is_killed_leaves_what_was_there_and_the_next_ingest_completes(tmp_path: Path, spark: Any) -> None:
    lake, old, new = str(tmp_path / "lake"), built(tmp_path / "old", 40), built(tmp_path / "new", 60)
    ingest(spark, old, lake)
    words = ["ingest", *map(str, new), "--lake", lake, "--master", "local[1]"]
    killed_at("ingest.py", "_write_tables", "return", words)
    assert operations(spark, lake) == {f"run-{number}": 40 for number in range(RUNS)}
    killed_at("lake.py", "commit", "call", words)
    assert operations(spark, lake) == {f"run-{number}": 40 for number in range(RUNS)}
    opened = open_lake(lake)
    assert judged_in_lake(spark, opened, opened.runs("runs")) == [verify_run(folder) for folder in old]
    killed_at("lake.py", "commit", "return", words)
    assert operations(spark, lake) == {f"run-{number}": 60 for number in range(RUNS)}
    opened = open_lake(lake)
    assert judged_in_lake(spark, opened, opened.runs("runs")) == [verify_run(folder) for folder in new]
    said: list[str] = []
    ingest(spark, new, lake, said.append)
    assert said == [f"{RUNS} of {RUNS} runs are in the lake already"]
    optimize(open_lake(lake), time.time() + 2 * 86_400)
    assert len({batch for files in open_lake(lake).tables.values() for file in files for batch in file.batches}) == 1
    assert operations(spark, lake) == {f"run-{number}": 60 for number in range(RUNS)}


@pytest.mark.parametrize("committed", [1, 4])
def test_the_tables_of_an_ingest_count_together_or_not_at_all(committed: int, tmp_path: Path) -> None:
    """Of history, recording, trace, verdicts and runs so many are committed when the writer is killed."""
    lake, old, new = str(tmp_path / "lake"), built(tmp_path / "old", 40), built(tmp_path / "new", 60)
    ingest(None, old, lake)
    words = ["ingest", *map(str, new), "--lake", lake, "--engine", "python"]
    killed_at("delta.py", "append", "return", words, time=committed)
    opened = open_lake(lake)
    assert sum(len({file.batches for file in files}) == 2 for files in opened.tables.values()) == committed
    assert operations(None, lake) == {f"run-{number}": 40 for number in range(RUNS)}
    assert judged_in_lake(None, opened, opened.runs("runs")) == [verify_run(folder) for folder in old]
    ingest(None, new, lake)
    assert operations(None, lake) == {f"run-{number}": 60 for number in range(RUNS)}


@pytest.mark.nightly
def test_the_verdicts_of_a_judge_that_is_killed_do_not_count(tmp_path: Path, spark: Any) -> None:
    lake, folders = str(tmp_path / "lake"), built(tmp_path / "runs", 40)
    ingest(spark, folders, lake)
    as_of_another_version(tmp_path / "lake")
    killed_at("lake.py", "commit", "call", ["verify", "--engine", "spark", "--lake", lake, "--master", "local[1]"])
    opened = open_lake(lake)
    runs = opened.runs("runs")
    assert judged_by_this_version(opened, runs) == {}
    assert judged_in_lake(spark, opened, runs) == [verify_run(folder) for folder in folders]
    assert judged_by_this_version(open_lake(lake), runs).keys() == set(runs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A lake of a run of its own and of one that shares nothing with it, and the folder of the second."""
    folder = tmp_path_factory.mktemp("whole")
    for one in built(folder / "runs", 40):
        ingest(None, [one], str(folder / "lake"))
    return folder / "lake", folder / "runs" / "1"


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def changed_in_its_footer(path: Path) -> None:
    """How many rows there are, or what their statistics say."""
    data = bytearray(path.read_bytes())
    data[-100] ^= 0x01
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [emptied, truncated, changed_in_its_footer, Path.unlink])
@pytest.mark.parametrize("table", [table for table in LAKE_SCHEMAS if table != "faults"])
def test_a_file_that_is_not_as_it_was_written_is_named(
    table: str, damage: Callable[[Path], None], whole: tuple[Path, Path], tmp_path: Path, spark: Any
) -> None:
    lake, _ = whole
    file, *_ = files_of_run(lake, table, "run-0")
    kept = file.read_bytes()
    damage(file)
    try:
        opened = open_lake(str(lake))
        assert str(file) in str(why_unreadable(opened, "run-0"))
        assert why_unreadable(opened, "run-1") is None
        with pytest.raises(UsageError, match=file.name):
            asked(str(lake), "SELECT 1", 9)
    finally:
        file.write_bytes(kept)


@pytest.fixture
def with_broken_run(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A lake of a valid run and of one that lost an operation, each of its own ingest; and their folders."""
    lake, folders = tmp_path / "lake", [built(tmp_path / "good", 40)[0], tmp_path / "lost"]
    lost_operation(folders[1])
    for folder in folders:
        ingest(None, [folder], str(lake))
    return lake, folders


def broken(lake: Path) -> object:
    return asked(str(lake), "SELECT run FROM judged WHERE verdict = 'invalid'", 9).rows


@pytest.mark.parametrize("damage", [emptied, truncated, changed_in_its_footer, Path.unlink])
def test_lost_verdicts_are_no_answer_and_are_judged_again(
    damage: Callable[[Path], None], with_broken_run: tuple[Path, list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    lake, (_, folder) = with_broken_run
    run = RunFolder(folder).read_manifest().run_id
    first, damaged = broken(lake), []
    ingested = ["ingest", str(folder), "--lake", str(lake), "--engine", "python"]
    for mended_by in (["verify", "--lake", str(lake), "--new"], ingested):
        last = max((f for f in open_lake(str(lake)).tables["verdicts"] if f.runs[0] == run), key=lambda f: f.batches)
        damaged.append(str(lake / last.path))
        damage(lake / last.path)
        capsys.readouterr()
        assert main(["ask", "--lake", str(lake), "--fail-if", "failures"]) == 2
        error = capsys.readouterr().err
        assert [file for file in damaged if file in error]
        assert f"`upheaval verify --lake {lake} --new` judges run {run!r} again" in error
        with pytest.raises(UsageError, match="again"):
            optimize(open_lake(str(lake)))
        assert main(mended_by) in (0, 1)
        assert broken(lake) == first == ((run,),)


def test_no_other_run_is_kept_from_being_judged(whole: tuple[Path, Path], spark: Any) -> None:
    lake, other = whole
    (file,) = files_of_run(lake, "trace", "run-0")
    kept = file.read_bytes()
    emptied(file)
    try:
        first, second = judged_in_lake(spark, open_lake(str(lake)), ["run-0", "run-1"])
    finally:
        file.write_bytes(kept)
    assert isinstance(first, UsageError)
    assert f"{file} has 0 bytes and not {len(kept)}" in str(first)
    assert second == verify_run(other)


def files_of_run(lake: Path, table: str, run: str) -> list[Path]:
    return [lake / file.path for file in snapshot(Place(str(lake)), table) if file.runs == (run, run)]


def test_a_table_that_is_gone_is_named_and_ingested_again(tmp_path: Path, spark: Any) -> None:
    lake, folders = tmp_path / "lake", built(tmp_path / "runs", 40)
    ingest(spark, folders, str(lake))
    for file in table_files(lake, "trace"):
        file.unlink()
    opened = open_lake(str(lake))
    assert all(isinstance(each, UsageError) for each in judged_in_lake(spark, opened, opened.runs("runs")))
    ingest(spark, folders, str(lake))
    assert all(why_unreadable(open_lake(str(lake)), f"run-{number}") is None for number in range(RUNS))


@pytest.mark.parametrize("table", ["history", "verdicts"])
def test_bytes_that_were_changed_are_no_answer(table: str, tmp_path: Path, spark: Any) -> None:
    lake = tmp_path / "lake"
    ingest(spark, built(tmp_path / "runs", 40), str(lake))
    (file,) = table_files(lake, table)
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(Exception, match="hecksum"):
        asked(str(lake), f"SELECT * FROM {table}", 9999)


def test_a_run_whose_manifest_cannot_be_read_is_told_of(tmp_path: Path, spark: Any) -> None:
    lake, folders = str(tmp_path / "lake"), built(tmp_path / "runs", 40)
    (folders[0] / "manifest.json").write_text("{")
    assert ingest(spark, folders, lake)["0"]["rejects"] == 1
    opened = open_lake(lake)
    assert opened.runs("runs") == ["0", "run-1"]
    (judged,) = judged_in_lake(spark, opened, ["0"])
    assert "manifest.json" in str(judged)
    assert asked(lake, "SELECT run, source FROM rejects", 9).rows == (("0", "manifest"),)


def test_what_a_task_left_that_was_tried_again_counts_for_nothing(tmp_path: Path) -> None:
    lake, folders = tmp_path / "lake", built(tmp_path / "runs", 40)
    ingest(None, folders[:1], str(lake))
    (file,) = table_files(lake, "history")
    left = file.with_name(file_name("0" * 32, 0))
    left.write_bytes(file.read_bytes())
    assert operations(None, str(lake)) == {"run-0": 40}
    optimize(open_lake(str(lake)))
    assert left.exists()  # an ingest that goes on may be about to commit it
    os.utime(left, (0, 0))
    optimize(open_lake(str(lake)))
    assert file.exists()
    assert not left.exists()
    assert operations(None, str(lake)) == {"run-0": 40}


def test_a_lake_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "history").write_text("")
    rows = batches([("7",)], pa.schema([("run", pa.string())]))
    with pytest.raises(EnvironmentFault, match=r"cannot write to .*/lake/history, or read what belongs there: .+"):
        write_file(str(tmp_path / "lake"), "history", "7", rows)


def test_a_damaged_commit_and_an_older_lake_are_refused_in_one_line(tmp_path: Path) -> None:
    lake, folders = tmp_path / "lake", built(tmp_path / "runs", 40)
    ingest(None, folders, str(lake))
    (commit,) = (lake / "runs" / "_delta_log").glob("*1.json")
    commit.write_bytes(commit.read_bytes()[:100])
    with pytest.raises(UsageError, match=r"/runs is damaged or cannot be read: ") as raised:
        Lake(str(lake))
    assert "\n" not in str(raised.value)
    old = tmp_path / "old"
    (old / "runs" / "run=7").mkdir(parents=True)
    (old / "runs" / "run=7" / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="was made by an older version: ingest its run folders into a new lake"):
        ingest(None, folders, str(old))
    (old / "commits").mkdir()
    (old / "commits" / "00000001-7.json").write_text("{}")
    with pytest.raises(UsageError, match="has the format of an older version: change it with `upheaval lake migrate"):
        ingest(None, folders, str(old))


def without_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def without_history(folder: Path) -> None:
    (folder / "history.jsonl").write_text("{\n")


@pytest.mark.parametrize("damage", [without_manifest, without_history])
def test_a_run_that_cannot_be_judged_is_a_failure(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, (good, bad) = str(tmp_path / "lake"), built(tmp_path / "runs", 40)
    words = ["ask", "failures", "--lake", lake, "--fail-if", "failures"]
    ingest(None, [good], lake)
    assert main(words) == 0
    damage(bad)
    ingest(None, [bad], lake)
    capsys.readouterr()
    assert main(words) == 1
    shown = capsys.readouterr()
    assert f"1 run cannot be judged: `upheaval verify --lake {lake}` says why" in shown.err
    assert "unreadable" in shown.out
    assert main(["ask", "slo", "--lake", lake, "--fail-if", "slo"]) == 3


def test_a_folder_whose_name_is_not_utf_8_is_ingested(tmp_path: Path) -> None:
    """With a run that can be read, one with a bad line, and one whose id is the name of its folder."""
    lake, folder = str(tmp_path / "lake"), tmp_path / os.fsdecode(b"caf\xe9")
    good, bad = built(folder, 40)
    with (bad / "history.jsonl").open("a") as stream:
        stream.write("{\n")
    unread = folder / os.fsdecode(b"\xe9")
    good_run(40).write(unread)
    without_manifest(unread)
    written = ingest(None, [good, bad, unread], lake)
    assert written["run-0"]["rejects"] == 0
    assert written["run-1"]["rejects"] == 1
    assert written["\\udce9"]["rejects"] > 0
    assert asked(lake, "SELECT folder FROM runs WHERE run = 'run-0'", 9).rows == ((f"{tmp_path}/caf\\udce9/0",),)
    assert len(asked(lake, "SELECT run FROM judged", 9).rows) == 3
    said: list[str] = []
    assert ingest(None, [good, bad, unread], lake, said.append) == written
    assert said == ["3 of 3 runs are in the lake already"]
