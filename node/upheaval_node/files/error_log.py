"""The distinct error log inside mark files and cnc.dat: one record for each distinct text (Aeron: distinct error log).

Record: length (int32, written last), observation count (int32), last and first observation (int64 epoch ms), text;
8-byte aligned; a length of 0 ends the log. A repeated error only raises count and time.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from upheaval_node.ports import Buffer
from upheaval_node.types import align

# Longer texts are cut: one error must not fill the log.
MAX_TEXT_LENGTH: Final = 8192

_HEADER: Final = struct.Struct("<iiqq")
_REPEAT: Final = struct.Struct("<iq")
_RECORD_ALIGNMENT: Final = 8
_COUNT_OFFSET: Final = 4
_MAX_COUNT: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error and its number of observations; times in epoch milliseconds."""

    text: str
    count: int
    first_ms: int
    last_ms: int


def read_errors(content: bytes) -> list[ErrorRecord]:
    """The records of an error buffer, up to the first that is missing or incomplete."""
    records: list[ErrorRecord] = []
    offset = 0
    while offset + _HEADER.size <= len(content):
        length, count, last_ms, first_ms = _HEADER.unpack_from(content, offset)
        if length < _HEADER.size or offset + length > len(content):
            break
        text = content[offset + _HEADER.size : offset + length].decode("ascii", "replace")
        records.append(ErrorRecord(text, count, first_ms, last_ms))
        offset += align(length, _RECORD_ALIGNMENT)
    return records


class Writable(Protocol):
    """The target of an error log: a file, or memory that other processes see."""

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Write all parts consecutively from `offset`."""


class ErrorLog:
    """Writes the error buffer in `file` from `offset` on: `length` bytes, zeros at the start."""

    def __init__(self, file: Writable, offset: int, length: int) -> None:
        self._file = file
        self._end = offset + length
        self._next = offset
        self._known: dict[bytes, tuple[int, int]] = {}

    def record(self, epoch_ms: int, text: str) -> bool:
        """Record an observation of `text`. False when it is new and the buffer is full."""
        content = text.encode("ascii", "replace")[:MAX_TEXT_LENGTH]
        known = self._known.get(content)
        if known is not None:
            offset, count = known[0], min(known[1] + 1, _MAX_COUNT)
            self._file.write(offset + _COUNT_OFFSET, [_REPEAT.pack(count, epoch_ms)])
            self._known[content] = (offset, count)
            return True
        offset = self._next
        length = _HEADER.size + len(content)
        if offset + align(length, _RECORD_ALIGNMENT) > self._end:
            return False
        header = _HEADER.pack(length, 1, epoch_ms, epoch_ms)
        self._file.write(offset + _COUNT_OFFSET, [header[_COUNT_OFFSET:], content])
        self._file.write(offset, [header[:_COUNT_OFFSET]])
        self._known[content] = (offset, 1)
        self._next = offset + align(length, _RECORD_ALIGNMENT)
        return True
