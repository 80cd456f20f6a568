"""The canary of a campaign: a night in which the judge finds nothing, not even what was planted, is no good night."""

import json
from pathlib import Path

import pytest

from upheaval.campaign.canary import SEEDS_MAX, canary_of, run_canary
from upheaval.campaign.swarm import draw_swarm
from upheaval.cli.main import main
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.planted.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
UPHEAVAL = ROOT / "harness" / "upheaval"


def test_a_canary_is_found_and_named() -> None:
    first = next(seed for seed in range(1, 10_000) if canary_of([seed]).name == "commit-position-goes-back")
    canary = run_canary(range(first, first + 30))
    assert canary.detected_by is not None
    assert str(canary).startswith(f"canary: planted bug {canary.bug.name} was found by seed ")


def test_every_canary_was_found_by_a_zoo_within_a_fifth_of_its_seeds() -> None:
    """Others may escape a campaign without anything being wrong with it."""
    rows = {row["bug"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text(encoding="utf-8"))}
    canaries = [bug.name for bug in CATALOGUE if not bug.is_rare]
    caught = {name for name, row in rows.items() if row["caught"] == row["searches"] and 5 * row["seeds"] <= SEEDS_MAX}
    assert canaries
    assert [name for name in canaries if name not in caught] == []


def test_a_campaign_whose_canary_is_not_found_shows_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The seed draws a bug of backups, and a cluster that has none."""
    monkeypatch.chdir(tmp_path)
    seed = next(
        seed
        for seed in range(1, 10_000)
        if canary_of([seed]).area == "backup" and draw_swarm(seed).variations.companion is None
    )
    assert main(["campaign", "--seeds", f"{seed}..{seed}", "--canary"]) == CommandStatus.UNKNOWN
    assert "was not found in 1 seeds" in capsys.readouterr().err


def test_a_canary_is_planted_in_our_node_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "--seeds", "1..2", "--canary", "--planted", "vote-not-persisted"]) == 2
    assert "--canary plants a bug of its own" in capsys.readouterr().err


def test_no_checker_reads_which_bug_was_planted() -> None:
    sources = [path for folder in ("checkers", "records") for path in (UPHEAVAL / folder).rglob("*.py")]
    readers = [path.name for path in sources if ".planted" in path.read_text(encoding="utf-8")]
    assert sources
    assert readers == []
