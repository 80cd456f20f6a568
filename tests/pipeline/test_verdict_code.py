"""A verdict is given anew once there is more to judge by: a mended model, code or Java that was missing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_locks import SERVICES, locks_run
from support.lakes import judged_in_lake
from upheaval.checkers.own.own_replay import BUDGET_VARIABLE
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report
from upheaval.records import RunFolder
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.own_code import has_more, own_code
from upheaval_pipeline.verdicts import without_verdict


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with the code of services and models."""
    return Path(shutil.copytree(SERVICES, tmp_path / "code", ignore=shutil.ignore_patterns("__pycache__")))


def lake_of(code: Path, model: str, tmp_path: Path, source: str | None = None) -> tuple[str, str]:
    """A lake of a run of that code, and the run."""
    run = locks_run(model)
    source = str(code) if source is None else source
    run.manifest = replace(run.manifest, source=source, model_source=str(code) if model else "")
    run.write(tmp_path / "run")
    ingest(None, [tmp_path / "run"], str(tmp_path / "lake"))
    return str(tmp_path / "lake"), run.manifest.run_id


def test_a_changed_model_judges_anew(code: Path, tmp_path: Path) -> None:
    lake, run = lake_of(code, "fenced_model:Locks", tmp_path)
    model = code / "fenced_model.py"
    assert without_verdict(open_lake(lake), [run]) == []
    model.write_text(f"{model.read_text()}\n# mended\n")
    assert without_verdict(open_lake(lake), [run]) == [run]
    judged_in_lake(None, open_lake(lake), [run])
    assert without_verdict(open_lake(lake), [run]) == []
    model.unlink()
    assert without_verdict(open_lake(lake), [run]) == []


def test_a_changed_model_judges_anew_where_the_time_of_replays_is_invalid(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a service nothing is replayed, and the verdict is that of any other machine."""
    monkeypatch.setenv(BUDGET_VARIABLE, "abc")
    lake, run = lake_of(code, "fenced_model:Locks", tmp_path, source="")
    model = code / "fenced_model.py"
    model.write_text(f"{model.read_text()}\n# mended\n")
    assert without_verdict(open_lake(lake), [run]) == [run]
    assert isinstance(judged_in_lake(None, open_lake(lake), [run])[0], Report)
    assert without_verdict(open_lake(lake), [run]) == []
    monkeypatch.delenv(BUDGET_VARIABLE)
    assert without_verdict(open_lake(lake), [run]) == []


def test_code_that_was_missing_judges_anew(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = code.rename(tmp_path / "moved")
    lake, run = lake_of(code, "", tmp_path)
    assert gaps(lake, run) == [Promise.LINEARIZABLE]
    assert without_verdict(open_lake(lake), [run]) == []
    moved.rename(code)
    assert without_verdict(open_lake(lake), [run]) == [run]
    assert gaps(lake, run) == []
    assert without_verdict(open_lake(lake), [run]) == []
    shutil.rmtree(code)
    assert without_verdict(open_lake(lake), [run]) == []
    monkeypatch.setenv(BUDGET_VARIABLE, "60")
    assert without_verdict(open_lake(lake), [run]) == []


def test_a_machine_that_cannot_judge_leaves_no_verdict(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BUDGET_VARIABLE, "abc")
    lake, run = lake_of(code, "", tmp_path)
    monkeypatch.setenv(BUDGET_VARIABLE, "30")
    assert without_verdict(open_lake(lake), [run]) == [run]
    assert gaps(lake, run) == []
    assert without_verdict(open_lake(lake), [run]) == []
    monkeypatch.delenv(BUDGET_VARIABLE)
    assert without_verdict(open_lake(lake), [run]) == []
    monkeypatch.setenv(BUDGET_VARIABLE, "60")
    assert without_verdict(open_lake(lake), [run]) == [run]


def gaps(lake: str, run: str) -> list[Promise]:
    (report,) = judged_in_lake(None, open_lake(lake), [run])
    assert isinstance(report, Report)
    return [one.promise for one in report.unchecked if one.is_gap]


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ("- - -", "5d + +", False),
        ("5d + +", "5d + +", False),
        ("5d + +", "5d + -", True),
        ("5d + -", "5d - -", True),
        ("5e - -", "5d + +", True),
        ("5d - -", "", True),
        ("5d + + 20", "5d + +", False),
        ("5d + + 30", "5d + +", True),
        ("5d + + 5", "5d + + 20", False),
        ("5d + + 20", "5d + + 5", True),
        ("- - - 60", "5d + + 20", False),
        ("5d - - 60", "5d + +", False),
        ("5d + - 60", "5d + +", False),
        ("- + + 60", "5d + +", False),
        ("5d - - 60", "5d - -", False),
        ("- + - 60", "- + -", True),
        ("", "", False),
    ],
)
def test_more_code_is_what_was_changed_or_missing(now: str, before: str, expected: bool) -> None:
    assert has_more(now, before) is expected


def test_a_run_of_a_shipped_service_has_no_code_of_its_user(tmp_path: Path) -> None:
    run = locks_run("")
    run.manifest = replace(run.manifest, source="", source_digest="")
    run.write(tmp_path / "run")
    assert own_code(RunFolder(tmp_path / "run").read_manifest()) == ""
