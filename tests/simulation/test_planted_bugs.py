"""Campaigns find planted bugs, by a promise that the catalogue names: a handful always, each of them once a night."""

from pathlib import Path

import pytest

from upheaval.campaign.zoo import BUDGET_S, Search, run_search
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import CATALOGUE

pytestmark = pytest.mark.pure

QUICK = (
    "commit-position-goes-back",
    "vote-not-persisted",
    "vote-not-synced",
    "unrecorded-log-reported",
    "uncommitted-entries-applied",
)
"""Most seeds show them within a few simulated seconds."""


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
