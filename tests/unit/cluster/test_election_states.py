"""The table of election states."""

from collections.abc import Iterable

from upheaval_node.cluster.election_states import LEGAL_MOVES, ROLE_ON_ENTRY, ElectionState, Role


def reachable(start: ElectionState) -> set[ElectionState]:
    seen: set[ElectionState] = set()
    ahead: Iterable[ElectionState] = [start]
    while ahead := [s for s in ahead if s not in seen]:
        seen.update(ahead)
        ahead = [target for s in ahead for target in LEGAL_MOVES[s]]
    return seen


def test_every_state_has_its_code_and_its_row() -> None:
    assert [s.value for s in ElectionState] == list(range(18))
    assert set(LEGAL_MOVES) == set(ElectionState)


def test_every_state_is_reached_from_init_and_can_end() -> None:
    assert reachable(ElectionState.INIT) == set(ElectionState)
    assert all(ElectionState.CLOSED in reachable(state) for state in ElectionState)


def test_an_error_leads_back_to_init_from_every_state_but_the_last() -> None:
    assert all(
        ElectionState.INIT in LEGAL_MOVES[s]
        for s in ElectionState
        if s not in (ElectionState.INIT, ElectionState.CLOSED)
    )
    assert not LEGAL_MOVES[ElectionState.CLOSED]


def test_only_a_won_ballot_makes_a_leader() -> None:
    into_leading = {s for s in ElectionState if ElectionState.LEADER_LOG_REPLICATION in LEGAL_MOVES[s]}

    assert into_leading == {ElectionState.INIT, ElectionState.CANDIDATE_BALLOT}
    assert ROLE_ON_ENTRY[ElectionState.LEADER_LOG_REPLICATION] is Role.LEADER
