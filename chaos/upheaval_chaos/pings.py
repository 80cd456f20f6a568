"""What a connection along a link says, so that the member at its end answers and is not disturbed.

On channels where a member listens for any publisher, a stream is announced and its status awaited, then the stream is
ended. On the others, where a member takes only the stream that it expects, it gets a frame that is none, ends the
connection and reports one malformed frame. This module knows bytes, no sockets.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

from upheaval_chaos.target import CHANNELS, INGRESS
from upheaval_node.protocol.frames import FLAGS_EOS_HEARTBEAT, TYPE_DATA, DataHeader, Setup

_STREAMS: Final[Mapping[str, int]] = {INGRESS: 101, "consensus": 108, "archive": 10}
_TERM_LENGTH: Final = 64 * 1024
_MTU: Final = 1408
_FRAME_LENGTH: Final = 32
_NO_FRAME: Final = struct.pack("<iBBH", 8, 0, 0, 0x7F0F).ljust(_FRAME_LENGTH, b"\0")
_OF_LINK: Final = CHANNELS[0]


@dataclass(frozen=True, slots=True)
class PingText:
    """What is said first, and what after the answer. Without an answer, the end of the connection is one."""

    hello: bytes
    farewell: bytes = b""


def channel_of_ping(channels: tuple[str, ...]) -> str:
    """The channel on which to try a link that consists of these."""
    return _OF_LINK if _OF_LINK in channels else channels[0]


def ping_text(channel: str) -> PingText:
    stream_id = _STREAMS.get(channel)
    if stream_id is None:
        return PingText(_NO_FRAME)
    session_id = SystemRandom().randrange(1 << 30)
    setup = Setup(0, session_id, stream_id, 0, 0, _TERM_LENGTH, _MTU).pack()
    end = DataHeader(0, FLAGS_EOS_HEARTBEAT, TYPE_DATA, 0, session_id, stream_id, 0, 0).pack()
    return PingText(setup.ljust(-len(setup) % _FRAME_LENGTH + len(setup), b"\0"), end)
