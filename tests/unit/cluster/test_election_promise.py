"""What a vote binds a member to: it follows no leader of an earlier term than one in which it voted.

The scenario was found by the simulation: a member votes for two candidates, one after the other, then hears the first
one lead its earlier term while the second one waits for the end of its ballot. To follow the first would let it commit
what the second one's log does not have.
"""

import pytest

from support.lone_member import POSITION, TIMEOUTS, LoneMember
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import MS


def voter_for_two() -> LoneMember:
    voter = LoneMember()
    voter.asked_for_vote(1, 1)
    voter.asked_for_vote(0, 2, POSITION + 768)
    assert voter.votes == [(1, 1, True), (0, 2, True)]
    voter.tick(TIMEOUTS.election_ns)
    assert voter.state() is ElectionState.CANVASS
    return voter


def test_a_member_that_voted_in_a_later_term_does_not_follow_the_earlier_leader() -> None:
    voter = voter_for_two()
    voter.hears_leader(1, 1)
    assert voter.state() is ElectionState.CANVASS
    assert voter.election.leader_member_id == -1


def test_it_follows_the_leader_of_the_term_in_which_it_voted_or_a_later_one() -> None:
    for term in (2, 3):
        voter = voter_for_two()
        voter.hears_leader(0, term)
        assert voter.state() is ElectionState.FOLLOWER_REPLAY


def test_without_a_vote_it_follows_the_first_leader_that_it_hears() -> None:
    voter = LoneMember()
    voter.hears_leader(1, 1)
    assert voter.state() is ElectionState.FOLLOWER_REPLAY


@pytest.mark.parametrize("is_node_startup", [True, False])
def test_after_a_restart_the_persisted_term_binds_like_a_vote(is_node_startup: bool) -> None:
    voter = LoneMember(persisted_term=2, is_node_startup=is_node_startup)
    voter.hears_leader(1, 1)
    assert (voter.state() is ElectionState.CANVASS) == is_node_startup


def test_a_member_that_may_not_follow_the_leader_that_stays_makes_everybody_elect_a_later_one() -> None:
    voter = voter_for_two()
    for _ in range(TIMEOUTS.leader_heartbeat_ns // (50 * MS)):
        voter.hears_leader(1, 1)
        voter.tick(50 * MS)
    assert voter.state() is ElectionState.NOMINATE
    voter.tick(TIMEOUTS.election_ns)
    assert voter.state() is ElectionState.CANDIDATE_BALLOT
    voter.tick(MS)
    requests = [m.candidate_term_id for _, m in voter.around.sent if isinstance(m, cm.RequestVote)]
    assert requests == [3, 3]
