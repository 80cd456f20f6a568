"""The canary of a campaign: one planted bug, drawn by its first seed, that its seeds and its judge must find.

Thousands of valid seeds show nothing if the judge or the draws have gone blind. A bug that is known to be there detects
that. The judge reads nothing that names the bug.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from upheaval.campaign.campaign import run_campaign
from upheaval.campaign.searches import UNIFORM
from upheaval.campaign.seed import SeedOutcome
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import CATALOGUE

SEEDS_MAX: Final = 100
"""The number of seeds within which the bug must be found."""
_EASY: Final = tuple(bug for bug in CATALOGUE if not bug.is_rare)
"""Bugs that a zoo has found well within that many seeds, so that a miss means something."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The bug, how many seeds were tried, and the outcome of the seed that detected it, if one did."""

    bug: PlantedBug
    tried: int
    detected_by: SeedOutcome | None

    def __str__(self) -> str:
        outcome, what = self.detected_by, f"canary: planted bug {self.bug.name}"
        if outcome is None:
            return f"{what} was not found in {self.tried} seeds: what this campaign calls valid shows nothing"
        return f"{what} was found by seed {outcome.swarm.seed}: {', '.join(outcome.finds(self.bug))}"


def canary_of(seeds: Sequence[int]) -> PlantedBug:
    """The bug that these seeds draw."""
    return Random(f"canary {seeds[0]}").choice(_EASY)


def run_canary(seeds: Sequence[int], workers: int = 1, search: str = UNIFORM) -> Canary:
    """Run the seeds with a planted bug until one of them breaks a promise that must find it.

    The cluster has the node's own rules: those of Aeron break promises without a planted bug.
    """
    bug = canary_of(seeds)
    is_found = partial(_finds, bug)
    summary = run_campaign(seeds[:SEEDS_MAX], workers=workers, planted=bug.name, search=search, until=is_found)
    return Canary(bug, summary.seeds, next(filter(is_found, summary.failed), None))


def _finds(bug: PlantedBug, outcome: SeedOutcome) -> bool:
    return bool(outcome.finds(bug))
