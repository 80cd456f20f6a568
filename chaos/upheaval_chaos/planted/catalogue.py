"""All planted bugs, and what makes the agents of a member or of a node beside the members with one of them."""

from collections.abc import Callable, Sequence
from typing import Final

from upheaval_chaos.errors import UsageError
from upheaval_chaos.planted import (
    access,
    archive,
    backup,
    catch_up,
    clients,
    durability,
    elections,
    replication,
    service_messages,
    sessions,
    snapshots,
    standby,
    termination,
    timers,
    truncation,
)
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_node.member import MemberAgent, MemberConfig, MemberPorts, build_together
from upheaval_node.service.api import ClusteredService
from upheaval_node.suggestions import did_you_mean

Build = Callable[[MemberConfig, MemberPorts, Sequence[ClusteredService]], list[MemberAgent]]
"""Creates a member that runs its components together."""

AREAS: Final = (
    elections.AREA,
    replication.AREA,
    catch_up.AREA,
    truncation.AREA,
    sessions.AREA,
    clients.AREA,
    access.AREA,
    timers.AREA,
    service_messages.AREA,
    snapshots.AREA,
    archive.AREA,
    durability.AREA,
    termination.AREA,
    backup.AREA,
    standby.AREA,
)
CATALOGUE: Final = tuple(sorted((bug for area in AREAS for bug in area.bugs), key=lambda bug: bug.name))
SHOWN_BY_SCENARIOS: Final = tuple(bug for bug in CATALOGUE if bug.scenario is not None)
"""The bugs that a scenario shows on every runtime."""


def bug_named(name: str) -> PlantedBug:
    """The bug of this name. Raises `UsageError` if there is none."""
    for bug in CATALOGUE:
        if bug.name == name:
            return bug
    known = [bug.name for bug in CATALOGUE]
    raise UsageError(f"unknown planted bug {name!r}: use {', '.join(known)}{did_you_mean(name, known)}")


def plant(planted: str | None, agents: Sequence[object]) -> None:
    """Plant this bug in the agents; without a name, leave them unchanged."""
    if planted is not None:
        bug_named(planted).plant(agents)


def build_with(planted: str | None) -> Build:
    """The builder of members with this bug; without a name, of normal members."""
    if planted is None:
        return build_together
    bug = bug_named(planted)

    def build(config: MemberConfig, ports: MemberPorts, services: Sequence[ClusteredService]) -> list[MemberAgent]:
        agents = build_together(config, ports, services)
        bug.plant(agents)
        return agents

    return build
