"""Recordings of a copied run: frames, the catalog, the recording log. Renews checksums.

Written from the file formats (Aeron Archive, Aeron Cluster), like the reader that judges them, but separately.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.records import MemberFolder
from upheaval.tamper.run_copy import Lacking, put_bytes

FRAME_HEADER: Final = 32
_ALIGNMENT: Final = 32
_PAD, _DATA = 0, 1
_RECORD_LENGTH: Final = 64
_RECORD: Final = struct.Struct("<qqqqqii")
_LENGTH_OFFSET, _LENGTH_MARK = 48, 0x4C485055
_VALID_KIND: Final = 0x7FFFFFFF
TERM, SNAPSHOT, STANDBY_SNAPSHOT = 0, 1, 2
MODULE: Final = -1
"""The service id of a snapshot of the consensus module."""
_CATALOG_HEADER: Final = 32
_DESCRIPTOR_HEADER: Final = 32
_DESCRIPTOR: Final = struct.Struct("<qqqqqqqiiiiii")
_STOP_OFFSET: Final = 48


@dataclass
class Entry:
    """A message of a recording, with the headers of its frames.

    `end` is its end when it was read, `placed` its end since it was written; -1 if it was not.
    """

    headers: list[bytes]
    message: bytearray
    end: int = -1
    placed: int = -1

    @property
    def template(self) -> int:
        """The template id of the message."""
        return int.from_bytes(self.message[2:4], "little")

    def long(self, offset: int) -> int:
        """A signed 64-bit field."""
        value: int = struct.unpack_from("<q", self.message, offset)[0]
        return value

    def put(self, offset: int, form: str, value: int) -> None:
        """Replace a field."""
        struct.pack_into("<" + form, self.message, offset, value)

    def copy(self, message: bytes | None = None) -> "Entry":
        """A copy of the entry; with `message`, of the header and that message."""
        return Entry(
            self.headers[:1] if message is not None else list(self.headers), bytearray(message or self.message)
        )


@dataclass(frozen=True)
class Recording:
    """A recording and the layout of its frames."""

    folder: MemberFolder
    recording_id: int
    start: int
    initial_term_id: int
    segment_length: int
    term_length: int

    def path(self, base: int = 0) -> Path:
        """The file of the segment that begins at a position."""
        return self.folder.archive / f"{self.recording_id}-{base}.rec"

    def read(self) -> list[Entry]:
        """The messages, without padding. Raises `Lacking` for a recording that does not begin at 0."""
        if self.start:
            raise Lacking(f"recording {self.recording_id} of {self.folder.name} begins later")
        entries: list[Entry] = []
        headers: list[bytes] = []
        message = bytearray()
        for begin, frame in self._frames():
            if int.from_bytes(frame[6:8], "little") != _DATA:
                continue
            headers.append(frame[:FRAME_HEADER])
            message += frame[FRAME_HEADER:]
            if frame[5] & 0x40:
                entries.append(Entry(headers, message, begin + _aligned(len(frame))))
                headers, message = [], bytearray()
        return entries

    def write(self, entries: Sequence[Entry]) -> int:
        """Replace all messages and return the end of the recording. Positions inside messages are not changed."""
        content = bytearray()
        for entry in entries:
            need = _aligned(len(entry.message) + FRAME_HEADER * len(entry.headers))
            rest = self.term_length - len(content) % self.term_length
            if need > rest:
                content += self._placed(entry.headers[0], len(content), rest, _PAD, 0xC0).ljust(rest, b"\0")
            self._append(content, entry)
            entry.placed = len(content)
        for base in range(0, max(len(content), 1), self.segment_length):
            self.put_segment(base, bytes(content[base : base + self.segment_length]))
        return len(content)

    def put_segment(self, base: int, content: bytes) -> None:
        """Replace a segment, and drop its block journal, as happens when a recording stops."""
        path = self.path(base)
        length = min(path.stat().st_size, self.segment_length) if path.exists() else self.segment_length
        put_bytes(path, content[:length].ljust(length, b"\0"))

    def describe(self, offset: int, form: str, value: int) -> None:
        """Replace a field of its descriptor in the catalog, and the descriptor's checksum if it has one."""
        path = self.folder.archive / "archive.catalog"
        content = bytearray(path.read_bytes())
        begin = _descriptor(content, self.recording_id, self.folder)
        struct.pack_into("<" + form, content, begin + offset, value)
        length, _, checksum = struct.unpack_from("<iiI", content, begin - _DESCRIPTOR_HEADER)
        if checksum:
            struct.pack_into("<I", content, begin - _DESCRIPTOR_HEADER + 8, zlib.crc32(content[begin : begin + length]))
        put_bytes(path, bytes(content))

    def stop_at(self, position: int, *, when_active: bool = False) -> None:
        """Set its stop position in the catalog; if it is active, only with `when_active`."""
        content = (self.folder.archive / "archive.catalog").read_bytes()
        begin = _descriptor(content, self.recording_id, self.folder)
        (known,) = struct.unpack_from("<q", content, begin + _STOP_OFFSET)
        if known >= 0 or when_active:
            self.describe(_STOP_OFFSET, "q", position)

    def _append(self, content: bytearray, entry: Entry) -> None:
        count = len(entry.headers)
        size = -(-len(entry.message) // count)
        if count > 1:
            size = int.from_bytes(entry.headers[0][:4], "little") - FRAME_HEADER
        for number, header in enumerate(entry.headers):
            part = entry.message[number * size : (number + 1) * size]
            length = FRAME_HEADER + len(part)
            frame = self._placed(header, len(content), length, _DATA, header[5])
            content += (frame + part).ljust(_aligned(length), b"\0")

    def _placed(self, header: bytes, position: int, length: int, kind: int, flags: int) -> bytes:
        term_id = (self.initial_term_id + position // self.term_length + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        session, stream = struct.unpack_from("<ii", header, 12)
        where = (position % self.term_length, session, stream, term_id)
        return struct.pack("<iBBHiiii", length, 0, flags, kind, *where) + header[24:32]

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        base = 0
        while self.path(base).exists():
            content = self.path(base).read_bytes()
            offset = 0
            while offset + 4 <= len(content) and (length := int.from_bytes(content[offset : offset + 4], "little")) > 0:
                yield base + offset, content[offset : offset + length]
                offset += _aligned(length)
            base += self.segment_length


def _aligned(length: int) -> int:
    return length + _ALIGNMENT - 1 & -_ALIGNMENT


@dataclass(frozen=True)
class LogRecord:
    """A record of a recording log; `at` is its offset in the file."""

    at: int
    recording_id: int
    term: int
    base: int
    position: int
    timestamp: int
    service: int
    kind: int
    tail: bytes

    @property
    def what(self) -> int:
        """The kind of record, whether valid or not."""
        return self.kind & _VALID_KIND

    @property
    def is_valid(self) -> bool:
        """Whether the record is marked valid."""
        return self.kind >= 0

    def invalidated(self) -> "LogRecord":
        """The record, marked invalid."""
        return replace(self, kind=self.kind - 0x80000000)

    def of_length(self, length: int) -> "LogRecord":
        """The record with another length of its recording; unchanged if it has no length."""
        return replace(self, tail=struct.pack("<q", length) + self.tail[8:]) if self._has_length else self

    @property
    def _has_length(self) -> bool:
        return self.what == SNAPSHOT and int.from_bytes(self.tail[8:12], "little") == _LENGTH_MARK

    def to_bytes(self) -> bytes:
        """The bytes of the record, with a new checksum if it has one."""
        fields = _RECORD.pack(
            self.recording_id, self.term, self.base, self.position, self.timestamp, self.service, self.kind
        )
        if not self._has_length:
            return fields + self.tail
        checksum = zlib.crc32(fields[:44] + self.tail[:8])
        return fields + self.tail[:12] + struct.pack("<I", checksum)


def log_records(folder: MemberFolder) -> list[LogRecord]:
    """The records of a node's recording log. Raises `Lacking` without one."""
    if not folder.recording_log.exists():
        raise Lacking(f"no recording log of {folder.name}")
    content = folder.recording_log.read_bytes()
    records = []
    at = 0
    while at + _RECORD_LENGTH <= len(content):
        recording, term, base, position, timestamp, service, kind = _RECORD.unpack_from(content, at)
        length = _record_length(content, at, kind)
        tail = content[at + _RECORD.size : at + length]
        records.append(LogRecord(at, recording, term, base, position, timestamp, service, kind, tail))
        at += length
    return records


def _record_length(content: bytes, at: int, kind: int) -> int:
    if kind & _VALID_KIND != STANDBY_SNAPSHOT:
        return _RECORD_LENGTH
    endpoint = int.from_bytes(content[at + 48 : at + 52], "little")
    return 52 + endpoint + _RECORD_LENGTH - 1 & -_RECORD_LENGTH


def put_log_records(folder: MemberFolder, records: Sequence[LogRecord]) -> None:
    """Replace a recording log."""
    folder.recording_log.write_bytes(b"".join(record.to_bytes() for record in records))


def recording_of(folder: MemberFolder, recording_id: int) -> Recording:
    """A recording, by its catalog entry. Raises `Lacking`."""
    content = (folder.archive / "archive.catalog").read_bytes()
    begin = _descriptor(content, recording_id, folder)
    fields = _DESCRIPTOR.unpack_from(content, begin)
    return Recording(folder, recording_id, fields[5], fields[7], fields[8], fields[9])


def log_of(folder: MemberFolder) -> Recording:
    """The log of a node, by the last valid term in its recording log. Raises `Lacking`."""
    terms = [record for record in log_records(folder) if record.what == TERM and record.is_valid]
    if not terms:
        raise Lacking(f"{folder.name} has no log")
    return recording_of(folder, terms[-1].recording_id)


def _descriptor(content: bytes | bytearray, recording_id: int, folder: MemberFolder) -> int:
    offset = _CATALOG_HEADER
    while offset + _DESCRIPTOR_HEADER + _DESCRIPTOR.size <= len(content):
        length = int(struct.unpack_from("<i", content, offset)[0])
        if length <= 0:
            break
        begin = offset + _DESCRIPTOR_HEADER
        if _DESCRIPTOR.unpack_from(content, begin)[2] == recording_id:
            return begin
        offset = begin + length
    raise Lacking(f"the catalog of {folder.name} has no recording {recording_id}")


def put_in_file(path: Path, offset: int, value: int) -> None:
    """Replace a number of eight bytes in a file. Raises `Lacking` without the file."""
    if not path.exists():
        raise Lacking(f"no {path.name}")
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(struct.pack("<q", value))
