"""Files that grow, read from where they were read last: lines of text, and the frames of a member's log.

Only what is whole is read: a line with its end, a message with its last frame. What cannot be read for now, or is not
there, is asked for again the next time. This module judges nothing.
"""

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.checkers.evidence.recordings import (
    FLAG_END,
    FRAME_HEADER_LENGTH,
    TYPE_DATA,
    TYPE_PAD,
    LogMissing,
    RecordedLog,
    Segment,
)
from upheaval.records import MemberFolder

STEP: Final = 1 << 20
"""Bytes of a file that are read at once; a longer line or message is read as a whole."""
_HEADER: Final = struct.Struct("<iBBHiiii")
_SESSION_ID_OFFSET: Final = 12


@dataclass
class LineTail:
    """The lines of one file, with their numbers. Another file under its name is read from its beginning."""

    path: Path
    offset: int = 0
    number: int = 0
    _inode: int = field(default=-1, repr=False)

    def more(self) -> list[tuple[int, bytes]]:
        """The next whole lines."""
        try:
            status = self.path.stat()
            if status.st_ino != self._inode or status.st_size < self.offset:
                self._inode, self.offset, self.number = status.st_ino, 0, 0
            if status.st_size == self.offset:
                return []
            with self.path.open("rb") as stream:
                stream.seek(self.offset)
                data = stream.read(STEP)
                if b"\n" not in data:
                    data += stream.readline()
        except OSError:
            return []
        end = data.rfind(b"\n") + 1
        lines = data[:end].split(b"\n")[:-1]
        first = self.number + 1
        self.offset += end
        self.number += len(lines)
        return list(enumerate(lines, start=first))

    @property
    def unread(self) -> int:
        """Bytes that are there and were not read, those of a line without its end among them."""
        try:
            return max(self.path.stat().st_size - self.offset, 0)
        except OSError:
            return 0


class LogTail:
    """The log of one member, as far as that knows it to be committed: an election may overwrite what follows."""

    def __init__(self, folder: MemberFolder) -> None:
        self._folder = folder
        self._recording: tuple[int, int] | None = None
        self.position = 0
        """Up to where it was read; messages begin there."""

    def more(self, committed: int) -> Segment | None:
        """The next messages up to a position, within one segment file; None when there are none."""
        if committed <= self.position:
            return None
        log = self._log()
        if log is None:
            return None
        recording = log.recording_id, log.start_position
        if recording != self._recording:
            self._recording = recording
            self.position = max(self.position, log.start_position)
        segment = self._read(log, self.position, committed)
        if segment is not None:
            self.position += segment.end
        return segment

    def again(self, begin: int, end: int) -> Segment | None:
        """The messages between two positions that were read before, as far as they are in one segment file."""
        log = self._log()
        return None if log is None else self._read(log, begin, end)

    @property
    def start_position(self) -> int:
        """Where the log begins, as far as that is known."""
        return 0 if self._recording is None else self._recording[1]

    def _log(self) -> RecordedLog | None:
        try:
            return RecordedLog(self._folder)
        except LogMissing:
            return None

    def _read(self, log: RecordedLog, begin: int, end: int) -> Segment | None:
        first = log.start_position - log.start_position % log.term_length
        base = begin - (begin - first) % log.segment_length
        path = self._folder.archive / f"{log.recording_id}-{base}.rec"
        end = min(end, base + log.segment_length)
        segment = _whole_messages(log, path, base, begin, min(end, begin + STEP))
        if segment is None and end > begin + STEP:
            segment = _whole_messages(log, path, base, begin, end)
        return segment


def _whole_messages(log: RecordedLog, path: Path, base: int, begin: int, end: int) -> Segment | None:
    """In canonical form, as `RecordedLog` has them; `base` of the segment is `begin`."""
    try:
        with path.open("rb", buffering=0) as stream:
            data = bytearray(os.pread(stream.fileno(), end - begin, begin - base))
    except OSError:
        return None
    offsets: list[int] = []
    offset = whole = frames = 0
    while offset + FRAME_HEADER_LENGTH <= len(data):
        length, version, flags, kind, term_offset, _, _, term_id = _HEADER.unpack_from(data, offset)
        position = begin + offset
        next_offset = offset + (length + 31 & -32)
        if (
            length < FRAME_HEADER_LENGTH
            or version
            or kind not in (TYPE_PAD, TYPE_DATA)
            or term_offset != position % log.term_length
            or term_id != _term_id(log, position)
            or next_offset > len(data)
        ):
            break
        data[offset + _SESSION_ID_OFFSET : offset + _SESSION_ID_OFFSET + 4] = bytes(4)
        if kind == TYPE_PAD:
            data[offset + FRAME_HEADER_LENGTH : next_offset] = bytes(next_offset - offset - FRAME_HEADER_LENGTH)
        offsets.append(offset)
        offset = next_offset
        if kind == TYPE_PAD or flags & FLAG_END:
            whole, frames = offset, len(offsets)
    return Segment(begin, bytes(memoryview(data)[:whole]), offsets[:frames], whole) if whole else None


def _term_id(log: RecordedLog, position: int) -> int:
    return (log.initial_term_id + position // log.term_length + 0x80000000 & 0xFFFFFFFF) - 0x80000000
