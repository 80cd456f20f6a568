"""A message cut into frames comes out as it went in, and only whole."""

import tracemalloc

from hypothesis import given, settings, strategies as st

from upheaval_node.protocol import fragments, frames
from upheaval_node.protocol.fragments import FragmentAssembler, append_message, framed_length
from upheaval_node.types import FRAME_HEADER_LENGTH, align

PAYLOADS = st.sampled_from([32, 96, 1376])


def frames_of(message: bytes, max_payload: int, start: int = 0) -> tuple[bytes, list[tuple[int, bytes, int, int]]]:
    """The block of a message, and flags, payload, position and end of each frame."""
    block = bytearray()
    append_message(
        block,
        [message],
        max_payload_length=max_payload,
        term_offset=start,
        session_id=-5,
        stream_id=6,
        term_id=7,
        reserved_value=-8,
    )
    found = []
    for offset, header in frames.walk(block):
        payload = bytes(block[offset + FRAME_HEADER_LENGTH : offset + header.frame_length])
        end = offset + align(header.frame_length, 32)
        assert header[3:] == (start + offset, -5, 6, 7, -8)
        found.append((header.flags, payload, start + offset, start + end))
    return bytes(block), found


@settings(deadline=None)
@given(st.binary(max_size=5000), PAYLOADS, st.integers(0, 100).map(lambda n: n * 32))
def test_any_message_is_reassembled(message: bytes, max_payload: int, start: int) -> None:
    block, found = frames_of(message, max_payload, start)
    assert len(block) == framed_length(len(message), max_payload)
    assembler = FragmentAssembler()
    results = [assembler.on_fragment(*fragment) for fragment in found]
    assert results[:-1] == [None] * (len(found) - 1)
    assert results[-1] == message


@given(st.lists(st.binary(max_size=50), max_size=5), PAYLOADS)
def test_parts_are_joined(parts: list[bytes], max_payload: int) -> None:
    block = bytearray()
    arguments = {"max_payload_length": max_payload, "term_offset": 0, "session_id": 1, "stream_id": 2, "term_id": 3}
    length = append_message(block, parts, **arguments)
    whole = bytearray()
    assert append_message(whole, [b"".join(parts)], **arguments) == length == len(block)
    assert block == whole


def test_a_message_of_exactly_the_payload_length_is_one_frame_and_one_byte_more_two() -> None:
    assert [flags for flags, *_ in frames_of(bytes(1376), 1376)[1]] == [frames.FLAGS_UNFRAGMENTED]
    assert [flags for flags, *_ in frames_of(bytes(1377), 1376)[1]] == [frames.FLAG_BEGIN, frames.FLAG_END]
    assert [flags for flags, *_ in frames_of(bytes(3 * 1376), 1376)[1]] == [frames.FLAG_BEGIN, 0, frames.FLAG_END]
    assert framed_length(3 * 1376, 1376) == 3 * 1408


@given(st.binary(min_size=200, max_size=900), st.data())
def test_a_lost_fragment_drops_the_message_and_only_that(message: bytes, data: st.DataObject) -> None:
    _, found = frames_of(message, 32)
    lost = data.draw(st.integers(0, len(found) - 1))
    assembler = FragmentAssembler()
    for index, fragment in enumerate(found):
        if index != lost:
            assert assembler.on_fragment(*fragment) is None
    _, following = frames_of(b"next" * 20, 32, found[-1][3])
    assert [assembler.on_fragment(*fragment) for fragment in following][-1] == b"next" * 20


def test_a_new_beginning_replaces_a_message_that_was_not_ended() -> None:
    assembler = FragmentAssembler()
    assert assembler.on_fragment(frames.FLAG_BEGIN, b"old", 0, 64) is None
    assert assembler.on_fragment(frames.FLAG_BEGIN, b"new", 64, 128) is None
    assert assembler.on_fragment(frames.FLAG_END, b"!", 128, 192) == b"new!"


def test_an_unfragmented_message_ends_one_that_was_begun() -> None:
    assembler = FragmentAssembler()
    assert assembler.on_fragment(frames.FLAG_BEGIN, b"old", 0, 64) is None
    assert assembler.on_fragment(frames.FLAGS_UNFRAGMENTED, b"whole", 64, 128) == b"whole"
    assert assembler.on_fragment(frames.FLAG_END, b"!", 64, 128) is None


def test_a_message_above_the_limit_is_dropped_and_its_rest_ignored() -> None:
    assembler = FragmentAssembler(max_length=100)
    _, found = frames_of(bytes(200), 32)
    assert [assembler.on_fragment(*fragment) for fragment in found] == [None] * len(found)
    _, fitting = frames_of(bytes(100), 32)
    assert [assembler.on_fragment(*fragment) for fragment in fitting][-1] == bytes(100)


def test_fragments_without_payload_take_no_memory() -> None:
    ours = tracemalloc.Filter(True, fragments.__file__)
    assembler = FragmentAssembler()
    tracemalloc.start()
    try:
        assembler.on_fragment(frames.FLAG_BEGIN, b"a", 0, 64)
        for position in range(64, 64 + 32 * 20_000, 32):
            assert assembler.on_fragment(0, b"", position, position + 32) is None
        # Threads that other tests left allocate, too.
        allocated = tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename")
    finally:
        tracemalloc.stop()
    assert sum(statistic.size for statistic in allocated) < 20_000
    assert assembler.on_fragment(frames.FLAG_END, b"z", 64 + 32 * 20_000, 64 + 32 * 20_001) == b"az"
