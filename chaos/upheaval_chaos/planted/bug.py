"""What a planted bug is, and the catalogue of them.

A bug changes the agents of one member after they were made, and nothing else: no class, no module. Members with a bug
and members without one can therefore run side by side in one process. This module knows neither runtimes nor checkers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_chaos.errors import UsageError
from upheaval_chaos.planted import elections, quorum, services
from upheaval_node.member import MemberAgent, MemberConfig, MemberPorts, build_together
from upheaval_node.service.api import ClusteredService

Build = Callable[[MemberConfig, MemberPorts, Sequence[ClusteredService]], list[MemberAgent]]
"""How a member that runs its components together is made."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`plant` gets the agents of a process of a member before they take their first turn.

    `caught_by` is the id of the promise (docs/guarantees.md) that the bug makes invalid: in a run of `scenario`, which
    shows it on every runtime, or else in the campaign. `seed` is one of the campaign that catches the bug.
    """

    name: str
    breaks: str
    caught_by: str
    scenario: str | None
    plant: Callable[[Sequence[MemberAgent]], None]
    seed: int


INVARIANTS: Final = "invariants"
"""Broken while the simulation runs, before a folder is judged."""

CATALOGUE: Final = (
    PlantedBug(
        "ack-before-the-write",
        "the archive says that it has recorded what no disk has",
        INVARIANTS,
        None,
        elections.ack_before_the_write,
        2,
    ),
    PlantedBug(
        "cancelled-timer-fires",
        "a timer that its service cancelled fires all the same",
        "timers-kept",
        None,
        services.cancelled_timer_fires,
        19,
    ),
    PlantedBug(
        "commit-position-goes-back",
        "an election begins below what was committed",
        INVARIANTS,
        None,
        elections.commit_position_goes_back,
        1,
    ),
    PlantedBug(
        "commit-without-a-quorum",
        "a leader commits, applies and answers what it alone has recorded",
        "acknowledged-not-lost",
        "leader-left-alone",
        quorum.commit_without_a_quorum,
        10,
    ),
    PlantedBug(
        "message-delivered-twice",
        "some messages reach the service of a member twice",
        "linearizable",
        None,
        services.message_delivered_twice,
        2,
    ),
    PlantedBug(
        "session-ids-reused",
        "a member does not count on from the ids of sessions that it reads",
        "sessions-kept",
        None,
        services.session_ids_reused,
        1,
    ),
    PlantedBug(
        "session-not-closed-in-replay",
        "the end of a session is heeded only by the leader that wrote it",
        "sessions-kept",
        None,
        services.session_not_closed_in_replay,
        1,
    ),
    PlantedBug(
        "shorter-log-elected",
        "members stand and vote whatever the logs are",
        INVARIANTS,
        None,
        elections.shorter_log_elected,
        23,
    ),
    PlantedBug(
        "snapshot-misses-a-session",
        "the session that was opened last is not in the module's snapshot",
        "snapshot-is-replay",
        None,
        services.snapshot_misses_a_session,
        1,
    ),
    PlantedBug(
        "timer-fires-again",
        "a timer that has expired is still there for the next leader",
        "timers-kept",
        None,
        services.timer_fires_again,
        149,
    ),
    PlantedBug(
        "timer-fires-early",
        "a leader takes a timer for due long before its time",
        "timers-kept",
        None,
        services.timer_fires_early,
        19,
    ),
    PlantedBug(
        "timer-lost-over-a-restart",
        "a start from a snapshot leaves its timers alone",
        "timers-kept",
        None,
        services.timer_lost_over_a_restart,
        173,
    ),
    PlantedBug(
        "uncommitted-entries-applied",
        "a service applies and answers what is not committed",
        INVARIANTS,
        None,
        services.uncommitted_entries_applied,
        2,
    ),
    PlantedBug(
        "vote-not-persisted",
        "the term of a vote is kept in memory only",
        INVARIANTS,
        None,
        elections.vote_not_persisted,
        1,
    ),
)


SHOWN_BY_SCENARIOS: Final = tuple(bug for bug in CATALOGUE if bug.scenario is not None)
"""Those that a scenario shows on every runtime."""


def bug_named(name: str) -> PlantedBug:
    """Raises `UsageError` for a name that no bug has."""
    for bug in CATALOGUE:
        if bug.name == name:
            return bug
    raise UsageError(f"unknown planted bug {name!r}: use {', '.join(bug.name for bug in CATALOGUE)}")


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
