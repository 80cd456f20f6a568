"""Datagrams of the consensus stream, as a member of Aeron sends them."""

from collections.abc import Sequence

from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.protocol.frames import FLAGS_UNFRAGMENTED, TYPE_DATA, DataHeader, Setup
from upheaval_node.protocol.message import Message
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, align


def datagrams_of(message: Message | bytes, begin: int, session: int) -> Sequence[bytes]:
    """Its frame at that position of the publication; the first one comes after a setup."""
    payload = message if isinstance(message, bytes) else cm.SCHEMA.encode(message)
    header = DataHeader(
        FRAME_HEADER_LENGTH + len(payload), FLAGS_UNFRAGMENTED, TYPE_DATA, begin, session, CONSENSUS_STREAM_ID, 0
    )
    data = (header.pack() + payload).ljust(align(header.frame_length, FRAME_ALIGNMENT), b"\0")
    return [data] if begin else [Setup(0, session, CONSENSUS_STREAM_ID, 0, 0, 1 << 20, 1408).pack(), data]
