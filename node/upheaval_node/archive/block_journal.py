"""The block journal: a checksum for each of the last blocks of an active segment, which proves that they are whole.

Frames carry no checksum, so after a crash a half-written block can look like good frames. While a segment is being
written, a ring of records follows it in the same file. Each record describes one block: sequence number, positions,
length and CRC-32 of the stored bytes. The same sync makes block and record durable.

A block is whole if its record exists and agrees with it. Blocks after the last such record were never reported as
recorded: at sync levels 1 and 2, no more blocks are written than the ring holds before a sync has completed. A record
also counts the records before it that were not durable when it was written. All earlier blocks were durable, so they
cannot be torn: one that disagrees with its record was damaged.

When the segment is full or the recording stops, the ring is cut off and the file equals Aeron's. Aeron itself checks
only a segment's length. This module knows records and bytes, no files.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple
from zlib import crc32

from upheaval_node.errors import DamageError
from upheaval_node.types import NULL_POSITION

CAPACITY: Final = 1024
RECORD_LENGTH: Final = 40
LENGTH: Final = CAPACITY * RECORD_LENGTH

_RECORD: Final = struct.Struct("<QqqiI")
_CHECK: Final = struct.Struct("<I")
_UNSYNCED: Final = struct.Struct("<I")
_UNSYNCED_OFFSET: Final = _RECORD.size + _CHECK.size
_UNUSED: Final = bytes(RECORD_LENGTH)


class BlockRecord(NamedTuple):
    """One block: frames from `start` to `end`, stored in `length` bytes (of padding, only the header is stored).

    `unsynced` counts the records that were not durable when this one was written, including itself; 0 if unknown.
    """

    sequence: int
    start: int
    end: int
    length: int
    checksum: int
    unsynced: int = 0

    def pack(self) -> bytes:
        """The record as it is stored in the ring, with its own CRC-32 at the end."""
        body = _RECORD.pack(self.sequence, self.start, self.end, self.length, self.checksum)
        unsynced = _UNSYNCED.pack(self.unsynced)
        return body + _CHECK.pack(_check(body, unsynced)) + unsynced

    @property
    def offset(self) -> int:
        """Where the record is stored in the ring."""
        return self.sequence % CAPACITY * RECORD_LENGTH


def _check(body: bytes, unsynced: bytes) -> int:
    """The CRC-32 of a record: of the body alone if the count of unsynced records is unknown."""
    return crc32(unsynced if any(unsynced) else b"", crc32(body))


def read_records(ring: bytes) -> list[BlockRecord]:
    """The records of the newest lap, oldest first: all of durable blocks, and the others up to the first gap.

    A record that never reached the disk leaves an older record or nothing in its place. The records after it do not
    count. A durable record can be missing only because the one that took its place a lap later was torn, or because
    the ring was damaged. Its block was durable in any case.
    """
    by_sequence: dict[int, BlockRecord] = {}
    for offset in range(0, len(ring) - RECORD_LENGTH + 1, RECORD_LENGTH):
        data = ring[offset : offset + RECORD_LENGTH]
        if data == _UNUSED:
            continue
        body, unsynced = data[: _RECORD.size], data[_UNSYNCED_OFFSET:]
        record = BlockRecord(*_RECORD.unpack(body), *_UNSYNCED.unpack(unsynced))
        if _CHECK.unpack_from(data, _RECORD.size)[0] == _check(body, unsynced) and record.offset == offset:
            by_sequence[record.sequence] = record
    if not by_sequence:
        return []
    newest = max(by_sequence)
    lap = [by_sequence[sequence] for sequence in sorted(by_sequence) if sequence > newest - CAPACITY]
    durable = durable_sequence(lap)
    records = lap[:1]
    for record in lap[1:]:
        following = records[-1].sequence + 1
        if record.sequence > max(following, durable):
            break
        if record.sequence == following and record.start != records[-1].end:
            break
        records.append(record)
    return records


def is_synced(records: list[BlockRecord]) -> bool:
    """Whether the records show that they were written at sync level 1 or 2."""
    return any(record.unsynced for record in records)


def durable_end(records: list[BlockRecord]) -> int:
    """The position up to which all bytes of the segment are known to have been durable; -1 at sync level 0."""
    if not is_synced(records):
        return NULL_POSITION
    durable = durable_sequence(records)
    # What is older than the first record was durable when the ring no longer held its record.
    return max((record.end for record in records if record.sequence < durable), default=records[0].start)


def durable_sequence(records: list[BlockRecord]) -> int:
    """The sequence number below which all records are known to have been durable."""
    return max((record.sequence + 1 - record.unsynced for record in records if record.unsynced), default=0)


def first_changed(records: list[BlockRecord], read: Callable[[int, int], bytes]) -> BlockRecord | None:
    """The first of `records` with which the stored bytes disagree."""
    for record in records:
        data = read(record.start, record.length) if record.length else b""
        if len(data) != record.length or crc32(data) != record.checksum:
            return record
    return None


def proven_end(records: list[BlockRecord], read: Callable[[int, int], bytes]) -> int:
    """The position up to which the stored bytes agree with `records`, which must not be empty.

    Bytes before the first record are older than the ring and were made durable earlier. Raises `DamageError` for bytes
    that disagree with their record although a later record shows that they were durable.
    """
    changed = first_changed(records, read)
    if changed is None:
        return records[-1].end
    if changed.sequence < durable_sequence(records):
        raise DamageError(f"what was made durable from {changed.start} to {changed.end} has changed", changed.start)
    return changed.start
