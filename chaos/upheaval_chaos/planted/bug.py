"""A planted bug, and the area of the node to which it belongs.

A bug changes the agents of one member after their creation, but no class and no module. Members with and without a bug
can therefore run side by side in one process. This module knows neither runtimes nor checkers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

from upheaval_chaos.errors import UsageError
from upheaval_node.compiled import VARIABLE, form

INVARIANTS: Final = "invariants"
"""Broken while the simulation runs, before a folder is judged."""

Change = TypeVar("Change", bound=Callable[[Any], None])


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`change` is what it does to an agent of the class of its parameter; its name is that of the bug.

    `caught_by` are ids of promises (docs/promises.md), of which a run that shows the bug breaks at least one. A run of
    `scenario` shows it on every runtime, and breaks the first of them and those in `breaks_too`. In the simulation the
    invariants may break first.
    """

    area: str
    change: Callable[[Any], None]
    caught_by: tuple[str, ...]
    scenario: str | None = None
    breaks_too: tuple[str, ...] = ()
    is_rare: bool = False
    """Whether a campaign of a hundred seeds may miss it. A bug that no zoo has measured counts as rare."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.change.__name__.replace("_", "-")

    @property
    def breaks(self) -> str:
        """What is wrong in the node, in one sentence."""
        return " ".join((self.change.__doc__ or "").split())

    @property
    def where(self) -> type[object]:
        """The class of the agents that it changes."""
        where, _ = get_type_hints(self.change).values()
        assert isinstance(where, type)
        return where

    def is_found_by(self, promise: str) -> bool:
        """Whether a run that breaks this promise has found it."""
        return promise == INVARIANTS or promise in self.caught_by

    def plant(self, agents: Sequence[object]) -> None:
        """Change the agents of a process before their first turn. Raises `UsageError` for compiled modules, whose
        objects cannot be changed.
        """
        if form().modules:
            raise UsageError(f"bugs are planted in pure Python: set {VARIABLE}=1")
        where = self.where
        for agent in agents:
            if isinstance(agent, where):
                self.change(agent)


class Area:
    """A part of the node and its bugs: one function per bug, whose docstring says what is wrong."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.bugs: Final[list[PlantedBug]] = []

    def bug(
        self, *caught_by: str, scenario: str | None = None, breaks_too: tuple[str, ...] = (), is_rare: bool = False
    ) -> Callable[[Change], Change]:
        """Register the decorated function as a bug that breaks one of these promises."""

        def add(change: Change) -> Change:
            self.bugs.append(PlantedBug(self.name, change, caught_by, scenario, breaks_too, is_rare))
            return change

        return add
