"""All goals, by area, and those that a run reached."""

from collections.abc import Collection
from typing import Final

from upheaval.campaign.goals.faults import FAULTS
from upheaval.campaign.goals.followers import FOLLOWERS
from upheaval.campaign.goals.goal import Goal
from upheaval.campaign.goals.leaders import LEADERS
from upheaval.campaign.goals.snapshots import SNAPSHOTS
from upheaval.campaign.goals.traced_run import TracedRun
from upheaval.campaign.goals.votes import VOTES
from upheaval.errors import UsageError
from upheaval.records import FieldError

AREAS: Final = (VOTES, LEADERS, FOLLOWERS, SNAPSHOTS, FAULTS)
GOALS: Final[tuple[Goal, ...]] = tuple(goal for area in AREAS for goal in area.goals)


def reached(run: TracedRun) -> tuple[str, ...]:
    """The names of the goals that a run reached, in the order of the table. Raises `UsageError` for a trace whose
    events lack fields.
    """
    try:
        return tuple(goal.name for goal in GOALS if goal.is_reached(run))
    except FieldError as error:
        raise UsageError(f"trace.jsonl: {error}") from None


def unreached(names: Collection[str]) -> list[str]:
    """The goals that are not among these, in the order of the table."""
    return [goal.name for goal in GOALS if goal.name not in names]
