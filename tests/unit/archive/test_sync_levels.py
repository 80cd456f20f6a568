"""A position that was reported survives what its sync level promises."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import ArchiveWorld, Member, replay_all, signals_of
from support.media_world import offer
from support.memory_storage import MemoryStorage
from upheaval_node.archive.block_journal import CAPACITY
from upheaval_node.archive.reader import read_recordings
from upheaval_node.archive.segments import segment_file_name
from upheaval_node.errors import DamageError
from upheaval_node.media.api import Publication
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.settings import KIB, ArchiveSettings

CHANNEL = "aeron:ipc?term-length=64k"
STREAM = 100


def archive_settings(level: int) -> ArchiveSettings:
    return ArchiveSettings(segment_length=64 * KIB, catalog_capacity=4 * KIB, file_sync_level=level)


def started(world: ArchiveWorld, member: Member) -> Publication:
    publication = member.driver.add_publication(CHANNEL, STREAM)
    world.call(member.client.start_recording("aeron:ipc", STREAM))
    world.settle()
    return publication


def reported(member: Member, recording_id: int = 0) -> int:
    counter = member.counter(recording_id)
    assert counter is not None
    return counter.get()


def test_at_level_0_the_position_moves_with_the_write() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(0))
    publication = started(world, member)
    member.syncs.is_held = True
    offer(world, publication, b"x")
    world.settle()

    assert reported(member) == publication.position


@pytest.mark.parametrize("level", [1, 2])
def test_at_level_1_and_2_the_position_waits_for_the_sync(level: int) -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(level))
    publication = started(world, member)
    member.syncs.is_held = True
    offer(world, publication, b"x")
    world.settle()
    assert reported(member) == 0
    assert world.call(member.client.recording_position(0)) == 0

    member.syncs.is_held = False
    world.settle()
    assert reported(member) == publication.position


def test_one_sync_covers_everything_that_was_written_during_the_last() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(1))
    publication = started(world, member)
    offer(world, publication, b"x")
    world.settle()
    member.syncs.is_held = True
    offer(world, publication, b"first")
    world.settle()
    first = publication.position
    for _ in range(20):
        offer(world, publication, b"more")
        world.settle()
    assert member.storage.run_syncs() == 1
    assert reported(member) == first
    world.settle()
    assert member.storage.run_syncs() == 1
    assert reported(member) == publication.position
    world.settle()
    assert member.storage.run_syncs() == 0


def test_there_is_no_position_before_the_catalog_entry_is_durable() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(1))
    member.syncs.is_held = True
    publication = started(world, member)
    offer(world, publication, b"x")
    world.settle()
    storage = member.storage
    # The catalog's sync was asked for first: complete it and the data's, one after the other.
    assert member.counter(0) is None
    storage.run_syncs()
    world.settle()
    assert reported(member) == publication.position
    storage.power_cut()
    assert read_recordings(storage)[0].end_position == publication.position


def test_a_stop_waits_for_the_data() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(1))
    publication = started(world, member)
    member.syncs.is_held = True
    offer(world, publication, b"x")
    world.settle()
    world.call(member.client.stop_recording_by_identity(0))
    assert world.call(member.client.stop_position(0)) == -1
    assert RecordingSignal.STOP not in signals_of(member.client)

    member.syncs.is_held = False
    world.settle()
    assert world.call(member.client.stop_position(0)) == publication.position
    assert RecordingSignal.STOP in signals_of(member.client)


def test_after_a_failed_sync_nothing_more_is_reported() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(1))
    publication = started(world, member)
    offer(world, publication, b"safe")
    world.settle()
    safe = publication.position
    member.syncs.is_held = True
    offer(world, publication, b"lost")
    world.settle()
    member.storage.error = "input/output error"
    member.storage.run_syncs()
    member.storage.error = None
    world.settle()

    assert signals_of(member.client)[-1] == RecordingSignal.STOP
    assert world.call(member.client.stop_position(0)) == safe
    assert "input/output error" in member.client.late_errors[0].text


def test_a_write_that_fails_ends_the_recording_at_the_last_good_position() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(0))
    publication = started(world, member)
    offer(world, publication, b"safe")
    world.settle()
    safe = publication.position
    offer(world, publication, b"lost")
    member.storage.error = "no space left on device"
    world.turn()
    world.turn()
    member.storage.error = None
    world.settle()

    assert world.call(member.client.stop_position(0)) == safe
    assert "no space left" in member.client.late_errors[0].text
    assert [payload for _, payload in replay_all(world, member, 0)] == [b"safe"]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2]),
    st.integers(0, 1 << 30),
    st.lists(st.tuples(st.integers(0, 4000), st.booleans()), min_size=1, max_size=60),
    st.booleans(),
)
def test_a_power_cut_keeps_what_was_reported(
    level: int, seed: int, steps: list[tuple[int, bool]], partly: bool
) -> None:
    """Messages of random sizes, syncs that complete now and then, then the power goes."""
    world = ArchiveWorld(seed=seed)
    storage = MemoryStorage()
    member = world.member(storage, archive_settings(level))
    publication = started(world, member)
    sent: list[bytes] = []
    ends: list[int] = []
    member.syncs.is_held = True
    for number, (size, syncs) in enumerate(steps):
        sent.append(number.to_bytes(4, "little") + b"\xff" * size)
        offer(world, publication, sent[-1])
        ends.append(publication.position)
        world.settle()
        if syncs:
            storage.run_syncs()
    safe = reported(member)
    storage.power_cut(Random(seed) if partly else None)
    restarted = ArchiveWorld(seed=seed)
    again = restarted.member(storage, archive_settings(level))

    if safe == 0:
        return
    stop = restarted.call(again.client.stop_position(0))
    assert stop >= safe
    count = sum(end <= safe for end in ends)
    kept = replay_all(restarted, again, 0)
    assert len(kept) >= count
    assert [payload for _, payload in kept] == sent[: len(kept)]


def test_a_killed_process_loses_nothing_that_was_written() -> None:
    """Also not a frame that ends in zeros, which looks torn to a reader without proof."""
    for level in (0, 1, 2):
        world = ArchiveWorld()
        storage = MemoryStorage()
        member = world.member(storage, archive_settings(level))
        publication = started(world, member)
        offer(world, publication, *[bytes(1300)] * 100)
        world.settle()
        restarted = ArchiveWorld()
        again = restarted.member(storage, archive_settings(level))
        assert restarted.call(again.client.stop_position(0)) == publication.position
        assert restarted.errors.texts == []


# Its frame ends in a sector of which it fills only zeros: without proof it looks torn.
LOOKS_TORN = [b"x" * 32] * 7 + [b"\1" * 20 + bytes(80)]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_a_stop_position_that_was_lost_costs_no_frame_that_was_reported(level: int, seed: int) -> None:
    """The power goes when the recording is over, but the stop position is not on the disk yet."""
    world = ArchiveWorld()
    storage = MemoryStorage()
    member = world.member(storage, archive_settings(level))
    publication = started(world, member)
    offer(world, publication, *LOOKS_TORN)
    world.settle()
    assert reported(member) == publication.position
    member.syncs.is_held = True
    world.call(member.client.stop_recording_by_identity(0))
    world.settle()
    storage.power_cut(Random(seed))
    restarted = ArchiveWorld()
    again = restarted.member(storage, archive_settings(level))
    assert restarted.call(again.client.stop_position(0)) == publication.position


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_was_durable_and_has_changed_is_refused_and_not_cut(level: int) -> None:
    """At level 0 nothing was durable, and it is a torn tail."""
    world = ArchiveWorld()
    storage = MemoryStorage()
    member = world.member(storage, archive_settings(level))
    publication = started(world, member)
    ends = []
    for number in range(20):
        offer(world, publication, bytes([number]) * 100)
        world.settle()
        ends.append(publication.position)
    name = f"archive/{segment_file_name(0, 0)}"
    file = storage.open(name)
    right = file.read(ends[4] + 64, 1)
    file.write(ends[4] + 64, (bytes([right[0] ^ 1]),))
    restarted = ArchiveWorld()
    if level == 0:
        again = restarted.member(storage, archive_settings(level))
        assert restarted.call(again.client.stop_position(0)) == ends[4]
        return
    with pytest.raises(
        DamageError, match=f"recording 0: what was made durable from {ends[4]} to {ends[5]} has changed"
    ):
        restarted.member(storage, archive_settings(level))
    assert any("damage" in text for text in restarted.errors.texts)
    assert read_recordings(storage)[0].problem
    file.write(ends[4] + 64, (right,))
    repaired = ArchiveWorld()
    again = repaired.member(storage, archive_settings(level))
    assert repaired.call(again.client.stop_position(0)) == ends[-1]


class Killed(Exception):
    pass


class Killer:
    """Ends a process at its write with a given number; what was written before stays."""

    def __init__(self, storage: MemoryStorage, operations: int) -> None:
        self.storage = storage
        self.left = operations

    def __enter__(self) -> None:
        self.storage.before_change = self.count

    def __exit__(self, *_: object) -> None:
        self.storage.before_change = None

    def count(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("operations", range(6))
def test_a_process_that_is_killed_while_a_recording_stops_loses_no_frame(level: int, operations: int) -> None:
    """Also when the one that recovers is killed in turn."""
    world = ArchiveWorld()
    storage = MemoryStorage()
    member = world.member(storage, archive_settings(level))
    publication = started(world, member)
    offer(world, publication, *LOOKS_TORN)
    world.settle()
    for kill_stop in (True, False):
        with suppress(Killed), Killer(storage, operations):
            if kill_stop:
                world.call(member.client.stop_recording_by_identity(0))
                world.settle()
            else:
                ArchiveWorld().member(storage, archive_settings(level))
    restarted = ArchiveWorld()
    again = restarted.member(storage, archive_settings(level))
    assert restarted.call(again.client.stop_position(0)) == publication.position


def test_no_more_blocks_are_written_than_the_journal_proves() -> None:
    world = ArchiveWorld()
    member = world.member(settings=archive_settings(1))
    publication = started(world, member)
    member.syncs.is_held = True
    for _ in range(CAPACITY + 100):
        publication.offer(b"x")
        world.settle()
    # One record says where the segment begins, one place stays free.
    assert read_recordings(member.storage)[0].end_position == (CAPACITY - 2) * 64
    assert reported(member) == 0
    member.syncs.is_held = False
    world.settle()
    assert reported(member) == publication.position == (CAPACITY + 100) * 64


def test_at_level_0_a_power_cut_may_lose_everything_and_the_archive_starts_again() -> None:
    world = ArchiveWorld()
    storage = MemoryStorage()
    member = world.member(storage, archive_settings(0))
    publication = started(world, member)
    offer(world, publication, b"x")
    world.settle()
    storage.power_cut()
    restarted = ArchiveWorld()
    again = restarted.member(storage, archive_settings(0))

    listing = again.client.list_recordings(0, 10)
    restarted.call(listing)
    assert listing.descriptors == []
    publication = started(restarted, again)
    offer(restarted, publication, b"new")
    restarted.settle()
    assert [payload for _, payload in replay_all(restarted, again, 0)] == [b"new"]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_at_level_0_whatever_a_power_cut_leaves_the_archive_starts(seed: int) -> None:
    world = ArchiveWorld(seed=seed)
    storage = MemoryStorage()
    member = world.member(storage, archive_settings(0))
    random = Random(seed)
    publication = started(world, member)
    sent = [bytes([random.randrange(1, 256)]) * random.randrange(1, 3000) for _ in range(60)]
    for message in sent:
        offer(world, publication, message)
        if random.random() < 0.1:
            storage.sync_directory("archive")
    world.settle()
    storage.power_cut(random)
    restarted = ArchiveWorld(seed=seed)
    again = restarted.member(storage, archive_settings(0))
    listing = again.client.list_recordings(0, 10)
    restarted.call(listing)
    for descriptor in listing.descriptors:
        assert descriptor.stop_position != -1
        if descriptor.stop_position > descriptor.start_position:
            lengths = [len(payload) for _, payload in replay_all(restarted, again, descriptor.recording_id)]
            assert lengths == [len(message) for message in sent[: len(lengths)]]
