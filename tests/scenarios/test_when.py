"""`upheaval when`: other timings from moments of a simulated run on."""

import json
from pathlib import Path

import pytest

from upheaval.campaign.seed import SeedOrigin, keep_seed
from upheaval.cli.main import main
from upheaval_chaos.exit_status import CommandStatus

BUG = "commit-position-goes-back"
TEXT = """title The leader is killed
invariants on
wait operations 1
inject dead kill leader
"""
WORDS = ["--points", "2", "--timings", "2"]


@pytest.mark.pure
def test_a_bug_that_every_election_shows_is_inevitable_from_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a seed and of a scenario, which fail with each timing."""
    (tmp_path / "x.scenario").write_text(TEXT)
    run = ["run", str(tmp_path / "x.scenario"), "--runtime", "simulated", "--planted", BUG]
    assert main([*run, "--dir", str(tmp_path / "scenario")]) == CommandStatus.BROKEN
    keep_seed(SeedOrigin(1, BUG), tmp_path / "seed")
    for name in ("seed", "scenario"):
        capsys.readouterr()
        assert main(["when", str(tmp_path / name), *WORDS, "--json"]) == CommandStatus.VALID
        answer = json.loads(capsys.readouterr().out)
        assert answer["promise"] == "invariants"
        assert [(point["timings"], point["broken"]) for point in answer["points"]] == [(2, 2), (2, 2)]
        assert answer["points"][0]["seconds"] == 0
        assert answer["points"][1]["seconds"] == answer["broken_seconds"] > 0
        assert answer["inevitable"] == {"after_seconds": None, "by_seconds": 0, "avoid_at_most": 0.6576}
    assert main(["when", str(tmp_path / "scenario"), *WORDS]) == CommandStatus.VALID
    text = capsys.readouterr().out
    assert "2 of 2        ################################" in text
    assert text.endswith(
        "inevitable from the start: none of 2 timings from each moment on avoided it (95 %: at most 66% do)\n"
    )


def test_a_run_that_breaks_nothing_has_no_such_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.scenario").write_text(TEXT)
    run = ["run", str(tmp_path / "x.scenario"), "--runtime", "simulated", "--dir", str(tmp_path / "run")]
    main(run)
    capsys.readouterr()
    assert main(["when", str(tmp_path / "run"), *WORDS]) == CommandStatus.UNKNOWN
    assert "breaks no promise when it is run again" in capsys.readouterr().err
