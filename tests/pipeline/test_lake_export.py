"""The DuckDB database of a lake has the tables and views that queries see, and needs the lake no more."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support.built_runs import good_run, lost_operation
from support.campaign_lines import some, written
from support.lakes import all_asked
from upheaval.cli.main import main
from upheaval_pipeline.campaigns import ingest_campaigns
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.tables import LAKE_SCHEMAS
from upheaval_pipeline.views import VIEWS

COPIED = [*(table for table in LAKE_SCHEMAS if table != "recording"), "verdicts", "seeds", "rejects"]
VIEW_NAMES = [view.name for view in VIEWS]


def built(folder: Path, run: str) -> Path:
    made = good_run(40)
    made.manifest = replace(made.manifest, run_id=run)
    made.write(folder)
    return folder


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of a valid run, one that lost an operation and the catalog of an archive, and a campaign."""
    folder = tmp_path_factory.mktemp("ingested")
    lost_operation(folder / "lost")
    (folder / "lost" / "member-2" / "archive" / "archive.catalog").unlink()
    ingest(None, [built(folder / "good", "good"), folder / "lost"], str(folder / "lake"))
    ingest_campaigns([written(folder / "seeds", some("1", 4, 1))], str(folder / "lake"))
    return folder / "lake"


@pytest.fixture
def lake(ingested: Path, tmp_path: Path) -> str:
    """A copy of that lake."""
    return str(shutil.copytree(ingested, tmp_path / "lake"))


def read(file: Path, names: list[str]) -> dict[str, list[str]]:
    with duckdb.connect(file, read_only=True) as connection:
        return {name: in_any_order(connection.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names}


def in_any_order(rows: Any) -> list[str]:
    return sorted(map(repr, rows))


def test_every_table_and_view_has_the_rows_that_queries_see(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, names = tmp_path / "lake.duckdb", [*COPIED, *VIEW_NAMES]
    answers = all_asked(lake, [f"SELECT * FROM {name}" for name in names], 100_000)
    expected = {name: in_any_order(answer.rows) for name, answer in zip(names, answers, strict=True)}
    assert main(["lake", "export", "--lake", lake, "--out", str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: 2 runs, ")
    shutil.rmtree(lake)
    assert read(file, names) == expected
    assert len(expected["history"]) > 40
    assert [row for row in expected["rejects"] if "'recording', 2, " in row and "archive.catalog" in row]
    assert [name for name in ("verdicts", "seeds", "ran", "flakes", "signatures") if not expected[name]] == []
    assert read(file, ["recording"]) == {"recording": []}


def test_a_database_is_replaced_as_a_whole_or_stays_as_it_was(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lake.duckdb"
    words = ["lake", "export", "--lake", lake, "--out", str(file)]
    assert main(words) == 0
    ingest(None, [built(tmp_path / "more", "more")], lake)
    assert main(words) == 0
    assert len(read(file, ["ran"])["ran"]) == 3
    (trace, *_) = open_lake(lake).tables["trace"]
    (Path(lake) / trace.path).write_bytes(b"")
    capsys.readouterr()
    assert main(words) == 2
    assert "has 0 bytes and not" in capsys.readouterr().err
    assert len(read(file, ["ran"])["ran"]) == 3
    assert not file.with_name("lake.duckdb.new").exists()


def test_an_export_that_fails_on_its_way_leaves_no_file(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (history, *_) = open_lake(lake).tables["history"]
    path = Path(lake) / history.path
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)
    (tmp_path / "out").mkdir()
    assert main(["lake", "export", "--lake", lake, "--out", str(tmp_path / "out" / "lake.duckdb")]) == 2
    assert "hecksum" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_a_database_that_cannot_be_written_is_one_line(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nowhere" / "lake.duckdb"
    assert main(["lake", "export", "--lake", lake, "--out", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"upheaval: cannot write {file}: ")
