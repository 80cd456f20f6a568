"""Labels of runs: written beside what a seed repeats, and read again when runs are ingested."""

from errno import ENOSPC
from pathlib import Path

import pytest

from upheaval.cli.live_campaign import labelled_seeds
from upheaval.cli.main import main
from upheaval.cli.shrink import Left, report_search, shrink_beside
from upheaval.errors import EnvironmentFault, HarnessError, UnknownOutcome, UsageError
from upheaval.records import Manifest, RunFolder
from upheaval.records.labels import LABELS_FILE, OF_CI, LabelsOfIngest, read_labels, write_labels


@pytest.fixture
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {name for names in OF_CI.values() for name in names}:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_ci")
def test_a_run_keeps_its_labels_beside_what_its_seed_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI_COMMIT_SHA", "4f2a91c")
    command = ["run", "leader-killed", "--runtime", "simulated", "--seed", "5", "--dir", str(tmp_path / "run")]
    assert main([*command, "--label", "branch=topic"]) == 0
    capsys.readouterr()
    assert read_labels(tmp_path / "run") == {"commit": "4f2a91c", "branch": "topic"}
    assert LABELS_FILE not in RunFolder(tmp_path / "run").seal_file.read_text()


@pytest.mark.usefixtures("no_ci")
def test_the_runs_that_a_campaign_leaves_are_labelled_and_no_others(tmp_path: Path) -> None:
    def begin(name: str) -> None:
        RunFolder(tmp_path / name).create(Manifest("run-1", "process", 1, "test", 0))

    begin("seed-1")
    with labelled_seeds(tmp_path, [("commit", "12")]):
        for name in ("seed-2", "seed-2-smallest/run", "other"):
            begin(name)
    labelled = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob(LABELS_FILE)}
    assert labelled == {"seed-2", "seed-2-smallest/run"}
    assert read_labels(tmp_path / "seed-2") == {"commit": "12"}
    assert read_labels(tmp_path / "seed-1") is None


@pytest.mark.usefixtures("no_ci")
def test_a_run_that_did_not_begin_leaves_no_labels(tmp_path: Path) -> None:
    words = ["run", "service-restarted", "--runtime", "simulated", "--dir", str(tmp_path / "run"), "--label", "a=b"]
    assert main(words) == 2
    assert not (tmp_path / "run").exists()


def test_a_failed_run_that_cannot_be_made_simpler_is_named_and_ends_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(tmp_path / "seed-7")
    run.create(Manifest("run-1", "process", 1, "test", 0))
    shrink_beside(run.path)
    assert f"{run.path} is as simple as it was: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentFault("no cluster starts"),
        UnknownOutcome("fails too rarely"),
        UsageError("no room"),
        OSError(ENOSPC, "No space left on device"),
    ],
)
def test_a_search_that_ends_with_an_error_leaves_the_status_of_the_verdict(
    error: HarnessError | OSError, capsys: pytest.CaptureFixture[str]
) -> None:
    def search() -> Left:
        raise error

    report_search("seed 7", search)
    assert f"seed 7 is as simple as it was: {error}" in capsys.readouterr().err


def test_labels_of_the_run_come_before_those_of_the_place_that_ingests_it(tmp_path: Path) -> None:
    ingest = LabelsOfIngest({"commit": "nightly", "build": "9"}, {"team": "money"})
    assert ingest.of(tmp_path) == {"commit": "nightly", "build": "9", "team": "money"}
    write_labels(tmp_path, {"commit": "12", "team": "other"})
    assert ingest.of(tmp_path) == {"commit": "12", "team": "money"}


def test_a_label_of_bytes_that_are_no_utf_8_can_be_read_again(tmp_path: Path) -> None:
    write_labels(tmp_path, {"branch": "\udcff"})
    assert read_labels(tmp_path) == {"branch": r"\udcff"}


@pytest.mark.parametrize(
    ("text", "reason"), [("[]", "object"), ('{"a": 3}', "expected a text for each label, got {'a': 3}"), ("{", "JSON")]
)
def test_malformed_labels_are_refused_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / LABELS_FILE).write_text(text)
    with pytest.raises(UsageError, match=reason) as refused:
        read_labels(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path / LABELS_FILE}: ")
    assert "\n" not in str(refused.value)
