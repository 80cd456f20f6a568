"""Seeds of a campaign with the users' services of `services/right`: all that campaigns draw, on shorter clusters."""

from pathlib import Path

from support.own_services import SERVICES, class_of
from upheaval.campaign.seed import SeedOutcome, SeedRun
from upheaval.campaign.swarm import draw_swarm
from upheaval.scenario import OwnCode

SECONDS = 20
"""Of load, in virtual time: long enough for some faults, some snapshots and their restarts."""


def own_code_of(name: str) -> OwnCode:
    """The service with its users."""
    user = f"users:{name.title().replace('_', '')}User"
    return OwnCode(class_of(name), user, str(SERVICES / "right"))


def try_own_seed(name: str, seed: int, folder: Path, planted: str | None = None) -> SeedOutcome:
    """Run and judge that seed of a service; its run folder stays."""
    return SeedRun(draw_swarm(seed, SECONDS, own_code_of(name)), folder, planted).run()
