"""The bytes of a connection along a link, or of a datagram, which the member at its end answers undisturbed.

On channels where a member listens for any publisher, a stream is announced and its status awaited, then the stream is
ended. On the others, where a member takes only the stream that it expects, it gets a frame that is none, ends the
connection and reports one malformed frame.

By datagrams, a heartbeat of an unannounced stream is answered by a status that asks for a setup. On the
other channels a `probe` is answered by the proxy, when it has come out there. This module knows bytes, no sockets.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

from upheaval_chaos.probes import probe
from upheaval_chaos.target import CHANNELS, INGRESS
from upheaval_node.protocol.constants import ARCHIVE_CONTROL_STREAM_ID, CONSENSUS_STREAM_ID, INGRESS_STREAM_ID
from upheaval_node.protocol.frames import (
    FLAGS_EOS_HEARTBEAT,
    FLAGS_UNFRAGMENTED,
    Setup,
    StatusMessage,
    pack_heartbeat,
)

_STREAMS: Final[Mapping[str, int]] = {
    INGRESS: INGRESS_STREAM_ID,
    "consensus": CONSENSUS_STREAM_ID,
    "archive": ARCHIVE_CONTROL_STREAM_ID,
}
_TERM_LENGTH: Final = 64 * 1024
_MTU: Final = 1408
_FRAME_LENGTH: Final = 32
_NO_FRAME: Final = struct.pack("<iBBH", 8, 0, 0, 0x7F0F).ljust(_FRAME_LENGTH, b"\0")
_OF_LINK: Final = CHANNELS[0]
# The status of a stream that no member sends: its receiver ignores it.
_PADDING: Final = StatusMessage(0, 1, 0, 0, 0, 0).pack().ljust(2 * _FRAME_LENGTH, b"\0")
_PADDING_DATAGRAM: Final = 16 * _PADDING


@dataclass(frozen=True, slots=True)
class PingText:
    """The bytes before and after the answer. Without an answer, the end of the connection counts as one. An answer to a
    datagram has `mark` in place of a session id.
    """

    hello: bytes
    farewell: bytes = b""
    padding: bytes = b""
    repeats: int = 0
    mark: bytes = b""

    @property
    def opening(self) -> bytes:
        """All bytes before the answer: `padding`, which gets no answer, repeated as needed, and `hello`."""
        return self.padding * self.repeats + self.hello


def channel_of_ping(channels: Sequence[str]) -> str:
    """The channel on which to try a link with these channels."""
    return _OF_LINK if _OF_LINK in channels else channels[0]


def ping_text(channel: str, extra_length: int = 0) -> PingText:
    """A ping with about `extra_length` more bytes in front: its answer comes when they have arrived."""
    repeats = extra_length // len(_PADDING)
    stream_id = _STREAMS.get(channel)
    if stream_id is None:
        return PingText(_NO_FRAME, padding=_PADDING, repeats=repeats)
    session_id = SystemRandom().randrange(1 << 30)
    setup = Setup(0, session_id, stream_id, 0, 0, _TERM_LENGTH, _MTU).pack()
    end = pack_heartbeat(FLAGS_EOS_HEARTBEAT, 0, session_id, stream_id, 0)
    return PingText(_whole(setup), end, _PADDING, repeats)


def datagram_ping_text(channel: str, extra_length: int = 0) -> PingText:
    """A ping by datagrams: each padding is a datagram, and so is the hello."""
    repeats = -(-extra_length // len(_PADDING_DATAGRAM))
    stream_id, session_id = _STREAMS.get(channel), SystemRandom().randrange(1 << 30)
    mark = struct.pack("<i", session_id)
    if stream_id is None:
        hello = probe(session_id)
    else:
        hello = pack_heartbeat(FLAGS_UNFRAGMENTED, 0, session_id, stream_id, 0)
    return PingText(hello, padding=_PADDING_DATAGRAM, repeats=repeats, mark=mark)


def _whole(frame: bytes) -> bytes:
    """A frame with its length on the wire."""
    return frame.ljust(len(frame) + -len(frame) % _FRAME_LENGTH, b"\0")
