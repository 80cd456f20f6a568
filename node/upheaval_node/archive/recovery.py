"""Finds the end of a recording that was never stopped, from whole frames, proven blocks and torn tails.

The archive uses it at its start and cuts there; readers of a folder in use do not cut. The module knows bytes of
segments and descriptors; the caller provides the bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from upheaval_node.archive import block_journal
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.checksums import Checksum, is_intact
from upheaval_node.archive.segments import (
    entry_segment_base,
    parse_segment_file_name,
    remove_segments,
    segment_bases,
    segment_file_name,
    start_term_base,
)
from upheaval_node.errors import DamageError
from upheaval_node.ports import Storage
from upheaval_node.protocol.frames import TYPE_DATA, TYPE_PAD, position_bits_to_shift, term_id_at
from upheaval_node.types import FRAME_HEADER_LENGTH, NULL_POSITION, align

SECTOR_LENGTH: Final = 512
READ_LENGTH: Final = 1024 * 1024


class Extent(NamedTuple):
    """A row of consecutive frames: `last_frame` is the position of the last one, `end` the position after it."""

    last_frame: int
    end: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """The end of a recording after an unclean stop, and why there are bytes after it (None if there are none)."""

    stop_position: int
    cut: str | None


def walk_frames(read: Callable[[int, int], bytes], entry: RecordingEntry, position: int, end: int) -> Extent:
    """Follow the frames from `position` up to `end` while each is valid for its place in this recording.

    `read(position, length)` returns bytes of the recording; fewer at the end of its file. Length, version, type,
    stream, term and offset are checked, so leftovers of other recordings do not count as frames.
    """
    shift = position_bits_to_shift(entry.term_length)
    last_frame = position
    while position < end:
        term_offset = position & (entry.term_length - 1)
        # One term at a time: a frame must not reach beyond the end of its term.
        chunk = read(position, min(READ_LENGTH, end - position, entry.term_length - term_offset))
        words = memoryview(chunk[: len(chunk) & -32]).cast("i")
        place = (entry.stream_id, term_id_at(position, shift, entry.initial_term_id), term_offset)
        last, length, is_valid = _walk_chunk(words, place, entry)
        if length:
            last_frame = position + last
            position += length
        if not is_valid or not length:
            break
    return Extent(last_frame, position)


def _walk_chunk(words: memoryview, place: tuple[int, int, int], entry: RecordingEntry) -> tuple[int, int, bool]:
    """Offset of the last frame, offset after it, and whether the walk ended for lack of bytes, not at an
    invalid frame.
    """
    stream_id, term_id, term_offset = place
    room = entry.term_length - term_offset
    mtu = entry.mtu
    limit = len(words)
    last = offset = word = 0
    while word < limit:
        frame_length = words[word]
        kind = words[word + 1]
        is_data = kind & ~0xFF00 == TYPE_DATA << 16 and frame_length <= mtu
        if (
            frame_length < FRAME_HEADER_LENGTH
            or not (is_data or kind & ~0xFF00 == TYPE_PAD)
            or words[word + 2] != term_offset + offset
            or words[word + 4] != stream_id
            or words[word + 5] != term_id
            or offset + frame_length > room
        ):
            return last, offset, False
        last = offset
        offset += (frame_length + 31) & -32
        word = offset >> 2
    return last, offset, True


def is_torn(read: Callable[[int, int], bytes], frame_position: int, end: int, base: int) -> bool:
    """Whether the last frame may be half written: in a later sector that it reaches, all its bytes are zero.

    Aeron's rule, with sectors in place of pages: a frame that crosses a boundary is proven only if it has a byte other
    than zero in every later sector that it touches. A disk writes a sector at once.
    """
    header = read(frame_position, FRAME_HEADER_LENGTH)
    if int.from_bytes(header[6:8], "little") == TYPE_PAD:
        return False
    sector = base + align(frame_position - base + 1, SECTOR_LENGTH)
    while sector < end:
        part = read(sector, min(SECTOR_LENGTH, end - sector))
        if not part.strip(b"\0"):
            return True
        sector += SECTOR_LENGTH
    return len(read(frame_position, end - frame_position)) < end - frame_position


def recover(
    storage: Storage, directory: str, entry: RecordingEntry, sync_level: int, *, checksum: Checksum | None = None
) -> Recovery:
    """Find where a recording that was never stopped ends; `cut_after` that position once the catalog has it.

    Every segment is walked from the start. Where Aeron refuses to start at a torn last frame and leaves the cut to a
    tool, the frame is cut here: torn tails are found and cut at start. No frame was reported before it was
    complete, except at sync level 0 where a power cut may take what was reported.

    What is left is made durable, because it counts as recorded from now on. Raises `StorageError`, and `DamageError`
    for what cannot be a torn tail, because it was durable: a cut there would take back what was reported.
    """
    bases = segment_bases(storage, directory, entry.recording_id)
    base = start_term_base(entry.start_position, entry.term_length)
    position = entry.start_position
    cut: str | None = None
    while base in bases:
        position, cut = _recover_segment(
            storage, directory, entry, base, sync_level, is_last=base == bases[-1], checksum=checksum
        )
        if cut is None and position < base + entry.segment_length and bases[-1] > base:
            cut = f"segment {base} ends at {position}"
        if cut is not None:
            break
        base += entry.segment_length
    else:
        base -= 1
        if bases and bases[-1] > base:
            cut = f"segment {base + 1} is missing"
    later = [start for start in bases if start > base]
    if cut is not None and later:
        # A segment gets its successor before its last sync. Only when that has succeeded does it lose its journal.
        is_durable = base not in bases or not _journal(storage, directory, entry, base)
        if is_durable and any(block_journal.is_synced(_journal(storage, directory, entry, one)) for one in later):
            raise DamageError(f"what was made durable from {position} on has changed: {cut}")
        cut += f", {len(later)} later segments removed"
    return Recovery(position, cut)


def _journal(storage: Storage, directory: str, entry: RecordingEntry, base: int) -> list[block_journal.BlockRecord]:
    file = storage.open(f"{directory}/{segment_file_name(entry.recording_id, base)}")
    try:
        return block_journal.read_records(file.read(entry.segment_length, block_journal.LENGTH))
    finally:
        file.close()


def _recover_segment(
    storage: Storage,
    directory: str,
    entry: RecordingEntry,
    base: int,
    sync_level: int,
    *,
    is_last: bool,
    checksum: Checksum | None,
) -> tuple[int, str | None]:
    """The end of the frames of one segment, and the reason for a cut, if any."""
    file = storage.open(f"{directory}/{segment_file_name(entry.recording_id, base)}")
    try:
        end = segment_end(
            lambda position, length: file.read(position - base, length),
            file.size(),
            entry,
            base,
            NULL_POSITION,
            is_last=is_last,
            checksum=checksum,
        )
        file.sync(sync_level)
    finally:
        file.close()
    return end


def cut_after(storage: Storage, directory: str, entry: RecordingEntry, sync_level: int) -> None:
    """Leave zeros after the stop position, and no journals and later segments. Raises `StorageError`.

    Only after the catalog's stop position is as safe as the data: the journal is what proves the last frames until
    then. A crash in the middle does no harm: the bytes past the end are cleared when the recording is extended.
    """
    last = entry_segment_base(entry, entry.stop_position)
    if remove_segments(storage, directory, entry.recording_id, from_base=last + 1) and sync_level > 0:
        storage.sync_directory(directory)
    for base in segment_bases(storage, directory, entry.recording_id):
        file = storage.open(f"{directory}/{segment_file_name(entry.recording_id, base)}")
        try:
            if base == last:
                file.truncate(entry.stop_position - base)
            file.truncate(entry.segment_length)
            file.sync(sync_level)
        finally:
            file.close()


def remove_deleted(storage: Storage, directory: str, recording_ids: set[int]) -> None:
    """Remove the leftover files of purged recordings after a crash. Raises `StorageError`."""
    for name in storage.names(directory) if recording_ids else ():
        key = parse_segment_file_name(name)
        if key is not None and key[0] in recording_ids:
            storage.remove(f"{directory}/{name}")


def segment_end(
    read: Callable[[int, int], bytes],
    file_length: int,
    entry: RecordingEntry,
    base: int,
    limit: int,
    *,
    is_last: bool,
    checksum: Checksum | None = None,
) -> tuple[int, str | None]:
    """Where the whole frames of a segment end, at most at `limit` (-1 for none), and why that is not all of it.

    `read(position, length)` reads the segment's file, `file_length` is how long that is. With a block journal only
    what it proves counts. Without one (a file of Aeron's, or one whose length a power cut took) a last frame that
    may be torn is left out: a complete frame whose payload ends in a sector of zeros then looks torn, too, unless it
    has the right `checksum`. Raises `DamageError` where the journal shows that durable bytes have changed.
    """
    start = max(base, entry.start_position)
    full = base + entry.segment_length
    end = min(full, base + file_length)
    records = block_journal.read_records(read(full, block_journal.LENGTH)) if limit == NULL_POSITION else []
    if records:
        try:
            end = min(end, block_journal.proven_end(records, read))
        except DamageError as damage:
            # Nothing proves what is older than the records.
            whole_end = walk_frames(read, entry, start, min(end, damage.whole_end)).end
            raise DamageError(str(damage), whole_end) from None
    elif limit != NULL_POSITION:
        end = min(end, limit)
    extent = walk_frames(read, entry, start, end)
    if extent.end < (durable := block_journal.durable_end(records)):
        raise DamageError(f"what was made durable from {extent.end} to {durable} has changed", extent.end)
    # A full segment with a successor has lost its journal because it was complete.
    is_complete = extent.end == full and not is_last
    is_unproven = not records and limit == NULL_POSITION and extent.end > start and not is_complete
    if is_unproven and checksum is not None:
        is_unproven = not is_intact(read(extent.last_frame, extent.end - extent.last_frame), checksum)
    if is_unproven and is_torn(read, extent.last_frame, extent.end, base):
        return extent.last_frame, f"torn frame at {extent.last_frame}"
    if extent.end < full and extent.end != limit and read(extent.end, FRAME_HEADER_LENGTH).strip(b"\0"):
        return extent.end, f"no whole frame at {extent.end}"
    return extent.end, None
