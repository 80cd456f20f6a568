"""Right services of five kinds in campaigns: whatever is drawn for their cluster, none is accused."""

from pathlib import Path

import pytest

from support.own_campaigns import try_own_seed
from support.own_services import RIGHT_WITH_USERS

SEEDS = range(1, 201)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RIGHT_WITH_USERS)
def test_a_right_service_is_not_accused_in_a_campaign(name: str, seed: int, tmp_path: Path) -> None:
    outcome = try_own_seed(name, seed, tmp_path / "run")
    assert (outcome.verdict, outcome.findings) == ("valid", [])
