"""The buffer alone: what is held, what is forgotten, where readers stand."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.media.stream_buffer import JOINED_AT_ONCE, Cursor, StreamBuffer, StreamParams

TERM = 64 * 1024
PARAMS = StreamParams(session_id=7, stream_id=1, initial_term_id=3, term_length=TERM, mtu=1408)


def make_buffer(*, retention: int = 0, position: int = 0) -> tuple[StreamBuffer, list[int]]:
    marks: list[int] = []
    return StreamBuffer(PARAMS, position, lambda: marks.append(1), retention=retention), marks


def append(buffer: StreamBuffer, length: int) -> None:
    buffer.append(memoryview(bytes(length)), buffer.tail + length)


def held_bytes(buffer: StreamBuffer) -> int:
    return sum(len(block.data) for block in buffer._blocks) + len(buffer.open or b"")


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
    assert held_bytes(buffer) == 0


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


def test_what_is_only_retained_is_a_few_blocks_however_small_the_messages_were() -> None:
    buffer, _ = make_buffer(retention=TERM)
    reader = buffer.add_cursor(0)
    for _ in range(10 * JOINED_AT_ONCE):
        append(buffer, 96)
        buffer.seal()
        buffer.consume(reader, buffer.tail)
        buffer.trim()
    assert buffer.tail - buffer.base == held_bytes(buffer) >= 96 * 9 * JOINED_AT_ONCE
    assert len(buffer._blocks) < 10 + JOINED_AT_ONCE


def test_blocks_of_two_terms_are_not_joined() -> None:
    half = 32 * JOINED_AT_ONCE // 2
    buffer, _ = make_buffer(retention=TERM, position=TERM - half)
    reader = buffer.add_cursor(TERM - half)
    for _ in range(JOINED_AT_ONCE):
        append(buffer, 32)
        buffer.seal()
        buffer.consume(reader, buffer.tail)
    buffer.trim()
    assert [(block.start, block.end) for block in buffer._blocks] == [(TERM - half, TERM), (TERM, TERM + half)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 60)),
        st.tuples(st.just("large"), st.integers(128, 300)),
        st.tuples(st.just("pad"), st.just(0)),
        st.tuples(st.just("consume"), st.integers(0, 100)),
        st.tuples(st.just("lag"), st.integers(0, 5)),
        st.tuples(st.just("seek"), st.integers(0, 100)),
    ),
    min_size=20,
    max_size=100,
)


@given(STEPS)
def test_readers_get_the_bytes_of_their_positions_whatever_was_joined(steps: list[tuple[str, int]]) -> None:
    """One reader holds the stream back, one lags, and one comes again anywhere; padding has no bytes of its own."""
    buffer, _ = make_buffer(retention=3 * TERM)
    reader, lagging = buffer.add_cursor(0), buffer.add_cursor(0, blocking=False)
    written = bytearray()
    for number, (what, amount) in enumerate(steps):
        room = TERM - buffer.tail % TERM
        if what == "append":
            for size in range(amount):
                add(buffer, written, number, 32 + size % 3 * 32)
        elif what == "large":
            add(buffer, written, number, 32 * amount)
        elif what == "pad":
            buffer.append(memoryview(bytes(32)), buffer.tail + room)
            written += bytes(room)
        elif what == "consume":
            ahead = (buffer.tail - reader.position) * amount // 100 & -32
            buffer.consume(reader, reader.position + ahead)
        elif what == "seek":
            back = (buffer.tail - buffer.base) * amount // 100 & -32
            again = buffer.add_cursor(buffer.tail, blocking=False)
            if buffer.seek(again, buffer.tail - back):
                assert read(buffer, again, written) == buffer.tail
            buffer.remove_cursor(again)
        else:
            for _ in range(amount):
                take(buffer, lagging, written)
        buffer.trim()
        if buffer.is_lost(lagging):
            assert buffer.seek(lagging, buffer.tail)
    assert read(buffer, lagging, written) == buffer.tail
    assert read(buffer, reader, written) == buffer.tail


def add(buffer: StreamBuffer, written: bytearray, number: int, length: int) -> None:
    """A block of its own, that ends with its term at the latest."""
    length = min(length, TERM - buffer.tail % TERM)
    data = (number + 1).to_bytes(4, "little") * (length // 4)
    buffer.append(memoryview(data), buffer.tail + length)
    buffer.seal()
    written += data


def read(buffer: StreamBuffer, cursor: Cursor, written: bytearray) -> int:
    """To the tail; where the cursor is then."""
    while take(buffer, cursor, written):
        pass
    return cursor.read_position


def take(buffer: StreamBuffer, cursor: Cursor, written: bytearray) -> bool:
    """The rest of one block, which is what was written at its positions."""
    block = buffer.block_at(cursor)
    if block is None:
        return False
    assert block.start <= cursor.read_position < block.end
    assert block.start // TERM == (block.end - 1) // TERM
    data = block.data[cursor.read_position - block.start :]
    assert data == written[cursor.read_position : cursor.read_position + len(data)]
    buffer.advance(cursor, block, block.end)
    return True
