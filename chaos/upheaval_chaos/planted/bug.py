"""What a planted bug is, and the catalogue of them.

A bug changes the agents of one member after they were made, and nothing else: no class, no module. Members with a bug
and members without one can therefore run side by side in one process. This module knows neither runtimes nor checkers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from upheaval_chaos.errors import UsageError
from upheaval_chaos.planted import elections, quorum, requests_of_services, services, sessions
from upheaval_node.compiled import VARIABLE, form
from upheaval_node.member import MemberAgent, MemberConfig, MemberPorts, build_together
from upheaval_node.service.api import ClusteredService
from upheaval_node.suggestions import did_you_mean

Build = Callable[[MemberConfig, MemberPorts, Sequence[ClusteredService]], list[MemberAgent]]
"""How a member that runs its components together is made."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`change` is what it does to an agent of the class of its parameter; its name is that of the bug.

    `caught_by` is the id of the promise (docs/promises.md) that the bug makes invalid: in a run of `scenario`, which
    shows it on every runtime, or else in the campaign. `seed` is one of the campaign that catches the bug.
    """

    change: Callable[[Any], None]
    breaks: str
    caught_by: str
    seed: int
    scenario: str | None = None
    breaks_too: tuple[str, ...] = ()
    """Ids of the other promises that the bug makes invalid in a run of `scenario`."""

    @property
    def name(self) -> str:
        """As the command line knows it."""
        return self.change.__name__.replace("_", "-")

    def plant(self, agents: Sequence[MemberAgent]) -> None:
        """Change the agents of a process of a member, before they take their first turn. Raises `UsageError` where
        compiled modules run, whose objects cannot be changed.
        """
        if form().modules:
            raise UsageError(f"bugs are planted in pure Python: set {VARIABLE}=1")
        where, _ = get_type_hints(self.change).values()
        for agent in agents:
            if isinstance(agent, where):
                self.change(agent)


INVARIANTS: Final = "invariants"
"""Broken while the simulation runs, before a folder is judged."""

CATALOGUE: Final = (
    PlantedBug(elections.ack_before_the_write, "the archive says that it has recorded what no disk has", INVARIANTS, 1),
    PlantedBug(
        services.cancelled_timer_fires, "a timer that its service cancelled fires all the same", "timers-kept", 19
    ),
    PlantedBug(elections.commit_position_goes_back, "an election begins below what was committed", INVARIANTS, 1),
    PlantedBug(
        quorum.commit_without_a_quorum,
        "a leader commits, applies and answers what it alone has recorded",
        "acknowledged-not-lost",
        1,
        scenario="leader-left-alone",
        breaks_too=("commits-kept",),
    ),
    PlantedBug(
        requests_of_services.every_seventh_service_message_garbled,
        "each seventh message that a service offers to the log is changed",
        "money-conserved",
        7,
    ),
    PlantedBug(
        requests_of_services.every_seventh_service_message_lost,
        "each seventh message that a service offers to the log is forgotten",
        "money-conserved",
        7,
    ),
    PlantedBug(
        requests_of_services.every_seventh_timer_lost,
        "each seventh timer that a service asks for is forgotten",
        "timers-kept",
        19,
    ),
    PlantedBug(
        services.message_delivered_twice, "some messages reach the service of a member twice", "linearizable", 1
    ),
    PlantedBug(
        sessions.new_leader_closes_all_sessions,
        "a new leader closes all sessions by time-out",
        "sessions-outlive-leaders",
        1,
    ),
    PlantedBug(sessions.new_leader_says_nothing, "clients do not hear of a new leader", "sessions-outlive-leaders", 3),
    PlantedBug(
        services.session_ids_reused,
        "a member does not count on from the ids of sessions that it reads",
        "sessions-kept",
        2,
    ),
    PlantedBug(
        sessions.session_lasts_a_quarter, "sessions time out after a quarter of their time", "clients-in-time", 1
    ),
    PlantedBug(
        sessions.session_lasts_ten_times_too_long, "sessions time out after ten times their time", "clients-in-time", 1
    ),
    PlantedBug(sessions.session_never_times_out, "sessions do not time out", "clients-in-time", 1),
    PlantedBug(
        services.session_not_closed_in_replay,
        "the end of a session is heeded only by the leader that wrote it",
        "sessions-kept",
        1,
    ),
    PlantedBug(elections.shorter_log_elected, "members stand and vote whatever the logs are", INVARIANTS, 2),
    PlantedBug(
        services.snapshot_misses_a_session,
        "the session that was opened last is not in the module's snapshot",
        "snapshot-is-replay",
        1,
    ),
    PlantedBug(requests_of_services.timer_fires_40_ms_early, "a leader fires a timer 40 ms early", "timers-kept", 19),
    PlantedBug(requests_of_services.timer_fires_5_s_late, "a leader fires a timer 5 s late", "timers-kept", 19),
    PlantedBug(
        services.timer_fires_again, "a timer that has expired is still there for the next leader", "timers-kept", 149
    ),
    PlantedBug(services.timer_fires_early, "a leader takes a timer for due long before its time", "timers-kept", 19),
    PlantedBug(
        requests_of_services.timer_fires_twice, "a leader writes each expiry into the log twice", "timers-kept", 19
    ),
    PlantedBug(
        services.timer_lost_over_a_restart, "a start from a snapshot leaves its timers alone", "timers-kept", 173
    ),
    PlantedBug(
        services.uncommitted_entries_applied, "a service applies and answers what is not committed", INVARIANTS, 2
    ),
    PlantedBug(elections.vote_not_persisted, "the term of a vote is kept in memory only", INVARIANTS, 1),
)


SHOWN_BY_SCENARIOS: Final = tuple(bug for bug in CATALOGUE if bug.scenario is not None)
"""Those that a scenario shows on every runtime."""


def bug_named(name: str) -> PlantedBug:
    """Raises `UsageError` for a name that no bug has."""
    for bug in CATALOGUE:
        if bug.name == name:
            return bug
    known = [bug.name for bug in CATALOGUE]
    raise UsageError(f"unknown planted bug {name!r}: use {', '.join(known)}{did_you_mean(name, known)}")


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
