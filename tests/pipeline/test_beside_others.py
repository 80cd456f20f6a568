"""A lake in a folder with files of others: it deletes nothing that it has not written, and uses no folder of theirs."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.built_runs import good_run
from support.lakes import asked
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.campaigns import ingest_campaigns
from upheaval_pipeline.delta import append
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_file import LOG
from upheaval_pipeline.place import Place
from upheaval_pipeline.tables import STORED
from upheaval_pipeline.upkeep import drop, optimize

_DAY_S = 86_400


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder in the folder that a project has for them."""
    good_run(40).write(tmp_path / "runs" / "7")
    return tmp_path / "runs" / "7"


def _with_others(lake: Path, run: Path) -> dict[Path, bytes]:
    """Puts files of others in the folders of all tables, three days old; what they hold."""
    for table in ("runs", "history", "trace"):
        shutil.copytree(run, lake / table / "7")
        for name in ("notes.txt", "broken.parquet", f"{'0' * 32}.parquet"):
            (lake / table / name).write_bytes(b"of others")
    files = (path for path in lake.rglob("*") if path.is_file())
    others = {path: path.read_bytes() for path in files if "7" in path.parts or path.read_bytes() == b"of others"}
    for path in others:
        os.utime(path, (time.time() - 3 * _DAY_S,) * 2)
    return others


def _compacted(lake: Path) -> None:
    optimize(open_lake(str(lake)))


def _dropped(lake: Path) -> None:
    drop(open_lake(str(lake)), open_lake(str(lake)).runs("runs"))


@pytest.mark.parametrize("upkeep", [_compacted, _dropped])
def test_upkeep_deletes_only_files_of_the_lake(upkeep: Callable[[Path], None], run: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ingest(None, [run], str(lake))
    (file,) = (lake / file.path for file in open_lake(str(lake)).tables["history"])
    left = file.with_name(f"{'0' * 32}-{file.name.partition('-')[2]}")
    shutil.copy(file, left)
    os.utime(left, (time.time() - 3 * _DAY_S,) * 2)
    others = _with_others(lake, run)
    upkeep(lake)
    assert {path: path.read_bytes() for path in others if path.exists()} == others
    assert not left.exists()


def test_optimize_keeps_the_files_that_it_has_just_replaced(run: Path, tmp_path: Path) -> None:
    """However old they are: who opened the lake before reads them."""
    lake = tmp_path / "lake"
    ingest(None, [run], str(lake))
    good_run(60).write(tmp_path / "again")
    ingest(None, [tmp_path / "again"], str(lake))
    before = [lake / file.path for file in open_lake(str(lake)).tables["history"]]
    for path in before:
        os.utime(path, (time.time() - 3 * _DAY_S,) * 2)
    optimize(open_lake(str(lake)))
    assert all(path.exists() for path in before)
    assert len(open_lake(str(lake)).tables["history"]) == 1


def test_no_table_is_made_in_a_folder_of_others(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert main(["ingest", str(run), "--lake", str(tmp_path), "--engine", "python"]) == 2
    assert capsys.readouterr().err == (
        f"upheaval: {run.parent} has files that belong to no lake, such as 7: name another folder for the lake\n"
    )
    with pytest.raises(UsageError, match="belong to no lake"):
        ingest(None, [run], str(tmp_path))
    (tmp_path / "seeds.jsonl").write_text('{"seed": 1, "verdict": "valid"}\n')
    with pytest.raises(UsageError, match="belong to no lake"):
        ingest_campaigns([tmp_path / "seeds.jsonl"], str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "seeds.jsonl"])


def test_what_a_killed_first_ingest_left_is_no_folder_of_others(run: Path, tmp_path: Path) -> None:
    lake, other = tmp_path / "lake", tmp_path / "other"
    ingest(None, [run], str(other))
    for file in Lake(str(other)).tables["history"]:
        (lake / "history").mkdir(parents=True)
        shutil.copy(other / file.path, lake / file.path)
    (lake / "seeds").mkdir()
    ingest(None, [run], str(lake))
    assert asked(str(lake), "SELECT count(*) FROM history", 9).rows == ((40,),)


def test_a_first_ingest_that_was_killed_left_a_lake_without_runs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, other = tmp_path / "lake", tmp_path / "other"
    ingest(None, [run], str(other))
    files = Lake(str(other)).tables["history"]
    shutil.copytree(other / "history", lake / "history", ignore=shutil.ignore_patterns(LOG))
    append(Place(str(lake)), "history", arrow_schema(STORED["history"]), files)
    for words in (["info"], ["info", "--json"], ["optimize"]):
        assert main(["lake", *words, "--lake", str(lake)]) == 0
    assert capsys.readouterr().out.startswith("0 runs and 0 campaigns\n")


def test_a_table_of_another_program_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(str(tmp_path / "foreign" / "runs"), pa.table({"run": ["a"], "lap": [7]}))
    columns = [pa.field("run", pa.string()), pa.field("batch", pa.string())]
    unknown = pa.table({"run": ["a"], "batch": ["1"]}, schema=pa.schema(columns))
    without = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(str(tmp_path / "statless" / "runs"), unknown, configuration=without)
    for name in ("foreign", "statless"):
        for words in (["lake", "info"], ["ask", "flakes"], ["lake", "optimize"], ["ingest", str(run)]):
            assert main([*words, "--lake", str(tmp_path / name)]) == 2
            where = tmp_path / name / "runs"
            assert f"upheaval: {where} is not a table of a lake: another program wrote " in capsys.readouterr().err
