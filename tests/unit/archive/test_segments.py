"""Segments are named, placed, written and read as Aeron does; torn tails are found."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.memory_storage import MemoryStorage
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.recovery import Recovery, cut_after, recover
from upheaval_node.archive.segments import (
    SegmentReader,
    SegmentWriter,
    parse_segment_file_name,
    segment_base,
    segment_bases,
    segment_file_name,
)
from upheaval_node.errors import PeerError, StorageError
from upheaval_node.protocol.frames import TYPE_DATA, TYPE_PAD, DataHeader, compute_position, position_bits_to_shift

TERM = 64 * 1024
INITIAL_TERM = 2**31 - 2
STREAM = 100


def recording(start: int = 0, segment_length: int = TERM) -> RecordingEntry:
    return RecordingEntry(
        recording_id=3,
        start_timestamp=0,
        stop_timestamp=-1,
        start_position=start,
        stop_position=-1,
        initial_term_id=INITIAL_TERM,
        segment_length=segment_length,
        term_length=TERM,
        mtu=1408,
        session_id=1,
        stream_id=STREAM,
        stripped_channel="aeron:ipc",
        original_channel="aeron:ipc",
        source_identity="aeron:ipc",
    )


def frame(position: int, payload: bytes, kind: int = TYPE_DATA, length: int | None = None) -> bytes:
    term = (INITIAL_TERM + position // TERM + 2**31) % 2**32 - 2**31
    assert compute_position(term, position % TERM, position_bits_to_shift(TERM), INITIAL_TERM) == position
    header = DataHeader(length or 32 + len(payload), 0xC0, kind, position % TERM, 1, STREAM, term)
    return (header.pack() + payload).ljust((32 + len(payload) + 31) & -32, b"\0")


def frames_between(start: int, end: int, random: Random) -> list[tuple[bytes, int]]:
    """Random frames with their ends, with padding where a frame does not fit the term."""
    made: list[tuple[bytes, int]] = []
    position = start
    while position < end:
        payload = random.randbytes(random.choice((0, 1, 20, 700, 1376))).replace(b"\0", b"\1")
        room = TERM - position % TERM
        if (len(payload) + 63) & -32 > room:
            data, position = frame(position, b"", TYPE_PAD, room), position + room
        else:
            data = frame(position, payload)
            position += len(data)
        made.append((data, position))
    return made


def write(storage: MemoryStorage, entry: RecordingEntry, frames: list[tuple[bytes, int]]) -> int:
    writer = SegmentWriter(storage, "archive", entry, entry.start_position, 0)
    for data, end in frames:
        writer.write(data, end)
    writer.close()
    return writer.position


def read_all(
    storage: MemoryStorage, entry: RecordingEntry, end: int, max_length: int = 1 << 20
) -> list[tuple[int, int]]:
    """Spans of the blocks that a reader gives."""
    reader = SegmentReader(storage, "archive", entry)
    spans: list[tuple[int, int]] = []
    position = entry.start_position
    while position < end:
        block = reader.read_block(position, end, max_length)
        assert block.data
        spans.append((block.start, block.end))
        position = block.end
    return spans


def test_names_are_recording_id_and_base_position() -> None:
    assert segment_file_name(0, 134217728) == "0-134217728.rec"
    assert parse_segment_file_name("12-65536.rec") == (12, 65536)
    for name in ("0-0.rec.del", "archive.catalog", "-1-0.rec", "0-0", "a-0.rec", "0--1.rec"):
        assert parse_segment_file_name(name) is None


@pytest.mark.parametrize(
    ("position", "start", "segment_length", "base"),
    [
        (0, 0, TERM, 0),
        (TERM - 32, 0, TERM, 0),
        (TERM, 0, TERM, TERM),
        # The first base is the beginning of the term of the start position, not a multiple of the segment length.
        (3 * TERM + 64, 3 * TERM + 64, 4 * TERM, 3 * TERM),
        (7 * TERM - 32, 3 * TERM + 64, 4 * TERM, 3 * TERM),
        (7 * TERM, 3 * TERM + 64, 4 * TERM, 7 * TERM),
    ],
)
def test_segments_count_from_the_term_of_the_start(position: int, start: int, segment_length: int, base: int) -> None:
    assert segment_base(position, start, TERM, segment_length) == base


def test_a_filled_segment_is_followed_by_an_empty_one_of_full_length() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, [(frame(0, b"", TYPE_PAD, TERM), TERM)])

    assert storage.names("archive") == ["3-0.rec", f"3-{TERM}.rec"]
    assert len(storage.content("archive/3-0.rec")) == TERM
    assert storage.content("archive/3-0.rec")[32:] == bytes(TERM - 32)
    assert storage.content(f"archive/3-{TERM}.rec") == bytes(TERM)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([0, 96, TERM - 32, 5 * TERM + 1024]),
    st.sampled_from([TERM, 2 * TERM, 16 * TERM]),
    st.sampled_from([1408, 4096, 1 << 20]),
)
def test_reading_gives_back_what_was_written(seed: int, start: int, segment_length: int, max_length: int) -> None:
    storage = MemoryStorage()
    entry = recording(start, segment_length)
    written = frames_between(start, start + 3 * TERM, Random(seed))
    end = write(storage, entry, written)

    spans = read_all(storage, entry, end, max_length)
    assert spans[0][0] == start
    assert spans[-1][1] == end
    assert all(left[1] == right[0] for left, right in pairwise(spans))
    reader = SegmentReader(storage, "archive", entry)
    assert b"".join(bytes(reader.read_block(a, b, 1 << 20).data) for a, b in spans) == b"".join(
        data for data, _ in written
    )
    assert recover_and_cut(storage, entry).stop_position == end


def recover_and_cut(storage: MemoryStorage, entry: RecordingEntry) -> Recovery:
    """What an archive does at start with a recording that was never stopped; `entry` is left as it is."""
    found = recover(storage, "archive", entry, 0)
    cut_after(storage, "archive", replace(entry, stop_position=found.stop_position), 0)
    return found


def test_a_frame_that_reaches_beyond_the_limit_waits() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, [(frame(0, b"x" * 100), 160), (frame(160, b"y" * 100), 320)])
    reader = SegmentReader(storage, "archive", entry)

    assert reader.read_block(0, 192, 1 << 20).end == 160
    assert reader.read_block(160, 192, 1 << 20).data == b""


def test_a_frame_that_does_not_fit_into_the_block_is_for_the_next_one() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, [(frame(0, b"x" * 100), 160), (frame(160, b"y" * 100), 320)])
    block = SegmentReader(storage, "archive", entry).read_block(0, 320, 256)
    assert (len(block.data), block.end) == (160, 160)


def test_zeros_before_the_limit_are_damage() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, [(frame(0, b"x"), 64)])
    with pytest.raises(PeerError):
        SegmentReader(storage, "archive", entry).read_block(0, 128, 1 << 20)


def test_a_position_within_a_frame_is_no_first_frame() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, [(frame(0, b"x" * 100), 160), (frame(160, b"y"), 224)])
    reader = SegmentReader(storage, "archive", entry)

    assert [position for position in range(0, 256, 32) if reader.check_first_frame(position)] == [0, 160]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([TERM, 2 * TERM]), st.data())
def test_a_tail_that_is_cut_anywhere_is_recovered_to_a_whole_frame(
    seed: int, segment_length: int, data: st.DataObject
) -> None:
    storage = MemoryStorage()
    entry = recording(96, segment_length)
    written = frames_between(96, 96 + 2 * TERM, Random(seed))
    end = write(storage, entry, written)
    # A write stops at a sector: what is past it never reached the disk.
    cut = data.draw(st.integers(0, end // 512)) * 512
    boundaries = [96, *(boundary for _, boundary in written)]
    is_of_full_one = min(b for b in boundaries if b >= cut) % segment_length == 0
    lose_from(storage, entry, cut, is_next_made=not is_of_full_one and data.draw(st.booleans()))

    recovered = recover_and_cut(storage, entry).stop_position
    assert recovered in boundaries
    assert recovered == max([96, *(b for b in boundaries if lies_before(b, cut, written))])
    read_all(storage, entry, recovered)
    check_tail_is_clean(storage, entry, recovered)


@pytest.mark.parametrize("is_next_made", [False, True])
@pytest.mark.parametrize("cut", range(TERM - 1024, TERM, 512))
def test_a_torn_frame_that_would_fill_a_segment_is_cut_unless_the_next_is_there(cut: int, is_next_made: bool) -> None:
    storage = MemoryStorage()
    entry = recording()
    first, last = TERM % 1408, TERM - 1408
    whole = ((frame(end - 1408, b"x" * 1376), end) for end in range(first + 1408, TERM + 1, 1408))
    write(storage, entry, [(frame(0, b"x" * (first - 32)), first), *whole])
    lose_from(storage, entry, cut, is_next_made=is_next_made)

    expected = TERM if is_next_made else last
    assert recover_and_cut(storage, entry).stop_position == expected
    check_tail_is_clean(storage, entry, expected)


def lies_before(boundary: int, cut: int, written: list[tuple[bytes, int]]) -> bool:
    """Whether everything up to this frame boundary is on the disk: of padding that is its header."""
    last = next((data for data, end in written if end == boundary), b"")
    if last and last[6] == TYPE_PAD:
        start = max((end for _, end in written if end < boundary), default=96)
        return start + 32 <= cut
    return boundary <= cut or (bool(last) and not stored_part_lost(boundary, cut, last))


def stored_part_lost(boundary: int, cut: int, last: bytes) -> bool:
    """Alignment bytes are zeros: losing only those loses nothing."""
    return bool(last[len(last) - (boundary - cut) :].strip(b"\0")) if boundary - cut < len(last) else True


def lose_from(storage: MemoryStorage, entry: RecordingEntry, position: int, *, is_next_made: bool = False) -> None:
    """What was written past the position is gone, and so are the segments after it, unless the next `is_next_made`. A
    segment is made when the one before is full, which keeps its journal until it is durable. At sync level 0 nothing is
    durable and the journal goes at once: there the last frame of a full segment may be torn and count as whole.
    """
    for base in segment_bases(storage, "archive", entry.recording_id):
        path = f"archive/{segment_file_name(entry.recording_id, base)}"
        if base > position and not is_next_made:
            storage.remove(path)
            continue
        content = storage.content(path)
        keep = min(max(position - base, 0), len(content))
        storage.put(path, content[:keep].ljust(len(content), b"\0"))


def check_tail_is_clean(storage: MemoryStorage, entry: RecordingEntry, end: int) -> None:
    """Nothing is past the recovered end."""
    for base in segment_bases(storage, "archive", entry.recording_id):
        content = storage.content(f"archive/{segment_file_name(entry.recording_id, base)}")
        assert len(content) == entry.segment_length
        last = content[max(end - base, 0) :]
        assert not last.strip(b"\0")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.binary(min_size=1, max_size=3000))
def test_garbage_after_the_last_frame_is_cut(seed: int, garbage: bytes) -> None:
    storage = MemoryStorage()
    entry = recording()
    end = write(storage, entry, frames_between(0, TERM // 2, Random(seed)))
    content = storage.content("archive/3-0.rec")
    storage.put("archive/3-0.rec", (content[:end] + garbage).ljust(TERM, b"\0")[:TERM])

    recovery = recover_and_cut(storage, entry)
    assert recovery.stop_position == end
    assert (recovery.cut is not None) == bool(garbage[:32].strip(b"\0"))
    check_tail_is_clean(storage, entry, end)


def test_a_missing_segment_cuts_what_follows_it() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, frames_between(0, 3 * TERM, Random(1)))
    storage.remove(f"archive/3-{TERM}.rec")

    recovery = recover_and_cut(storage, entry)
    assert recovery.stop_position == TERM
    assert recovery.cut is not None
    assert storage.names("archive") == ["3-0.rec"]


def test_a_recording_without_files_ends_where_it_began() -> None:
    assert recover(MemoryStorage(), "archive", recording(96), 0).stop_position == 96


def test_a_writer_clears_what_a_former_life_left_past_its_position() -> None:
    storage = MemoryStorage()
    entry = recording()
    write(storage, entry, frames_between(0, 2 * TERM, Random(1)))
    first = write(MemoryStorage(), entry, frames_between(0, 1000, Random(1)))

    SegmentWriter(storage, "archive", entry, first, 0).close()
    assert segment_bases(storage, "archive", 3) == [0]
    assert recover_and_cut(storage, entry).stop_position == first


@pytest.mark.parametrize("sync_level", [0, 1])
def test_a_segment_that_was_full_when_the_disk_was_loses_its_journal_when_the_recording_goes_on(
    sync_level: int,
) -> None:
    storage, entry = MemoryStorage(), recording()
    writer = SegmentWriter(storage, "archive", entry, 0, sync_level)
    *frames, (last, end) = frames_between(0, TERM, Random(5))
    for data, position in frames:
        writer.write(data, position)
    changes = iter(("the frame", "its record"))

    def refuse_the_next_file() -> None:
        if next(changes, None) is None:
            raise StorageError("no space left on device")

    storage.before_change = refuse_the_next_file
    with pytest.raises(StorageError, match="no space"):
        writer.write(last, end)
    storage.before_change = None
    writer.close(is_whole=False)
    assert len(storage.content("archive/3-0.rec")) > TERM

    again = SegmentWriter(storage, "archive", entry, TERM, sync_level)
    again.write(frame(TERM, b"x"), TERM + 64)
    again.close()

    assert [len(storage.content(f"archive/3-{base}.rec")) for base in (0, TERM)] == [TERM, TERM]
    assert recover(storage, "archive", entry, sync_level) == Recovery(TERM + 64, None)
