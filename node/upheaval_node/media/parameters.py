"""The parameters of a channel that concern a stream: terms, positions, sessions. Pure functions on channels."""

from random import Random
from typing import Final, NamedTuple

from upheaval_node.errors import UsageError
from upheaval_node.media.stream_buffer import StreamParams
from upheaval_node.protocol.channel import (
    INITIAL_TERM_ID,
    MTU,
    SESSION_ID,
    TERM_ID,
    TERM_LENGTH,
    TERM_OFFSET,
    Channel,
)
from upheaval_node.protocol.frames import (
    compute_position,
    is_valid_mtu,
    is_valid_term_length,
    max_message_length,
    position_bits_to_shift,
)
from upheaval_node.settings import MediaSettings
from upheaval_node.types import FRAME_ALIGNMENT

# Session ids that are never allocated automatically (aeron.publication.reserved.session.id.low and .high).
RESERVED_SESSION_LOW: Final = -1
RESERVED_SESSION_HIGH: Final = 1000


class JoinPosition(NamedTuple):
    """A subscriber's wish where to join. It is a position only of streams with the same terms."""

    initial_term_id: int
    term_length: int
    position: int

    def of(self, initial_term_id: int, term_length: int) -> int | None:
        """The position, if the stream has the same terms; else None."""
        same = (initial_term_id, term_length) == (self.initial_term_id, self.term_length)
        return self.position if same else None


def start_position(channel: Channel, term_length: int) -> tuple[int, int] | None:
    """Initial term id and position that a channel names, or None. Raises `UsageError` if any of the three is bad."""
    initial_term_id = channel.get_int32(INITIAL_TERM_ID)
    term_id = channel.get_int32(TERM_ID)
    term_offset = channel.get_int32(TERM_OFFSET)
    if initial_term_id is None and term_id is None and term_offset is None:
        return None
    if initial_term_id is None or term_id is None or term_offset is None:
        raise UsageError(f"{channel} names only a part of init-term-id, term-id and term-offset")
    position = compute_position(term_id, term_offset, position_bits_to_shift(term_length), initial_term_id)
    if position < 0 or not 0 <= term_offset <= term_length or term_offset % FRAME_ALIGNMENT:
        raise UsageError(f"{channel} names no position of a stream")
    return initial_term_id, position


def join_position(channel: Channel, settings: MediaSettings) -> JoinPosition | None:
    """The position at which a subscription's channel wants to join. Raises `UsageError`."""
    term_length = _term_length(channel, settings)
    start = start_position(channel, term_length)
    return None if start is None else JoinPosition(start[0], term_length, start[1])


def _term_length(channel: Channel, settings: MediaSettings) -> int:
    default = settings.ipc_term_length if channel.media == "ipc" else settings.term_length
    term_length = channel.get_size(TERM_LENGTH)
    if term_length is None:
        return default
    if not is_valid_term_length(term_length):
        raise UsageError(f"{channel} names a term length that is not a power of two between 64 KiB and 1 GiB")
    return term_length


def publication_parameters(
    channel: Channel, stream_id: int, session_id: int | None, settings: MediaSettings, random: Random
) -> tuple[StreamParams, int]:
    """The stream of a new publication and the position it begins at. Raises `UsageError`."""
    if channel.is_spy or channel.media == "udp":
        raise UsageError(f"{channel} cannot be published on")
    term_length = _term_length(channel, settings)
    mtu = channel.get_size(MTU)
    mtu = settings.mtu if mtu is None else mtu
    if not is_valid_mtu(mtu) or mtu <= FRAME_ALIGNMENT or mtu > max_message_length(term_length):
        raise UsageError(f"MTU {mtu} does not suit terms of {term_length} bytes")
    if session_id is None:
        session_id = channel.get_int32(SESSION_ID)
    if session_id is None:
        session_id = random_session_id(random)
    start = start_position(channel, term_length)
    initial_term_id, position = start if start is not None else (random.randrange(-(1 << 31), 1 << 31), 0)
    return StreamParams(session_id, stream_id, initial_term_id, term_length, mtu), position


def random_session_id(random: Random) -> int:
    """A session id outside the reserved range."""
    while True:
        session_id = random.randrange(-(1 << 31), 1 << 31)
        if not RESERVED_SESSION_LOW <= session_id <= RESERVED_SESSION_HIGH:
            return session_id
