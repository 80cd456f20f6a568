"""A stream held in memory: a position-addressed sequence of blocks with one writer and many reading cursors.

Publications, images, spies and relays are all views of this structure. Blocks never change once sealed, so readers get
them without a copy. Blocks that no blocking cursor needs and that are outside the retention are forgotten. This module
knows no network, no time and no message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from upheaval_node.media.api import Block
from upheaval_node.protocol.frames import position_bits_to_shift, term_id_at

# The open block is sealed beyond this length, so that one block stays a sensible unit to send and to write.
OPEN_BLOCK_LENGTH: Final = 64 * 1024
# Shorter runs are copied into the open block: a block object for each would cost more memory than the bytes.
SMALL_RUN_LENGTH: Final = 4096
# Once there are this many blocks that are only retained, they are joined: a block object for a message of 64 bytes
# takes more memory than the message.
JOINED_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class StreamParams:
    """The identity of a stream, and its position arithmetic."""

    session_id: int
    stream_id: int
    initial_term_id: int
    term_length: int
    mtu: int

    @property
    def shift(self) -> int:
        """The binary logarithm of the term length: positions are shifted by it to count terms."""
        return position_bits_to_shift(self.term_length)

    def term_id_at(self, position: int) -> int:
        """The id of the term that contains the position."""
        return term_id_at(position, self.shift, self.initial_term_id)


class Cursor:
    """The place of one reader. `position` is what it has acknowledged: a blocking cursor holds everything from there
    on.

    `read_position` is what it reads next: in the block counted by `number`, or at the tail.
    """

    __slots__ = ("blocking", "number", "position", "read_position")

    def __init__(self, position: int, number: int, *, blocking: bool) -> None:
        self.position = position
        self.read_position = position
        self.number = number
        self.blocking = blocking


class StreamBuffer:
    """Blocks from `base` to `tail`. `mark` is called when there is something new to flush, trim or report."""

    __slots__ = (
        "_blocks",
        "_cursors",
        "_first_number",
        "_first_unjoined",
        "_open_start",
        "_was_consumed",
        "base",
        "dirty",
        "end_position",
        "ended",
        "mark",
        "open",
        "params",
        "retention",
        "start_position",
        "tail",
        "term_mask",
    )

    def __init__(self, params: StreamParams, position: int, mark: Callable[[], None], *, retention: int = 0) -> None:
        self.params = params
        self.term_mask = params.term_length - 1
        self.start_position = position
        self.base = position
        self.tail = position
        self.retention = retention
        # True once nothing will be appended any more. `end_position` is set if the publisher ended the stream.
        self.ended = False
        self.end_position: int | None = None
        self.open: bytearray | None = None
        self.dirty = False
        self.mark = mark
        self._open_start = position
        self._blocks: list[Block] = []
        self._first_number = 0
        self._first_unjoined = 0
        self._cursors: list[Cursor] = []
        self._was_consumed = False

    # --- writing ---

    def touch(self) -> None:
        """Have the owner look at this stream in its next turn."""
        if not self.dirty:
            self.dirty = True
            self.mark()

    def open_block(self) -> bytearray:
        """Seal the open block and start a new one at the tail."""
        self.seal()
        block = bytearray()
        self.open = block
        self._open_start = self.tail
        return block

    def seal(self) -> None:
        """Make the contents of the open block visible to readers."""
        block = self.open
        if block:
            self._blocks.append(Block(memoryview(block), self._open_start, self.tail))
        self.open = None

    def append(self, data: memoryview, end: int) -> None:
        """Append a run of whole frames of one term that begins at the tail and ends at `end`."""
        if len(data) < SMALL_RUN_LENGTH:
            block = self.open
            if block is None or len(block) > OPEN_BLOCK_LENGTH:
                block = self.open_block()
            block += data
            self.tail = end
            # A padding frame or the end of the term ends the block.
            if end & self.term_mask == 0 or end - self._open_start != len(block):
                self.seal()
        else:
            self.seal()
            self._blocks.append(Block(data, self.tail, end))
            self.tail = end
        if not self.dirty:
            self.touch()

    def end(self, *, eos: bool) -> None:
        """Append nothing more. With `eos`, the publisher ends the stream here."""
        if not self.ended:
            self.seal()
            self.ended = True
            self.end_position = self.tail if eos else None
            self.touch()

    # --- reading ---

    def add_cursor(self, position: int, *, blocking: bool = True) -> Cursor:
        """A cursor at `position`, which must be held. Non-blocking ones may fall behind `base`."""
        cursor = Cursor(position, 0, blocking=blocking)
        self._cursors.append(cursor)
        if not self.seek(cursor, position):
            raise AssertionError(f"cursor at {position} outside of {self.base}..{self.tail}")
        return cursor

    def remove_cursor(self, cursor: Cursor) -> None:
        """Remove a cursor: it holds nothing back any more, and what it had consumed counts as consumed."""
        if cursor in self._cursors:
            self._cursors.remove(cursor)
            if cursor.blocking and cursor.position > self.start_position:
                self._was_consumed = True
            self.touch()

    def seek(self, cursor: Cursor, position: int) -> bool:
        """Move a cursor to a held position. If `position` is not held, return False and leave the cursor."""
        self.seal()
        if not self.base <= position <= self.tail:
            return False
        index = self._index_of(position)
        if index < len(self._blocks):
            block = self._blocks[index]
            if position - block.start > len(block.data):
                return False
        cursor.position = position
        cursor.read_position = position
        cursor.number = self._first_number + index
        return True

    def _index_of(self, position: int) -> int:
        low, high = 0, len(self._blocks)
        while low < high:
            middle = (low + high) >> 1
            if self._blocks[middle].end <= position:
                low = middle + 1
            else:
                high = middle
        return low

    def block_at(self, cursor: Cursor) -> Block | None:
        """The block that holds the cursor's read position; None at the tail. A read seals the open block."""
        if self.open:
            self.seal()
        index = cursor.number - self._first_number
        if 0 <= index < len(self._blocks):
            return self._blocks[index]
        return None

    def is_lost(self, cursor: Cursor) -> bool:
        """Whether the cursor's next bytes were forgotten."""
        return cursor.read_position < self.base

    def advance(self, cursor: Cursor, block: Block, position: int) -> None:
        """Move the read position inside `block`, which the cursor is in, or to its end."""
        cursor.read_position = position
        if position >= block.end:
            cursor.number += 1

    def consume(self, cursor: Cursor, position: int) -> None:
        """Read and acknowledge everything before `position`."""
        index = cursor.number - self._first_number
        is_further = position != cursor.position
        cursor.read_position = position
        cursor.position = position
        while index < len(self._blocks) and self._blocks[index].end <= position:
            index += 1
        cursor.number = self._first_number + index
        if is_further and not self.dirty:
            self.touch()

    # --- retention ---

    def slowest(self, default: int) -> int:
        """The lowest acknowledged position of the blocking cursors."""
        slowest = -1
        for cursor in self._cursors:
            if cursor.blocking and (slowest < 0 or cursor.position < slowest):
                slowest = cursor.position
        return default if slowest < 0 else slowest

    def join_position(self) -> int:
        """The position where a new local reader begins: that of the slowest one, else the base while nothing was
        consumed.
        """
        return self.slowest(self.tail if self._was_consumed else self.base)

    def consumed_position(self) -> int:
        """The position up to which no reader holds the writer back. A stream that was never read waits for its first
        reader.
        """
        return self.slowest(self.tail if self._was_consumed or self.retention else self.base)

    def trim(self) -> int:
        """Forget the blocks that no blocking cursor needs and that are outside the retention.

        Returns the consumed position.
        """
        consumed = self.consumed_position()
        keep = min(consumed, self.tail - self.retention)
        count = 0
        blocks = self._blocks
        while count < len(blocks) and blocks[count].end <= keep:
            count += 1
        if count:
            self.base = blocks[count - 1].end
            del blocks[:count]
            self._first_number += count
        if self.retention:
            self._join_retained(consumed)
        return consumed

    def _join_retained(self, consumed: int) -> None:
        """Join the blocks before `consumed`, which only a receiver that lags or reconnects reads."""
        blocks = self._blocks
        begin = max(self._first_unjoined - self._first_number, 0)
        end = begin + JOINED_AT_ONCE
        if end > len(blocks) or blocks[end - 1].end > consumed:
            return
        joined = _joined(blocks[begin:end], self.term_mask)
        blocks[begin:end] = joined
        self._first_unjoined = self._first_number + begin + len(joined)
        for cursor in self._cursors:
            index = cursor.number - self._first_number
            if index >= end:
                cursor.number -= end - begin - len(joined)
            elif index >= begin:
                cursor.number = self._first_number + self._index_of(cursor.read_position)


def _joined(blocks: list[Block], term_mask: int) -> list[Block]:
    """The same bytes, with small blocks of one term joined. Padding stays alone, as it is longer than its bytes."""
    joined: list[Block] = []
    small: list[Block] = []
    length = 0
    for block in blocks:
        size = len(block.data)
        is_small = size < SMALL_RUN_LENGTH and block.end - block.start == size
        if small and (not is_small or length + size > OPEN_BLOCK_LENGTH or block.start & term_mask == 0):
            joined.append(_one(small))
            small, length = [], 0
        if is_small:
            small.append(block)
            length += size
        else:
            joined.append(block)
    if small:
        joined.append(_one(small))
    return joined


def _one(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    return Block(memoryview(b"".join([block.data for block in blocks])), blocks[0].start, blocks[-1].end)
