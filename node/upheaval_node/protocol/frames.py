"""Aeron's frames: headers of data, padding, setup, status and response-setup frames, and log position arithmetic.

Little-endian throughout; every frame starts at a multiple of 32 bytes (Aeron transport protocol). Blocks of data
frames are read on the hot path through `memoryview.cast("i")` and `cast("q")` with the word indexes given here.
This module knows layouts only: no streams, no connections.
"""

import struct
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, align

assert sys.byteorder == "little", "frames are read in place, which needs a little-endian machine"

TYPE_PAD: Final = 0x00
TYPE_DATA: Final = 0x01
TYPE_NAK: Final = 0x02
TYPE_SM: Final = 0x03
TYPE_SETUP: Final = 0x05
TYPE_RSP_SETUP: Final = 0x0B

FLAG_BEGIN: Final = 0x80
FLAG_END: Final = 0x40
FLAG_EOS: Final = 0x20
FLAGS_UNFRAGMENTED: Final = FLAG_BEGIN | FLAG_END
FLAGS_EOS_HEARTBEAT: Final = FLAGS_UNFRAGMENTED | FLAG_EOS

SM_FLAG_END_OF_STREAM: Final = 0x40

# Byte offset within a frame.
TYPE_OFFSET: Final = 6

# Word indexes within a data frame for memoryview.cast("i").
VERSION_FLAGS_TYPE_WORD: Final = 1
SESSION_ID_WORD: Final = 3

COMMON_HEADER_LENGTH: Final = 8
SETUP_LENGTH: Final = 40
SM_LENGTH: Final = 36
SM_GROUP_LENGTH: Final = 44
RSP_SETUP_LENGTH: Final = 20

MIN_TERM_LENGTH: Final = 64 * 1024
MAX_TERM_LENGTH: Final = 1 << 30
MIN_MTU: Final = 32
MAX_MTU: Final = 65504
MAX_MESSAGE_LENGTH: Final = 16 * 1024 * 1024

_COMMON: Final = struct.Struct("<iBBH")
_DATA: Final = struct.Struct("<iBBHiiiiq")
_SETUP: Final = struct.Struct("<iBBHiiiiiiii")
_SM: Final = struct.Struct("<iBBHiiiiiq")
_RSP_SETUP: Final = struct.Struct("<iBBHiii")


def version_flags_type(flags: int, frame_type: int) -> int:
    """The second int32 of a frame as `memoryview.cast("i")` sees it (version 0)."""
    return flags << 8 | frame_type << 16


# The second int32 of an unfragmented data frame.
DATA_UNFRAGMENTED: Final = version_flags_type(FLAGS_UNFRAGMENTED, TYPE_DATA)


class CommonHeader(NamedTuple):
    """The first 8 bytes of every frame."""

    frame_length: int
    version: int
    flags: int
    type: int


class DataHeader(NamedTuple):
    """Header of a DATA or PAD frame. A heartbeat has frame length 0; padding counts the bytes to be skipped."""

    frame_length: int
    flags: int
    type: int
    term_offset: int
    session_id: int
    stream_id: int
    term_id: int
    reserved_value: int = 0

    def pack(self) -> bytes:
        """The 32 bytes of the header."""
        length, flags, kind, term_offset, session_id, stream_id, term_id, reserved = self
        return _DATA.pack(length, 0, flags, kind, term_offset, session_id, stream_id, term_id, reserved)


class Setup(NamedTuple):
    """How a publisher announces a stream before its data. Lengths in bytes."""

    term_offset: int
    session_id: int
    stream_id: int
    initial_term_id: int
    active_term_id: int
    term_length: int
    mtu: int
    ttl: int = 0
    flags: int = 0

    def pack(self) -> bytes:
        """The 40 bytes of the SETUP frame."""
        return _SETUP.pack(SETUP_LENGTH, 0, self.flags, TYPE_SETUP, *self[:8])

    @property
    def position(self) -> int:
        """The position at which the image starts."""
        shift = position_bits_to_shift(self.term_length)
        return compute_position(self.active_term_id, self.term_offset, shift, self.initial_term_id)


