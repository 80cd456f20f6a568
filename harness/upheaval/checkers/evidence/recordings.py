"""Reads a member's log from its recording, segment by segment and frame by frame.

The judge has its own reader, written from the file formats alone, because the node's archive is under suspicion (Aeron
Archive: catalog and segment files; Aeron Cluster: recording log). It only reads, and works on live members, too. This
module knows nothing of the messages' meaning.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from upheaval.errors import HarnessError
from upheaval.records import MemberFolder, data_extents

FRAME_HEADER_LENGTH: Final = 32
CATALOG_NAME: Final = "archive.catalog"
TYPE_PAD: Final = 0
TYPE_DATA: Final = 1
FLAG_BEGIN: Final = 0x80
FLAG_END: Final = 0x40

_ENTRY_TERM: Final = 0
_ENTRY_SNAPSHOT: Final = 1
_RECORDING_LOG_ENTRY: Final = struct.Struct("<qqqqqii")
_RECORDING_LOG_ALIGNMENT: Final = 64
_ENTRY_STANDBY_SNAPSHOT: Final = 2
_ENTRY_KIND: Final = 0x7FFFFFFF
_ENDPOINT_OFFSET: Final = 48
# After a snapshot: the length of its recording, a mark, and the CRC-32 of the length and of the fields before the type.
_SNAPSHOT_LENGTH: Final = struct.Struct("<qII")
_SNAPSHOT_LENGTH_OFFSET: Final = 48
_SNAPSHOT_LENGTH_MARK: Final = 0x4C485055
_SNAPSHOT_FIELDS: Final = 44

_CATALOG_HEADER_LENGTH: Final = 32
_DESCRIPTOR_HEADER: Final = struct.Struct("<iii")
_DESCRIPTOR_HEADER_LENGTH: Final = 32
_DESCRIPTOR: Final = struct.Struct("<qqqqqqqiiiiii")
_OFFSETS: Final = (2, 5, 6, 7, 8, 9, 11, 12)
"""Offsets of the fields of a `CatalogEntry` in a descriptor."""
_DESCRIPTOR_VALID: Final = 1
_CASTAGNOLI: Final = 0x82F63B78
BYTES_AT_ONCE: Final = 16 * 1024
"""How many bytes of a term are searched for frames at a time."""


class LogMissing(HarnessError):
    """The files hold no readable log, so nothing can be concluded from it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames of one segment file in canonical form: session ids and the bodies of padding are zero."""

    base: int
    """The position of the first byte."""
    data: bytes
    offsets: list[int]
    """The offsets of the frames."""
    end: int
    """The offset after the last frame."""


class RecordedLog:
    """The recorded log of one member. Iterating `segments` sets `end_position` and `fault`.

    Raises `LogMissing` on creation when recording log, catalog or the first segment is missing.
    """

    def __init__(
        self, folder: MemberFolder, recording_id: int | None = None, *, twin: "RecordedLog | None" = None
    ) -> None:
        """Read another recording than the log by its id.

        `twin` is a log that is read side by side, each segment before this one's. A segment whose frames are those of
        the twin is then checked by its bytes and not frame by frame.
        """
        self.member_id = folder.member_id
        self.recording_id = _log_recording_id(folder.recording_log) if recording_id is None else recording_id
        catalog = folder.archive / CATALOG_NAME
        descriptor = _descriptor(catalog, self.recording_id)
        self.start_position, self.initial_term_id = descriptor.start_position, descriptor.initial_term_id
        self.segment_length, self.term_length = descriptor.segment_length, descriptor.term_length
        self.end_position = self.start_position
        self.fault: str | None = None
        """Why reading ended at `end_position`, when it ended at something that is no frame."""
        self._term_of_ends, self._ends = -1, frozenset[int]()
        self._last: Segment | None = None
        """The segment that was read last, if its frames end where nothing was written."""
        self._twin = twin
        self._archive = folder.archive
        self._first_base = self.start_position - self.start_position % self.term_length
        first = self._segment_path(self._first_base)
        if not first.exists():
            what = "log" if recording_id is None else f"recording {recording_id}"
            where = (
                f" ({catalog.name} says that it starts at position {self.start_position})"
                if self.start_position
                else ""
            )
            raise LogMissing(f"{folder.name} has no {what}: {first.name} is missing in its archive{where}")

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

    def message_at(self, position: int) -> bytes | None:
        """The message that begins at a position, or after padding there; None if there is none.

        The message must have one frame. At the position a frame must begin, or the log end.
        """
        while (header := self._header_at(position)) is not None:
            length, kind = header
            if kind >> 16 == TYPE_DATA:
                return self.bytes_at(position + FRAME_HEADER_LENGTH, length - FRAME_HEADER_LENGTH)
            position += length + 31 & -32
        return None

    def has_frame_at(self, position: int) -> bool:
        """Whether a frame of the log begins there."""
        return self._header_at(position) is not None

    def has_end_at(self, position: int) -> bool:
        """Whether a frame of the log ends there, or the log begins there."""
        if position <= self.start_position:
            return position == self.start_position
        first = max((position - 1) & -self.term_length, self.start_position)
        if first != self._term_of_ends:
            self._term_of_ends, self._ends = first, frozenset(self._frame_ends(first))
        return position in self._ends

    def _frame_ends(self, position: int) -> Iterator[int]:
        """The ends of frames from the beginning of a frame to the end of its term."""
        end = position + self.term_length - position % self.term_length
        begin = -1
        # In parts: a term may be long and nearly empty.
        while begin < position < end:
            begin = position
            words = memoryview(self.bytes_at(position, min(end - position, BYTES_AT_ONCE)))
            words = words[: len(words) & ~31].cast("i")
            index = 0
            while index < len(words) and self._follows(words, index, position, words[index]):
                step = words[index] + 31 & -32
                index += step >> 2
                position += step
                yield position

    def _header_at(self, position: int) -> tuple[int, int] | None:
        """The length of the frame that begins there, and its version, flags and type in one number."""
        words = memoryview(self.bytes_at(position, FRAME_HEADER_LENGTH)).cast("i")
        if len(words) < FRAME_HEADER_LENGTH >> 2 or not self._follows(words, 0, position, words[0]):
            return None
        return words[0], words[1]

    def bytes_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes of the segment file from a position on; empty if it cannot be read."""
        offset = (position - self._first_base) % self.segment_length
        try:
            with self._segment_path(position - offset).open("rb", buffering=0) as stream:
                return os.pread(stream.fileno(), min(length, self.segment_length - offset), offset)
        except OSError:
            return b""

    def _segment_path(self, base: int) -> Path:
        return self._archive / f"{self.recording_id}-{base}.rec"

    def _read_segment(self, path: Path, base: int) -> Segment:
        self._last = None
        begin = max(self.end_position - base, 0)
        data = _sparse_content(path)
        segment = self._expected(base, begin)
        if segment is not None and not _has_frames_of(segment, data):
            segment, data = None, _sparse_content(path)
        if segment is None:
            segment, self.fault = self.frames_in(data, base, begin)
        self._last = segment if self.fault is None else None
        self.end_position = base + segment.end
        return segment

    def _expected(self, base: int, begin: int) -> Segment | None:
        """The twin's segment there, if its frames would be frames of this log, too."""
        twin = self._twin
        if twin is None or (twin.initial_term_id, twin.term_length) != (self.initial_term_id, self.term_length):
            return None
        segment = twin._last
        return segment if segment and segment.base == base and segment.offsets[:1] == [begin] else None

    def frames_in(self, data: bytearray, base: int, begin: int = 0) -> tuple[Segment, str | None]:
        """The frames of a part of one segment file from offset `begin`, where a frame begins.

        Also returns why they end, if they end at something that is no whole frame. Makes `data` canonical.
        """
        del data[len(data) & ~31 :]
        fault: str | None = None
        words = memoryview(data).cast("i")
        offsets: list[int] = []
        offset = begin
        size, term_begin, term_end, term_id = len(data), -1, -1, 0
        while offset < size:
            index = offset >> 2
            length = words[index]
            if length <= 0:
                break
            if offset >= term_end:
                term_begin = offset - (base + offset) % self.term_length
                term_end = term_begin + self.term_length
                term_id = self._term_id(base + offset)
            end = offset + (length + 31 & -32)
            kind = words[index + 1]
            if not _is_header(length, kind) or words[index + 2] != offset - term_begin or words[index + 5] != term_id:
                fault = header_fault(base + offset, self, words[index : index + (FRAME_HEADER_LENGTH >> 2)])
                break
            if end > size or end > term_end:
                fault = length_fault(base + offset, length, self.term_length if end > term_end else None)
                break
            words[index + 3] = 0
            if kind >> 16 == TYPE_PAD:
                data[offset + FRAME_HEADER_LENGTH : end] = bytes(end - offset - FRAME_HEADER_LENGTH)
            offsets.append(offset)
            offset = end
        words.release()
        return Segment(base, bytes(memoryview(data)[:offset]), offsets, offset), fault

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """All messages, each with its end position."""
        for segment in self.segments():
            yield from messages(segment)

    def read_to_end(self) -> int:
        """The position at which the frames end. Raises `LogMissing` when the files cannot be read."""
        for _ in self.segments():
            pass
        return self.end_position

    def _follows(self, words: memoryview, index: int, position: int, length: int) -> bool:
        """Whether a frame header belongs at this position: its version, type, term offset and term id."""
        return (
            _is_header(length, words[index + 1])
            and words[index + 2] == position % self.term_length
            and words[index + 5] == self._term_id(position)
        )

    def _term_id(self, position: int) -> int:
        return (self.initial_term_id + position // self.term_length + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _has_frames_of(segment: Segment, data: bytearray) -> bool:
    """Whether a segment file has these frames and no other. Zeroes words of `data`, so if not, read it again."""
    words = memoryview(data)[: len(data) & ~31].cast("i")
    end = segment.end >> 2
    if end > len(words) or (end < len(words) and words[end] > 0):
        return False
    for offset in segment.offsets:
        words[(offset >> 2) + 3] = 0
    return data.startswith(segment.data)


def _is_header(length: int, kind: int) -> bool:
    """Whether a frame may have this length, and this version, flags and type in one number."""
    return length >= FRAME_HEADER_LENGTH and not kind & 0xFF and kind >> 16 in (TYPE_PAD, TYPE_DATA)


class LogTerms(Protocol):
    """The catalog's description of a log. It determines the term id and term offset of each position."""

    @property
    def start_position(self) -> int:
        """Where the log begins."""

    @property
    def initial_term_id(self) -> int:
        """The term id of the frames before position `term_length`."""

    @property
    def term_length(self) -> int:
        """The length of a term of the log buffer, in bytes."""


def header_fault(position: int, terms: LogTerms, words: Sequence[int]) -> str:
    """Why a frame header (as 32-bit words) does not belong at this position, with the field that shows it."""
    no_frame = f"no valid frame at position {position}"
    if position == terms.start_position > 0:
        no_frame += f", where the log starts by {CATALOG_NAME}"
    length, kind, term_offset, term_id = int(words[0]), int(words[1]), int(words[2]), int(words[5])
    if length < FRAME_HEADER_LENGTH:
        return f"{no_frame}: its length is {length}"
    if kind & 0xFF or kind >> 16 not in (TYPE_PAD, TYPE_DATA):
        return f"{no_frame}: its version is {kind & 0xFF} and its type {kind >> 16}"
    wanted_offset = position % terms.term_length
    wanted_id = (terms.initial_term_id + position // terms.term_length + 0x80000000 & 0xFFFFFFFF) - 0x80000000
    fields = (("term offset", term_offset, wanted_offset), ("term id", term_id, wanted_id))
    wrong = ", ".join(f"its {name} is {actual} and not {wanted}" for name, actual, wanted in fields if actual != wanted)
    return (
        f"{no_frame}: {wrong} (by initial term id {terms.initial_term_id} "
        f"and term length {terms.term_length} in {CATALOG_NAME})"
    )


def length_fault(position: int, length: int, term_length: int | None) -> str:
    """Why a frame is not whole: it crosses the end of its segment file or, with `term_length`, of its term."""
    if term_length is None:
        return f"the frame at position {position} is not whole"
    return (
        f"the frame at position {position} is not whole: {length} bytes reach beyond its term "
        f"(by term length {term_length} in {CATALOG_NAME})"
    )


def _sparse_content(path: Path) -> bytearray:
    """The content of a sparse file. Holes become untouched zero pages, because segments may be long and nearly empty.

    Raises `LogMissing` when it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            return _content_of(stream.fileno())
    except OSError as error:
        raise LogMissing(f"cannot read {path}: {error.strerror}") from error


def _content_of(fd: int) -> bytearray:
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


def frame_end(segment: Segment, offset: int) -> int:
    """The offset after the frame at an offset."""
    return offset + (int.from_bytes(segment.data[offset : offset + 4], "little") + 31 & -32)


def messages(segment: Segment) -> Iterator[tuple[int, bytes]]:
    """The messages of a segment, with fragments joined, each with its end position.

    A message never crosses a term, so it never crosses a segment.
    """
    data = segment.data
    words = memoryview(data).cast("i")
    parts: list[bytes] = []
    for offset in segment.offsets:
        index = offset >> 2
        kind = words[index + 1]
        if kind >> 16 != TYPE_DATA:
            continue
        length = words[index]
        payload = data[offset + FRAME_HEADER_LENGTH : offset + length]
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


@dataclass(frozen=True, slots=True)
class RecordingLogEntry:
    """One valid term or snapshot of a recording log. `position` of a term is its end, -1 while that is not known."""

    recording_id: int
    term_id: int
    term_base: int
    position: int
    service_id: int
    is_term: bool
    recorded_length: int
    """The length of a snapshot's recording, -1 if not recorded."""
    is_intact: bool
    """False for a snapshot with a wrong checksum."""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A valid recording in a catalog. `stop_position` is -1 while the recording is active."""

    recording_id: int
    start_position: int
    stop_position: int
    initial_term_id: int
    segment_length: int
    term_length: int
    session_id: int
    stream_id: int
    is_intact: bool
    """False for a descriptor with a wrong checksum."""


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """One snapshot in a recording log, valid or not: the member's own, or one that a standby has."""

    recording_id: int
    """The recording id in the archive of the member or standby that has it."""
    term_id: int
    term_base: int
    position: int
    timestamp: int
    service_id: int
    is_of_standby: bool
    is_valid: bool

    @property
    def place(self) -> tuple[int, int]:
        """Position and service. There is one snapshot for each."""
        return self.position, self.service_id


def snapshot_records(path: Path) -> list[SnapshotRecord]:
    """All snapshots in the order of the file; none if it cannot be read."""
    records = []
    with contextlib.suppress(LogMissing):
        for record in _records(path):
            recording_id, term, base, position, timestamp, service_id, kind = _RECORDING_LOG_ENTRY.unpack_from(record)
            kinds = (_ENTRY_SNAPSHOT, _ENTRY_STANDBY_SNAPSHOT)
            if kind & _ENTRY_KIND not in kinds or position <= 0:
                continue
            is_of_standby = kind & _ENTRY_KIND == _ENTRY_STANDBY_SNAPSHOT
            records.append(
                SnapshotRecord(
                    recording_id, term, base, position, timestamp, service_id, is_of_standby, is_valid=kind in kinds
                )
            )
    return records


def snapshot_entries(path: Path) -> list[tuple[int, int, int]]:
    """Recording id, log position and service id (-1: the module) of the valid snapshots in a recording log."""
    with contextlib.suppress(LogMissing):
        # A snapshot is taken after the entry that orders it, so never at the beginning of the log.
        return [
            (entry.recording_id, entry.position, entry.service_id)
            for entry in recording_log_entries(path)
            if not entry.is_term and entry.position > 0
        ]
    return []


def named_snapshots(path: Path) -> set[int]:
    """The log positions of all snapshots in a recording log, including invalidated ones and those of standbys."""
    snapshots = (_ENTRY_SNAPSHOT, _ENTRY_STANDBY_SNAPSHOT)
    with contextlib.suppress(LogMissing):
        entries = [_RECORDING_LOG_ENTRY.unpack_from(record) for record in _records(path)]
        return {position for _, _, _, position, _, _, kind in entries if kind & _ENTRY_KIND in snapshots}
    return set()


def term_entries(path: Path) -> list[tuple[int, int, int]]:
    """Leadership term, begin and end position (-1: not known) of the valid terms in a recording log."""
    with contextlib.suppress(LogMissing):
        return [
            (entry.term_id, entry.term_base, entry.position) for entry in recording_log_entries(path) if entry.is_term
        ]
    return []


def _log_recording_id(path: Path) -> int:
    """The recording id in the recording log's term entries."""
    for entry in recording_log_entries(path):
        if entry.is_term:
            return entry.recording_id
    raise LogMissing(f"{path} names no recording of the log")


def recording_log_entries(path: Path) -> Iterator[RecordingLogEntry]:
    """The valid terms and snapshots in the order of the file. Raises `LogMissing` when it cannot be read.

    A record of zeros was never written, so the file counts only up to it.
    """
    for record in _records(path):
        recording_id, term_id, base, position, _, service_id, kind = _RECORDING_LOG_ENTRY.unpack_from(record)
        if kind in (_ENTRY_TERM, _ENTRY_SNAPSHOT):
            recorded, is_intact = (-1, True) if kind == _ENTRY_TERM else _recorded_length(record)
            is_term = kind == _ENTRY_TERM
            yield RecordingLogEntry(recording_id, term_id, base, position, service_id, is_term, recorded, is_intact)


def _records(path: Path) -> Iterator[bytes]:
    """The first 64 bytes of each record, valid or not."""
    content = _content(path)
    offset = 0
    while offset + _RECORDING_LOG_ALIGNMENT <= len(content):
        record = content[offset : offset + _RECORDING_LOG_ALIGNMENT]
        if not any(record):
            return
        yield record
        kind = _RECORDING_LOG_ENTRY.unpack_from(record)[-1]
        length = _RECORDING_LOG_ALIGNMENT
        if kind & _ENTRY_KIND == _ENTRY_STANDBY_SNAPSHOT:
            text_length = int.from_bytes(record[_ENDPOINT_OFFSET : _ENDPOINT_OFFSET + 4], "little")
            length = max(_ENDPOINT_OFFSET + 4 + text_length + 63 & -64, length)
        offset += length


def _recorded_length(record: bytes) -> tuple[int, bool]:
    """The length of a snapshot's recording, and whether the checksum matches its fields and this length."""
    length, mark, checksum = _SNAPSHOT_LENGTH.unpack_from(record, _SNAPSHOT_LENGTH_OFFSET)
    if mark != _SNAPSHOT_LENGTH_MARK:
        return -1, True
    covered = record[:_SNAPSHOT_FIELDS] + record[_SNAPSHOT_LENGTH_OFFSET : _SNAPSHOT_LENGTH_OFFSET + 8]
    return length, zlib.crc32(covered) == checksum


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LogMissing(f"cannot read {path}: {error.strerror}") from error


def catalog_entries(path: Path) -> Iterator[CatalogEntry]:
    """The valid recordings of a catalog. Raises `LogMissing` when it cannot be read."""
    content = _sparse_content(path)
    offset = _CATALOG_HEADER_LENGTH
    while offset + _DESCRIPTOR_HEADER_LENGTH + _DESCRIPTOR.size <= len(content):
        length, state, checksum = _DESCRIPTOR_HEADER.unpack_from(content, offset)
        if length <= 0:
            return
        begin = offset + _DESCRIPTOR_HEADER_LENGTH
        offset = begin + length
        if state != _DESCRIPTOR_VALID:
            continue
        fields = _DESCRIPTOR.unpack_from(content, begin)
        is_intact = checksum == 0 or _is_checksum(checksum & 0xFFFFFFFF, bytes(content[begin:offset]))
        recording_id, start, stop, initial_term_id, segment, term, session, stream = (
            fields[index] for index in _OFFSETS
        )
        yield CatalogEntry(recording_id, start, stop, initial_term_id, segment, term, session, stream, is_intact)


def _is_checksum(checksum: int, data: bytes) -> bool:
    """Whether it is the checksum by one of the archive's two algorithms: CRC-32, or CRC-32C, which is slow in
    Python.
    """
    if zlib.crc32(data) == checksum:
        return True
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
    return value ^ 0xFFFFFFFF == checksum


def _descriptor(path: Path, recording_id: int) -> CatalogEntry:
    """A recording as its descriptor in the catalog describes it."""
    for entry in catalog_entries(path):
        if entry.recording_id == recording_id:
            if not 0 < entry.term_length <= entry.segment_length or entry.start_position < 0:
                raise LogMissing(f"{path}: the descriptor of recording {recording_id} makes no sense")
            return entry
    raise LogMissing(f"{path} has no recording {recording_id}")
