"""FOLLOWER_REPLAY keeps no member out of elections: it reports what it has and gives up a silent leader."""

from support.lone_member import POSITION, TIMEOUTS, LoneMember
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.protocol import cluster_messages as cm

CONSUMED = POSITION - 1024
"""How far the member's services have come; the rest of its log is recorded but not known to be committed."""


def reported(member: LoneMember) -> list[tuple[int, int]]:
    return [(m.leadership_term_id, m.log_position) for _, m in member.around.sent if isinstance(m, cm.AppendPosition)]


def test_a_leader_that_falls_silent_before_it_names_a_commit_position_is_given_up() -> None:
    member = LoneMember(log_position=CONSUMED)
    member.hears_leader(1, 1, commit=0)
    assert member.state() is ElectionState.FOLLOWER_REPLAY
    member.tick()
    assert reported(member) == [(1, POSITION)]
    for _ in range(3):
        try:
            member.tick(TIMEOUTS.leader_heartbeat_ns)
        except Exception as error:  # noqa: BLE001 - as the consensus module does
            member.election.handle_error(member.now, error)
    assert member.state() is ElectionState.CANVASS
    # It has named the term of the leader that it followed; a log that has not is not as good as its own.
    member.asked_for_vote(0, 2)
    member.asked_for_vote(0, 3, log_term=1)
    assert member.votes == [(0, 2, False), (0, 3, True)]


def test_a_member_that_may_replay_nothing_yet_still_counts_for_the_quorum_of_its_leader() -> None:
    member = LoneMember(log_position=CONSUMED)
    member.hears_leader(1, 1, commit=CONSUMED)
    member.tick()
    assert member.state() is ElectionState.FOLLOWER_REPLAY
    assert reported(member) == [(1, POSITION)]
