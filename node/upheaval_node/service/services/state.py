"""The state of the shipped services as messages of a snapshot: records of a kind, a key and a value.

Little-endian. A message is a run of records (uint8 kind, uint8 0, uint16 key length, uint32 value length, key in UTF-8,
value). The last message is one record of kind 0 whose value is the number of records before it (uint64) and their
CRC-32 (uint32), so that an incomplete or changed state is always detected. This module knows no service.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from upheaval_node.errors import DecodeError
from upheaval_node.service.api import SnapshotImage, SnapshotPublication

_HEAD: Final = struct.Struct("<BBHI")
_END: Final = struct.Struct("<QI")
_END_KIND: Final = 0

RUN_LENGTH: Final = 4096
"""The approximate number of bytes of a run of records."""


class Record(NamedTuple):
    """One item of the state. Each service defines its own kinds, from 1 on."""

    kind: int
    key: str
    value: bytes


def write_state(publication: SnapshotPublication, records: Iterable[Record]) -> None:
    """Offer the records in runs of about RUN_LENGTH bytes, then their number and CRC-32."""
    count = check = 0
    run = bytearray()
    for record in records:
        encoded = _encode(record)
        if run and len(run) + len(encoded) > RUN_LENGTH:
            publication.offer(bytes(run))
            run.clear()
        run += encoded
        check = zlib.crc32(encoded, check)
        count += 1
    if run:
        publication.offer(bytes(run))
    publication.offer(_encode(Record(_END_KIND, "", _END.pack(count, check))))


def read_state(image: SnapshotImage) -> Iterator[Record]:
    """The records, in order. Raises `DecodeError`, at the latest after the last one, unless all are as written."""
    count = check = 0
    while (message := image.read()) is not None:
        for record, encoded in _records(message):
            if record.kind == _END_KIND:
                if encoded != _encode(Record(_END_KIND, "", _END.pack(count, check))):
                    raise DecodeError(f"state of {count} records is not as it was written")
                return
            yield record
            count += 1
            check = zlib.crc32(encoded, check)
    raise DecodeError(f"state ends after {count} records without its end")


def _encode(record: Record) -> bytes:
    key = record.key.encode()
    return _HEAD.pack(record.kind, 0, len(key), len(record.value)) + key + record.value


def _records(message: bytes) -> Iterator[tuple[Record, bytes]]:
    offset = 0
    while offset < len(message):
        if offset + _HEAD.size > len(message):
            raise DecodeError("state record is shorter than its head")
        kind, _, key_length, value_length = _HEAD.unpack_from(message, offset)
        value_start = offset + _HEAD.size + key_length
        end = value_start + value_length
        if end > len(message):
            raise DecodeError(f"state record of {end - offset} bytes in a message of {len(message)}")
        try:
            key = message[offset + _HEAD.size : value_start].decode()
        except UnicodeDecodeError:
            raise DecodeError("key of a state record is not UTF-8 text") from None
        yield Record(kind, key, message[value_start:end]), message[offset:end]
        offset = end
