"""One record of the recording log: its value, its order among others, its bytes.

Records are multiples of 64 bytes: recordingId, leadershipTermId, termBaseLogPosition, logPosition, timestamp (int64
each), serviceId, entryType (int32 each), and for standby snapshots length and text of an archive endpoint. Bit 31 of
the type marks an entry as invalid; a type of -1 means a removed one (Aeron Cluster: recording log).

A record of zeros was never written: a power cut can leave the length of a file without its content. Entries after one
are not relied on: what is missing between them and those before is not known.

What Aeron leaves undefined after a snapshot of this node (bytes 48 to 63) holds the length of its recording (int64), a
mark that says so, and a CRC-32 of both and of bytes 0 to 43: by it a recording that lost its end is recognised.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.types import NULL_VALUE, Position, TermId, align

CONSENSUS_MODULE_ID: Final = -1

RECORD_ALIGNMENT: Final = 64
MAX_RECORD_LENGTH: Final = 4096
TERM_BASE_OFFSET: Final = 16
LOG_POSITION_OFFSET: Final = 24
TYPE_OFFSET: Final = 44
ENDPOINT_OFFSET: Final = 48
MAX_ENDPOINT_LENGTH: Final = MAX_RECORD_LENGTH - ENDPOINT_OFFSET - 4

REMOVED_TYPE: Final = b"\xff\xff\xff\xff"

_RECORD: Final = struct.Struct("<qqqqqiI")
_LENGTH: Final = struct.Struct("<qII")
_LENGTH_MARK: Final = 0x4C485055
_INVALID_FLAG: Final = 1 << 31
_REMOVED: Final = 0xFFFFFFFF
_NEVER_WRITTEN: Final = bytes(RECORD_ALIGNMENT)


class EntryType(IntEnum):
    """The kinds of records (Aeron Cluster: ENTRY_TYPE_TERM, _SNAPSHOT, _STANDBY_SNAPSHOT)."""

    TERM = 0
    SNAPSHOT = 1
    STANDBY_SNAPSHOT = 2


_TYPES: Final = {int(member): member for member in EntryType}

# A complete set of snapshots ends with the module's, which sorts last because its service id is -1.
_TYPE_ORDER: Final = {EntryType.TERM: 0, EntryType.STANDBY_SNAPSHOT: 1, EntryType.SNAPSHOT: 2}


@dataclass(frozen=True, slots=True)
class Entry:
    """A record. `log_position` of a TERM is where it ends, -1 while open; of a snapshot where it was taken.

    `timestamp` is in the cluster's time unit; `service_id` is -1 for terms and for the module's snapshot;
    `entry_index` is the ordinal of the record in the file, `offset` its place in bytes. `recorded_length` is that of a
    snapshot's recording, -1 where it is not known.
    """

    recording_id: int
    leadership_term_id: TermId
    term_base_log_position: Position
    log_position: Position
    timestamp: int
    service_id: int
    type: EntryType
    is_valid: bool = True
    entry_index: int = NULL_VALUE
    offset: int = NULL_VALUE
    archive_endpoint: str = ""
    recorded_length: int = NULL_VALUE

    @property
    def is_snapshot(self) -> bool:
        """Whether this is a snapshot of either kind, valid or not."""
        return self.type is not EntryType.TERM

    @property
    def is_valid_snapshot(self) -> bool:
        """Whether this is a valid local snapshot."""
        return self.is_valid and self.type is EntryType.SNAPSHOT

    @property
    def is_module_snapshot(self) -> bool:
        """Whether this is a valid local snapshot of the consensus module: the head of a set."""
        return self.is_valid_snapshot and self.service_id == CONSENSUS_MODULE_ID

    @property
    def is_invalid_snapshot(self) -> bool:
        """Whether this is an invalidated local snapshot, which may become valid again."""
        return not self.is_valid and self.type is EntryType.SNAPSHOT

    def is_same_set(self, module: "Entry") -> bool:
        """Whether this is a local snapshot of the same term and position as the module's."""
        is_same = (self.leadership_term_id, self.log_position) == (module.leadership_term_id, module.log_position)
        return is_same and self.type is EntryType.SNAPSHOT

    def is_same_snapshot(self, other: "Entry") -> bool:
        """Whether both records describe the same snapshot, wherever it is recorded."""
        return self.is_snapshot and _identity(self) == _identity(other)


def _identity(entry: Entry) -> tuple[int | str, ...]:
    return (
        int(entry.type),
        entry.leadership_term_id,
        entry.term_base_log_position,
        entry.log_position,
        entry.service_id,
        entry.archive_endpoint,
    )


