"""The fast path of the ingress gives exactly the entries that a naive reader gives, one message at a time."""

from dataclasses import dataclass

from hypothesis import given, strategies as st

from upheaval_node.cluster.ingress_block import take_run
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import (
    DATA_UNFRAGMENTED,
    FLAG_BEGIN,
    FLAG_END,
    TYPE_DATA,
    DataHeader,
    unpack_data_header,
)
from upheaval_node.protocol.session_header import HEADER_BYTES, pack_session_header, unpack_session_header
from upheaval_node.types import align

TERM = 7
OPEN = {1: None, 4: None}
NOW_MS = 123_456
MTU = 256


@dataclass(frozen=True)
class Sent:
    """A frame that a client sent: what is in it, and whether it may go the fast way."""

    payload: bytes
    flags: int
    term: int
    session: int
    is_message: bool
    version: int

    def frame(self, offset: int) -> bytes:
        header = DataHeader(32 + len(self.content), self.flags, TYPE_DATA, offset, 99, 101, 0, reserved_value=55)
        frame = header.pack() + self.content
        return frame.ljust(align(len(frame), 32), b"\0")

    @property
    def content(self) -> bytes:
        if self.is_message:
            header = pack_session_header(self.term, self.session, -1)
            return header[:6] + self.version.to_bytes(2, "little") + header[8:] + self.payload
        return cm.SCHEMA.encode(cm.SessionKeepAlive(self.term, self.session)) + self.payload

    @property
    def is_fast(self) -> bool:
        return self.is_message and self.flags == FLAG_BEGIN | FLAG_END and 32 + len(self.content) <= MTU

    @property
    def is_accepted(self) -> bool:
        return self.is_fast and self.term == TERM and self.session in OPEN


messages = st.builds(
    Sent,
    payload=st.binary(max_size=MTU),
    flags=st.sampled_from([FLAG_BEGIN | FLAG_END] * 8 + [FLAG_BEGIN, 0, FLAG_END]),
    term=st.sampled_from([TERM] * 8 + [TERM - 1, TERM + 1]),
    session=st.sampled_from([1, 4] * 4 + [0, 2, -1]),
    is_message=st.sampled_from([True] * 8 + [False]),
    version=st.sampled_from([17] * 4 + [7, 16, 0xFFFF]),
)


def naive(sent: list[Sent]) -> tuple[list[tuple[int, int, int, bytes]], int]:
    """(term, session, timestamp, payload) of the messages before the first frame that needs more than a look."""
    entries: list[tuple[int, int, int, bytes]] = []
    for index, message in enumerate(sent):
        if not message.is_fast:
            return entries, index
        if message.is_accepted:
            entries.append((message.term, message.session, NOW_MS, message.payload))
    return entries, len(sent)


def read(frames: bytearray) -> list[tuple[int, int, int, bytes]]:
    entries: list[tuple[int, int, int, bytes]] = []
    offset = 0
    while offset < len(frames):
        header = unpack_data_header(frames, offset)
        assert header.reserved_value == 0
        assert frames[offset + 32 : offset + 40] == HEADER_BYTES
        assert int.from_bytes(frames[offset + 4 : offset + 8], "little") == DATA_UNFRAGMENTED
        payload = bytes(frames[offset + 64 : offset + header.frame_length])
        entries.append((*unpack_session_header(frames, offset + 32), payload))
        offset += align(header.frame_length, 32)
    return entries


@given(st.lists(messages, max_size=20), st.integers(0, 3))
def test_a_run_holds_what_one_by_one_would_give(sent: list[Sent], skipped: int) -> None:
    block = bytearray()
    starts = []
    for message in sent:
        starts.append(len(block))
        block += message.frame(len(block))
    starts.append(len(block))
    first = min(skipped, len(sent))
    run = take_run(memoryview(bytes(block)), starts[first], TERM, OPEN, NOW_MS, MTU)
    entries, stop = naive(sent[first:])
    assert read(run.frames) == entries
    assert run.message_count == len(entries)
    assert run.stop == starts[first + stop]
    assert set(run.session_ids) == {session for _, session, _, _ in entries}
