"""Runs that fit into a task are judged there by the in-process checkers, those of a lake when they are ingested."""

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
from upheaval.checkers.judge import verify_run
from upheaval.cli import parsing
from upheaval.errors import EnvironmentFault, UsageError
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.run_tables import reports_of_lake
from upheaval_pipeline.verify import verify, verify_lake
from upheaval_pipeline.version import version
from upheaval_pipeline.whole import WHOLE_MIB, _shares, that_fit


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> list[Path]:
    """A good run, a bad one, and one with more than a mebibyte of lines."""
    folder = tmp_path_factory.mktemp("whole")
    runs = {"good": good_run(), "bad": good_run(seed=2), "long": good_run(echo_length=12_000)}
    del runs["bad"].payloads[1][60]
    for name, run in runs.items():
        run.manifest = replace(run.manifest, run_id=name)
        run.write(folder / name)
    made = [folder / name for name in runs]
    assert that_fit(spark, made, 1) == made[:2]
    assert that_fit(spark, made, 0) == []
    return made


def test_short_and_long_runs_are_judged_alike(folders: list[Path], spark: Any) -> None:
    assert verify(spark, folders, whole_mib=1) == [verify_run(folder) for folder in folders]


def test_reports_bear_the_names_that_were_given(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    monkeypatch.chdir(folders[0].parent)
    names = [Path(folder.name) for folder in folders]
    assert [each.run for each in verify(spark, names)] == [str(name) for name in names]  # type: ignore[union-attr]


def test_what_a_worker_cannot_read_is_named(folders: list[Path], tmp_path: Path, spark: Any) -> None:
    shutil.copytree(folders[0], tmp_path / "run")
    (tmp_path / "run" / "history.jsonl").unlink()
    (tmp_path / "run" / "history.jsonl").mkdir()
    with pytest.raises(EnvironmentFault, match=r"cannot read .*history\.jsonl: Is a directory"):
        verify(spark, [folders[0], tmp_path / "run"])


def test_a_malformed_line_is_told_of_its_run_alone(folders: list[Path], tmp_path: Path, spark: Any) -> None:
    good_run().write(tmp_path / "torn")
    with (tmp_path / "torn" / "history.jsonl").open("ab") as stream:
        stream.write(b"{\n")
    torn, good = verify(spark, [tmp_path / "torn", folders[0]])
    assert isinstance(torn, UsageError)
    assert "history.jsonl:401: not JSON" in str(torn)
    assert good == verify_run(folders[0])


def test_a_lake_knows_what_came_of_runs_that_were_judged_when_they_came(
    folders: list[Path], tmp_path: Path, spark: Any
) -> None:
    names = [folder.name for folder in folders]
    ingest(spark, folders, str(tmp_path), whole_mib=1)
    lake = open_lake(str(tmp_path))
    expected = dict(zip(names, map(verify_run, folders), strict=True))
    assert reports_of_lake(spark, lake, names) == {name: expected[name] for name in ("good", "bad")}
    assert verify_lake(spark, lake, names) == list(expected.values())
    assert verify_lake(spark, lake, names, anew=True) == list(expected.values())


def test_what_another_version_said_does_not_count(folders: list[Path], tmp_path: Path, spark: Any) -> None:
    ingest(spark, folders[:2], str(tmp_path))
    (commit,) = (tmp_path / "commits").glob("*.json")
    commit.write_text(commit.read_text().replace(version(), "0" * len(version())))
    lake = open_lake(str(tmp_path))
    assert reports_of_lake(spark, lake, ["good", "bad"]) == {}
    assert verify_lake(spark, lake, ["good", "bad"]) == [verify_run(folder) for folder in folders[:2]]


def test_the_option_has_the_default_of_the_judge() -> None:
    assert parsing.SPREAD_ABOVE_MIB == WHOLE_MIB


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
