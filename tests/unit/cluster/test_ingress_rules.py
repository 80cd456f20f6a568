"""What leaders and followers do with what clients send: who is heard, in which order, and with which time."""

from itertools import groupby
from random import Random

import pytest

from support.cluster_parts import TERM, PartsWorld
from support.cluster_world import EPOCH_MS, ClusterWorld, Member
from unit.cluster.test_ingress import MAX_BLOCK, adapter, open_session
from unit.cluster.test_sessions import ClientSide
from upheaval_node.media.api import Publication, Subscription
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT64
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import MS, NULL_VALUE, S


class RawClient:
    """Speaks to one member, says what a test wants, and hears what comes back."""

    def __init__(self, world: ClusterWorld, member: Member, name: str = "raw") -> None:
        self._world = world
        self.driver = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(3))
        self.channel = f"aeron:tcp?endpoint={name}:1"
        self.egress: Subscription = self.driver.add_subscription(self.channel, 102)
        self.ingress: Publication = self.driver.add_publication(f"aeron:tcp?endpoint=m{member.id}:1", 101)
        self.wait(lambda: self.ingress.is_connected)

    def wait(self, condition: object) -> None:
        def turn() -> bool:
            self.driver.do_work(self._world.now)
            return bool(condition())  # type: ignore[operator]

        self._world.until(turn, step_ms=1)

    def say(self, message: Message | bytes) -> None:
        encoded = message if isinstance(message, bytes) else cm.SCHEMA.encode(message)
        self.wait(lambda: self.ingress.offer(encoded) > 0)
        until = self._world.ns + 200 * MS
        self.wait(lambda: self._world.ns >= until)

    def heard(self) -> list[Message]:
        got: list[Message] = []

        def take(message: object) -> None:
            decoded = cm.SCHEMA.decode(message.payload)  # type: ignore[attr-defined]
            assert decoded is not None
            got.append(decoded)

        self.egress.poll(take, 100)
        return got


def started() -> tuple[ClusterWorld, Member, Member]:
    """A cluster, its leader and a follower."""
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    return world, leader, world.followers()[0]


def test_a_follower_answers_who_connects_and_takes_the_stream_down_again() -> None:
    world, leader, follower = started()
    client = RawClient(world, follower)
    client.say(cm.SessionConnectRequest(5, 102, 768, response_channel=client.channel))
    (event,) = client.heard()
    assert isinstance(event, cm.SessionEvent)
    assert (event.code, event.correlation_id, event.cluster_session_id) == (cm.EventCode.REDIRECT, 5, -1)
    assert event.leader_member_id == leader.id
    assert event.detail == "0=m0:1,1=m1:1,2=m2:1"
    client.wait(lambda: not client.egress.images)
    assert follower.module._state.sessions.answering == []
    assert follower.module._state.sessions.next_session_id == leader.module._state.sessions.next_session_id


def test_a_redirect_that_nobody_fetches_is_given_up_after_the_session_timeout() -> None:
    world, _, follower = started()
    client = RawClient(world, follower)
    client.say(cm.SessionConnectRequest(5, 102, 768, response_channel="aeron:tcp?endpoint=nowhere:9"))
    (session,) = follower.module._state.sessions.answering
    world.advance(9_000)
    assert follower.module._state.sessions.answering == [session]
    world.advance(2_000)
    assert follower.module._state.sessions.answering == []
    assert not session.is_connected


@pytest.mark.parametrize(
    "message",
    [
        cm.SessionKeepAlive,
        cm.SessionCloseRequest,
        lambda term, session: cm.AdminRequest(term, session, 9, cm.AdminRequestType.SNAPSHOT),
        lambda term, session: pack_session_header(term, session, 0) + b"for the log",
    ],
)
def test_a_follower_does_nothing_on_whatever_else_clients_say(message: object) -> None:
    world, leader, follower = started()
    user = world.client()
    world.echo(user, [b"a"])
    (session_id,) = follower.module._state.sessions.sessions
    client = RawClient(world, follower)
    end = leader.module.commit_position
    before = (
        len(follower.trace.named("send")),
        follower.module._state.sessions.sessions[session_id].time_of_last_activity_ns,
    )
    client.say(message(leader.module.leadership_term_id, session_id))  # type: ignore[operator]
    assert client.heard() == []
    assert leader.module.commit_position == end
    sent = follower.trace.named("send")[before[0] :]
    assert {each["message"] for each in sent} <= {"AppendPosition"}
    assert follower.module._state.sessions.sessions[session_id].time_of_last_activity_ns == before[1]
    world.echo(user, [b"b"])
    assert user.received == [b"a", b"b"]