def sort_key(entry: Entry) -> tuple[int, int, int, int, int]:
    """Order in memory: by term, base and kind; terms by their place in the file, snapshots by position, services last
    to first."""
    head = (entry.leadership_term_id, entry.term_base_log_position, _TYPE_ORDER[entry.type])
    if entry.type is EntryType.TERM:
        return (*head, entry.entry_index, 0)
    return (*head, entry.log_position, -entry.service_id)


def _type_number(entry: Entry) -> int:
    return int(entry.type) | (0 if entry.is_valid else _INVALID_FLAG)


def encode_type(entry: Entry) -> bytes:
    """The bytes of the entryType field at TYPE_OFFSET, with the bit of invalid entries."""
    return struct.pack("<I", _type_number(entry))


def encode_position(position: Position) -> bytes:
    """The bytes of the field at TERM_BASE_OFFSET or LOG_POSITION_OFFSET."""
    return struct.pack("<q", position)


def encode_entry(entry: Entry) -> bytes:
    """The whole record, zeros after its content. Raises `UsageError` when a value or the endpoint does not fit."""
    try:
        record = _RECORD.pack(
            entry.recording_id,
            entry.leadership_term_id,
            entry.term_base_log_position,
            entry.log_position,
            entry.timestamp,
            entry.service_id,
            _type_number(entry),
        )
    except struct.error as error:
        raise UsageError(f"{entry} does not fit a record: {error}") from error
    if entry.type is EntryType.STANDBY_SNAPSHOT:
        endpoint = entry.archive_endpoint.encode("ascii", "replace")
        if len(endpoint) > MAX_ENDPOINT_LENGTH:
            raise UsageError(f"archive endpoint of {len(endpoint)} characters")
        record += struct.pack("<i", len(endpoint)) + endpoint
    elif entry.recorded_length != NULL_VALUE:
        record += _encode_length(record, entry.recorded_length)
    return record.ljust(align(len(record), RECORD_ALIGNMENT), b"\0")


def read_entries(content: bytes) -> tuple[list[Entry], int, int]:
    """All entries of a file in file order, the number of records, and where the last whole record ends.

    What comes after a record of zeros is left out. Raises `DecodeError` for an unknown type or an impossible
    endpoint.
    """
    entries: list[Entry] = []
    count = 0
    offset = 0
    while offset + RECORD_ALIGNMENT <= len(content):
        if content[offset : offset + RECORD_ALIGNMENT] == _NEVER_WRITTEN:
            break
        recording_id, term, base, position, timestamp, service_id, type_number = _RECORD.unpack_from(content, offset)
        length = RECORD_ALIGNMENT
        if type_number != _REMOVED:
            kind = _TYPES.get(type_number & ~_INVALID_FLAG)
            if kind is None:
                raise DecodeError(f"recording log entry {count} has the unknown type {type_number}")
            endpoint = ""
            if kind is EntryType.STANDBY_SNAPSHOT:
                decoded = _endpoint(content, offset, count)
                if decoded is None:
                    break
                endpoint, length = decoded
            is_valid = not type_number & _INVALID_FLAG
            values = (recording_id, term, base, position, timestamp, service_id)
            recorded = _recorded_length(content, offset) if kind is EntryType.SNAPSHOT else NULL_VALUE
            entries.append(Entry(*values, kind, is_valid, count, offset, endpoint, recorded))
        count += 1
        offset += length
    return entries, count, offset


def _encode_length(record: bytes, length: int) -> bytes:
    check = zlib.crc32(record[:TYPE_OFFSET] + struct.pack("<q", length))
    return _LENGTH.pack(length, _LENGTH_MARK, check)


def _recorded_length(content: bytes, offset: int) -> int:
    length, mark, _ = _LENGTH.unpack_from(content, offset + ENDPOINT_OFFSET)
    stored = content[offset + ENDPOINT_OFFSET : offset + RECORD_ALIGNMENT]
    is_ours = mark == _LENGTH_MARK and stored == _encode_length(content[offset : offset + TYPE_OFFSET], length)
    return length if is_ours else NULL_VALUE


def _endpoint(content: bytes, offset: int, index: int) -> tuple[str, int] | None:
    """Archive endpoint and record length of the standby snapshot at `offset`; None if the file ends inside it."""
    (size,) = struct.unpack_from("<i", content, offset + ENDPOINT_OFFSET)
    if not 0 <= size <= MAX_ENDPOINT_LENGTH:
        raise DecodeError(f"recording log entry {index} has an endpoint of {size} characters")
    start = offset + ENDPOINT_OFFSET + 4
    length = align(ENDPOINT_OFFSET + 4 + size, RECORD_ALIGNMENT)
    if offset + length > len(content):
        return None
    try:
        return content[start : start + size].decode("ascii"), length
    except UnicodeDecodeError as error:
        raise DecodeError(f"recording log entry {index} has an endpoint that is not text") from error
