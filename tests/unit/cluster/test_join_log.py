"""What a module says to its services when they are to read a log, and who else hears it."""

from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_snapshots import snapshots, take_snapshot
from upheaval_node.cluster.election_states import Role
from upheaval_node.media.api import Subscription
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.message import Message
from upheaval_node.types import MAX_POSITION

CONTROL = "aeron:ipc?term-length=128k"


def listen(member: Member) -> Subscription:
    """Hear what services and tools hear."""
    return member.driver.add_subscription(CONTROL, 104)


def heard(subscription: Subscription) -> list[Message]:
    got: list[Message] = []

    def take(message: object) -> None:
        decoded = cm.SCHEMA.decode(message.payload)  # type: ignore[attr-defined]
        assert decoded is not None
        got.append(decoded)

    subscription.poll(take, 100)
    return got


def joins(subscription: Subscription) -> list[cm.JoinLog]:
    return [message for message in heard(subscription) if isinstance(message, cm.JoinLog)]


def test_a_replay_is_joined_up_to_its_end_and_the_live_log_without_one() -> None:
    world = ClusterWorld(3)
    world.start_all()
    world.await_all()
    world.echo(world.client(), [b"%d" % number for number in range(30)])
    world.advance(200)
    end = world.await_leader().module.commit_position
    for member_id in range(3):
        world.kill(member_id)
    world.clients.clear()
    ears = {member_id: listen(world.start(member_id)) for member_id in range(3)}
    leader = world.await_all()
    for member_id, ear in ears.items():
        role = Role.LEADER if member_id == leader.id else Role.FOLLOWER
        replay, live = joins(ear)
        assert replay == cm.JoinLog(
            log_position=0,
            max_log_position=end,
            member_id=member_id,
            log_session_id=replay.log_session_id,
            log_stream_id=103,
            is_startup=True,
            role=Role.FOLLOWER,
            is_standby=False,
            log_channel=replay.log_channel,
        )
        replayed = Channel.parse(replay.log_channel)
        assert (replayed.media, replayed.get("session-id")) == ("ipc", str(replay.log_session_id))
        publisher = leader.module._log.leader_log.publisher
        assert publisher is not None
        assert live == cm.JoinLog(
            log_position=end,
            max_log_position=MAX_POSITION,
            member_id=member_id,
            log_session_id=publisher.session_id,
            log_stream_id=100,
            # Of followers, what the first NewLeadershipTerm of the leader said: it had not looked at that yet.
            is_startup=member_id == leader.id,
            role=role,
            is_standby=False,
            log_channel=live.log_channel,
        )
        followed = Channel.parse(live.log_channel)
        assert followed.is_spy
        assert (followed.media, followed.get("session-id")) == ("tcp", str(publisher.session_id))


def test_a_change_of_leader_is_no_startup_and_needs_no_replay() -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    world.echo(world.client(), [b"x"] * 10)
    ears = {member.id: listen(member) for member in world.followers()}
    world.settle()
    world.kill(old.id)
    leader = world.await_all()
    for member_id, ear in ears.items():
        (join,) = joins(ear)
        is_leader = member_id == leader.id
        assert join.max_log_position == MAX_POSITION
        assert not join.is_startup
        assert join.role == (Role.LEADER if is_leader else Role.FOLLOWER)
        assert (
            join.log_position
            == leader.module.recording_log.get_term_entry(leader.module.leadership_term_id).term_base_log_position
        )


def test_tools_and_services_leave_each_others_messages_alone() -> None:
    world = ClusterWorld(1)
    member = world.start(0)
    tool = listen(member)
    queries = member.driver.add_publication(CONTROL, 105)
    world.await_leader()
    positions = []
    for number in range(3):
        assert queries.offer(cm.SCHEMA.encode(cm.ClusterMembersQuery(number, number % 2 == 1))) > 0
        world.settle()
        positions.append(member.container.view.log_position)
    client = world.client()
    world.echo(client, [b"still there"])
    assert client.received == [b"still there"]
    assert member.errors.texts == [text for text in member.errors.texts if "service" not in text]
    answers = (cm.ClusterMembersResponse, cm.ClusterMembersExtendedResponse)
    got = heard(tool)
    assert [each.correlation_id for each in got if isinstance(each, answers)] == [0, 1, 2]
    assert [type(each) for each in got if not isinstance(each, answers)] == [cm.JoinLog]


def test_every_service_numbers_its_acks_and_all_stand_at_the_same_positions() -> None:
    world = ClusterWorld(3, services=lambda: [KeepingService(), KeepingService(), KeepingService()])
    world.start_all()
    world.await_all()
    world.echo(world.client(), [b"a", b"b"])
    take_snapshot(world)
    for member in world.members.values():
        acks = [
            [each for each in member.trace.named("service-ack") if each["service_id"] == service_id]
            for service_id in range(3)
        ]
        assert [each["ack_id"] for each in acks[0]] == list(range(len(acks[0])))
        assert [each["relevant_id"] for each in acks[0][1:-1]] == [-1] * (len(acks[0]) - 2)
        numbers = [[(each["ack_id"], each["log_position"]) for each in of_one] for of_one in acks]
        assert numbers[0] == numbers[1] == numbers[2]
        # Started, joined the live log, took a snapshot.
        assert len(numbers[0]) == 3
        assert member.module._acks.ack_id == 3
        recordings = [of_one[-1]["relevant_id"] for of_one in acks]
        entries = sorted((e.service_id, e.recording_id) for e in snapshots(member) if e.service_id >= 0)
        assert entries == list(enumerate(recordings))
        clients = [of_one[0]["relevant_id"] for of_one in acks]
        assert member.module._acks.client_ids == clients == [each.client_id for each in member.containers]
