"""A campaign of drawn schedules on clusters of processes: what it keeps, what it tells, and what it refuses."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.execution.run import read_origin
from upheaval.records import RunFolder

pytestmark = pytest.mark.heavy

SEED = 335
"""Short: all members pause, then the leader does."""


def run(folder: Path, *options: str) -> int:
    return main(
        ["campaign", "--runtime", "process", "--seeds", f"{SEED}..{SEED}", "--json", "--out", str(folder), *options]
    )


def is_starved(out: Path) -> bool:
    """Whether the seed showed nothing because a member got no processor: a stall excuses what came too late."""
    line = json.loads((out / "seeds.jsonl").read_text())
    folder = RunFolder(out / f"seed-{SEED}")
    return (
        (line["verdict"], line["promise"]) == ("unknown", Promise.BOUNDS_KEPT)
        and len(line["findings"]) == 1
        and any(facts.stalls for facts in facts_of_members(folder, folder.read_manifest().members))
    )


def test_a_valid_seed_leaves_its_line_and_no_run_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in (tmp_path / "first", tmp_path / "second", tmp_path / "third"):
        status = run(out)
        summary = json.loads(capsys.readouterr().out)
        if status == 0 or not is_starved(out):
            break
    assert status == 0
    assert (summary["seeds"], summary["valid"], summary["invalid"]) == (1, [SEED], [])
    assert summary["faults"] == {"pause": {"planned": 2, "proved": 2, "unseen": 0, "left_out": 0}}
    line = json.loads((out / "seeds.jsonl").read_text())
    assert (line["seed"], line["verdict"], line["findings"], line["folder"]) == (SEED, "valid", [], "")
    assert line["operations"] >= 50 + 199 + 104 + 50
    assert [each.name for each in out.iterdir() if each.is_dir()] == []
    assert run(out) == 2
    assert "already holds runs of a campaign: give another --out" in capsys.readouterr().err


def test_a_seed_that_fails_leaves_its_run_and_says_what_was_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--planted", "message-delivered-twice") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["invalid"] == [SEED]
    kept = tmp_path / f"seed-{SEED}"
    assert f"seed {SEED}:\ninvalid  linearizable [linearizable]\n" in printed.err
    assert f"again: upheaval replay {kept}" in printed.err
    assert verify_run(kept).verdict is Verdict.INVALID
    scenario, origin = read_origin(kept)
    assert (scenario.title, origin.seed, origin.planted) == (
        f"Seed {SEED} of a campaign",
        SEED,
        "message-delivered-twice",
    )


def test_a_cluster_that_does_not_start_is_an_outcome_until_none_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    command = ["campaign", "--runtime", "docker", "--seeds", "1..9", "--out", str(out)]
    assert main(command) == 2
    assert len((out / "seeds.jsonl").read_text().splitlines()) == 2
    assert json.loads((out / "summary.json").read_text())["unknown"] == [1, 2]
    assert "unknown  the run completed [run-ended]\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--workers", "2"], "clusters on the process runtime run one after the other: leave out --workers"),
        (["--dir", "here"], "--dir is for simulated seeds: use --out"),
        (["--system", "aeran"], "unknown system 'aeran'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *options) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_simulated_members_are_our_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "--system", "aeron", "--seeds", "1..1"]) == 2
    assert "system aeron does not run on the simulated runtime" in capsys.readouterr().err
