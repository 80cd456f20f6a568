"""A goal: the name of a situation, what it means, and whether a run reached it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from upheaval.campaign.goals.traced_run import TracedRun

IsReached = Callable[[TracedRun], bool]
P = TypeVar("P", bound=IsReached)


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal. `is_reached` is a pure function of a run."""

    name: str
    meaning: str
    is_reached: IsReached


class GoalArea:
    """The goals of one area, in the order of their definitions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.goals: list[Goal] = []

    def add(self, name: str, meaning: str, is_reached: IsReached) -> None:
        """Add a goal."""
        self.goals.append(Goal(name, meaning, is_reached))

    def goal(self, name: str, meaning: str) -> Callable[[P], P]:
        """Decorate the predicate of a goal."""

        def add(is_reached: P) -> P:
            self.add(name, meaning, is_reached)
            return is_reached

        return add


def moved(old: str, new: str) -> IsReached:
    """Reached when an election goes from one state to another."""
    return lambda run: run.moved(old, new)


def died_in(*states: str) -> IsReached:
    """Reached when a process ends in one of these states of an election."""
    return lambda run: any(span.has_died for span in run.in_states(*states))
