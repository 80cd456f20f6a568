"""The allowed moves of elections, and the role for each state, judged by the `election_state` and `role` lines of
traces.

The moves are those of docs/elections.md. They are repeated here on purpose: a judge shares no code with the node that
it judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE, MemberEvent
from upheaval_node.trace_kinds import TraceKind

_START: Final = "INIT"
_OVER: Final = "CLOSED"
_FOLLOWER: Final = "FOLLOWER"

MOVES: Final[Mapping[str, frozenset[str]]] = {
    state: frozenset(targets.split())
    for state, targets in {
        "INIT": "CANVASS LEADER_LOG_REPLICATION",
        "CANVASS": "NOMINATE FOLLOWER_BALLOT FOLLOWER_LOG_REPLICATION FOLLOWER_REPLAY INIT",
        "NOMINATE": "CANDIDATE_BALLOT FOLLOWER_BALLOT INIT",
        "CANDIDATE_BALLOT": (
            "CANVASS FOLLOWER_BALLOT LEADER_LOG_REPLICATION FOLLOWER_LOG_REPLICATION FOLLOWER_REPLAY INIT"
        ),
        "FOLLOWER_BALLOT": "CANVASS FOLLOWER_LOG_REPLICATION FOLLOWER_REPLAY INIT",
        "LEADER_LOG_REPLICATION": "LEADER_REPLAY INIT",
        "LEADER_REPLAY": "LEADER_INIT INIT",
        "LEADER_INIT": "LEADER_READY INIT",
        "LEADER_READY": "CLOSED INIT",
        "FOLLOWER_LOG_REPLICATION": "CANVASS INIT",
        "FOLLOWER_REPLAY": "CANVASS FOLLOWER_CATCHUP_INIT FOLLOWER_LOG_INIT INIT",
        "FOLLOWER_CATCHUP_INIT": "FOLLOWER_CATCHUP_AWAIT INIT",
        "FOLLOWER_CATCHUP_AWAIT": "FOLLOWER_CATCHUP INIT",
        "FOLLOWER_CATCHUP": "FOLLOWER_LOG_INIT INIT",
        "FOLLOWER_LOG_INIT": "FOLLOWER_LOG_AWAIT FOLLOWER_READY INIT",
        "FOLLOWER_LOG_AWAIT": "FOLLOWER_READY INIT",
        "FOLLOWER_READY": "CLOSED INIT",
        "CLOSED": "INIT",
    }.items()
}
"""The states that may follow each state. The next election of a process begins after the end of the one before."""

ROLES: Final[Mapping[str, str]] = {
    "CANVASS": _FOLLOWER,
    "CANDIDATE_BALLOT": "CANDIDATE",
    "LEADER_LOG_REPLICATION": "LEADER",
    "FOLLOWER_LOG_REPLICATION": _FOLLOWER,
    "FOLLOWER_REPLAY": _FOLLOWER,
}
"""The role that a member takes in a state. All other states leave the role unchanged."""


@dataclass(slots=True)
class _Standing:
    """The election state of one process of a member."""

    state: str = _OVER
    role: str = _FOLLOWER
    due: str = _FOLLOWER
    """The role that the last state requires."""


class ElectionMoves:
    """Follows the events of members. A move that is not allowed breaks the promise, unless trace lines were lost."""

    def __init__(self, members: int) -> None:
        self._standings = [_Standing() for _ in range(members)]

    def on_event(self, event: MemberEvent) -> None:
        """Check the next event of a member. Raises `Broken`."""
        match event.kind:
            case TraceKind.PROCESS_START if event.fields.get("component") in OF_MODULE:
                self._standings[event.member_id] = _Standing()
            case TraceKind.ELECTION_STATE:
                self._on_state(self._standings[event.member_id], event)
            case TraceKind.ROLE:
                self._on_role(self._standings[event.member_id], event)
            case TraceKind.LEADERSHIP_TERM:
                self._require_role(self._standings[event.member_id], event)

    def _on_state(self, standing: _Standing, event: MemberEvent) -> None:
        before, state = standing.state, str(event.fields.get("state"))
        standing.state = state
        self._require_role(standing, event)
        standing.due = ROLES.get(state, standing.due)
        if state not in MOVES.get(before, ()):
            detail = f"the election of member {event.member_id} went from {before} to {state}"
            raise event.invalid(detail, position=_position(event))

    def _on_role(self, standing: _Standing, event: MemberEvent) -> None:
        old, new = event.fields.get("old"), event.fields.get("new")
        if not isinstance(old, str) or not isinstance(new, str):
            return
        role, standing.role = standing.role, new
        if old != role:
            raise event.invalid(f"member {event.member_id} was {role}, and says that it was {old}")
        if standing.state == _START and new == _FOLLOWER:
            # A new election begins as follower. One that fails and restarts keeps its role until its canvass.
            standing.due = new
        if new != standing.due:
            detail = f"member {event.member_id} becomes {new} in state {standing.state}, in which it is {standing.due}"
            raise event.invalid(detail)

    def _require_role(self, standing: _Standing, event: MemberEvent) -> None:
        """Check that the member has traced the role that its state requires."""
        due, role = standing.due, standing.role
        if role != due:
            standing.role = due
            detail = f"member {event.member_id} should have become {due}, and its trace has it {role}"
            raise event.invalid(detail, position=_position(event))


def _position(event: MemberEvent) -> int | None:
    position = event.fields.get("log_position")
    return position if type(position) is int else None
