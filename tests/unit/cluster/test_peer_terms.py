"""Terms that peers make up: only a member moves the term, and no member moves it out of reach."""

from random import Random

import pytest

from support.cluster_world import ClusterWorld
from upheaval_node.cluster.module_messages import MAX_TERM_GAP
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message

CONSENSUS_STREAM = 108
FAR = 1 << 62


def vote_request(member_id: int, term: int) -> Message:
    return cm.RequestVote(
        log_leadership_term_id=99,
        log_position=1 << 40,
        candidate_term_id=term,
        candidate_member_id=member_id,
        protocol_version=1 << 16,
    )


def announcement(member_id: int, term: int, app_version: int = 1) -> Message:
    return cm.NewLeadershipTerm(
        log_leadership_term_id=0,
        next_leadership_term_id=term,
        next_term_base_log_position=0,
        next_log_position=0,
        leadership_term_id=term,
        term_base_log_position=0,
        log_position=0,
        leader_recording_id=0,
        timestamp=0,
        leader_member_id=member_id,
        log_session_id=1,
        app_version=app_version,
        commit_position=0,
    )


def terms_of(world: ClusterWorld) -> list[tuple[int, int]]:
    modules = [member.module for member in world.members.values()]
    return [(module.leadership_term_id, module.node_state.candidate_term_id) for module in modules]


@pytest.mark.parametrize(
    "message",
    [
        vote_request(77, 5),
        vote_request(1, MAX_TERM_GAP * 2),
        vote_request(1, FAR),
        announcement(77, 5),
        announcement(1, FAR),
        announcement(77, 5, app_version=9 << 16),
        cm.CommitPosition(5, 1 << 40, 77),
        cm.CommitPosition(FAR, 1 << 40, 1),
    ],
)
def test_a_term_that_is_not_believable_changes_nothing_and_is_reported(message: Message) -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    world.echo(client, [b"before"])
    terms = terms_of(world)
    stranger = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(5))
    publication = stranger.add_publication(f"aeron:tcp?endpoint=m{leader.id}:2", CONSENSUS_STREAM)

    def turn() -> bool:
        stranger.do_work(world.now)
        return publication.is_connected

    world.until(turn)
    assert publication.offer(cm.SCHEMA.encode(message)) > 0
    world.until(lambda: turn() and any("not believed" in text for text in leader.errors.texts))
    assert leader.is_leader
    assert leader.module.election is None
    assert terms_of(world) == terms
    world.echo(client, [b"after"])
