"""Which messages of a log or a snapshot can be read, whatever release wrote them.

The schema version differs between releases of Aeron. The layout of the fields that are read here does not, from
`OLDEST_VERSION` on. This module knows nothing of recordings.
"""

from typing import Final

from upheaval_node.errors import DecodeError
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.message import Message

OLDEST_VERSION: Final = 7
_VERSION: Final = slice(6, 8)
_TEMPLATE: Final = slice(2, 4)


def is_session_message(content: Buffer) -> bool:
    """Whether a client or a service sent it, with a header that `unpack_session_header` reads."""
    if content[:8] != session_header.HEADER_BYTES and not (
        content[:6] == session_header.HEADER_BYTES[:6] and _version(content) >= OLDEST_VERSION
    ):
        return False
    return len(content) >= session_header.LENGTH


def template_id(content: Buffer) -> int:
    """The template id in its header."""
    return int.from_bytes(content[_TEMPLATE], "little")


def decode_message(content: Buffer) -> Message | None:
    """Decode one of the cluster's own messages; None for an unknown template. Raises `DecodeError` for all others."""
    decoded = cm.SCHEMA.decode(content)
    if _version(content) < OLDEST_VERSION:
        raise DecodeError(f"expected schema version {OLDEST_VERSION} or later, got {_version(content)}")
    if isinstance(decoded, cm.SessionMessageHeader):
        expected = int.from_bytes(session_header.HEADER_BYTES[:2], "little")
        got = int.from_bytes(content[:2], "little")
        raise DecodeError(f"expected a session message header of {expected} bytes, got {got}")
    return decoded


def _version(content: Buffer) -> int:
    return int.from_bytes(content[_VERSION], "little")
