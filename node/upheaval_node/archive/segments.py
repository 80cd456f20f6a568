"""Segment files: their names and positions, writing and reading blocks of frames.

A recording is a row of files of equal length, named `<recording id>-<base position>.rec`, which hold the frames of a
stream at their positions (Aeron archive recording segments). The first base is the beginning of the start position's
term. A padding frame is stored as its header; the padded area stays a hole. The module knows nothing of streams,
sessions and the catalog's file; of a recording it needs only the descriptor.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple
from zlib import crc32

from upheaval_node.archive import block_journal
from upheaval_node.archive.block_journal import BlockRecord
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.checksums import Checksum, stamped, verify
from upheaval_node.errors import PeerError, StorageError
from upheaval_node.ports import Buffer, File, Storage
from upheaval_node.protocol.frames import TYPE_PAD, position_bits_to_shift, term_id_at
from upheaval_node.types import FRAME_HEADER_LENGTH

SUFFIX: Final = ".rec"

SyncDone = Callable[[Exception | None], None]

_NAME: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})\.rec", re.ASCII)


def segment_file_name(recording_id: int, base_position: int) -> str:
    """The name of the segment file that begins at a base position, as in Aeron's archive."""
    return f"{recording_id}-{base_position}{SUFFIX}"


def parse_segment_file_name(name: str) -> tuple[int, int] | None:
    """Parse a segment file's name into recording id and base position; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def start_term_base(start_position: int, term_length: int) -> int:
    """The beginning of the start position's term: the first base of a recording."""
    return start_position & -term_length


def segment_base(position: int, start_position: int, term_length: int, segment_length: int) -> int:
    """The base of the segment that holds `position`. Segments count from the beginning of the start position's term."""
    first = start_term_base(start_position, term_length)
    return first + (position - first) // segment_length * segment_length


def entry_segment_base(entry: RecordingEntry, position: int) -> int:
    """The base of the segment that contains a position of the recording."""
    return segment_base(position, entry.start_position, entry.term_length, entry.segment_length)


def segment_bases(storage: Storage, directory: str, recording_id: int) -> list[int]:
    """Base positions of the segment files of a recording, lowest first."""
    parsed = (parse_segment_file_name(name) for name in storage.names(directory))
    return sorted(key[1] for key in parsed if key is not None and key[0] == recording_id)


def remove_segments(storage: Storage, directory: str, recording_id: int, *, from_base: int = 0) -> int:
    """Delete the segment files from `from_base` on, the last one first; returns how many."""
    bases = [base for base in segment_bases(storage, directory, recording_id) if base >= from_base]
    for base in reversed(bases):
        storage.remove(f"{directory}/{segment_file_name(recording_id, base)}")
    return len(bases)