class StatusMessage:
    """What a receiver has consumed and how many bytes more it takes."""

    __slots__ = (
        "consumption_term_id",
        "consumption_term_offset",
        "flags",
        "group_tag",
        "receiver_id",
        "receiver_window",
        "session_id",
        "stream_id",
    )

    def __init__(
        self,
        session_id: int,
        stream_id: int,
        consumption_term_id: int,
        consumption_term_offset: int,
        receiver_window: int,
        receiver_id: int,
        flags: int = 0,
        group_tag: int | None = None,
    ) -> None:
        self.session_id: Final = session_id
        self.stream_id: Final = stream_id
        self.consumption_term_id: Final = consumption_term_id
        self.consumption_term_offset: Final = consumption_term_offset
        self.receiver_window: Final = receiver_window
        self.receiver_id: Final = receiver_id
        self.flags: Final = flags
        self.group_tag: Final = group_tag

    def pack(self) -> bytes:
        """The SM frame: 36 bytes, 44 with a group tag."""
        tail = b"" if self.group_tag is None else self.group_tag.to_bytes(8, "little", signed=True)
        head = _SM.pack(
            SM_LENGTH + len(tail),
            0,
            self.flags,
            TYPE_SM,
            self.session_id,
            self.stream_id,
            self.consumption_term_id,
            self.consumption_term_offset,
            self.receiver_window,
            self.receiver_id,
        )
        return head + tail


class ResponseSetup(NamedTuple):
    """Ties a response stream to the connection that this frame travels on.

    Over UDP `response_session_id` is the session of the response publication; over `aeron:tcp` it carries the
    token that `response-correlation-id` of the answering publication names.
    """

    session_id: int
    stream_id: int
    response_session_id: int

    def pack(self) -> bytes:
        """The 20 bytes of the RSP_SETUP frame."""
        return _RSP_SETUP.pack(RSP_SETUP_LENGTH, 0, 0, TYPE_RSP_SETUP, *self)


def pack_heartbeat(flags: int, term_offset: int, session_id: int, stream_id: int, term_id: int) -> bytes:
    """A data frame of length 0: the stream is alive, and so far written."""
    return _DATA.pack(0, 0, flags, TYPE_DATA, term_offset, session_id, stream_id, term_id, 0)


def unpack_common(buffer: Buffer, offset: int = 0) -> CommonHeader:
    """The first 8 bytes of a frame. Raises `DecodeError` for a short buffer, another version or a negative length."""
    if offset < 0 or offset + COMMON_HEADER_LENGTH > len(buffer):
        raise DecodeError(f"no frame header at {offset} of {len(buffer)} bytes")
    header = CommonHeader._make(_COMMON.unpack_from(buffer, offset))
    if header.version != 0 or header.frame_length < 0:
        raise DecodeError(f"invalid frame header {header}")
    return header


def unpack_data_header(buffer: Buffer, offset: int = 0) -> DataHeader:
    """Header of the DATA or PAD frame at `offset`. Raises `DecodeError` for anything else.

    The frame length is 0 (heartbeat) or at least a header; whether the payload is there is the caller's to check.
    """
    common = _expect(buffer, offset, FRAME_HEADER_LENGTH)
    if common.type not in (TYPE_DATA, TYPE_PAD):
        raise DecodeError(f"frame type {common.type} is neither data nor padding")
    if 0 < common.frame_length < FRAME_HEADER_LENGTH:
        raise DecodeError(f"data frame of {common.frame_length} bytes")
    length, _, flags, kind, *rest = _DATA.unpack_from(buffer, offset)
    return DataHeader(length, flags, kind, *rest)


def unpack_setup(buffer: Buffer, offset: int = 0) -> Setup:
    """A SETUP frame with valid lengths: power-of-two term, aligned offset inside it, aligned MTU. Or `DecodeError`."""
    common = _expect(buffer, offset, SETUP_LENGTH, TYPE_SETUP)
    setup = Setup._make((*_SETUP.unpack_from(buffer, offset)[4:], common.flags))
    if not is_valid_term_length(setup.term_length):
        raise DecodeError(f"setup with term length {setup.term_length}")
    if not 0 <= setup.term_offset < setup.term_length or setup.term_offset % FRAME_ALIGNMENT:
        raise DecodeError(f"setup with term offset {setup.term_offset}")
    if not is_valid_mtu(setup.mtu):
        raise DecodeError(f"setup with MTU {setup.mtu}")
    if _wrap_int32(setup.active_term_id - setup.initial_term_id) < 0:
        raise DecodeError(f"setup with term {setup.active_term_id} before the initial {setup.initial_term_id}")
    return setup


