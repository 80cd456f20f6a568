"""What errors make of a consensus module: those that end it, those that end its term, and those that are reported."""

from random import Random

import pytest

from support.cluster_parts import TERM, PartsWorld
from support.cluster_world import ClusterWorld, EchoService, Member
from unit.cluster.test_ingress import MAX_BLOCK, open_session
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.ingress import IngressAdapter, IngressExtension
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.errors import StorageError, TerminationError
from upheaval_node.media.api import Image
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.api import Cluster
from upheaval_node.types import Now


class Ending(EchoService):
    def __init__(self) -> None:
        super().__init__()
        self.is_terminated = False

    def on_terminate(self, cluster: Cluster) -> None:
        self.is_terminated = True


def started(count: int) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [Ending()])
    world.start_all()
    return world, world.await_all()


def is_told(member: Member) -> bool:
    assert isinstance(member.service, Ending)
    return member.service.is_terminated


# --- what ends the member ---


@pytest.mark.parity("CM-17")
def test_a_disk_without_space_ends_a_member_that_cannot_go_on() -> None:
    world, leader = started(1)
    client = world.client()
    world.echo(client, [b"x"])
    world.storages[0].error = "no space left"
    world.send(client, [b"y"])
    with pytest.raises(StorageError, match="no space"):
        world.until(lambda: leader.ended is not None)
    assert leader.module.state is ModuleState.CLOSED


@pytest.mark.parity("CM-19")
def test_what_ends_the_module_leaves_it_when_its_services_were_told() -> None:
    world, leader = started(1)
    world.echo(world.client(), [b"x"])
    leader.agents.remove(leader.archive)
    leader.archive.close()
    world.until(lambda: leader.ended is not None)
    assert isinstance(leader.ended, TerminationError)
    assert not leader.ended.expected
    assert leader.module.state is ModuleState.CLOSED
    # The other parts of the member go on for a moment.
    leader.agents.remove(leader.module)
    leader.ended = None
    world.until(lambda: is_told(leader))
    assert is_told(leader)


# --- what ends the term ---


@pytest.mark.parity("CM-20")
def test_an_error_in_an_election_begins_it_anew() -> None:
    world, leader = started(3)
    world.echo(world.client(), [b"x"] * 5)
    lone = world.followers()[0]
    for member_id in {0, 1, 2} - {lone.id}:
        world.kill(member_id)
    module = lone.module
    world.until(lambda: module.election is not None and module.election.state is ElectionState.CANVASS)
    wrong = cm.NewLeadershipTerm(
        log_leadership_term_id=leader.module.leadership_term_id,
        next_leadership_term_id=-1,
        next_term_base_log_position=-1,
        next_log_position=-1,
        leadership_term_id=leader.module.leadership_term_id + 1,
        term_base_log_position=module.commit_position + 4096,
        log_position=module.commit_position + 4096,
        leader_member_id=leader.id,
        app_version=1,
        commit_position=0,
    )
    before = len(lone.trace.named("election_state"))
    peer = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(1))
    publication = peer.add_publication(f"aeron:tcp?endpoint=m{lone.id}:2", CONSENSUS_STREAM_ID)
    for _ in range(20):
        peer.do_work(world.now)
        world.turn()
    assert publication.offer(cm.SCHEMA.encode(wrong)) > 0
    for _ in range(20):
        peer.do_work(world.now)
        world.turn()
    states = [str(fields["state"]) for fields in lone.trace.named("election_state")[before:]]
    assert states[:2] == ["INIT", "CANVASS"]
    assert lone.ended is None
    assert any("no next term is named" in text for text in lone.errors.texts)
    world.start(leader.id)
    world.await_all()


# --- commit positions ---


def lower(member: Member, leader: Member, now: Now, position: int) -> None:
    member.module._messages.on_commit_position(
        now, cm.CommitPosition(leader.module.leadership_term_id, position, leader.id)
    )


@pytest.mark.parity("CM-14")
def test_a_commit_position_is_never_taken_back() -> None:
    world, leader = started(3)
    world.echo(world.client(), [b"x"] * 5)
    world.advance(200)
    follower = world.followers()[0]
    known = follower.module._leader.commit_position
    assert known == leader.module.commit_position > 0
    for position in (0, known - 32, known):
        lower(follower, leader, world.now, position)
        assert follower.module._leader.commit_position == known
    world.settle()
    assert follower.module.commit_position == known