class SegmentWriter:
    """Appends blocks of frames to the segments of one recording from `position` on, with one write per block."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        entry: RecordingEntry,
        position: int,
        sync_level: int,
        *,
        checksum: Checksum | None = None,
    ) -> None:
        """Open the segment of `position` and clear the bytes after it. Raises `StorageError`.

        Frames of an earlier run may follow. If they became visible beyond the new end after a crash, they would pass
        for frames of this run. So they are cleared before anything is written; at sync levels 1 and 2 also on the disk,
        which blocks once per start of a recording.
        """
        self._storage = storage
        self._directory = directory
        self._recording_id = entry.recording_id
        self._segment_length = entry.segment_length
        self._sync_level = sync_level
        self._checksum = checksum
        self._retired: list[File] = []
        self._sequence = 0
        self._synced_sequence = 0
        self._base = entry_segment_base(entry, position)
        self.position = position
        removed = remove_segments(storage, directory, entry.recording_id, from_base=self._base + 1)
        self._file = self._open_segment(position - self._base, sync_directory=removed > 0)
        try:
            self._cut_journals()
        except StorageError:
            self._file.close()
            raise

    def write(self, data: Buffer, end: int) -> None:
        """Write whole frames at the current position. `end` is their end, padding included. Raises `StorageError`.

        A block never crosses a term, so it never crosses a segment. When it fills the segment, the next one is opened.
        """
        if self._checksum is not None:
            data = stamped(data, self._checksum)
        self._file.write(self.position - self._base, (data,))
        self._journal(end, len(data), crc32(data))
        self.position = end
        if end - self._base >= self._segment_length:
            self._next_segment()

    @property
    def has_room(self) -> bool:
        """Whether a block may be written before the next sync completes; always true at sync level 0."""
        return self._sync_level == 0 or self._sequence - self._synced_sequence < block_journal.CAPACITY - 1

    def sync(self) -> None:
        """Make everything durable like `sync_later`, but block: for the end of a process."""
        for file in (*self._retired, self._file):
            file.sync(self._sync_level)

    def sync_later(self, done: SyncDone) -> None:
        """Make everything written so far durable, including segments that have been filled. One call at a time.

        After an error, which may also be raised, only `close` may follow.
        """
        current, sequence = self._file, self._sequence
        files, self._retired = [*self._retired, current], []

        def give_up() -> None:
            for file in files:
                if file is not current:
                    file.close()

        def next_file(error: Exception | None) -> None:
            finished = files.pop(0)
            # The current file may be filled and retired meanwhile: the next call syncs it again, then closes it.
            try:
                if finished is not current and error is None:
                    self._close_full(finished)
                elif finished is not current:
                    finished.close()
                if error is None and files:
                    files[0].sync_later(self._sync_level, next_file)
                    return
            except StorageError as failure:
                error = error or failure
            if error is None:
                self._synced_sequence = sequence
            else:
                give_up()
            done(error)

        try:
            files[0].sync_later(self._sync_level, next_file)
        except StorageError:
            give_up()
            raise

    def close(self, *, is_whole: bool = True) -> None:
        """Close the files. If `is_whole`, everything written counts and the journals are cut off."""
        for file in (*self._retired, self._file):
            if is_whole:
                self._close_full(file)
            else:
                file.close()
        self._retired = []

    def _close_full(self, file: File) -> None:
        """Cut the journal off and close the file."""
        try:
            file.truncate(self._segment_length)
        finally:
            file.close()

    def _cut_journals(self) -> None:
        """Cut the journals that an error left at full segments: the first record of this run replaces them."""
        lower = [
            base for base in segment_bases(self._storage, self._directory, self._recording_id) if base < self._base
        ]
        for base in reversed(lower):
            file = self._storage.open(f"{self._directory}/{segment_file_name(self._recording_id, base)}")
            try:
                has_journal = file.size() > self._segment_length
                if has_journal:
                    file.truncate(self._segment_length)
            finally:
                file.close()
            if not has_journal:
                break

    def _journal(self, end: int, length: int, checksum: int) -> None:
        unsynced = self._sequence + 1 - self._synced_sequence if self._sync_level > 0 else 0
        record = BlockRecord(self._sequence, self.position, end, length, checksum, unsynced)
        self._file.write(self._segment_length + record.offset, (record.pack(),))
        self._sequence += 1

    def _next_segment(self) -> None:
        full = self._file
        self._base += self._segment_length
        self._file = self._open_segment(0)
        if self._sync_level > 0:
            self._retired.append(full)
        else:
            self._close_full(full)

    def _open_segment(self, length: int, *, sync_directory: bool = False) -> File:
        """The file of the current base with its first `length` bytes kept, zeros after them and a new journal."""
        path = f"{self._directory}/{segment_file_name(self._recording_id, self._base)}"
        is_new = not self._storage.exists(path)
        file = self._storage.open(path, create=True)
        try:
            if not is_new:
                file.truncate(length)
            file.truncate(self._segment_length + block_journal.LENGTH)
            # The first record marks where this run begins: without a second record, this run wrote nothing.
            record = BlockRecord(self._sequence, self.position, self.position, 0, crc32(b""))
            file.write(self._segment_length + record.offset, (record.pack(),))
            self._sequence += 1
            if self._sync_level > 0:
                # Once per segment: its name and its first record must be durable before anything that they prove.
                file.sync(self._sync_level)
                if is_new or sync_directory:
                    self._storage.sync_directory(self._directory)
        except StorageError:
            file.close()
            raise
        return file


class ReadBlock(NamedTuple):
    """Whole frames from `start` to `end`; of a last padding frame only the header. Empty when no frame is whole."""

    data: bytearray
    start: int
    end: int


class SegmentReader:
    """Reads blocks of whole frames of one recording, for replay. With a `checksum`, each frame is verified."""

    def __init__(
        self, storage: Storage, directory: str, entry: RecordingEntry, *, checksum: Checksum | None = None
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._entry = entry
        self._checksum = checksum
        self._base = -1
        self._file: File | None = None

    def check_first_frame(self, position: int) -> bool:
        """Whether a frame of this recording begins at `position`."""
        words = memoryview(self._read(position, FRAME_HEADER_LENGTH)).cast("i")
        entry = self._entry
        shift = position_bits_to_shift(entry.term_length)
        return (
            len(words) == FRAME_HEADER_LENGTH // 4
            and words[0] > 0
            and words[2] == position & (entry.term_length - 1)
            and words[4] == entry.stream_id
            and words[5] == term_id_at(position, shift, entry.initial_term_id)
        )

    def read_block(self, position: int, limit: int, max_length: int) -> ReadBlock:
        """Read frames from `position` up to `limit` or the end of the term, at most `max_length` bytes.

        Raises `PeerError` when the recording is damaged there and `StorageError` when it cannot be read.
        """
        term_end = (position & -self._entry.term_length) + self._entry.term_length
        data = bytearray(self._read(position, min(limit, term_end, position + max_length) - position))
        with memoryview(data) as view, view.cast("i") as words:
            length = len(words) * 4
            offset = end = 0
            while offset < length:
                word = offset >> 2
                frame_length = words[word]
                if frame_length < FRAME_HEADER_LENGTH:
                    raise PeerError(f"recording {self._entry.recording_id} holds no frame at {position + offset}")
                next_offset = (offset + frame_length + 31) & -32
                is_padding = words[word + 1] >> 16 == TYPE_PAD
                if (position + next_offset > limit) if is_padding else (next_offset > length):
                    break
                end = offset + FRAME_HEADER_LENGTH if is_padding else next_offset
                offset = next_offset
                if is_padding:
                    break
        del data[end:]
        if self._checksum is not None:
            verify(data, position, self._checksum)
        return ReadBlock(data, position, position + offset)

    def close(self) -> None:
        """Close the open segment file. The next read opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._base = -1

    def _read(self, position: int, length: int) -> bytes:
        base = entry_segment_base(self._entry, position)
        if base != self._base or self._file is None:
            self.close()
            name = segment_file_name(self._entry.recording_id, base)
            self._file = self._storage.open(f"{self._directory}/{name}")
            self._base = base
        data = self._file.read(position - base, length)
        if len(data) & 31:
            raise PeerError(f"recording {self._entry.recording_id} ends within a frame after {position}")
        return data


def zero_tail(storage: Storage, directory: str, entry: RecordingEntry, position: int) -> None:
    """Zero everything from `position` to the end of its segment. Raises `StorageError`."""
    base = entry_segment_base(entry, position)
    path = f"{directory}/{segment_file_name(entry.recording_id, base)}"
    if not storage.exists(path):
        return
    file = storage.open(path)
    try:
        file.truncate(position - base)
        file.truncate(entry.segment_length)
    finally:
        file.close()


def is_frame_boundary(storage: Storage, directory: str, entry: RecordingEntry, position: int) -> bool:
    """Whether a frame of a stopped recording ends at `position`. Raises `StorageError`, `PeerError`."""
    if position in (entry.start_position, entry.stop_position):
        return True
    reader = SegmentReader(storage, directory, entry)
    try:
        return reader.check_first_frame(position)
    finally:
        reader.close()
