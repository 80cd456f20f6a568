"""Runs are judged in Spark's tasks by the in-process checkers, and a lake keeps what was found."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.built_runs import good_run
from support.lakes import as_of_another_version, judged_in_lake
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import RunFolder
from upheaval.report import measure_run
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.measure import measure, measure_lake
from upheaval_pipeline.sources import HistorySource, _options
from upheaval_pipeline.verdicts import judged_by_this_version
from upheaval_pipeline.whole import _shares, judge_each

NAMES = ("good", "bad")


def written(folder: Path) -> list[Path]:
    """A good run and a bad one."""
    runs = {"good": good_run(), "bad": good_run(seed=2)}
    del runs["bad"].payloads[1][60]
    for name, run in runs.items():
        run.manifest = replace(run.manifest, run_id=name)
        run.write(folder / name)
    return [folder / name for name in NAMES]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written(tmp_path_factory.mktemp("whole"))


def test_reports_bear_the_names_that_were_given(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    monkeypatch.chdir(folders[0].parent)
    names = [Path(folder.name) for folder in folders]
    assert [each.run for each in judge_each(spark, names)] == [str(name) for name in names]  # type: ignore[union-attr]


def test_what_a_worker_cannot_read_is_named_and_keeps_no_other_run_from_being_judged(
    folders: list[Path], tmp_path: Path, spark: Any
) -> None:
    good_run().write(tmp_path / "torn")
    with (tmp_path / "torn" / "history.jsonl").open("ab") as stream:
        stream.write(b"{\n")
    shutil.copytree(folders[0], tmp_path / "run")
    (tmp_path / "run" / "history.jsonl").unlink()
    (tmp_path / "run" / "history.jsonl").mkdir()
    torn, good, unreadable = judge_each(spark, [tmp_path / "torn", folders[0], tmp_path / "run"])
    assert isinstance(torn, UsageError)
    assert "history.jsonl:401: not JSON" in str(torn)
    assert good == verify_run(folders[0])
    assert isinstance(unreadable, EnvironmentFault)
    assert str(unreadable).endswith("history.jsonl: Is a directory")


def test_a_lake_knows_what_came_of_runs_when_their_folders_are_gone(tmp_path: Path, spark: Any) -> None:
    folders, where = written(tmp_path), str(tmp_path / "lake")
    expected = [verify_run(folder) for folder in folders]
    ingest(spark, folders, where)
    for folder in folders:
        shutil.rmtree(folder)
    lake = open_lake(where)
    assert judged_by_this_version(lake, NAMES) == dict(zip(NAMES, expected, strict=True))
    assert judged_in_lake(spark, lake, NAMES) == expected


def test_what_another_version_found_is_judged_again_and_never_shown(
    tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, where = written(tmp_path), str(tmp_path / "lake")
    ingest(spark, folders, where)
    as_of_another_version(tmp_path / "lake")
    shutil.rmtree(folders[0])
    gone, judged = judged_in_lake(spark, open_lake(where), NAMES)
    assert isinstance(gone, UsageError)
    assert str(gone) == (f"{where} keeps no verdict of this version on run 'good', and its folder {folders[0]} is gone")
    assert judged == verify_run(folders[1])
    with (folders[1] / "history.jsonl").open("ab") as stream:
        stream.write(b"\n")
    assert judged_in_lake(spark, open_lake(where), ["bad"]) == [judged]
    as_of_another_version(tmp_path / "lake")
    (changed,) = judged_in_lake(spark, open_lake(where), ["bad"])
    assert str(changed).endswith("has changed since it was ingested: ingest it again")


ODD_NAMES = (
    "a\nb",
    "a\u2028b",
    "a\u0085b",
    "a\x1cb",
    "a\rb",
    "a b",
    "a[1]",
    "{a,b}",
    "a*",
    "a?",
    "a%20b",
    "a\\b",
    " ",
    "é",
)


def test_runs_and_lakes_may_have_any_name(tmp_path: Path, spark: Any) -> None:
    """An invalid run is after each of them, and is itself called so."""
    folders = []
    for number, name in enumerate(ODD_NAMES):
        run = good_run(120, seed=number)
        if number % 2:
            del run.payloads[1][60]
        run.manifest = replace(run.manifest, run_id=name)
        run.write(tmp_path / "runs" / name)
        folders.append(tmp_path / "runs" / name)
    expected = [verify_run(folder) for folder in folders]
    assert [report.verdict for report in expected] == [Verdict.VALID, Verdict.INVALID] * (len(folders) // 2)
    assert judge_each(spark, folders) == expected
    figures = [measure_run(RunFolder(folder)) for folder in folders]
    assert list(measure(spark, folders)) == figures
    where = str(tmp_path / "lake [1]{l,m}*?\u2028" / "lake")
    ingest(spark, folders, where)
    lake = open_lake(where)
    assert judged_in_lake(spark, lake, list(ODD_NAMES)) == expected
    assert list(measure_lake(spark, lake, list(ODD_NAMES))) == figures


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), max_size=8))
def test_a_source_reads_the_folders_that_its_options_name_in_their_order(names: list[str]) -> None:
    folders = [Path("/runs", name) for name in names]
    assert HistorySource(_options(folders)).folders() == folders


@given(st.lists(st.integers(0, 1 << 40), max_size=50), st.integers(1, 20))
def test_runs_are_shared_out_evenly_and_each_once(sizes: list[int], tasks: int) -> None:
    shares = _shares(sizes, tasks)
    assert sorted(place for share in shares for place in share) == list(range(len(sizes)))
    assert len(shares) == min(tasks, len(sizes))
    totals = [sum(sizes[place] for place in share) for share in shares]
    assert max(totals, default=0) - min(totals, default=0) <= max(sizes, default=0) + len(sizes)
    assert all([sizes[place] for place in share] == sorted((sizes[p] for p in share), reverse=True) for share in shares)


def test_what_a_worker_has_imported_is_kept_out_of_collections_once() -> None:
    """In a process of its own: what is frozen stays so."""
    script = (
        "import gc, json; from upheaval_pipeline.workers import settle; found = []\n"
        "for more in ('', '', 'import tabnanny'):\n"
        "    exec(more); settle(); found.append(gc.get_freeze_count()); kept = [[] for _ in range(1000)]\n"
        "print(json.dumps(found))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    first, second, third = json.loads(told.stdout)
    assert 0 < first == second < third
