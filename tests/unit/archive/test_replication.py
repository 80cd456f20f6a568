"""A recording is copied between archives on two hosts, whatever happens to the connection."""

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import ArchiveWorld, Member, replay_all
from support.media_world import offer
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.reader import read_recordings
from upheaval_node.media.api import Publication
from upheaval_node.protocol.archive_messages import RecordingSignal

CHANNEL = "aeron:ipc?term-length=64k"
CONTROL = "aeron:tcp?endpoint=source:8010"
STREAM = 100

R = RecordingSignal


def two_hosts() -> tuple[ArchiveWorld, Member, Member]:
    world = ArchiveWorld()
    return world, world.member(control_channel=CONTROL, archive_id=1), world.member(archive_id=2)


def record(world: ArchiveWorld, member: Member, messages: list[bytes]) -> Publication:
    publication = member.driver.add_publication(CHANNEL, STREAM)
    world.call(member.client.start_recording("aeron:ipc", STREAM))
    world.settle()
    offer(world, publication, *messages)
    world.settle()
    return publication


def messages(count: int, size: int = 500) -> list[bytes]:
    return [number.to_bytes(4, "little").ljust(size, b"m") for number in range(count)]


def signals_until_end(world: ArchiveWorld, member: Member, replication_id: int) -> list[tuple[int, int, int]]:
    """(signal, recording id, position) until the replication and the local recording have ended."""
    seen: list[tuple[int, int, int]] = []

    def is_over() -> bool:
        for signal in member.client.take_signals():
            assert signal.correlation_id == replication_id
            seen.append((signal.signal, signal.recording_id, signal.position))
        kinds = [kind for kind, _, _ in seen]
        return R.REPLICATE_END in kinds and (R.EXTEND not in kinds or R.STOP in kinds)

    world.until(is_over, ms=60_000)
    return seen


def frames(member: Member, recording_id: int) -> list[tuple[object, ...]]:
    """All frames without their session ids, which a replay changes."""
    recording = next(each for each in read_recordings(member.storage) if each.recording_id == recording_id)
    assert recording.problem is None
    return [(*frame[:6], *frame[7:]) for frame in recording.frames()]


def test_a_stopped_recording_is_copied_with_all_signals_in_order() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(300))
    world.call(source.client.stop_recording_by_identity(0))
    world.settle()
    end = publication.position
    replication = world.call(target.client.replicate(0, src_control_channel=CONTROL))

    assert signals_until_end(world, target, replication) == [
        (R.REPLICATE, 0, 0),
        (R.EXTEND, 0, 0),
        (R.SYNC, 0, end),
        (R.REPLICATE_END, 0, -1),
        (R.STOP, 0, end),
    ]
    assert world.call(target.client.stop_position(0)) == end
    assert frames(target, 0) == frames(source, 0)
    assert list(world.network.listeners) == ["source:8010"]


def test_a_copy_that_is_complete_is_only_told_so() -> None:
    world, source, target = two_hosts()
    record(world, source, messages(10))
    world.call(source.client.stop_recording_by_identity(0))
    world.settle()
    signals_until_end(world, target, world.call(target.client.replicate(0, src_control_channel=CONTROL)))
    again = world.call(target.client.replicate(0, src_control_channel=CONTROL, dst_recording_id=0))

    assert [kind for kind, _, _ in signals_until_end(world, target, again)] == [R.SYNC, R.REPLICATE_END]


def test_a_partial_copy_goes_on_where_it_ends() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(300))
    first = world.call(target.client.replicate(0, src_control_channel=CONTROL, stop_position=544 * 100))
    seen = signals_until_end(world, target, first)
    assert seen[-1] == (R.STOP, 0, 544 * 100)
    assert world.call(target.client.stop_position(0)) == 544 * 100

    second = world.call(
        target.client.replicate(0, src_control_channel=CONTROL, dst_recording_id=0, stop_position=publication.position)
    )
    assert signals_until_end(world, target, second)[0] == (R.EXTEND, 0, 544 * 100)
    assert frames(target, 0) == frames(source, 0)


def test_a_live_recording_is_followed_until_it_stops() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(50))
    replication = world.call(target.client.replicate(0, src_control_channel=CONTROL, replication_session_id=4711))
    world.until(lambda: target.counter(0) is not None)
    for message in messages(200):
        offer(world, publication, message)
        world.turn()
    world.until(lambda: world.call(target.client.recording_position(0)) == publication.position)
    assert R.REPLICATE_END not in [signal.signal for signal in target.client.signals]
    world.call(source.client.stop_recording_by_identity(0))

    assert (R.STOP, 0, publication.position) in signals_until_end(world, target, replication)
    assert frames(target, 0) == frames(source, 0)
    assert next(read_recordings(target.storage)[0].frames()).session_id == 4711


