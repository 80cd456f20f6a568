"""The canary of a campaign: a night in which the judge finds nothing, not even what was planted, is no good night."""

import json
from pathlib import Path

import pytest

from upheaval.campaign.canary import SEEDS_MAX, canary_of, run_canary
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.memory import FailedSeeds
from upheaval.campaign.searches import DELIVERY
from upheaval.campaign.seed import SeedOutcome
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.verdict import Report
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.planted.catalogue import CATALOGUE, bug_named

ROOT = Path(__file__).parents[2]
UPHEAVAL = ROOT / "harness" / "upheaval"


def test_a_canary_is_found_and_named() -> None:
    first = next(seed for seed in range(1, 10_000) if canary_of([seed]).name == "commit-position-goes-back")
    canary = run_canary(range(first, first + 30))
    assert canary.detected_by is not None
    assert str(canary) == f"canary: planted bug {canary.bug.name} was found by seed {first}: invariants"


def missed() -> int:
    """A seed that draws a bug of backups, and a cluster that has none."""
    return next(
        seed
        for seed in range(1, 10_000)
        if canary_of([seed]).area == "backup" and draw_swarm(seed).variations.companion is None
    )


def test_a_judge_that_cannot_judge_finds_no_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its seeds are unknown, which is not found."""

    def blind(run: RunFolder) -> Report:
        raise UsageError(f"{run.path} cannot be read")

    monkeypatch.setattr("upheaval.campaign.seed.verify_folder", blind)
    assert run_canary([missed()]).detected_by is None


def test_a_bug_is_found_by_a_broken_promise_that_must_find_it() -> None:
    bug = bug_named("catch-up-not-served")
    outcome = SeedOutcome(draw_swarm(1))
    assert bug.is_found_by("members-join")
    for verdict, promise, found in (
        ("unknown", "members-join", []),
        ("unknown", "run-ended", []),
        ("invalid", "linearizable", []),
        ("invalid", "members-join", ["members-join"]),
    ):
        outcome.fingerprints.append(Fingerprint(verdict, promise))
        assert outcome.finds(bug) == found


def test_a_canary_is_looked_for_as_the_campaign_searches() -> None:
    """Seeds of either search draw the same bug, and other clusters."""
    first = next(seed for seed in range(1, 10_000) if canary_of([seed]).name == "commit-position-goes-back")
    canary = run_canary([first], search=DELIVERY)
    assert canary.detected_by is not None
    assert canary.detected_by.swarm.delivery is not None


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
    """Seeds that failed before draw no canary and find none."""
    monkeypatch.chdir(tmp_path)
    seed = missed()
    FailedSeeds(tmp_path / "runs", None).note(9, has_failed=True)
    assert canary_of([9]) != canary_of([seed])
    assert main(["campaign", "--seeds", f"{seed}..{seed}", "--canary"]) == CommandStatus.UNKNOWN
    assert f"{canary_of([seed]).name} was not found in 1 seeds" in capsys.readouterr().err


def test_a_canary_is_planted_in_our_node_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "--seeds", "1..2", "--canary", "--planted", "vote-not-persisted"]) == 2
    assert "--canary plants a bug of its own" in capsys.readouterr().err


def test_no_checker_reads_which_bug_was_planted() -> None:
    sources = [path for folder in ("checkers", "records") for path in (UPHEAVAL / folder).rglob("*.py")]
    readers = [path.name for path in sources if ".planted" in path.read_text(encoding="utf-8")]
    assert sources
    assert readers == []
