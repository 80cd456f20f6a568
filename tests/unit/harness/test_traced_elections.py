"""Elections move as the node's table has it, and bring the roles that it has; what a trace says otherwise is found."""

from itertools import count

import pytest

from upheaval.checkers.evidence.protocol_events import BrokenIfWhole, MemberEvent, Place
from upheaval.checkers.protocol.election_moves import MOVES, ROLES, ElectionMoves
from upheaval.records import Json
from upheaval_node.cluster.election_states import LEGAL_MOVES, ROLE_ON_ENTRY, ElectionState
from upheaval_node.trace_kinds import TraceKind

_WON = "CANVASS NOMINATE CANDIDATE_BALLOT +CANDIDATE LEADER_LOG_REPLICATION +LEADER LEADER_REPLAY LEADER_INIT"
_FOLLOWED = "CANVASS FOLLOWER_BALLOT FOLLOWER_REPLAY FOLLOWER_LOG_INIT FOLLOWER_LOG_AWAIT FOLLOWER_READY CLOSED"


def test_the_moves_and_roles_are_those_of_the_node() -> None:
    legal = {old.name: {new.name for new in targets} for old, targets in LEGAL_MOVES.items()}
    legal["CLOSED"] = {ElectionState.INIT.name}
    assert legal == MOVES
    assert {state.name: role.name for state, role in ROLE_ON_ENTRY.items()} == ROLES


def take(text: str) -> None:
    """States, and roles with the sign of one: +NEW, or OLD+NEW where it is not the last one."""
    moves, role, line = ElectionMoves(1), "FOLLOWER", count(1)

    def tell(kind: str, **fields: Json) -> None:
        number = next(line)
        moves.on_event(MemberEvent(Place(0, number), number, kind, {"component": "all", **fields}))

    tell(TraceKind.PROCESS_START)
    for word in ["INIT", *text.split()]:
        old, sign, new = word.partition("+")
        if sign:
            tell(TraceKind.ROLE, old=old or role, new=new)
            role = new
        elif word == "restart":
            role = "FOLLOWER"
            tell(TraceKind.PROCESS_START)
        else:
            tell(TraceKind.ELECTION_STATE, state=word, log_position=96)


@pytest.mark.parametrize(
    "text",
    [
        f"{_WON} LEADER_READY CLOSED",
        _FOLLOWED,
        f"{_WON} LEADER_READY CLOSED INIT +FOLLOWER {_FOLLOWED}",
        f"{_WON} INIT CANVASS +FOLLOWER NOMINATE",
        f"{_WON} restart INIT {_FOLLOWED}",
        "CANVASS NOMINATE CANDIDATE_BALLOT +CANDIDATE INIT +FOLLOWER CANVASS",
    ],
)
def test_what_members_do_is_legal(text: str) -> None:
    take(text)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("CANVASS LEADER_LOG_REPLICATION", "from CANVASS to LEADER_LOG_REPLICATION", 4),
        ("CANVASS NOMINATE LEADER_READY", "from NOMINATE to LEADER_READY", 5),
        (f"{_FOLLOWED} CANVASS", "from CLOSED to CANVASS", 10),
        ("CANVASS NOMINATE restart CANVASS", "from CLOSED to CANVASS", 6),
        (f"{_FOLLOWED} +LEADER", "becomes LEADER in state CLOSED", 10),
        ("CANVASS NOMINATE CANDIDATE_BALLOT LEADER_LOG_REPLICATION", "should have become CANDIDATE", 6),
        (f"{_WON} LEADER+FOLLOWER", "becomes FOLLOWER in state LEADER_INIT", 11),
        ("CANVASS NOMINATE CANDIDATE_BALLOT LEADER+CANDIDATE", "was FOLLOWER, and says that it was LEADER", 6),
    ],
)
def test_what_no_member_does_is_found_with_its_line(text: str, says: str, line: int) -> None:
    with pytest.raises(BrokenIfWhole) as found:
        take(text)
    assert says in str(found.value)
    assert f"trace.jsonl:{line}" in str(found.value)
