"""What is recorded is what was published, whatever happens in between, and a replay gives it back."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import SETTINGS, ArchiveWorld, Member, follow, replay_all, signals_of, stream_session
from support.media_world import offer
from support.memory_storage import MemoryStorage
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.reader import read_recordings
from upheaval_node.archive.segments import segment_file_name
from upheaval_node.bell import Bell
from upheaval_node.counters import COMMIT_POSITION
from upheaval_node.media.api import Publication
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.protocol.frames import position_bits_to_shift, term_id_at
from upheaval_node.settings import KIB, MIB, ArchiveSettings

CHANNEL = "aeron:ipc?term-length=64k"
STREAM = 100
INT64_MAX = (1 << 63) - 1


def started(world: ArchiveWorld, member: Member, channel: str = CHANNEL) -> tuple[Publication, int]:
    """A publication that is being recorded, and the subscription id."""
    publication = member.driver.add_publication(channel, STREAM)
    subscription_id = world.call(member.client.start_recording("aeron:ipc", STREAM))
    world.settle()
    return publication, subscription_id


def resumed_channel(initial_term_id: int, position: int, session_id: int) -> str:
    """The channel of a publication that goes on at `position`."""
    term_id = term_id_at(position, position_bits_to_shift(64 * KIB), initial_term_id)
    return (
        f"{CHANNEL}|init-term-id={initial_term_id}|term-id={term_id}|term-offset={position % (64 * KIB)}"
        f"|session-id={session_id}"
    )


def texts(count: int, size: int = 60) -> list[bytes]:
    return [f"message-{index}".encode().ljust(size, b".") for index in range(count)]


def test_a_recording_starts_moves_and_stops_with_its_stream() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, subscription_id = started(world, member)
    offer(world, publication, *texts(10))
    world.settle()

    counter = member.counter(0)
    assert counter is not None
    assert counter.get() == publication.position
    assert world.call(member.client.recording_position(0)) == publication.position
    assert world.call(member.client.stop_position(0)) == -1
    assert world.call(member.client.max_recorded_position(0)) == publication.position
    assert world.call(member.client.start_position(0)) == 0

    world.call(member.client.stop_recording(subscription_id))
    world.settle()
    assert signals_of(member.client) == [RecordingSignal.START, RecordingSignal.STOP]
    assert counter.is_closed
    assert world.call(member.client.stop_position(0)) == publication.position
    assert world.call(member.client.recording_position(0)) == -1
    assert world.call(member.client.max_recorded_position(0)) == publication.position


def test_files_under_the_id_of_a_new_recording_are_leftovers() -> None:
    """A power cut took the entry of a recording, and its files stayed, also before where the new one begins."""
    world = ArchiveWorld()
    member = world.member()
    length = SETTINGS.segment_length
    for base in (0, length, 2 * length):
        member.storage.put(f"archive/{segment_file_name(0, base)}", b"x" * 4096)
    publication, _ = started(world, member, resumed_channel(5, length, 1))
    offer(world, publication, *texts(3))
    world.settle()
    assert world.call(member.client.start_position(0)) == length
    assert [name for name in member.storage.names("archive") if name.endswith(".rec")] == [segment_file_name(0, length)]


def test_a_recording_ends_with_its_publication_and_auto_stop_ends_the_subscription() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication = member.driver.add_publication(CHANNEL, STREAM)
    subscription_id = world.call(member.client.start_recording("aeron:ipc", STREAM, auto_stop=True))
    offer(world, publication, *texts(3))
    end = publication.position
    publication.close()
    world.settle()

    assert world.call(member.client.stop_position(0)) == end
    code, _ = world.refused(member.client.stop_recording(subscription_id))
    assert code == ErrorCode.UNKNOWN_SUBSCRIPTION


def test_without_auto_stop_the_next_stream_becomes_the_next_recording() -> None:
    world = ArchiveWorld()
    member = world.member()
    first, subscription_id = started(world, member)
    offer(world, first, b"one")
    first.close()
    world.settle()
    second = member.driver.add_publication(CHANNEL, STREAM)
    world.settle()
    offer(world, second, b"two")
    world.settle()

    assert world.call(member.client.recording_position(1)) == second.position
    world.call(member.client.stop_recording(subscription_id))
    assert [payload for _, payload in replay_all(world, member, 0)] == [b"one"]
    assert [payload for _, payload in replay_all(world, member, 1)] == [b"two"]


@pytest.mark.parametrize("by", ["subscription", "channel", "identity"])
def test_a_recording_stops_however_it_is_named(by: str) -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, subscription_id = started(world, member)
    assert publication.offer(b"sent in the same instant") > 0
    client = member.client
    if by == "subscription":
        call = client.stop_recording(subscription_id)
    elif by == "channel":
        call = client.stop_recording_channel("aeron:ipc", STREAM)
    else:
        call = client.stop_recording_by_identity(0)

    assert world.call(call) == int(by == "identity")
    assert world.call(client.stop_position(0)) == publication.position
    assert world.call(client.stop_recording_by_identity(0)) == 0


payloads = st.lists(st.one_of(st.binary(max_size=200), st.integers(0, 8000).map(bytes)), max_size=60)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(payloads, st.sampled_from(["stop", "crash"])), min_size=1, max_size=4),
    st.sampled_from([64 * KIB, 256 * KIB, MIB]),
    st.sampled_from([0, 2]),
    st.integers(0, 40),
)
def test_lives_of_a_recording_make_one_stream(
    lives: list[tuple[list[bytes], str]], segment_length: int, sync_level: int, start_blocks: int
) -> None:
    """Random messages over several lives of publisher and archive: extended each time at the same position."""
    storage = MemoryStorage()
    archive_settings = ArchiveSettings(segment_length=segment_length, file_sync_level=sync_level)
    position = 64 * KIB - start_blocks * 32
    expected: list[bytes] = []
    ends: list[int] = []
    for number, (messages, how) in enumerate(lives):
        world = ArchiveWorld(seed=number)
        member = world.member(storage, archive_settings)
        if number == 0:
            call = member.client.start_recording("aeron:ipc", STREAM)
        else:
            assert world.call(member.client.stop_position(0)) == position
            call = member.client.extend_recording(0, "aeron:ipc", STREAM)
        world.call(call)
        publication = member.driver.add_publication(resumed_channel(-7, position, 900 + number), STREAM)
        world.settle()
        for message in [*messages, b"the last one ends in no zeros"]:
            offer(world, publication, message)
            expected.append(message)
            ends.append(publication.position)
        world.settle()
        position = publication.position
        counter = member.counter(0)
        assert counter is not None
        assert counter.get() == position
        if how == "stop":
            world.shut_down(member)
    world = ArchiveWorld()
    member = world.member(storage, archive_settings)

    assert world.call(member.client.stop_position(0)) == position
    assert replay_all(world, member, 0) == list(zip(ends, expected, strict=True))
    middle = len(ends) // 2
    assert replay_all(world, member, 0, ends[middle - 1] if middle else -1) == list(
        zip(ends[middle:], expected[middle:], strict=True)
    )
    read = read_recordings(storage)[0]
    assert [(message.end_position, message.payload) for message in read.messages()] == list(
        zip(ends, expected, strict=True)
    )
    assert read.problem is None


def test_the_frames_on_disk_are_those_of_the_stream() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, subscription_id = started(world, member)
    offer(world, publication, *(bytes([1 + index % 200]) * (index * 7 % 5000) for index in range(120)))
    world.settle()
    world.call(member.client.stop_recording(subscription_id))

    recording = read_recordings(member.storage)[0]
    position = 0
    for frame in recording.frames():
        assert frame.position == position
        assert frame.term_offset == position % (64 * KIB)
        assert frame.session_id == publication.session_id
        assert frame.stream_id == STREAM
        position = frame.end_position
    assert position == publication.position


@pytest.mark.parametrize("length", [-1, INT64_MAX])
def test_a_replay_follows_a_live_recording_and_ends_with_it(length: int) -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, subscription_id = started(world, member)
    sent = texts(500, 300)
    offer(world, publication, *sent[:200])
    world.settle()
    replay = world.call(member.client.replay(0, 0, length, "aeron:ipc", 900))
    subscription = member.driver.add_subscription(f"aeron:ipc?session-id={stream_session(replay)}", 900)
    received: list[bytes] = []

    def poll() -> None:
        subscription.poll(lambda message: received.append(bytes(message.payload)), 1000)

    for message in sent[200:]:
        offer(world, publication, message)
        world.turn()
        poll()
    world.settle()
    poll()
    world.settle()
    poll()
    assert received == sent
    assert len(subscription.images) == 1

    world.call(member.client.stop_recording(subscription_id))
    world.until(lambda: not subscription.images)
    assert received == sent


def test_a_replay_of_a_length_ends_there() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, _ = started(world, member)
    sent = texts(100)
    offer(world, publication, *sent)
    world.settle()

    assert [payload for _, payload in replay_all(world, member, 0, 96 * 10, 96 * 20)] == sent[10:30]


def test_a_counter_that_bounds_a_replay_rings_for_the_archive_until_its_end() -> None:
    world = ArchiveWorld()
    member = world.member()
    bell = member.archive.bell = Bell()
    publication, _ = started(world, member)
    offer(world, publication, *texts(3))
    world.settle()
    bound = member.counters.allocate(COMMIT_POSITION, b"", "bound", 0)
    replay = world.call(member.client.bounded_replay(0, 0, -1, "aeron:ipc", 900, bound.id))
    member.driver.add_subscription(f"aeron:ipc?session-id={stream_session(replay)}", 900)
    world.settle()
    bell.rung = False
    bound.set(publication.position)
    assert bell.rung
    world.call(member.client.stop_replay(replay))
    world.settle()
    bell.rung = False
    bound.set(0)
    assert not bell.rung


def test_a_bounded_replay_never_passes_its_counter() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, _ = started(world, member)
    sent = texts(100)
    offer(world, publication, *sent)
    world.settle()
    bound = member.counters.allocate(COMMIT_POSITION, b"", "bound", 96 * 10)
    replay = world.call(member.client.bounded_replay(0, 0, -1, "aeron:ipc", 900, bound.id))
    subscription = member.driver.add_subscription(f"aeron:ipc?session-id={stream_session(replay)}", 900)
    received: list[bytes] = []

    def poll() -> int:
        world.settle()
        return subscription.poll(lambda message: received.append(bytes(message.payload)), 1000)

    poll()
    assert received == sent[:10]
    bound.set(96 * 25)
    poll()
    assert received == sent[:25]
    bound.close()
    world.until(lambda: poll() == 0 and not subscription.images)
    assert received == sent[:25]


def test_an_unknown_limit_counter_is_refused() -> None:
    world = ArchiveWorld()
    member = world.member()
    started(world, member)
    code, _ = world.refused(member.client.bounded_replay(0, 0, -1, "aeron:ipc", 900, 500))
    assert code == ErrorCode.GENERIC


def test_stopped_replays_end_their_streams() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, _ = started(world, member)
    offer(world, publication, *texts(10))
    world.settle()
    first = world.call(member.client.replay(0, 0, -1, "aeron:ipc", 900))
    second = world.call(member.client.replay(0, 0, -1, "aeron:ipc", 901))
    subscriptions = [member.driver.add_subscription("aeron:ipc", stream_id) for stream_id in (900, 901)]
    world.settle()
    assert [len(each.images) for each in subscriptions] == [1, 1]

    def drain(which: Iterable[int]) -> bool:
        for index in which:
            subscriptions[index].poll(lambda message: None, 1000)
        return all(not subscriptions[index].images for index in which)

    world.call(member.client.stop_replay(first))
    world.until(lambda: drain([0]))
    assert len(subscriptions[1].images) == 1
    world.call(member.client.stop_replay(first))
    world.call(member.client.stop_all_replays())
    world.until(lambda: drain([1]))
    assert second != first


def test_a_replay_that_nobody_subscribes_to_ends_with_an_error() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, _ = started(world, member)
    offer(world, publication, b"x")
    world.settle()
    call = member.client.replay(0, 0, -1, "aeron:ipc", 900)
    world.call(call)
    world.until(lambda: len(member.client.late_errors) > 0)

    error = member.client.late_errors[0]
    assert (error.correlation_id, error.error_code) == (call.correlation_id, ErrorCode.GENERIC)


def test_a_replay_that_is_refused_leaves_no_file_open() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, _ = started(world, member)
    offer(world, publication, *texts(10))
    world.settle()
    before = member.storage.count_open
    for position, channel in ((96, "aeron:udp?endpoint=localhost:1"), (32, "aeron:ipc")):
        world.refused(member.client.replay(0, position, -1, channel, 900))
    assert member.storage.count_open == before


def test_a_replay_whose_subscriber_leaves_ends() -> None:
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(segment_length=64 * KIB, max_replays=1))
    publication, _ = started(world, member)
    offer(world, publication, b"x")
    world.settle()
    replay = world.call(member.client.replay(0, 0, -1, "aeron:ipc", 900))
    subscription = member.driver.add_subscription(f"aeron:ipc?session-id={stream_session(replay)}", 900)
    world.settle()
    code, _ = world.refused(member.client.replay(0, 0, -1, "aeron:ipc", 900))
    assert code == ErrorCode.MAX_REPLAYS
    subscription.close()
    world.settle()

    assert [payload for _, payload in replay_all(world, member, 0)] == [b"x"]


@pytest.mark.parametrize("change", ["position", "term-length", "init-term-id", "mtu"])
def test_a_stream_that_does_not_continue_the_recording_is_refused(change: str) -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, subscription_id = started(world, member, resumed_channel(5, 0, 1))
    offer(world, publication, *texts(10))
    world.settle()
    world.call(member.client.stop_recording(subscription_id))
    position, initial = publication.position, 5
    publication.close()
    channel = {
        "position": resumed_channel(initial, position - 96, 2),
        "term-length": resumed_channel(initial, position, 2).replace("64k", "128k"),
        "init-term-id": resumed_channel(initial + 1, position, 2),
        "mtu": resumed_channel(initial, position, 2) + "|mtu=2048",
    }[change]
    call = member.client.extend_recording(0, "aeron:ipc", STREAM)
    world.call(call)
    member.driver.add_publication(channel, STREAM)
    world.until(lambda: len(member.client.late_errors) > 0)

    error = member.client.late_errors[0]
    assert (error.correlation_id, error.error_code) == (call.correlation_id, ErrorCode.INVALID_EXTENSION)
    assert world.call(member.client.stop_position(0)) == position
    assert RecordingSignal.EXTEND not in signals_of(member.client)


def test_an_extension_goes_on_at_the_same_position() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, subscription_id = started(world, member, resumed_channel(5, 0, 1))
    offer(world, publication, b"before")
    world.settle()
    world.call(member.client.stop_recording(subscription_id))
    position = publication.position
    publication.close()
    subscription_id = world.call(member.client.extend_recording(0, "aeron:ipc", STREAM))
    code, _ = world.refused(member.client.start_recording("aeron:ipc", STREAM))
    assert code == ErrorCode.ACTIVE_SUBSCRIPTION
    publication = member.driver.add_publication(resumed_channel(5, position, 2), STREAM)
    world.settle()
    offer(world, publication, b"after")
    world.settle()

    assert RecordingSignal.EXTEND in signals_of(member.client)
    assert world.call(member.client.recording_position(0)) == publication.position
    world.call(member.client.stop_recording(subscription_id))
    assert [payload for _, payload in replay_all(world, member, 0)] == [b"before", b"after"]
    descriptor = member.client.list_recording(0)
    world.call(descriptor)
    assert descriptor.descriptors[0].session_id == 2


def test_a_remote_stream_is_recorded_by_a_spy_and_by_a_subscription() -> None:
    world = ArchiveWorld()
    publisher, receiver = world.member(archive_id=1), world.member(archive_id=2)
    channel = "aeron:tcp?endpoint=host:9000|term-length=64k"
    world.call(receiver.client.start_recording("aeron:tcp?endpoint=host:9000", STREAM, local=False))
    publication = publisher.driver.add_publication(channel, STREAM)
    world.call(publisher.client.start_recording(channel, STREAM))
    world.until(lambda: publication.is_connected)
    sent = texts(300, 900)
    offer(world, publication, *sent)
    world.settle()
    for member in (publisher, receiver):
        world.call(member.client.stop_recording_by_identity(0))
        assert [payload for _, payload in replay_all(world, member, 0)] == sent


def test_a_replay_over_the_network_reaches_a_listener() -> None:
    world = ArchiveWorld()
    source, other = world.member(archive_id=1), world.member(archive_id=2)
    publication, _ = started(world, source)
    sent = texts(2000, 1000)
    offer(world, publication, *sent)
    world.settle()
    subscription = other.driver.add_subscription("aeron:tcp?endpoint=host:9000", 900)
    world.call(source.client.replay(0, 0, -2, "aeron:tcp?endpoint=host:9000", 900))
    received: list[bytes] = []

    def is_over() -> bool:
        subscription.poll(lambda message: received.append(bytes(message.payload)), 10_000)
        return len(received) == len(sent)

    world.until(is_over)
    assert received == sent


def test_follow_helper_sees_positions_of_the_recording() -> None:
    world = ArchiveWorld()
    member = world.member(settings=SETTINGS)
    publication, _ = started(world, member, resumed_channel(0, 3 * 64 * KIB + 64, 5))
    offer(world, publication, b"x" * 10)
    world.settle()
    replay = world.call(member.client.replay(0, -1, -2, "aeron:ipc", 900))
    assert follow(world, member, replay) == [(publication.position, b"x" * 10)]


@pytest.mark.parametrize(("wanted", "longest"), [(2048, 2048), (4096, 4096), (2**31 - 1, 4096), (-1, 4096)])
def test_a_request_may_have_a_replay_read_less_at_once_but_not_more(wanted: int, longest: int) -> None:
    world = ArchiveWorld()
    member = world.member(settings=replace(SETTINGS, io_max_length=4 * KIB))
    publication, _ = started(world, member)
    offer(world, publication, *texts(300, 100))
    world.settle()
    member.storage.longest_read = 0
    request = am.ReplayRequest(
        recording_id=0,
        position=0,
        length=-2,
        replay_stream_id=900,
        file_io_max_length=wanted,
        replay_channel="aeron:ipc",
    )
    received = follow(world, member, world.call(member.client.request(request)))
    assert [payload for _, payload in received] == texts(300, 100)
    assert member.storage.longest_read == longest
