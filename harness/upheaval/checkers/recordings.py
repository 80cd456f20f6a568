"""Reads the log of one member from its recording: segment by segment, frame by frame.

A reader of its own on purpose, written from the file formats alone: the node's archive is a suspect in what is being
judged (Aeron Archive: catalog and segment files; Aeron Cluster: recording log). It only reads, at any time, whether
the member lives or not. This module knows nothing of what the messages mean.
"""

import contextlib
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import HarnessError
from upheaval.records import MemberFolder

FRAME_HEADER_LENGTH: Final = 32
TYPE_PAD: Final = 0
TYPE_DATA: Final = 1
FLAG_BEGIN: Final = 0x80
FLAG_END: Final = 0x40

_ENTRY_TERM: Final = 0
_ENTRY_SNAPSHOT: Final = 1
_ENTRY_STANDBY_SNAPSHOT: Final = 2
_VALID_MASK: Final = 0x7FFFFFFF
"""Without it an entry is invalid."""
_RECORDING_LOG_ENTRY: Final = struct.Struct("<qqqqqii")
_RECORDING_LOG_ALIGNMENT: Final = 64

_CATALOG_HEADER_LENGTH: Final = 32
_DESCRIPTOR_HEADER: Final = struct.Struct("<ii")
_DESCRIPTOR_HEADER_LENGTH: Final = 32
_DESCRIPTOR: Final = struct.Struct("<qqqqqqqiiiiii")
_DESCRIPTOR_VALID: Final = 1


class LogMissing(HarnessError):
    """The files do not hold a log that could be read: nothing can be said about it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The frames of one segment file in canonical form: session ids and the bodies of padding are zero."""

    base: int
    data: bytes
    offsets: list[int]
    """Where the frames begin."""
    end: int
    """Offset after the last frame."""


