"""Seeds of campaigns as tasks of Spark: the outcomes that they have in this process, and the folders of failures."""

from pathlib import Path
from typing import Any

import pytest

from upheaval.campaign.seed import SeedOrigin, SeedOutcome, try_seed
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Json
from upheaval_pipeline.seed_tasks import SeedDefect, in_seed_tasks

FAILING = SeedOrigin(1, "vote-not-persisted")


def fields(outcome: SeedOutcome) -> dict[str, Json]:
    return {**outcome.to_fields(), "processor_seconds": 0}


def test_seeds_in_tasks_give_what_they_give_here_and_the_folder_of_one_that_fails(tmp_path: Path, spark: Any) -> None:
    with in_seed_tasks(spark, [SeedOrigin(1), FAILING], tmp_path / "kept") as outcomes:
        valid, failed = outcomes
    assert fields(valid) == fields(try_seed(1, None, tmp_path))
    assert failed.folder == str(tmp_path / "kept" / "seed-1")
    assert verify_run(failed.folder).verdict is Verdict.INVALID is Verdict.named(failed.verdict)


def test_a_defect_in_a_task_is_raised_here_with_its_trace(spark: Any) -> None:
    with (
        in_seed_tasks(spark, [SeedOrigin(1, "no-such-bug")], None) as outcomes,
        pytest.raises(SeedDefect, match=r"(?s)in a task of Spark: Traceback.*no-such-bug"),
    ):
        next(outcomes)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--master", "local[1]"], "--master and --lake are for campaigns on Spark: add --engine spark"),
        (["--lake", "lake"], "--master and --lake are for campaigns on Spark: add --engine spark"),
        (["--engine", "spark", "--lake", "lake"], "a lake takes the lines of a campaign: add --out FOLDER to --lake"),
        (["--engine", "spark", "--workers", "2"], "leave out --runtime, --dir and --workers"),
        (["--engine", "spark", "--runtime", "process"], "leave out --runtime, --dir and --workers"),
        (
            ["--engine", "spark", "--master", "spark://far:7077", "--service", "bank.service:Bank"],
            "bank.service:Bank exists only on this machine: leave out --master, or --service",
        ),
    ],
)
def test_options_that_do_not_go_together_are_one_line(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["campaign", "--seeds", "1..2", *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert reason in printed.err


def test_what_cannot_be_a_lake_is_refused_before_a_seed_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "file", tmp_path / "out"
    file.touch()
    words = ["--engine", "spark", "--out", str(out), "--lake", str(file)]
    assert main(["campaign", "--seeds", "1..2", *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "is a file: a lake is a folder" in printed.err
    assert not out.exists()