@pytest.mark.parity("CM-16")
def test_nor_by_what_a_leader_says_of_its_term() -> None:
    world, leader = started(3)
    world.echo(world.client(), [b"x"] * 5)
    world.advance(200)
    follower = world.followers()[0]
    known = follower.module._leader.commit_position
    term = leader.module.leadership_term_id
    for position in (0, known - 32):
        said = cm.NewLeadershipTerm(
            log_leadership_term_id=term,
            next_leadership_term_id=-1,
            next_term_base_log_position=-1,
            next_log_position=-1,
            leadership_term_id=term,
            term_base_log_position=0,
            log_position=known,
            leader_member_id=leader.id,
            app_version=1,
            commit_position=position,
        )
        follower.module._messages.on_new_leadership_term(world.now, said)
        assert follower.module._leader.commit_position == known


@pytest.mark.parity("CM-15")
def test_nor_by_the_end_of_an_election() -> None:
    world, leader = started(3)
    world.echo(world.client(), [b"x"] * 5)
    world.advance(200)
    known = {member.id: member.module._leader.commit_position for member in world.followers()}
    world.kill(leader.id)
    world.await_all()
    for member in world.members.values():
        assert member.module._leader.commit_position >= known[member.id] > 0


@pytest.mark.parity("CM-13")
def test_padding_at_the_end_of_a_term_is_replayed_like_entries() -> None:
    world, leader = started(1)
    client = world.client()
    world.echo(client, [b"%03d" % number * 390 for number in range(150)])
    world.advance(100)
    before, position = leader.service.messages, leader.module.commit_position
    assert position > 2 * 65536
    world.kill(0)
    world.clients.clear()
    world.start(0)
    again = world.await_leader()
    world.until(lambda: again.service.messages == before)
    terms = [end // 65536 for end, _ in before]
    assert {0, 1, 2} <= set(terms)
    # No entry ends where a term does: the rest of each is padding.
    assert all(end % 65536 for end, _ in before)
    assert again.module.commit_position >= position


# --- messages of another schema ---


class Guest:
    """Takes what clients send to it. Implements `IngressExtension`."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, bytes]] = []

    def on_ingress_extension_message(
        self, now: Now, schema_id: int, template_id: int, message: Buffer, image: Image
    ) -> None:
        self.taken.append((schema_id, template_id, bytes(message)))


FOREIGN = bytes.fromhex("1000") + (7).to_bytes(2, "little") + (909).to_bytes(2, "little") + bytes(18)


def offered(extension: IngressExtension | None, *, is_leader: bool = True) -> PartsWorld:
    """A world in which a client has sent a foreign message and one for the cluster."""
    world = PartsWorld()
    ingress = IngressAdapter(
        world.context,
        world.sessions,
        max_block_length=MAX_BLOCK,
        max_message_length=world.log_publication.max_message_length,
        extension=extension,
    )
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
    world.settle()
    open_session(world, 1)
    publication.offer(FOREIGN)
    publication.offer(pack_session_header(TERM, 1, 0) + b"hello")
    world.settle()
    ingress.poll(world.now, world.leader.active_log if is_leader else None, TERM)
    world.settle()
    assert publication.is_connected
    return world


@pytest.mark.parity("CM-11")
def test_a_message_of_another_schema_is_the_extensions() -> None:
    guest = Guest()
    world = offered(guest)
    assert guest.taken == [(909, 7, FOREIGN)]
    assert world.errors.texts == []
    assert [payload for _, payload in world.read_log()] == [b"hello"]


@pytest.mark.parity("CM-12")
def test_without_an_extension_a_message_of_another_schema_is_reported_and_nothing_else() -> None:
    world = offered(None)
    (text,) = world.errors.texts
    assert "schema 909" in text
    assert [payload for _, payload in world.read_log()] == [b"hello"]


def test_the_extension_of_a_follower_hears_nothing() -> None:
    guest = Guest()
    offered(guest, is_leader=False)
    assert guest.taken == []
