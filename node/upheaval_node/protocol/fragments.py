"""Cutting messages into data frames and putting them together again.

A message longer than the MTU allows becomes several frames, one after the other in one term: BEGIN on the
first, END on the last (Aeron transport protocol: fragmentation). Pure functions and one small buffer; which stream
the frames belong to is the caller's business.
"""

import struct
from collections.abc import Sequence
from typing import Final

from upheaval_node.ports import Buffer
from upheaval_node.protocol.frames import (
    FLAG_BEGIN,
    FLAG_END,
    FLAGS_UNFRAGMENTED,
    MAX_MESSAGE_LENGTH,
    TYPE_DATA,
    TYPE_PAD,
)
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, align

_HEADER: Final = struct.Struct("<iBBHiiiiq")
_ZEROS: Final = bytes(FRAME_ALIGNMENT)


def framed_length(length: int, max_payload_length: int) -> int:
    """Bytes that a message of `length` bytes takes in the log, headers and alignment included."""
    full, rest = divmod(length, max_payload_length)
    if full == 0:
        return align(length + FRAME_HEADER_LENGTH, FRAME_ALIGNMENT)
    framed = full * align(max_payload_length + FRAME_HEADER_LENGTH, FRAME_ALIGNMENT)
    return framed + (align(rest + FRAME_HEADER_LENGTH, FRAME_ALIGNMENT) if rest else 0)


def append_message(
    block: bytearray,
    parts: Sequence[Buffer],
    *,
    max_payload_length: int,
    term_offset: int,
    session_id: int,
    stream_id: int,
    term_id: int,
    reserved_value: int = 0,
) -> int:
    """Append the frames of one message, given in parts, and return how many bytes they take.

    The caller has made sure that `framed_length` bytes fit after `term_offset` in the term.
    """
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    length = len(payload)
    if length <= max_payload_length:
        block += _HEADER.pack(
            length + FRAME_HEADER_LENGTH,
            0,
            FLAGS_UNFRAGMENTED,
            TYPE_DATA,
            term_offset,
            session_id,
            stream_id,
            term_id,
            reserved_value,
        )
        block += payload
        padding = -length % FRAME_ALIGNMENT
        block += _ZEROS[:padding]
        return FRAME_HEADER_LENGTH + length + padding
    return _append_fragments(
        block, memoryview(payload), max_payload_length, term_offset, (session_id, stream_id, term_id, reserved_value)
    )


def _append_fragments(
    block: bytearray, payload: memoryview, max_payload_length: int, term_offset: int, tail: tuple[int, int, int, int]
) -> int:
    start = term_offset
    flags = FLAG_BEGIN
    for offset in range(0, len(payload), max_payload_length):
        piece = payload[offset : offset + max_payload_length]
        if offset + max_payload_length >= len(payload):
            flags |= FLAG_END
        block += _HEADER.pack(len(piece) + FRAME_HEADER_LENGTH, 0, flags, TYPE_DATA, term_offset, *tail)
        block += piece
        block += _ZEROS[: -len(piece) % FRAME_ALIGNMENT]
        term_offset += align(len(piece) + FRAME_HEADER_LENGTH, FRAME_ALIGNMENT)
        flags = 0
    return term_offset - start


def padding_header(*, length: int, term_offset: int, session_id: int, stream_id: int, term_id: int) -> bytes:
    """The 32 bytes that replace a padding frame of `length` bytes: its body is never stored or sent."""
    assert length % FRAME_ALIGNMENT == 0, length
    assert length >= FRAME_HEADER_LENGTH, length
    return _HEADER.pack(length, 0, FLAGS_UNFRAGMENTED, TYPE_PAD, term_offset, session_id, stream_id, term_id, 0)


class FragmentAssembler:
    """Puts the fragments of one stream session together.

    A fragment that does not follow the one before drops the message begun; so does a message above `max_length`
    bytes, which is what bounds the memory that a peer can claim.
    """

    __slots__ = ("_expected", "_message", "max_length", "too_long")

    def __init__(self, max_length: int = MAX_MESSAGE_LENGTH) -> None:
        self.max_length = max_length
        # How many messages were dropped for their length.
        self.too_long = 0
        self._message = bytearray()
        self._expected = -1

    def on_fragment(self, flags: int, payload: Buffer, position: int, end_position: int) -> Buffer | None:
        """Take the data frame at `position` and return the message that it completes, if any.

        `end_position` is that of the next frame. The payload of an unfragmented message is handed back as it is,
        that of others as new bytes.
        """
        if flags & FLAGS_UNFRAGMENTED == FLAGS_UNFRAGMENTED:
            self.reset()
            return payload
        if flags & FLAG_BEGIN:
            self.reset()
        elif position != self._expected:
            self.reset()
            return None
        if len(self._message) + len(payload) > self.max_length:
            self.too_long += 1
            self.reset()
            return None
        # Fragments without payload are legal, and endless ones must cost nothing.
        self._message += payload
        self._expected = end_position
        if not flags & FLAG_END:
            return None
        message = bytes(self._message)
        self.reset()
        return message

    def reset(self) -> None:
        """Forget a message begun."""
        if self._expected >= 0:
            self._message = bytearray()
            self._expected = -1