class RecordedLog:
    """The recorded log of one member. Iterating `segments` fills in `end_position` and `fault`.

    Making one raises `LogMissing` when recording log, catalog or the first segment are not there.
    """

    def __init__(self, folder: MemberFolder, recording_id: int | None = None) -> None:
        """Of another recording than the log with its id."""
        self.member_id = folder.member_id
        self.recording_id = _log_recording_id(folder.recording_log) if recording_id is None else recording_id
        catalog = folder.archive / "archive.catalog"
        self.start_position, self.initial_term_id, self.segment_length, self.term_length = _descriptor(
            catalog, self.recording_id
        )
        self.end_position = self.start_position
        self.fault: str | None = None
        """Why reading ended at `end_position`, when it ended at something that is no frame."""
        self._archive = folder.archive
        self._first_base = self.start_position - self.start_position % self.term_length
        first = self._segment_path(self._first_base)
        if not first.exists():
            what = "log" if recording_id is None else f"recording {recording_id}"
            raise LogMissing(f"{folder.name} has no {what}: {first.name} is missing in its archive")

    def segments(self) -> Iterator[Segment]:
        """The segments from the start of the log."""
        base = self._first_base
        path = self._segment_path(base)
        while path.exists() and self.fault is None:
            segment = self._read_segment(path, base)
            yield segment
            if self.end_position < base + self.segment_length:
                return
            base += self.segment_length
            path = self._segment_path(base)

    def _segment_path(self, base: int) -> Path:
        return self._archive / f"{self.recording_id}-{base}.rec"

    def _read_segment(self, path: Path, base: int) -> Segment:
        try:
            data = _sparse_content(path)
        except OSError as error:
            raise LogMissing(f"cannot read {path}: {error.strerror}") from error
        del data[len(data) & ~31 :]
        words = memoryview(data).cast("i")
        offsets: list[int] = []
        offset = max(self.end_position - base, 0)
        while offset < len(data):
            index = offset >> 2
            length = words[index]
            if length <= 0:
                break
            position = base + offset
            term_base = position & -self.term_length
            end = offset + (length + 31 & -32)
            if not self._follows(words, index, position, length):
                self.fault = f"no valid frame at position {position}"
                break
            if end > len(data) or base + end > term_base + self.term_length:
                self.fault = f"the frame at position {position} is not whole"
                break
            words[index + 3] = 0
            if words[index + 1] >> 16 == TYPE_PAD:
                data[offset + FRAME_HEADER_LENGTH : end] = bytes(end - offset - FRAME_HEADER_LENGTH)
            offsets.append(offset)
            offset = end
        words.release()
        self.end_position = base + offset
        return Segment(base, bytes(memoryview(data)[:offset]), offsets, offset)

    def _follows(self, words: memoryview, index: int, position: int, length: int) -> bool:
        """Whether a frame header belongs at this position: its version, type, term offset and term id."""
        kind = words[index + 1]
        term_id = self.initial_term_id + position // self.term_length
        return (
            length >= FRAME_HEADER_LENGTH
            and kind & 0xFF == 0
            and kind >> 16 in (TYPE_PAD, TYPE_DATA)
            and words[index + 2] == position & (self.term_length - 1)
            and words[index + 5] == (term_id + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        )


def _sparse_content(path: Path) -> bytearray:
    """A file as it is, holes as zeros that nobody has touched: a segment may be long and hold little."""
    with path.open("rb", buffering=0) as stream:
        fd = stream.fileno()
        length = os.fstat(fd).st_size
        data = bytearray(length)
        view = memoryview(data)
        for start, end in data_extents(fd, length):
            position = start
            while position < end:
                count = os.preadv(fd, [view[position:end]], position)
                if count == 0:
                    break
                position += count
    return data


def data_extents(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """Where an open file has bytes of its own, from and to; all of it where the file system does not say."""
    position = 0
    while position < length:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        position = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, position


def messages(segment: Segment) -> Iterator[tuple[int, memoryview | bytes]]:
    """The messages of a segment, fragments joined, each with its end position.

    A message never spans terms, hence never segments.
    """
    view = memoryview(segment.data)
    words = view.cast("i")
    parts: list[memoryview] = []
    for offset in segment.offsets:
        index = offset >> 2
        kind = words[index + 1]
        if kind >> 16 != TYPE_DATA:
            continue
        length = words[index]
        payload = view[offset + FRAME_HEADER_LENGTH : offset + length]
        flags = kind >> 8 & (FLAG_BEGIN | FLAG_END)
        end = segment.base + offset + (length + 31 & -32)
        if flags == FLAG_BEGIN | FLAG_END:
            yield end, payload
            continue
        if flags & FLAG_BEGIN:
            parts.clear()
        parts.append(payload)
        if flags & FLAG_END:
            yield end, b"".join(parts)
            parts.clear()


def snapshot_entries(path: Path) -> list[tuple[int, int, int]]:
    """Recording id, log position and service id (-1: the module) of the valid snapshots that a recording log names."""
    with contextlib.suppress(LogMissing):
        # A snapshot is taken after the entry that asks for it, so never at the beginning of the log.
        return [
            (recording_id, position, service_id)
            for recording_id, _, _, position, _, service_id, kind in _recording_log_entries(path)
            if kind == _ENTRY_SNAPSHOT and position > 0
        ]
    return []


def named_snapshots(path: Path) -> set[int]:
    """Log positions of all snapshots that a recording log names, also of those that were made invalid or that a standby
    has.
    """
    with contextlib.suppress(LogMissing):
        entries = [(position, kind & _VALID_MASK) for _, _, _, position, _, _, kind in _recording_log_entries(path)]
        return {position for position, kind in entries if kind in (_ENTRY_SNAPSHOT, _ENTRY_STANDBY_SNAPSHOT)}
    return set()


def term_entries(path: Path) -> list[tuple[int, int, int]]:
    """Leadership term, begin and end position (-1: not known) of the valid terms that a recording log names."""
    with contextlib.suppress(LogMissing):
        entries = _recording_log_entries(path)
        return [(term_id, base, position) for _, term_id, base, position, _, _, kind in entries if kind == _ENTRY_TERM]
    return []


def _log_recording_id(path: Path) -> int:
    """The recording that the recording log's term entries name."""
    for recording_id, *_, kind in _recording_log_entries(path):
        if kind == _ENTRY_TERM:
            return recording_id
    raise LogMissing(f"{path} names no recording of the log")


def _recording_log_entries(path: Path) -> Iterator[tuple[int, ...]]:
    """The numbers of each entry of a recording log. Raises `LogMissing` when it cannot be read."""
    content = _content(path)
    for offset in range(0, len(content) - _RECORDING_LOG_ENTRY.size + 1, _RECORDING_LOG_ALIGNMENT):
        yield _RECORDING_LOG_ENTRY.unpack_from(content, offset)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LogMissing(f"cannot read {path}: {error.strerror}") from error


def _descriptor(path: Path, recording_id: int) -> tuple[int, int, int, int]:
    """Start position, initial term id, segment length and term length of a recording in the catalog."""
    content = _content(path)
    offset = _CATALOG_HEADER_LENGTH
    while offset + _DESCRIPTOR_HEADER_LENGTH + _DESCRIPTOR.size <= len(content):
        length, state = _DESCRIPTOR_HEADER.unpack_from(content, offset)
        if length <= 0:
            break
        fields = _DESCRIPTOR.unpack_from(content, offset + _DESCRIPTOR_HEADER_LENGTH)
        _, _, found_id, _, _, start_position, _, initial_term_id, segment_length, term_length, *_ = fields
        if state == _DESCRIPTOR_VALID and found_id == recording_id:
            if not 0 < term_length <= segment_length or start_position < 0:
                raise LogMissing(f"{path}: the descriptor of recording {recording_id} makes no sense")
            return start_position, initial_term_id, segment_length, term_length
        offset += _DESCRIPTOR_HEADER_LENGTH + length
    raise LogMissing(f"{path} has no recording {recording_id}")
