"""What `upheaval ui` computed of a run holds as long as the run's files are as they were."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli.report import write_report
from upheaval.execution.run import RESULT_FILE, ScenarioResult
from upheaval.records import RunFolder, seal
from upheaval.records.labels import LABELS_FILE, write_labels
from upheaval.ui.places import FolderPlace
from upheaval.ui.run_files import signature_of
from upheaval.ui.runs import Runs

RECORDING = "member-0/archive/0-0.rec"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A valid run of a scenario, with its result."""
    run = good_run().write(tmp_path / "runs" / "good")
    report = verify_run(run.path)
    assert report.verdict is Verdict.VALID
    seal(run)
    (run.path / RESULT_FILE).write_text(ScenarioResult("leader-killed", "process", 1, report, None).to_json())
    return run


def verdict_in_list(run: RunFolder) -> str | None:
    (row,) = FolderPlace(run.path.parent).rows()
    assert row.error == ""
    return row.verdict


def newer(file: Path, than: Path) -> None:
    """Clocks of file systems are coarse."""
    while file.stat().st_ctime_ns <= than.stat().st_ctime_ns:
        file.touch()


def test_a_run_whose_log_changed_is_judged_again(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "runs" / "good")
    runs = Runs(FolderPlace(run.path.parent))
    assert runs.verdict("good")["verdict"] == "valid"
    recording = run.path / RECORDING
    recording.write_bytes(recording.read_bytes()[:4096])
    assert runs.verdict("good")["verdict"] != "valid"


def test_a_folder_whose_name_is_not_utf_8_has_a_name_in_the_list_and_a_page(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "runs" / os.fsdecode(b"caf\xe9"))
    (row,) = FolderPlace(run.path.parent).rows()
    assert row.name == r"caf\udce9"
    assert FolderPlace(run.path.parent).path(row.name) == run.path
    assert row.name in write_report(run.path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "history.jsonl",
        RECORDING,
        "member-1/cluster/recording.log",
        "backup-0/archive/archive.catalog",
        "standby-0/a/b/c",
    ],
)
def test_the_signature_changes_with_each_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    none = signature_of(tmp_path)
    file.write_bytes(b"12")
    there = signature_of(tmp_path)
    file.write_bytes(b"1")
    assert len({none, there, signature_of(tmp_path)}) == 3


@pytest.mark.parametrize("name", ["report.html", "maintainers.md"])
def test_the_list_has_the_verdict_of_a_result_and_a_page_of_a_run_does_not_change_that(
    name: str, run: RunFolder
) -> None:
    assert verdict_in_list(run) == "valid"
    page = run.path / name
    page.write_text("for people")
    newer(page, run.path / RESULT_FILE)
    assert verdict_in_list(run) == "valid"


def test_labels_that_follow_a_result_leave_its_verdict(run: RunFolder) -> None:
    write_labels(run.path, {"commit": "12"})
    newer(run.path / LABELS_FILE, run.path / RESULT_FILE)
    assert verdict_in_list(run) == "valid"


def remove_history(run: RunFolder) -> None:
    run.history_file.unlink()


def remove_log(run: RunFolder) -> None:
    shutil.rmtree((run.path / RECORDING).parent)


def change_log(run: RunFolder) -> None:
    recording = run.path / RECORDING
    recording.write_bytes(recording.read_bytes()[:4096])
    newer(recording, run.path / RESULT_FILE)


def add_file(run: RunFolder) -> None:
    (run.path / "member-0" / "more").touch()
    newer(run.path / "member-0" / "more", run.path / RESULT_FILE)


def remove_seal(run: RunFolder) -> None:
    run.seal_file.unlink()


@pytest.mark.parametrize("change", [remove_history, remove_log, change_log, add_file, remove_seal])
def test_the_list_has_no_verdict_of_a_run_that_changed_after_its_result(
    change: Callable[[RunFolder], None], run: RunFolder
) -> None:
    change(run)
    assert verdict_in_list(run) is None