def test_a_keep_alive_of_an_earlier_term_keeps_nothing_alive() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    client.connect()
    (session_id,) = world.sessions.open
    for term in (TERM - 1, TERM + 1):
        active = world.sessions.open[session_id].time_of_last_activity_ns
        world.ns += S
        world.sessions.on_keep_alive(world.now, cm.SessionKeepAlive(term, session_id), client.image)
        assert world.sessions.open[session_id].time_of_last_activity_ns == active
    world.sessions.on_keep_alive(world.now, cm.SessionKeepAlive(TERM, session_id), client.image)
    assert world.sessions.open[session_id].time_of_last_activity_ns == world.ns


def test_clients_take_turns_in_being_read_first() -> None:
    world = PartsWorld()
    ingress = adapter(world)
    publications = []
    for session_id in (1, 2, 3):
        open_session(world, session_id)
        publications.append(world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101))
    world.settle()
    log = world.leader.active_log
    order = []
    for _ in range(6):
        for session_id, publication in enumerate(publications, 1):
            assert publication.offer(pack_session_header(TERM, session_id, 0) + b"x") > 0
        world.settle()
        ingress.poll(world.now, log, TERM)
        read = [entry for entry, _ in world.read_log()]
        assert len(read) == 3
        order.append([entry.cluster_session_id for entry in read if isinstance(entry, cm.SessionMessageHeader)])
    assert sorted(each[0] for each in order) == [1, 1, 2, 2, 3, 3]


def test_a_client_that_sends_without_end_does_not_hold_up_the_others() -> None:
    world = PartsWorld()
    ingress = adapter(world)
    for session_id in (1, 2):
        open_session(world, session_id)
    greedy, modest = (world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101) for _ in range(2))
    world.settle()
    while greedy.offer(pack_session_header(TERM, 1, 0) + bytes(1000)) > 0:
        world.turn()
    assert modest.offer(pack_session_header(TERM, 2, 0) + b"me too") > 0
    world.settle()
    ids: list[int] = []
    for _ in range(2):
        ingress.poll(world.now, world.leader.active_log, TERM)
        entries = [entry for entry, _ in world.read_log()]
        ids += [entry.cluster_session_id for entry in entries if isinstance(entry, cm.SessionMessageHeader)]
    runs = [(session_id, len(list(group))) for session_id, group in groupby(ids)]
    assert (2, 1) in runs
    assert max(length for _, length in runs) <= 2 * MAX_BLOCK // 1000


def test_a_message_gets_its_time_from_the_leader_and_an_answer_that_of_its_entry() -> None:
    world, leader, _ = started()
    client = RawClient(world, leader)
    client.say(cm.SessionConnectRequest(5, 102, 768, response_channel=client.channel))
    (event,) = client.heard()
    assert isinstance(event, cm.SessionEvent)
    for unset in (0, NULL_INT64, 77):
        began = EPOCH_MS + world.ns // MS
        client.say(pack_session_header(event.leadership_term_id, event.cluster_session_id, unset) + b"x")
        (answer,) = client.heard()
        assert isinstance(answer, cm.SessionMessageHeader)
        assert began <= answer.timestamp <= EPOCH_MS + world.ns // MS
        assert {member.container.view.time for member in world.members.values()} == {answer.timestamp}


def test_a_client_leaves_the_time_unset() -> None:
    world = ClusterWorld(1)
    world.start(0)
    leader = world.await_leader()
    client = world.client()
    (image,) = leader.module._ingress._subscription.images  # type: ignore[union-attr]
    world.clients.remove(client)
    assert client.offer(b"x") > 0
    client.driver.do_work(world.now)
    world.network.step()
    leader.driver.do_work(world.now)
    block = image.next_block()
    assert block is not None
    header = cm.SCHEMA.decode(bytes(block.data[32:]))
    assert isinstance(header, cm.SessionMessageHeader)
    assert header.timestamp == NULL_VALUE


def test_services_of_all_members_hear_why_a_session_ended() -> None:
    world, leader, _ = started()
    says_so, vanishes, is_closed, stays = (world.client() for _ in range(4))
    ids = [client.session.session_id for client in (says_so, vanishes, is_closed, stays)]
    end = leader.module.commit_position
    says_so.session.close()
    world.clients.remove(vanishes)
    vanishes.driver.close()
    for member in world.members.values():
        member.container.view.close_client_session(ids[2])
    wanted = {(ids[0], "CLIENT_ACTION"), (ids[1], "TIMEOUT"), (ids[2], "SERVICE_ACTION")}
    world.until(lambda: all(set(member.service.closed) == wanted for member in world.members.values()))
    assert all(len(member.service.closed) == 3 for member in world.members.values())
    assert all(list(member.module._state.sessions.sessions) == [ids[3]] for member in world.members.values())
    assert leader.module.commit_position == end + 3 * 96
    world.echo(stays, [b"still here"])
    assert stays.received == [b"still here"]
