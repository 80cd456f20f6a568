"""Campaigns find planted bugs, by a promise that the catalogue names: a handful always, each of them once a night."""

from pathlib import Path

import pytest

from upheaval.campaign.searches import MOMENTS
from upheaval.campaign.seed import SeedRun
from upheaval.campaign.seed_lines import Fate
from upheaval.campaign.swarm import WRONG_BYTES, draw_swarm
from upheaval.campaign.swarm_tape import read_swarm
from upheaval.campaign.zoo import BUDGET_S, Search, run_search
from upheaval.checkers.signature import Rule
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import CATALOGUE
from upheaval_node.types import S

pytestmark = pytest.mark.pure

QUICK = (
    "commit-position-goes-back",
    "vote-not-persisted",
    "vote-not-synced",
    "unrecorded-log-reported",
    "uncommitted-entries-applied",
)
"""Most seeds show them within a few simulated seconds."""
BY_MOMENTS = ("catch-up-reads-past-the-commit",)
"""Uniform seeds rarely show them, but the first seeds with faults at moments do."""


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, id=bug.name, marks=() if bug.name in QUICK else pytest.mark.nightly)
        for bug in CATALOGUE
        if not bug.is_rare
    ],
)
def test_a_campaign_catches_it(bug: PlantedBug, tmp_path: Path) -> None:
    over = run_search(Search(bug.name, 0, 1), tmp_path / "zoo", tmp_path / "scratch", BUDGET_S)
    assert over.is_caught, over


@pytest.mark.parametrize("name", BY_MOMENTS)
def test_faults_at_moments_catch_it(name: str, tmp_path: Path) -> None:
    over = run_search(Search(name, 0, 1, search=MOMENTS), tmp_path / "zoo", tmp_path / "scratch", BUDGET_S)
    assert over.is_caught, over


def test_a_member_may_start_from_the_snapshot_of_a_standby_after_the_wrong_bytes(tmp_path: Path) -> None:
    """Member 1 has no snapshot of its own when its bytes are changed, and then takes that of the standby."""
    assert SeedRun(draw_swarm(9200142), tmp_path / "run").run().findings == []


@pytest.mark.parametrize("percent", [0, 100])
@pytest.mark.parametrize("planted", [None, "checksums-not-compared"])
def test_a_member_must_find_bytes_that_its_disk_changed_in_an_earlier_segment(
    percent: int, planted: str | None, tmp_path: Path
) -> None:
    """Wrong bytes of the current segment, the last ones, are found by its journal."""
    damage = {"start-ns": 20 * S, "duration-ns": 3 * S, "member": 1, "percent": percent}
    tape = {"seconds": 26, "rate": 60, "sync-level": 1, "terms-a-segment": 1, "checksums": [{"damage": [damage]}]}
    swarm, _ = read_swarm(tape, 3)
    outcome = SeedRun(swarm, tmp_path / "run", planted).run()
    missed = [one for one in outcome.fingerprints if one.rule == Rule.DAMAGE_MISSED]
    assert bool(missed) == (planted is not None and percent == 0)
    assert outcome.is_valid == (not missed)
    assert missed or outcome.faults[WRONG_BYTES][Fate.PROVED] == 1
