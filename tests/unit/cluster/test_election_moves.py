"""Every legal move of an election is taken: one text for each row of the table of moves."""

from itertools import pairwise

import pytest

from support.election_script import ElectionScript
from support.election_texts import (
    CANDIDATE_BALLOT,
    CANVASS,
    FOLLOWER_BALLOT,
    FOLLOWER_CATCHUP,
    FOLLOWER_CATCHUP_AWAIT,
    FOLLOWER_CATCHUP_INIT,
    FOLLOWER_LOG_AWAIT,
    FOLLOWER_LOG_INIT,
    FOLLOWER_LOG_REPLICATION,
    FOLLOWER_READY,
    FOLLOWER_REPLAY,
    LEADER_INIT,
    LEADER_LOG_REPLICATION,
    LEADER_READY,
    LEADER_REPLAY,
    NOMINATE,
)
from upheaval_node.cluster.election_states import LEGAL_MOVES, ElectionState

MOVES: dict[str, str] = {
    "INIT CANVASS": CANVASS,
    "INIT LEADER_LOG_REPLICATION": """
        member members=1 term=0 at=64 startup=yes
        wait 0
    """,
    "CANVASS INIT": f"""{CANVASS}
        hold truncate
        0 leads term=1 base=512
        error Truncating Cluster Log
    """,
    "CANVASS NOMINATE": NOMINATE,
    "CANVASS FOLLOWER_BALLOT": FOLLOWER_BALLOT,
    "CANVASS FOLLOWER_LOG_REPLICATION": FOLLOWER_LOG_REPLICATION,
    "CANVASS FOLLOWER_REPLAY": FOLLOWER_REPLAY,
    "NOMINATE INIT": f"{NOMINATE}\n fail tick",
    "NOMINATE CANDIDATE_BALLOT": CANDIDATE_BALLOT,
    "NOMINATE FOLLOWER_BALLOT": f"""{NOMINATE}
        1 asks term=0 at=1024 for=1
        sent Vote to=1 vote=yes
    """,
    "CANDIDATE_BALLOT INIT": f"""{CANDIDATE_BALLOT}
        hold truncate
        1 leads term=1 base=512
        error Truncating Cluster Log
    """,
    "CANDIDATE_BALLOT CANVASS": f"""{CANDIDATE_BALLOT}
        wait 1000
    """,
    "CANDIDATE_BALLOT FOLLOWER_BALLOT": f"""{CANDIDATE_BALLOT}
        1 asks term=0 at=1024 for=2
        sent Vote to=1 vote=yes
    """,
    "CANDIDATE_BALLOT LEADER_LOG_REPLICATION": LEADER_LOG_REPLICATION,
    "CANDIDATE_BALLOT FOLLOWER_LOG_REPLICATION": f"""{CANDIDATE_BALLOT}
        1 leads term=1 base=2048
    """,
    "CANDIDATE_BALLOT FOLLOWER_REPLAY": f"""{CANDIDATE_BALLOT}
        1 leads term=1 base=1024
    """,
    "FOLLOWER_BALLOT INIT": f"""{FOLLOWER_BALLOT}
        hold truncate
        0 leads term=1 base=512
        error Truncating Cluster Log
    """,
    "FOLLOWER_BALLOT CANVASS": f"{FOLLOWER_BALLOT}\n wait 1000",
    "FOLLOWER_BALLOT FOLLOWER_LOG_REPLICATION": f"""{FOLLOWER_BALLOT}
        0 leads term=1 base=2048
    """,
    "FOLLOWER_BALLOT FOLLOWER_REPLAY": f"""{FOLLOWER_BALLOT}
        0 leads term=1 base=1024
    """,
    "LEADER_LOG_REPLICATION INIT": f"""{LEADER_LOG_REPLICATION}
        0 canvasses term=3 at=1024
        error potential new election
    """,
    "LEADER_LOG_REPLICATION LEADER_REPLAY": LEADER_REPLAY,
    "LEADER_REPLAY INIT": f"""{LEADER_REPLAY}
        wait 0
        fail replay
        wait 0
        error replay failed
    """,
    "LEADER_REPLAY LEADER_INIT": LEADER_INIT,
    "LEADER_INIT INIT": f"""{LEADER_INIT}
        fail join
        wait 0
        error join failed
    """,
    "LEADER_INIT LEADER_READY": LEADER_READY,
    "LEADER_READY INIT": f"""{LEADER_READY}
        1 committed term=2 at=1024
        error new leader
    """,
    "LEADER_READY CLOSED": f"""{LEADER_READY}
        let append
        wait 0
    """,
    "FOLLOWER_LOG_REPLICATION INIT": f"""{FOLLOWER_LOG_REPLICATION}
        fail replicate
        wait 10
        error replicate failed
    """,
    "FOLLOWER_LOG_REPLICATION CANVASS": f"""{FOLLOWER_LOG_REPLICATION}
        0 committed term=1 at=2048
        let replicate
        wait 10
    """,
    "FOLLOWER_REPLAY INIT": f"""{FOLLOWER_REPLAY}
        fail replay
        wait 0
        error replay failed
    """,
    "FOLLOWER_REPLAY CANVASS": f"""{FOLLOWER_REPLAY}
        let replay to=960
        wait 0
    """,
    "FOLLOWER_REPLAY FOLLOWER_CATCHUP_INIT": FOLLOWER_CATCHUP_INIT,
    "FOLLOWER_REPLAY FOLLOWER_LOG_INIT": FOLLOWER_LOG_INIT,
    "FOLLOWER_CATCHUP_INIT INIT": f"""{FOLLOWER_CATCHUP_INIT}
        wait 10000
        error catch-up position could not be sent
    """,
    "FOLLOWER_CATCHUP_INIT FOLLOWER_CATCHUP_AWAIT": FOLLOWER_CATCHUP_AWAIT,
    "FOLLOWER_CATCHUP_AWAIT INIT": f"""{FOLLOWER_CATCHUP_AWAIT}
        wait 10000
        error no catch-up image
    """,
    "FOLLOWER_CATCHUP_AWAIT FOLLOWER_CATCHUP": FOLLOWER_CATCHUP,
    "FOLLOWER_CATCHUP INIT": f"""{FOLLOWER_CATCHUP}
        fail catchup
        wait 0
        error catchup failed
    """,
    "FOLLOWER_CATCHUP FOLLOWER_LOG_INIT": f"""{FOLLOWER_CATCHUP}
        0 committed term=1 at=4096
        let catchup
        wait 0
    """,
    "FOLLOWER_LOG_INIT INIT": f"{FOLLOWER_LOG_INIT}\n fail tick",
    "FOLLOWER_LOG_INIT FOLLOWER_LOG_AWAIT": FOLLOWER_LOG_AWAIT,
    "FOLLOWER_LOG_INIT FOLLOWER_READY": f"""{FOLLOWER_CATCHUP}
        0 committed term=1 at=4096
        let catchup
        wait 10
    """,
    "FOLLOWER_LOG_AWAIT INIT": f"""{FOLLOWER_LOG_AWAIT}
        wait 10000
        error no log image
    """,
    "FOLLOWER_LOG_AWAIT FOLLOWER_READY": FOLLOWER_READY,
    "FOLLOWER_READY INIT": f"""{FOLLOWER_READY}
        wait 10000
        error append position could not be sent
    """,
    "FOLLOWER_READY CLOSED": f"""{FOLLOWER_READY}
        reachable 0
        wait 0
        sent AppendPosition to=0 leadership-term-id=1 log-position=1024
    """,
}

LEGAL = [f"{old.name} {new.name}" for old, targets in LEGAL_MOVES.items() for new in sorted(targets)]


def taken(text: str) -> set[str]:
    """The moves that the elections of a text take."""
    states = [ElectionState.INIT, *(state for state, _, _ in ElectionScript(text).around.states)]
    return {f"{old.name} {new.name}" for old, new in pairwise(states)}


@pytest.mark.parametrize("move", LEGAL)
def test_a_legal_move_is_taken(move: str) -> None:
    """A move of the table without a text fails by its name."""
    assert move in taken(MOVES[move])


def test_every_text_is_for_a_legal_move_and_no_other_move_is_taken() -> None:
    assert set(MOVES) == set(LEGAL)
    assert set().union(*(taken(text) for text in MOVES.values())) == set(LEGAL)
