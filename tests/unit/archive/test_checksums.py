"""Checksums in frames and descriptors: written when a recording is, verified when it is read."""

from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import SETTINGS, ArchiveWorld, Member, replay_all
from support.media_world import offer
from upheaval_node.archive.catalog import DESCRIPTOR_HEADER_LENGTH, decode_catalog
from upheaval_node.archive.checksums import checksum_named, is_intact, stamped, verify
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.reader import read_recordings
from upheaval_node.errors import PeerError, UsageError
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.protocol.frames import walk

STREAM = 100
CHANNEL = "aeron:ipc?term-length=64k|init-term-id=0|term-id=0|term-offset=0"
CHECKED = replace(SETTINGS, record_checksum="CRC-32", replay_checksum="CRC-32")
SIZES = [1, 8, 100, 1000, 5000, 32, 0, 7777] * 12


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def recorded(archive: ArchiveWorld, member: Member) -> list[bytes]:
    """A stopped recording with messages of several lengths, fragments and padding."""
    publication = member.driver.add_publication(CHANNEL, STREAM)
    archive.call(member.client.start_recording("aeron:ipc", STREAM, auto_stop=True))
    sent = [number.to_bytes(4, "little") + b"\x55" * size for number, size in enumerate(SIZES)]
    offer(archive, publication, *sent)
    archive.settle()
    publication.close()
    archive.until(lambda: any(each.signal == RecordingSignal.STOP for each in member.client.signals))
    return sent


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("CRC-32", "org.agrona.checksum.Crc32", "io.aeron.archive.checksum.Crc32"), 0xCBF43926),
        (("CRC-32C", "org.agrona.checksum.Crc32c", "io.aeron.archive.checksum.Crc32c"), 0xE3069283),
    ],
)
def test_each_name_of_aeron_gives_its_checksum(names: tuple[str, ...], expected: int) -> None:
    for name in names:
        checksum = checksum_named(name)
        assert checksum is not None
        assert checksum(b"123456789") == _signed(expected)


def test_an_unknown_checksum_ends_the_start() -> None:
    assert checksum_named("") is None
    with pytest.raises(UsageError, match="CRC-32"):
        ArchiveWorld().member(settings=replace(SETTINGS, record_checksum="MD5"))


@pytest.mark.parametrize("level", [0, 1])
def test_every_data_frame_holds_the_checksum_of_what_follows_its_header(level: int) -> None:
    world = ArchiveWorld()
    member = world.member(settings=replace(CHECKED, file_sync_level=level))
    sent = recorded(world, member)
    assert [payload for _, payload in replay_all(world, member, 0)] == sent
    (recording,) = read_recordings(member.storage)
    count = 0
    for _, block in recording.blocks():
        for offset, header in walk(block):
            if header.type == 1:
                body = block[offset + 32 : offset + (header.frame_length + 31 & -32)]
                assert header.session_id == _signed(crc32(body))
                count += 1
    assert count > len(SIZES)


def test_a_descriptor_has_its_checksum_after_every_change() -> None:
    world = ArchiveWorld()
    member = world.member(settings=CHECKED)

    def checks() -> list[bool]:
        content = member.storage.content("archive/archive.catalog")
        found = []
        for entry in decode_catalog(bytes(content)).entries:
            start = entry.offset + DESCRIPTOR_HEADER_LENGTH
            found.append(entry.checksum == _signed(crc32(content[start : start + entry.length])))
        return found

    member.driver.add_publication(CHANNEL, STREAM)
    world.call(member.client.start_recording("aeron:ipc", STREAM, auto_stop=True))
    world.settle()
    assert checks() == [True]
    world.call(member.client.stop_recording_by_identity(0))
    world.settle()
    assert checks() == [True]
    world.call(member.client.purge_recording(0))
    assert checks() == [True]


def test_what_was_recorded_without_checksums_is_refused_by_a_reader_that_wants_them() -> None:
    world = ArchiveWorld()
    member = world.member()
    sent = recorded(world, member)
    assert [payload for _, payload in replay_all(world, member, 0)] == sent
    world.shut_down(member)
    strict = world.member(member.storage, CHECKED)
    assert replay_all(world, strict, 0) == []
    (error,) = strict.client.late_errors
    assert error.error_code == ErrorCode.GENERIC
    assert error.text.startswith("CRC checksum mismatch at position=0: ")


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_changed_byte_ends_a_replay_before_the_frame_that_holds_it(data: st.DataObject) -> None:
    world = ArchiveWorld()
    member = world.member(settings=CHECKED)
    recorded(world, member)
    (recording,) = read_recordings(member.storage)
    frames = [frame for frame in recording.frames() if not frame.is_padding]
    frame = data.draw(st.sampled_from(frames))
    byte = data.draw(st.integers(12, 15) | st.integers(32, frame.end_position - frame.position - 1))
    bit = data.draw(st.integers(0, 7))
    base = frame.position // (64 * 1024) * (64 * 1024)
    file = member.storage.open(f"archive/0-{base}.rec")
    at = frame.position - base + byte
    file.write(at, (bytes([file.read(at, 1)[0] ^ 1 << bit]),))
    file.close()

    received = replay_all(world, member, 0)
    assert all(end <= frame.position for end, _ in received)
    (error,) = member.client.late_errors
    assert f"position={frame.position}:" in error.text


def test_a_last_frame_that_looks_torn_is_kept_when_its_checksum_is_right() -> None:
    world = ArchiveWorld()
    member = world.member(settings=CHECKED)
    publication = member.driver.add_publication(CHANNEL, STREAM)
    world.call(member.client.start_recording("aeron:ipc", STREAM))
    offer(world, publication, b"first", b"\x01" + bytes(1300))
    world.settle()
    end = publication.position
    world.remove(member)
    # Without the journal, as Aeron leaves a file.
    member.storage.open("archive/0-0.rec").truncate(64 * 1024)
    again = world.member(member.storage, CHECKED)
    assert world.call(again.client.stop_position(0)) == end
    assert len(replay_all(world, again, 0)) == 2


def test_a_stamped_block_is_a_copy_that_verifies() -> None:
    world = ArchiveWorld()
    member = world.member()
    recorded(world, member)
    (recording,) = read_recordings(member.storage)
    checksum = checksum_named("CRC-32C")
    assert checksum is not None
    position, block = next(recording.blocks())
    first = next(walk(block))[1]
    frame = block[: first.frame_length + 31 & -32]
    with_checksum = stamped(frame, checksum)
    assert bytes(with_checksum) != frame
    verify(with_checksum, position, checksum)
    assert is_intact(with_checksum, checksum)
    with pytest.raises(PeerError, match=f"position={position}"):
        verify(frame, position, checksum)
