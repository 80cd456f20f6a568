"""Datagrams that the proxy answers, not a member, when they have reached the upstream's end.

This module knows bytes, no sockets.
"""

import struct
from typing import Final

from upheaval_node.protocol.cluster_messages import SCHEMA
from upheaval_node.protocol.frames import FLAGS_UNFRAGMENTED, TYPE_DATA, TYPE_OFFSET, TYPE_PAD
from upheaval_node.types import FRAME_ALIGNMENT, align

_VERSION: Final = 0x7F
"""The version of a frame that is not Aeron's, but has a frame type and a stream like Aeron's."""
_VERSION_OFFSET: Final = 4
_MARK: Final = bytes([_VERSION])
_PROBE: Final = struct.Struct("<iBBHiii12x")
_TYPE: Final = struct.Struct("<H")
_SBE_HEADER: Final = struct.Struct("<HHHH")


def probe(number: int, frame_type: int = TYPE_DATA, stream_id: int = 0, template_id: int = 0) -> bytes:
    """A datagram for the proxy only. Its number is in place of a frame's session id."""
    message = _SBE_HEADER.pack(0, template_id, SCHEMA.table.schema_id, 0) if template_id else b""
    length = _PROBE.size + len(message)
    head = _PROBE.pack(length, _VERSION, FLAGS_UNFRAGMENTED, frame_type, number, stream_id, stream_id)
    return (head + message).ljust(align(length, FRAME_ALIGNMENT), b"\0")


def is_omitted(data: bytes) -> bool:
    """Whether padding has replaced a probe."""
    return _TYPE.unpack_from(data, TYPE_OFFSET) == (TYPE_PAD,)


def is_probe(data: bytes) -> bool:
    """Whether a datagram is a probe."""
    return data[_VERSION_OFFSET : _VERSION_OFFSET + 1] == _MARK
