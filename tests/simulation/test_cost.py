"""What a seed of a campaign costs, in calls: unlike time, they are the same on a busy machine."""

from cProfile import Profile
from pathlib import Path
from pstats import Stats

import pytest

from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import draw_swarm

SEED = 3
SECONDS = 12
"""Of load."""
CALLS_MAX = 3_180_000
"""With 3 percent to spare for what modules do when they are used first."""


@pytest.mark.pure
def test_a_seed_makes_no_more_calls_than_it_needs(tmp_path: Path) -> None:
    run = SeedRun(draw_swarm(SEED, SECONDS).plain(), tmp_path / "run")
    profile = Profile()
    outcome = profile.runcall(run.run)
    assert outcome.is_valid, outcome.detail
    calls = Stats(profile).total_calls  # type: ignore[attr-defined]
    assert calls <= CALLS_MAX
