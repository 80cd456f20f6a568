"""Recordings that Aeron's archive made, in our archive; and ours with checksums, in its tool."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.aeron_tools import CHECKSUM, archive_properties, archive_tool, java
from support.archive_world import SETTINGS, ArchiveWorld, replay_all
from support.media_world import offer
from support.memory_storage import MemoryStorage
from upheaval_node.archive.reader import read_recordings

STREAM = 100
CHECKED = replace(SETTINGS, record_checksum=CHECKSUM, replay_checksum=CHECKSUM)


def _loaded(folder: Path) -> MemoryStorage:
    storage = MemoryStorage()
    for path in sorted((folder / "archive").iterdir()):
        file = storage.open(f"archive/{path.name}", create=True)
        file.write(0, (path.read_bytes(),))
        file.close()
    return storage


def _written(storage: MemoryStorage, folder: Path) -> Path:
    (folder / "archive").mkdir(parents=True, exist_ok=True)
    for path in list((folder / "archive").iterdir()):
        path.unlink()
    for name in storage.names("archive"):
        (folder / "archive" / name).write_bytes(storage.content(f"archive/{name}"))
    return folder


def _verified(folder: Path, *options: str) -> list[str]:
    return archive_tool(folder, "verify", "-a", *options).text.splitlines()


@pytest.fixture(scope="module", params=["", CHECKSUM], ids=["plain", "checksums"])
def made_by_aeron(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings of several segments; the second begins within a term."""
    folder = tmp_path_factory.mktemp("aeron")
    properties = archive_properties(folder)
    if request.param:
        properties["aeron.archive.record.checksum"] = request.param
    answer = java("io.aeron.samples.archive.ArchiveCreator", properties=properties)
    assert answer.status == 0, answer.text
    assert "recordingId=1" in answer.text, answer.text
    return folder


def test_our_reader_reads_what_aeron_recorded(made_by_aeron: Path) -> None:
    recordings = read_recordings(made_by_aeron / "archive")
    assert [(each.start_position, each.problem) for each in recordings] == [(0, None), (65600, None)]
    for recording in recordings:
        messages = [each.payload for each in recording.messages()]
        assert recording.end_position == recording.entry.stop_position > 65600 + 2 * recording.entry.segment_length
        assert messages == [f"Message-Prefix-{number}".encode() for number in range(len(messages))]


def test_our_archive_replays_what_aeron_recorded_and_aeron_verifies_what_we_made_of_it(
    made_by_aeron: Path, tmp_path: Path
) -> None:
    recordings = read_recordings(made_by_aeron / "archive")
    options = ["-checksum", CHECKSUM] if recordings[0].entry.checksum else []
    world = ArchiveWorld()
    member = world.member(_loaded(made_by_aeron), CHECKED if options else SETTINGS)
    for recording in recordings:
        replayed = replay_all(world, member, recording.recording_id)
        assert replayed == [(each.end_position, each.payload) for each in recording.messages()]
    cut = recordings[0].entry.segment_length + 64 * 100
    world.call(member.client.truncate(0, cut))
    segment = recordings[1].entry.segment_length
    assert world.call(member.client.purge_segments(1, 65536 + segment)) == 1
    world.settle()
    ours = _written(member.storage, tmp_path)
    assert _verified(ours, *options) == ["(recordingId=0) OK", "(recordingId=1) OK"]
    assert read_recordings(ours / "archive")[0].end_position == cut
    world.call(member.client.purge_recording(0))
    world.settle()
    purged = _written(member.storage, tmp_path)
    assert _verified(purged, *options) == ["(recordingId=0) skipping: DELETED", "(recordingId=1) OK"]


@pytest.mark.parametrize("level", [0, 1])
def test_aerons_tool_verifies_the_checksums_that_our_archive_wrote(level: int, tmp_path: Path) -> None:
    world = ArchiveWorld()
    member = world.member(settings=replace(CHECKED, file_sync_level=level))
    publication = member.driver.add_publication(
        "aeron:ipc?term-length=64k|init-term-id=3|term-id=5|term-offset=96", STREAM
    )
    world.call(member.client.start_recording("aeron:ipc", STREAM))
    offer(world, publication, *(bytes([number]) * (number * 53 % 7000 + 1) for number in range(120)))
    world.settle()
    running = _written(member.storage, tmp_path)
    assert _verified(running) == ["(recordingId=0) OK"]
    world.shut_down(member)
    stopped = _written(member.storage, tmp_path)
    assert _verified(stopped, "-checksum", CHECKSUM) == ["(recordingId=0) OK"]
    damaged = stopped / "archive" / "0-131072.rec"
    content = bytearray(damaged.read_bytes())
    content[96 + 40] ^= 1
    damaged.write_bytes(content)
    assert "ERR" in "".join(_verified(stopped, "-checksum", CHECKSUM))
