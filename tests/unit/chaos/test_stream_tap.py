"""What is read of a stream that passes a forwarder: each message once, whatever is lost, repeated or cut in parts."""

import random
import struct

import pytest

from upheaval_chaos.probes import probe
from upheaval_chaos.stream_tap import HOLES_MAX, PARTS_MAX, SESSIONS_MAX, StreamTap
from upheaval_node.protocol.frames import (
    FLAG_BEGIN,
    FLAG_END,
    FLAGS_UNFRAGMENTED,
    TYPE_DATA,
    TYPE_PAD,
    DataHeader,
    Setup,
    StatusMessage,
)

STREAM, SESSION, TERM, TERM_LENGTH = 108, 7, 40, 1 << 16
FRAME = 64
"""What a frame takes of the stream here: its header, and up to 32 bytes."""


class Reader:
    """A tap, and what it read: the messages, and which of them came late."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.late: list[bytes] = []
        self.tap = StreamTap(STREAM, self._take)

    def _take(self, payload: bytes, _session: int, _position: int, is_late: bool) -> None:
        self.got.append(payload)
        if is_late:
            self.late.append(payload)

    def add(self, *datagrams: bytes) -> "Reader":
        for each in datagrams:
            self.tap.add(each)
        return self


def setup(session: int = SESSION, offset: int = 0, stream: int = STREAM) -> bytes:
    return Setup(offset, session, stream, TERM, TERM, TERM_LENGTH, 1408).pack()


def frame(
    number: int, payload: bytes, *, flags: int = FLAGS_UNFRAGMENTED, kind: int = TYPE_DATA, stream: int = STREAM
) -> bytes:
    """The one that begins at that many frames after the start of the stream."""
    term, offset = divmod(number * FRAME, TERM_LENGTH)
    header = DataHeader(32 + len(payload), flags, kind, offset, SESSION, stream, TERM + term)
    return header.pack() + payload.ljust(FRAME - 32, b"\0")


def test_messages_come_once_in_their_order_over_the_end_of_a_term() -> None:
    count = TERM_LENGTH // FRAME + 3
    frames = [frame(number, b"%d" % number) for number in range(count)]
    reader = Reader().add(setup(), b"".join(frames[:20]), *frames[20:], *frames[5:9])
    assert reader.got == [b"%d" % number for number in range(count)]
    assert (reader.late, reader.tap.missing, reader.tap.garbage) == ([], 0, 0)


def test_what_is_sent_again_fills_the_hole_and_is_late() -> None:
    first, lost, third = (frame(number, b"%d" % number) for number in range(3))
    reader = Reader().add(setup(), first, third)
    assert reader.tap.missing == FRAME
    reader.add(lost, lost, third)
    assert (reader.got, reader.late, reader.tap.missing) == ([b"0", b"2", b"1"], [b"1"], 0)


def test_parts_make_a_message_in_any_order() -> None:
    parts = [frame(0, b"a" * 32, flags=FLAG_BEGIN), frame(1, b"b" * 32, flags=0), frame(2, b"c", flags=FLAG_END)]
    whole = b"a" * 32 + b"b" * 32 + b"c"
    assert Reader().add(setup(), *parts).got == [whole]
    assert Reader().add(setup(), parts[0], parts[2], parts[1]).got == [whole]
    assert Reader().add(setup(), *parts[1:]).got == []


def test_padding_heartbeats_probes_and_other_streams_are_no_messages() -> None:
    heartbeat = DataHeader(0, FLAGS_UNFRAGMENTED, TYPE_DATA, 0, SESSION, STREAM, TERM).pack()
    padding = DataHeader(FRAME, FLAGS_UNFRAGMENTED, TYPE_PAD, 0, SESSION, STREAM, TERM).pack()
    status = StatusMessage(SESSION, STREAM, TERM, 0, 1024, 1).pack()
    reader = Reader().add(setup(), heartbeat, padding, status, frame(0, b"x", stream=100), probe(1), frame(1, b"1"))
    assert (reader.got, reader.tap.missing, reader.tap.garbage) == ([b"1"], 0, 0)


def test_without_a_setup_nobody_reads_a_stream() -> None:
    assert Reader().add(frame(0, b"0"), setup(offset=FRAME), frame(1, b"1")).got == [b"1"]


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\0" * 7, frame(0, b"x")[:40], struct.pack("<iBBH", -5, 0, 0, TYPE_DATA) + b"\0" * 24, setup()[:20]],
)
def test_garbage_is_counted_and_raises_nothing(garbage: bytes) -> None:
    reader = Reader().add(setup(), garbage, frame(0, b"0"))
    assert (reader.got, reader.tap.garbage) == ([b"0"], 1)


def test_memory_is_bounded_and_what_was_forgotten_is_still_missing() -> None:
    reader = Reader().add(setup())
    holes = HOLES_MAX * 2
    reader.add(*(frame(2 * number + 1, b"x") for number in range(holes)))
    assert reader.tap.missing == holes * FRAME
    reader.add(*(setup(session) for session in range(100, 100 + SESSIONS_MAX)))
    assert reader.tap.missing == holes * FRAME
    parts = [frame(number, b"p", flags=FLAG_BEGIN) for number in range(4 * PARTS_MAX)]
    assert Reader().add(setup(), *parts).got == []


def test_any_bytes_raise_nothing() -> None:
    draw = random.Random(3)
    reader = Reader().add(setup())
    for _ in range(2000):
        whole = bytearray(frame(draw.randrange(4), b"abc"))
        for _ in range(draw.randrange(4)):
            whole[draw.randrange(len(whole))] = draw.randrange(256)
        reader.add(bytes(whole[: draw.randrange(len(whole) + 1)]))
    assert reader.tap.garbage > 100


def test_half_of_a_window_lost_and_sent_again_in_any_order_is_all_read() -> None:
    count = (128 << 10) // FRAME
    frames = [frame(number, b"%d" % number) for number in range(count)]
    lost = frames[1:-1:2]
    random.Random(4).shuffle(lost)
    reader = Reader().add(setup(), *frames[::2], frames[-1])
    assert (reader.tap.missing, reader.tap.given_up) == (len(lost) * FRAME, 0)
    reader.add(*lost, *frames)
    assert sorted(reader.got) == sorted(b"%d" % number for number in range(count))
    assert reader.tap.missing == 0
