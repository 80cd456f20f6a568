"""Checksums of frames and descriptors, under the names of Aeron's settings (Aeron archive: record checksum).

A data frame keeps its checksum in the field of its session id, which a replay overwrites anyway. The checksum covers
the frame after its header, including the alignment bytes. Padding has none. The module knows frames and bytes, no
files.
"""

from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

from upheaval_node.errors import DamageError, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.protocol.frames import SESSION_ID_WORD, TYPE_DATA, VERSION_FLAGS_TYPE_WORD
from upheaval_node.types import FRAME_HEADER_LENGTH

Checksum = Callable[[Buffer], int]
"""Maps bytes to a signed 32-bit number."""

_CASTAGNOLI: Final = 0x82F63B78
_MASK: Final = 0xFFFFFFFF


def _signed(value: int) -> int:
    return (value ^ 0x80000000) - 0x80000000


def _crc32(data: Buffer) -> int:
    return _signed(crc32(data))


def _table_of(polynomial: int) -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ polynomial if value & 1 else value >> 1
        table.append(value)
    return tuple(table)


_TABLE_C: Final = _table_of(_CASTAGNOLI)


def _crc32c(data: Buffer) -> int:
    """CRC-32C, byte by byte in Python: fit for reading the recordings of others, too slow for recording."""
    table = _TABLE_C
    value = _MASK
    for byte in memoryview(data):
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return _signed(value ^ _MASK)


_NAMED: Final[dict[str, Checksum]] = {
    "CRC-32": _crc32,
    "org.agrona.checksum.Crc32": _crc32,
    "io.aeron.archive.checksum.Crc32": _crc32,
    "CRC-32C": _crc32c,
    "org.agrona.checksum.Crc32c": _crc32c,
    "io.aeron.archive.checksum.Crc32c": _crc32c,
}


def checksum_named(name: str) -> Checksum | None:
    """The checksum of that name, or None for the empty name. Raises `UsageError` for an unknown one."""
    if not name:
        return None
    checksum = _NAMED.get(name)
    if checksum is None:
        raise UsageError(f"unknown checksum {name!r}: use CRC-32 or CRC-32C")
    return checksum


def stamped(block: Buffer, checksum: Checksum) -> bytearray:
    """A copy of whole frames with their checksums set."""
    copy = bytearray(block)
    with memoryview(copy) as view, view.cast("i") as words:
        for offset, end in _data_frames(words):
            words[(offset >> 2) + SESSION_ID_WORD] = checksum(view[offset + FRAME_HEADER_LENGTH : end])
    return copy


def verify(block: Buffer, position: int, checksum: Checksum) -> None:
    """Raises `DamageError` for the first of the whole frames from `position` on that has changed since it was
    recorded.
    """
    with memoryview(block) as view, view.cast("i") as words:
        for offset, end in _data_frames(words):
            recorded = words[(offset >> 2) + SESSION_ID_WORD]
            computed = checksum(view[offset + FRAME_HEADER_LENGTH : end])
            if recorded != computed:
                raise DamageError(
                    f"CRC checksum mismatch at position={position + offset}: recorded checksum={recorded},"
                    f" computed checksum={computed}"
                )


def is_intact(frame: Buffer, checksum: Checksum) -> bool:
    """Whether a whole data frame holds the checksum of its bytes."""
    try:
        verify(frame, 0, checksum)
    except DamageError:
        return False
    return True


def _data_frames(words: memoryview) -> Iterator[tuple[int, int]]:
    """The begin and end offset of each data frame. A padding frame ends the block and consists of its header only."""
    offset, length = 0, len(words) * 4
    while offset < length:
        word = offset >> 2
        end = offset + (words[word] + 31 & -32)
        if words[word + VERSION_FLAGS_TYPE_WORD] >> 16 != TYPE_DATA or end > length or end <= offset:
            return
        yield offset, end
        offset = end
