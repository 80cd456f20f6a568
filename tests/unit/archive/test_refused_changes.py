"""A disk that refuses one change of a file: what was to change is as before, and no file stays open."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

import pytest

from support.archive_world import ArchiveWorld, replay_all
from support.media_world import offer
from support.memory_storage import MemoryStorage
from unit.archive.test_catalog import PATH, catalog, entry
from unit.archive.test_recording_and_replay import STREAM, resumed_channel, started
from unit.archive.test_segments import TERM, frames_between, recording
from upheaval_node.archive.catalog import decode_catalog
from upheaval_node.archive.segments import SegmentWriter
from upheaval_node.errors import StorageError
from upheaval_node.protocol.archive_messages import TruncateRecordingRequest
from upheaval_node.settings import KIB, ArchiveSettings


@contextmanager
def refused(storage: MemoryStorage, number: int) -> Iterator[None]:
    """Refuse one change of a file, 0 for the next one."""
    changes = count()

    def change() -> None:
        if next(changes) == number:
            raise StorageError("no space left on device")

    storage.before_change = change
    try:
        yield
    finally:
        storage.before_change = None


@pytest.mark.parametrize("sync_level", [0, 1])
def test_a_recording_that_could_not_be_extended_is_as_before(sync_level: int) -> None:
    """The segment is cut and made longer, gets its first record, and the catalog has the recording as active."""
    world = ArchiveWorld()
    settings = ArchiveSettings(segment_length=64 * KIB, catalog_capacity=4 * KIB, file_sync_level=sync_level)
    member = world.member(settings=settings)
    publication, subscription_id = started(world, member, resumed_channel(5, 0, 1))
    offer(world, publication, b"first")
    world.settle()
    world.call(member.client.stop_recording(subscription_id))
    stop, files = publication.position, member.storage.count_open
    publication.close()
    for number in range(4):
        with refused(member.storage, number):
            world.call(member.client.extend_recording(0, "aeron:ipc", STREAM))
            publication = member.driver.add_publication(resumed_channel(5, stop, 2 + number), STREAM)
            world.until(lambda: bool(member.client.late_errors))
        assert "no space left" in member.client.late_errors.pop().text
        assert world.call(member.client.stop_position(0)) == stop
        assert member.storage.count_open == files
        publication.close()
        world.settle()
    world.call(member.client.extend_recording(0, "aeron:ipc", STREAM))
    publication = member.driver.add_publication(resumed_channel(5, stop, 9), STREAM)
    world.settle()
    offer(world, publication, b"next")
    world.settle()
    assert [payload for _, payload in replay_all(world, member, 0)] == [b"first", b"next"]


def test_a_writer_that_the_disk_refuses_leaves_no_file_open() -> None:
    """The segments before its own still have the journals that an error left."""
    storage, made = MemoryStorage(), recording()
    writer = SegmentWriter(storage, "archive", made, 0, 1)
    for data, end in frames_between(0, 3 * TERM, Random(5)):
        writer.write(data, end)
    writer.close(is_whole=False)
    for number in range(5):
        with refused(storage, number), pytest.raises(StorageError, match="no space"):
            SegmentWriter(storage, "archive", made, 2 * TERM + 64, 1)
        assert storage.count_open == 0


@pytest.mark.parametrize("syncs", [0, 1, 2])
def test_a_sync_that_fails_leaves_no_file_open_and_the_journals_of_what_is_not_durable(syncs: int) -> None:
    """Of three full segments and one more; the first error ends the recording."""
    storage, made = MemoryStorage(), recording()
    writer = SegmentWriter(storage, "archive", made, 0, 1)
    for data, end in frames_between(0, 3 * TERM, Random(5)):
        writer.write(data, end)
    errors: list[Exception | None] = []
    writer.sync_later(errors.append)
    for _ in range(syncs):
        storage.run_syncs()
    storage.sync_error = "input/output error"
    storage.run_syncs()
    writer.close(is_whole=False)
    assert [str(error) for error in errors] == ["input/output error"]
    assert storage.count_open == 0
    has_journal = [len(storage.content(f"archive/3-{base}.rec")) > TERM for base in range(0, 4 * TERM, TERM)]
    assert has_journal == [number >= syncs for number in range(4)]


@pytest.mark.parametrize("change", ["start", "end", "channel", "longer channel", "deleted", "extended"])
def test_a_change_that_the_catalog_could_not_write_is_not_made(change: str) -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    item = made.add(entry())
    made.record_stopped(item, 128 * KIB, 7)

    def make() -> None:
        match change:
            case "start":
                made.record_start(item, 64 * KIB)
            case "end":
                made.record_end(item, 64 * KIB, 7)
            case "channel":
                made.record_channel(item, "aeron:ipc?alias=new", "aeron:ipc?x=1")
            case "longer channel":
                made.record_channel(item, "aeron:ipc?alias=" + "x" * 500, "aeron:ipc")
            case "deleted":
                made.record_deleted(item)
            case "extended":
                made.record_extended(item, control_session_id=8, correlation_id=9, session_id=10)

    before, message = repr(item), made.descriptor_message(item, 1, 2)
    with refused(storage, 0), pytest.raises(StorageError):
        make()
    assert (repr(item), made.descriptor_message(item, 1, 2), made.get(0)) == (before, message, item)
    assert repr(decode_catalog(storage.content(PATH)).entries[0]) == before
    make()
    assert repr(decode_catalog(storage.content(PATH)).entries[0]) == repr(item) != before


def test_a_truncation_that_the_catalog_could_not_write_is_not_made() -> None:
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(segment_length=64 * KIB, catalog_capacity=4 * KIB))
    publication, subscription_id = started(world, member, resumed_channel(5, 0, 1))
    offer(world, publication, b"first")
    world.settle()
    first_end = publication.position
    offer(world, publication, b"second")
    world.settle()
    stop = publication.position
    world.call(member.client.stop_recording(subscription_id))
    publication.close()
    world.settle()
    truncation = TruncateRecordingRequest(recording_id=0, position=first_end)
    with refused(member.storage, 0):
        call = member.client.request(truncation)
        world.until(lambda: call.done)
    assert call.error == "no space left on device"
    assert world.call(member.client.stop_position(0)) == stop
    world.call(member.client.request(truncation))
    assert world.call(member.client.stop_position(0)) == first_end


def test_leftovers_of_a_lost_recording_do_not_come_back_under_the_entry_that_takes_its_id() -> None:
    """The power goes after the entry was written, and before the first segment is there."""
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(segment_length=64 * KIB, file_sync_level=1))
    world.settle()
    leftover = "archive/0-0.rec"
    member.storage.put(leftover, bytes(64 * KIB))
    with refused(member.storage, 2):
        started(world, member, resumed_channel(5, 0, 1))
        world.settle()
    assert decode_catalog(member.storage.content(PATH)).next_recording_id == 1
    member.storage.power_cut()
    assert not member.storage.exists(leftover)
