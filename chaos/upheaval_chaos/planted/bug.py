"""What a planted bug is, and the catalogue of them.

A bug changes the agents of one member after they were made, and nothing else: no class, no module. Members with a bug
and members without one can therefore run side by side in one process. This module knows neither runtimes nor checkers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval_chaos.planted import quorum
from upheaval_node.member import MemberAgent, MemberConfig, MemberPorts, build_together
from upheaval_node.service.api import ClusteredService

Build = Callable[[MemberConfig, MemberPorts, Sequence[ClusteredService]], list[MemberAgent]]
"""How a member that runs its components together is made."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`plant` gets the agents of a process of a member before they take their first turn.

    `caught_by` is the promise (docs/guarantees.md) that the bug makes invalid, in a run of `scenario`.
    """

    name: str
    breaks: str
    caught_by: str
    scenario: str
    plant: Callable[[Sequence[MemberAgent]], None]


CATALOGUE: Final = (
    PlantedBug(
        "commit-without-a-quorum",
        "a leader commits, applies and answers what it alone has recorded",
        "acknowledged operations are not lost",
        "leader-left-alone",
        quorum.commit_without_a_quorum,
    ),
)


def bug_named(name: str) -> PlantedBug:
    """Raises `UsageError` for a name that no bug has."""
    for bug in CATALOGUE:
        if bug.name == name:
            return bug
    raise UsageError(f"there is no planted bug {name!r}: use {', '.join(bug.name for bug in CATALOGUE)}")


def build_with(planted: str | None) -> Build:
    """What makes members that have this bug; without a name, the members of the product."""
    if planted is None:
        return build_together
    bug = bug_named(planted)

    def build(config: MemberConfig, ports: MemberPorts, services: Sequence[ClusteredService]) -> list[MemberAgent]:
        agents = build_together(config, ports, services)
        bug.plant(agents)
        return agents

    return build
