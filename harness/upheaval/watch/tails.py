"""Files that grow, read from where they were read last: lines of text, and the frames of a member's log.

Only what is whole is read: a line with its end, a message with its last frame. What cannot be read for now, or is not
there, is asked for again the next time. This module judges nothing.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from upheaval.checkers.evidence.recordings import (
    FLAG_END,
    TYPE_PAD,
    LogMissing,
    RecordedLog,
    Segment,
    frame_end,
)
from upheaval.records import MemberFolder

STEP: Final = 1 << 20
"""Bytes of a file that are read at once; a longer line or message is read as a whole."""
EDGE: Final = 4096
"""Bytes at either end of what was read that tell a file from another one."""


@dataclass
class LineTail:
    """The lines of one file, with their numbers. Another file under its name is read from its beginning.

    A file that was removed and written again may have the same inode and be longer, so what was read is compared too:
    its first and its last `EDGE` bytes.
    """

    path: Path
    offset: int = 0
    number: int = 0
    _inode: int = field(default=-1, repr=False)
    _edges: tuple[bytes, bytes] = field(default=(b"", b""), repr=False)

    def more(self) -> list[tuple[int, bytes]]:
        """The next whole lines."""
        try:
            with self.path.open("rb") as stream:
                inode = os.fstat(stream.fileno()).st_ino
                if inode != self._inode or self._edges_in(stream) != self._edges:
                    self._inode, self.offset, self.number = inode, 0, 0
                stream.seek(self.offset)
                data = stream.read(STEP)
                if data and b"\n" not in data:
                    data += stream.readline()
                end = data.rfind(b"\n") + 1
                self.offset += end
                self._edges = self._edges_in(stream)
        except OSError:
            return []
        lines = data[:end].split(b"\n")[:-1]
        first = self.number + 1
        self.number += len(lines)
        return list(enumerate(lines, start=first))

    def _edges_in(self, stream: IO[bytes]) -> tuple[bytes, bytes]:
        """The first and the last bytes up to the offset."""
        length = min(self.offset, EDGE)
        return os.pread(stream.fileno(), length, 0), os.pread(stream.fileno(), length, self.offset - length)

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

    def _log(self) -> RecordedLog | None:
        try:
            return RecordedLog(self._folder)
        except LogMissing:
            return None

    def _read(self, log: RecordedLog, begin: int, end: int) -> Segment | None:
        segment = _whole_messages(log, begin, min(end, begin + STEP))
        if segment is None and end > begin + STEP:
            segment = _whole_messages(log, begin, end)
        return segment


def _whole_messages(log: RecordedLog, begin: int, end: int) -> Segment | None:
    """Of the segment file that has `begin`."""
    segment, _ = log.frames_in(bytearray(log.bytes_at(begin, end - begin)), begin)
    offsets = segment.offsets
    while offsets and not _ends_message(segment, offsets[-1]):
        offsets.pop()
    whole = frame_end(segment, offsets[-1]) if offsets else 0
    return Segment(begin, segment.data[:whole], offsets, whole) if offsets else None


def _ends_message(segment: Segment, offset: int) -> bool:
    kind = int.from_bytes(segment.data[offset + 4 : offset + 8], "little")
    return kind >> 16 == TYPE_PAD or bool(kind >> 8 & FLAG_END)
