"""The buffer alone: what is held, what is forgotten, where readers stand."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.media.stream_buffer import StreamBuffer, StreamParams

TERM = 64 * 1024
PARAMS = StreamParams(session_id=7, stream_id=1, initial_term_id=3, term_length=TERM, mtu=1408)


def make_buffer(*, retention: int = 0, position: int = 0) -> tuple[StreamBuffer, list[int]]:
    marks: list[int] = []
    return StreamBuffer(PARAMS, position, lambda: marks.append(1), retention=retention), marks


def append(buffer: StreamBuffer, length: int) -> None:
    buffer.append(memoryview(bytes(length)), buffer.tail + length)


def test_small_runs_share_a_block_until_somebody_reads() -> None:
    buffer, _ = make_buffer()
    cursor = buffer.add_cursor(0)
    append(buffer, 96)
    append(buffer, 64)
    block = buffer.block_at(cursor)
    assert block is not None
    assert (block.start, block.end, len(block.data)) == (0, 160, 160)
    append(buffer, 32)
    buffer.consume(cursor, 160)
    block = buffer.block_at(cursor)
    assert block is not None
    assert (block.start, block.end) == (160, 192)


def test_large_runs_are_kept_without_a_copy() -> None:
    buffer, _ = make_buffer()
    cursor = buffer.add_cursor(0)
    data = memoryview(bytes(8192))
    buffer.append(data, 8192)
    block = buffer.block_at(cursor)
    assert block is not None
    assert block.data is data


def test_a_block_never_crosses_a_term() -> None:
    buffer, _ = make_buffer(position=TERM - 64)
    cursor = buffer.add_cursor(TERM - 64)
    append(buffer, 64)
    append(buffer, 64)
    block = buffer.block_at(cursor)
    assert block is not None
    assert (block.start, block.end) == (TERM - 64, TERM)


def test_the_owner_is_marked_once_a_turn() -> None:
    buffer, marks = make_buffer()
    append(buffer, 32)
    append(buffer, 32)
    assert marks == [1]
    buffer.dirty = False
    append(buffer, 32)
    assert marks == [1, 1]


def test_what_a_blocking_cursor_needs_is_kept_and_the_rest_forgotten() -> None:
    buffer, _ = make_buffer()
    slow, fast = buffer.add_cursor(0), buffer.add_cursor(0)
    for _ in range(10):
        append(buffer, 8192 - 32)
        buffer.seal()
    buffer.consume(fast, buffer.tail)
    buffer.trim()
    assert buffer.base == 0
    buffer.consume(slow, 3 * (8192 - 32))
    buffer.trim()
    assert buffer.base == 3 * (8192 - 32)
    buffer.remove_cursor(slow)
    buffer.trim()
    assert buffer.base == buffer.tail
    assert buffer.held_bytes == 0


def test_retention_holds_for_those_who_come_back() -> None:
    buffer, _ = make_buffer(retention=20_000)
    cursor = buffer.add_cursor(0, blocking=False)
    for _ in range(7):
        append(buffer, 8192)
    buffer.trim()
    assert buffer.tail - buffer.base >= 20_000
    assert buffer.tail - buffer.base < 20_000 + 8192
    assert buffer.is_lost(cursor)
    assert not buffer.seek(cursor, 0)
    assert buffer.seek(cursor, buffer.base)
    assert not buffer.is_lost(cursor)


def test_what_nobody_ever_read_waits_for_a_first_reader() -> None:
    buffer, _ = make_buffer()
    append(buffer, 8192)
    buffer.trim()
    assert buffer.join_position() == 0
    cursor = buffer.add_cursor(buffer.join_position())
    buffer.consume(cursor, 8192)
    append(buffer, 8192)
    assert buffer.join_position() == 8192
    buffer.remove_cursor(cursor)
    assert buffer.join_position() == buffer.tail


def test_a_cursor_cannot_stand_where_nothing_is_held() -> None:
    buffer, _ = make_buffer()
    append(buffer, 64)
    with pytest.raises(AssertionError):
        buffer.add_cursor(96)


@given(
    st.lists(st.sampled_from([32, 96, 4096, 8192, 16384]), min_size=1, max_size=30),
    st.lists(st.integers(0, 40), max_size=30),
)
def test_seeking_and_reading_agree_wherever_blocks_begin(lengths: list[int], trims: list[int]) -> None:
    buffer, _ = make_buffer()
    keeper = buffer.add_cursor(0)
    boundaries = [0]
    for length in lengths:
        room = TERM - (buffer.tail & (TERM - 1))
        append(buffer, min(length, room))
        boundaries.append(buffer.tail)
    for choice in trims:
        position = boundaries[choice % len(boundaries)]
        if position >= keeper.position:
            buffer.consume(keeper, position)
            buffer.trim()
    for position in boundaries:
        cursor = buffer.add_cursor(buffer.tail)
        assert buffer.seek(cursor, position) == (position >= buffer.base)
        block = buffer.block_at(cursor)
        if position >= buffer.base and position < buffer.tail:
            assert block is not None
            assert block.start <= position < block.end
        else:
            assert block is None
        buffer.remove_cursor(cursor)
