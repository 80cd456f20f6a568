"""Truncation leaves what is before the position and nothing past it."""

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import ArchiveWorld, Member, replay_all, signals_of
from support.media_world import offer
from support.memory_storage import MemoryStorage
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.segments import segment_bases
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.settings import KIB, ArchiveSettings

CHANNEL = "aeron:ipc?term-length=64k|init-term-id=0|term-id=0|term-offset=0"
STREAM = 100
LEVELS = [0, 1]


def recorded(level: int, count: int, size: int = 1000) -> tuple[ArchiveWorld, Member, list[int]]:
    """A stopped recording of `count` messages, and where each ends."""
    world = ArchiveWorld()
    settings = ArchiveSettings(segment_length=64 * KIB, catalog_capacity=4 * KIB, file_sync_level=level)
    member = world.member(settings=settings)
    publication = member.driver.add_publication(CHANNEL, STREAM)
    world.call(member.client.start_recording("aeron:ipc", STREAM))
    ends: list[int] = []
    for number in range(count):
        offer(world, publication, number.to_bytes(4, "little").ljust(size, b"x"))
        ends.append(publication.position)
    world.settle()
    world.call(member.client.stop_recording_by_identity(0))
    world.settle()
    publication.close()
    member.client.take_signals()
    return world, member, ends


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("keep", [0, 1, 63, 64, 100, 199])
def test_a_truncated_recording_ends_at_the_position(level: int, keep: int) -> None:
    world, member, ends = recorded(level, 200)
    position = ends[keep - 1] if keep else 0
    before = len(segment_bases(member.storage, "archive", 0))
    deleted = world.call(member.client.truncate(0, position))

    assert world.call(member.client.stop_position(0)) == position
    bases = segment_bases(member.storage, "archive", 0)
    assert len(bases) == before - deleted
    assert all(base < max(position, 1) for base in bases)
    if keep:
        last = member.storage.content(f"archive/0-{bases[-1]}.rec")
        assert last[position - bases[-1] :] == bytes(64 * KIB - position + bases[-1])
        assert len(replay_all(world, member, 0)) == keep
    else:
        assert bases == []
    assert signals_of(member.client) == [RecordingSignal.DELETE]


@pytest.mark.parametrize("level", LEVELS)
def test_a_truncated_recording_can_be_extended(level: int) -> None:
    world, member, ends = recorded(level, 100)
    world.call(member.client.truncate(0, ends[9]))
    world.call(member.client.extend_recording(0, "aeron:ipc", STREAM))
    publication = member.driver.add_publication(CHANNEL.replace("term-offset=0", f"term-offset={ends[9]}"), STREAM)
    world.settle()
    offer(world, publication, b"new")
    world.settle()
    world.call(member.client.stop_recording_by_identity(0))

    messages = [payload for _, payload in replay_all(world, member, 0)]
    assert len(messages) == 11
    assert messages[-1] == b"new"


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(0, 90), st.lists(st.integers(1, 3000), max_size=30), st.integers(0, 1))
def test_what_was_truncated_never_comes_back_after_a_crash(keep: int, drop: int, sizes: list[int], level: int) -> None:
    """Old frames with the same terms lie where new ones end; a crash must not bring them back."""
    world, member, ends = recorded(level, keep + drop)
    world.call(member.client.truncate(0, ends[keep - 1]))
    world.call(member.client.extend_recording(0, "aeron:ipc", STREAM))
    position = ends[keep - 1]
    channel = CHANNEL.replace("term-id=0|term-offset=0", f"term-id={position >> 16}|term-offset={position & 0xFFFF}")
    publication = member.driver.add_publication(channel, STREAM)
    world.settle()
    for size in sizes:
        offer(world, publication, b"y" * size)
    world.settle()
    restarted = ArchiveWorld()
    again = restarted.member(member.storage)

    assert restarted.call(again.client.stop_position(0)) == publication.position
    messages = [payload for _, payload in replay_all(restarted, again, 0)]
    assert messages[keep:] == [b"y" * size for size in sizes]


def test_positions_that_are_none_of_the_recording_are_refused() -> None:
    world, member, ends = recorded(0, 20)
    for position in (-32, 7, ends[3] + 32, ends[-1] + 32):
        code, _ = world.refused(member.client.truncate(0, position))
        assert code == ErrorCode.INVALID_POSITION
    code, _ = world.refused(member.client.truncate(9, 0))
    assert code == ErrorCode.UNKNOWN_RECORDING
    assert world.call(member.client.stop_position(0)) == ends[-1]


def test_an_active_recording_is_not_truncated() -> None:
    world = ArchiveWorld()
    member = world.member()
    member.driver.add_publication(CHANNEL, STREAM)
    world.call(member.client.start_recording("aeron:ipc", STREAM))
    world.settle()
    code, _ = world.refused(member.client.truncate(0, 0))
    assert code == ErrorCode.ACTIVE_RECORDING


def test_a_replay_of_what_is_truncated_ends() -> None:
    world, member, ends = recorded(0, 200)
    replay = world.call(member.client.replay(0, 0, -1, "aeron:ipc", 900))
    subscription = member.driver.add_subscription("aeron:ipc", 900)
    world.settle()
    world.call(member.client.truncate(0, ends[0]))

    world.until(lambda: subscription.poll(lambda message: None, 10_000) == 0 and not subscription.images)
    assert replay > 0


def test_a_power_cut_after_the_answer_keeps_the_truncation() -> None:
    world, member, ends = recorded(1, 200)
    world.call(member.client.truncate(0, ends[9]))
    storage: MemoryStorage = member.storage
    storage.power_cut()
    restarted = ArchiveWorld()
    again = restarted.member(storage)

    assert restarted.call(again.client.stop_position(0)) == ends[9]
    assert len(replay_all(restarted, again, 0)) == 10