def unpack_status(buffer: Buffer, offset: int = 0) -> StatusMessage:
    """A status message. Raises `DecodeError`; whether the position suits the stream is the caller's to check."""
    if offset < 0 or len(buffer) < offset + SM_LENGTH:
        _expect(buffer, offset, SM_LENGTH, TYPE_SM)
    length, version, flags, kind, session_id, stream_id, term_id, term_offset, window, receiver_id = _SM.unpack_from(
        buffer, offset
    )
    if version != 0 or kind != TYPE_SM or length < SM_LENGTH:
        _expect(buffer, offset, SM_LENGTH, TYPE_SM)
    if term_offset < 0 or term_offset % FRAME_ALIGNMENT or window < 0:
        raise DecodeError(f"status message with offset {term_offset} and window {window}")
    group_tag = None
    if length == SM_GROUP_LENGTH:
        _expect(buffer, offset, SM_GROUP_LENGTH, TYPE_SM)
        group_tag = int.from_bytes(buffer[offset + SM_LENGTH : offset + SM_GROUP_LENGTH], "little", signed=True)
    return StatusMessage(session_id, stream_id, term_id, term_offset, window, receiver_id, flags, group_tag)


def unpack_response_setup(buffer: Buffer, offset: int = 0) -> ResponseSetup:
    """A RSP_SETUP frame. Raises `DecodeError`."""
    _expect(buffer, offset, RSP_SETUP_LENGTH, TYPE_RSP_SETUP)
    return ResponseSetup._make(_RSP_SETUP.unpack_from(buffer, offset)[4:])


def _expect(buffer: Buffer, offset: int, length: int, frame_type: int | None = None) -> CommonHeader:
    common = unpack_common(buffer, offset)
    if frame_type is not None and (common.type != frame_type or common.frame_length < length):
        raise DecodeError(f"{common} where type {frame_type} of {length} bytes was expected")
    if offset + length > len(buffer):
        raise DecodeError(f"frame of {length} bytes at {offset} ends after the buffer of {len(buffer)}")
    return common


def walk(block: Buffer) -> Iterator[tuple[int, DataHeader]]:
    """Offset and header of each frame in a block of whole frames; a last PAD may be its header only.

    Stops at the first frame length of 0. Raises `DecodeError` when a frame is malformed or not whole. For people
    and tools; the hot path indexes words instead.
    """
    offset = 0
    while offset + FRAME_HEADER_LENGTH <= len(block):
        header = unpack_data_header(block, offset)
        if header.frame_length == 0:
            return
        end = offset + align(header.frame_length, FRAME_ALIGNMENT)
        if header.type == TYPE_DATA and end > len(block):
            raise DecodeError(f"data frame of {header.frame_length} bytes at {offset} ends after the block")
        yield offset, header
        offset = end


# --- positions ----------------------------------------------------------------------------------------------------


def _wrap_int32(value: int) -> int:
    """`value` as a signed 32-bit integer, wrapped as Java's int arithmetic does."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def is_valid_term_length(term_length: int) -> bool:
    """A power of two between 64 KiB and 1 GiB."""
    return MIN_TERM_LENGTH <= term_length <= MAX_TERM_LENGTH and term_length & (term_length - 1) == 0


def is_valid_mtu(mtu: int) -> bool:
    """A multiple of 32 between 32 and 65504."""
    return MIN_MTU <= mtu <= MAX_MTU and mtu % FRAME_ALIGNMENT == 0


def position_bits_to_shift(term_length: int) -> int:
    """log2 of a valid term length. Raises `UsageError` for any other length."""
    if not is_valid_term_length(term_length):
        raise UsageError(f"term length: expected a power of two between 64 KiB and 1 GiB, got {term_length}")
    return term_length.bit_length() - 1


def compute_position(term_id: int, term_offset: int, shift: int, initial_term_id: int) -> int:
    """Position of an offset in a term. Term ids wrap around as int32."""
    return (_wrap_int32(term_id - initial_term_id) << shift) + term_offset


def term_id_at(position: int, shift: int, initial_term_id: int) -> int:
    """The term that holds `position`."""
    return _wrap_int32(initial_term_id + (position >> shift))


def term_offset_at(position: int, shift: int) -> int:
    """The offset in its term of a position, for terms of `1 << shift` bytes."""
    return position & ((1 << shift) - 1)


def max_message_length(term_length: int) -> int:
    """The longest message a stream takes, in bytes: an eighth of a term, at most 16 MiB."""
    return min(term_length // 8, MAX_MESSAGE_LENGTH)


def max_position(term_length: int) -> int:
    """Where a stream ends for lack of term ids."""
    return term_length << 31
