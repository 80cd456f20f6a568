"""The SessionMessageHeader in front of every application message, for paths where a dataclass costs too much.

Layout: 8 bytes message header, then leadershipTermId, clusterSessionId, timestamp as int64; the payload follows
(Aeron Cluster schema 111, template 1).
"""

import struct
from typing import Final

from upheaval_node.ports import Buffer
from upheaval_node.types import FRAME_HEADER_LENGTH

LENGTH: Final = 32
TEMPLATE_ID: Final = 1

LEADERSHIP_TERM_ID_OFFSET: Final = 8
CLUSTER_SESSION_ID_OFFSET: Final = 16
TIMESTAMP_OFFSET: Final = 24

# The same as seen from the start of an unfragmented frame, for readers of blocks as 64-bit words.
SHORTEST_FRAME: Final = FRAME_HEADER_LENGTH + LENGTH
HEADER_LONG: Final = FRAME_HEADER_LENGTH // 8
TERM_LONG: Final = HEADER_LONG + LEADERSHIP_TERM_ID_OFFSET // 8
SESSION_LONG: Final = HEADER_LONG + CLUSTER_SESSION_ID_OFFSET // 8
TIMESTAMP_LONG: Final = HEADER_LONG + TIMESTAMP_OFFSET // 8

# The message header of our own schema version, and the same as one little-endian int64.
HEADER_BYTES: Final = struct.pack("<HHHH", 24, TEMPLATE_ID, 111, 17)
HEADER_WORD: Final = int.from_bytes(HEADER_BYTES, "little", signed=True)
# The same of any version, which is the last of the four numbers: equal means that the fast paths apply; any other
# message goes through the codec.
VERSION_SHIFT: Final = 48
ANY_VERSION_MASK: Final = (1 << VERSION_SHIFT) - 1
ANY_VERSION_WORD: Final = HEADER_WORD & ANY_VERSION_MASK

_STRUCT: Final = struct.Struct("<qqqq")
_BODY: Final = struct.Struct("<qqq")


def pack_session_header(leadership_term_id: int, cluster_session_id: int, timestamp: int) -> bytes:
    """The 32 bytes that precede a payload."""
    return _STRUCT.pack(HEADER_WORD, leadership_term_id, cluster_session_id, timestamp)


def unpack_session_header(buffer: Buffer, offset: int = 0) -> tuple[int, int, int]:
    """Leadership term id, cluster session id and timestamp; the caller has checked length and header."""
    return _BODY.unpack_from(buffer, offset + LEADERSHIP_TERM_ID_OFFSET)