def test_a_replication_over_a_port_of_its_own() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(200))
    world.call(source.client.stop_recording_by_identity(0))
    channel = "aeron:tcp?endpoint=target:0"
    # Port 0 is resolved by the network in memory only for the part after the colon.
    replication = world.call(target.client.replicate(0, src_control_channel=CONTROL, replication_channel=channel))

    assert signals_until_end(world, target, replication)[-1] == (R.STOP, 0, publication.position)
    assert frames(target, 0) == frames(source, 0)


def test_an_archive_replicates_from_itself_over_ipc() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication = record(world, member, messages(100))
    world.call(member.client.stop_recording_by_identity(0))
    world.settle()
    publication.close()
    world.settle()
    member.client.take_signals()
    replication = world.call(member.client.replicate(0, src_control_channel="aeron:ipc"))

    signals_until_end(world, member, replication)
    assert [payload for _, payload in replay_all(world, member, 1)] == messages(100)


def test_several_recordings_are_copied_at_once() -> None:
    world, source, target = two_hosts()
    for count in (10, 200, 30):
        publication = record(world, source, messages(count))
        subscription = source.client.stop_recording_channel("aeron:ipc", STREAM)
        world.call(subscription)
        world.settle()
        publication.close()
        world.settle()
    calls = [target.client.replicate(number, src_control_channel=CONTROL) for number in range(3)]
    for call in calls:
        world.call(call)
    world.until(lambda: [s.signal for s in target.client.signals].count(R.STOP) == 3)
    copied = {len(frames(target, number)) for number in range(3)}
    assert copied == {len(frames(source, number)) for number in range(3)}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=4), st.booleans())
def test_a_copy_survives_cut_connections(cuts: list[int], lose: bool) -> None:
    world, source, target = two_hosts()
    record(world, source, messages(400, 1200))
    world.call(source.client.stop_recording_by_identity(0))
    world.settle()
    target.client.replicate(0, src_control_channel=CONTROL)
    for turns in cuts:
        for _ in range(turns):
            world.turn()
        world.network.cut(lose=lose)
    world.until(lambda: R.REPLICATE_END in [signal.signal for signal in target.client.signals], ms=60_000)
    world.settle()
    copied = read_recordings(target.storage)
    if not copied or frames(target, 0) != frames(source, 0):
        # The stream was lost with its connection: the requester knows, and can go on where the copy ends.
        signals = list(target.client.signals)
        assert R.SYNC not in [signal.signal for signal in signals]
        destination = copied[0].recording_id if copied else -1
        target.client.signals.clear()
        again = world.call(target.client.replicate(0, src_control_channel=CONTROL, dst_recording_id=destination))
        signals_until_end(world, target, again)
    assert frames(target, 0) == frames(source, 0)


def test_a_source_that_is_not_there_is_reported() -> None:
    world, _, target = two_hosts()
    call = target.client.replicate(0, src_control_channel="aeron:tcp?endpoint=nowhere:8010")
    replication = world.call(call)
    signals = signals_until_end(world, target, replication)

    assert [kind for kind, _, _ in signals] == [R.REPLICATE_END]
    error = target.client.late_errors[0]
    assert (error.correlation_id, error.error_code) == (replication, ErrorCode.REPLICATION_CONNECTION_FAILURE)


def test_an_unknown_source_recording_is_reported() -> None:
    world, _, target = two_hosts()
    replication = world.call(target.client.replicate(5, src_control_channel=CONTROL))
    signals_until_end(world, target, replication)

    error = target.client.late_errors[0]
    assert (error.correlation_id, error.error_code) == (replication, ErrorCode.UNKNOWN_RECORDING)


def test_a_replication_can_be_stopped() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(20))
    replication = world.call(target.client.replicate(0, src_control_channel=CONTROL))
    world.until(lambda: target.counter(0) is not None)
    world.call(target.client.stop_replication(replication))

    signals_until_end(world, target, replication)
    assert world.call(target.client.stop_position(0)) <= publication.position
    code, _ = world.refused(target.client.stop_replication(replication))
    assert code == ErrorCode.UNKNOWN_REPLICATION


@pytest.mark.parametrize(
    ("destination", "expected"), [(9, ErrorCode.UNKNOWN_RECORDING), (0, ErrorCode.ACTIVE_RECORDING)]
)
def test_a_destination_that_cannot_take_a_copy_is_refused(destination: int, expected: ErrorCode) -> None:
    world, _, target = two_hosts()
    record(world, target, messages(1))
    code, _ = world.refused(target.client.replicate(0, src_control_channel=CONTROL, dst_recording_id=destination))
    assert code == expected
