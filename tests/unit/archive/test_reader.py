"""Recordings can be read from a folder, by path or storage, while an archive writes them."""

from pathlib import Path

import pytest

from support.archive_world import ArchiveWorld, Member
from support.media_world import offer
from support.memory_storage import MemoryStorage
from unit.archive.test_catalog import catalog
from unit.archive.test_segments import TERM, frame, recording
from upheaval_node.archive.reader import read_recordings
from upheaval_node.archive.segments import SegmentWriter
from upheaval_node.errors import DecodeError, StorageError
from upheaval_node.media.api import Publication

CHANNEL = "aeron:ipc?term-length=64k"


def started(world: ArchiveWorld) -> tuple[Member, Publication]:
    member = world.member()
    publication = member.driver.add_publication(CHANNEL, 100)
    world.call(member.client.start_recording("aeron:ipc", 100))
    world.settle()
    return member, publication


def copied(storage: MemoryStorage, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name in storage.names("archive"):
        (folder / name).write_bytes(storage.content(f"archive/{name}"))
    return folder


def test_a_live_recording_is_read_as_far_as_it_goes() -> None:
    world = ArchiveWorld()
    member, publication = started(world)
    sent: list[bytes] = []
    for number in range(1, 300):
        sent.append(bytes([number % 255 + 1]) * number * 11)
        offer(world, publication, sent[-1])
        if number % 50 == 0:
            world.settle()
            recording = read_recordings(member.storage)[0]
            assert not recording.is_stopped
            assert recording.end_position == publication.position
            assert [message.payload for message in recording.messages()] == sent


def test_a_folder_on_disk_reads_like_the_storage(tmp_path: Path) -> None:
    world = ArchiveWorld()
    member, publication = started(world)
    offer(world, publication, *(b"m" * (100 + number) for number in range(200)))
    world.settle()
    world.call(member.client.stop_recording_by_identity(0))
    folder = copied(member.storage, tmp_path / "archive")

    by_path = read_recordings(folder)[0]
    assert list(by_path.frames()) == list(read_recordings(member.storage)[0].frames())
    half = by_path.end_position // 2
    boundary = next(frame.position for frame in by_path.frames() if frame.position >= half)
    assert [*by_path.messages(None, boundary), *by_path.messages(boundary)] == list(by_path.messages())


def test_messages_tell_positions_of_the_stream() -> None:
    world = ArchiveWorld()
    member, publication = started(world)
    ends: list[int] = []
    for size in (0, 31, 32, 33, 1376, 1377, 8000):
        offer(world, publication, b"x" * size)
        ends.append(publication.position)
    world.settle()

    messages = list(read_recordings(member.storage)[0].messages())
    assert [message.end_position for message in messages] == ends
    assert [message.position for message in messages] == [0, *ends[:-1]]
    assert {message.stream_id for message in messages} == {100}


def test_a_half_written_frame_is_not_shown() -> None:
    world = ArchiveWorld()
    member, publication = started(world)
    offer(world, publication, b"whole")
    end = publication.position
    offer(world, publication, b"y" * 1300)
    world.settle()
    content = member.storage.content("archive/0-0.rec")
    member.storage.put("archive/0-0.rec", content[:512].ljust(len(content), b"\0"))

    recording = read_recordings(member.storage)[0]
    assert recording.end_position == end
    assert recording.problem is None


def test_damage_of_a_stopped_recording_is_named() -> None:
    world = ArchiveWorld()
    member, publication = started(world)
    offer(world, publication, *[b"z" * 1000] * 20)
    world.settle()
    world.call(member.client.stop_recording_by_identity(0))
    content = bytearray(member.storage.content("archive/0-0.rec"))
    content[1056 * 5 : 1056 * 5 + 32] = bytes(32)
    member.storage.put("archive/0-0.rec", bytes(content))

    recording = read_recordings(member.storage)[0]
    assert recording.end_position == 1056 * 5
    assert recording.problem is not None
    assert len(list(recording.messages())) == 5


def test_folders_without_an_archive_hold_no_recordings(tmp_path: Path) -> None:
    assert read_recordings(MemoryStorage()) == []
    assert read_recordings(tmp_path) == []
    with pytest.raises(StorageError):
        read_recordings(tmp_path / "missing")
    (tmp_path / "archive.catalog").write_bytes(b"\1" * 100)
    with pytest.raises(DecodeError):
        read_recordings(tmp_path)


@pytest.mark.parametrize("hole", [8192, 163840], ids=["older than the journal", "in the journal"])
def test_a_damaged_recording_is_shown_up_to_the_damage(hole: int) -> None:
    storage = MemoryStorage()
    entry = catalog(storage).add(recording(segment_length=4 * TERM))
    writer = SegmentWriter(storage, "archive", entry, 0, 1)
    while writer.position < 1500 * 128:
        writer.write(frame(writer.position, b"x" * 96), writer.position + 128)
        writer.sync_later(lambda error: None)
        storage.run_syncs()
    storage.open(f"archive/{entry.recording_id}-0.rec").write(hole, (bytes(4096),))
    damaged = read_recordings(storage)[0]
    assert damaged.end_position == hole
    assert len(list(damaged.messages())) == hole // 128
    assert damaged.problem is not None
    assert damaged.problem.startswith(f"what was made durable from {hole} to ")
