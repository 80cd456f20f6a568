"""The receiving end of a stream for one subscription: messages or blocks from a stream buffer.

The owner decides what fills the buffer (a local publication, or transports). This module knows no connection and
no time.
"""

from typing import Protocol

from upheaval_node.media.api import MAX_BLOCK_LENGTH, Abort, Block, Break, Message, MessageHandler
from upheaval_node.media.frame_run import PAD_WORD, TYPE_MASK, cut_run
from upheaval_node.media.stream_buffer import StreamBuffer
from upheaval_node.protocol.fragments import FragmentAssembler
from upheaval_node.protocol.frames import DATA_UNFRAGMENTED, max_message_length
from upheaval_node.types import MAX_POSITION


class ImageSource(Protocol):
    """The image's interface to the source of its stream."""

    @property
    def source_identity(self) -> str:
        """The origin of the stream, for people."""

    @property
    def active_transport_count(self) -> int:
        """The number of transports that deliver the stream; 1 for a local one."""

    def drop_image(self, image: "StreamImage", reason: str) -> None:
        """The subscriber rejects the image."""


class StreamImage:
    """Implements `api.Image` on a cursor of a stream buffer."""

    def __init__(self, stream: StreamBuffer, source: ImageSource, position: int, correlation_id: int) -> None:
        params = stream.params
        self.correlation_id = correlation_id
        self.session_id = params.session_id
        self.stream_id = params.stream_id
        self.initial_term_id = params.initial_term_id
        self.term_length = params.term_length
        self.mtu = params.mtu
        self.join_position = position
        self.is_closed = False
        self.stream = stream
        self.cursor = stream.add_cursor(position)
        self._source = source
        self._assembler = FragmentAssembler(max_message_length(params.term_length))
        # A message whose delivery was aborted, by the end position of its last fragment.
        self._aborted: tuple[int, memoryview | bytes] | None = None
        self._final_received: int | None = None
        self._final_end: int | None = None

    @property
    def source_identity(self) -> str:
        """The origin of the stream, for people."""
        return self._source.source_identity

    @property
    def active_transport_count(self) -> int:
        """The number of transports that deliver the stream; 0 once the image is closed."""
        return 0 if self.is_closed else self._source.active_transport_count

    @property
    def position(self) -> int:
        """The position that this subscriber reads next; for a closed image, where it stopped."""
        return self.cursor.read_position

    @property
    def received_position(self) -> int:
        """The tail of the stream; for a closed image, the tail at its close."""
        return self.stream.tail if self._final_received is None else self._final_received

    @property
    def end_of_stream_position(self) -> int | None:
        """The position at which the publisher ended the stream, if known; a closed image keeps it."""
        return self._final_end if self.is_closed else self.stream.end_position

    @property
    def is_end_of_stream(self) -> bool:
        """Whether the publisher ended the stream and this subscriber has reached the end."""
        end = self.end_of_stream_position
        return end is not None and self.cursor.read_position >= end

    @property
    def is_drained(self) -> bool:
        """Whether the stream ended and everything of it was consumed."""
        return self.stream.ended and self.cursor.position >= self.stream.tail

    def poll(self, handler: MessageHandler, fragment_limit: int, limit_position: int = MAX_POSITION) -> int:
        """A message of several fragments is delivered with its last fragment."""
        count = 0
        while count < fragment_limit and not self.is_closed:
            block = self.stream.block_at(self.cursor)
            if block is None:
                break
            taken, more = self._poll_block(block, handler, fragment_limit - count, limit_position)
            count += taken
            if not more:
                break
        return count

    def _poll_block(
        self, block: Block, handler: MessageHandler, fragment_limit: int, limit_position: int
    ) -> tuple[int, bool]:
        """Deliver fragments of one block. Returns whether the poll may continue with the next one."""
        cursor = self.cursor
        data = block.data
        words = data.cast("i")
        start = block.start
        length = len(data)
        begin = offset = cursor.read_position - start
        max_end = limit_position - start
        count = 0
        try:
            while offset < length and count < fragment_limit:
                index = offset >> 2
                frame_length = words[index]
                following = offset + ((frame_length + 31) & -32)
                if following > max_end:
                    return count, False
                kind = words[index + 1]
                if kind == DATA_UNFRAGMENTED:
                    reserved = words[index + 6] & 0xFFFFFFFF | words[index + 7] << 32
                    message = Message(data[offset + 32 : offset + frame_length], start + following, reserved, self)
                    begin, offset = offset, following
                    count += 1
                    handler(message)
                elif kind & TYPE_MASK == PAD_WORD:
                    offset = following
                else:
                    begin, offset = offset, following
                    count += 1
                    self._on_fragment(block, begin, handler)
        except Abort:
            offset = begin
            return count - 1, False
        except Break:
            return count, False
        finally:
            if self.is_closed:
                cursor.read_position = start + offset
            else:
                self.stream.consume(cursor, start + offset)
        return count, True

    def _on_fragment(self, block: Block, offset: int, handler: MessageHandler) -> None:
        words = block.data[offset : offset + 32].cast("i")
        length = words[0]
        position = block.start + offset
        end = position + ((length + 31) & -32)
        if self._aborted is not None and self._aborted[0] == end:
            payload: memoryview | bytes | bytearray | None = self._aborted[1]
        else:
            flags = words[1] >> 8 & 0xFF
            payload = self._assembler.on_fragment(flags, block.data[offset + 32 : offset + length], position, end)
        self._aborted = None
        if payload is None:
            return
        reserved = words[6] & 0xFFFFFFFF | words[7] << 32
        whole = payload if isinstance(payload, memoryview | bytes) else bytes(payload)
        try:
            handler(Message(whole, end, reserved, self))
        except Abort:
            self._aborted = (end, whole)
            raise

    def next_block(self, limit_position: int = MAX_POSITION, max_length: int = MAX_BLOCK_LENGTH) -> Block | None:
        """The present block unchanged if it fits, else cut at a frame."""
        if self.is_closed:
            return None
        block = self.stream.block_at(self.cursor)
        if block is None:
            return None
        position = self.cursor.read_position
        if position == block.start and block.end <= limit_position and len(block.data) <= max_length:
            return block
        offset = position - block.start
        cut, end = cut_run(block.data, offset, min(limit_position - block.start, offset + max_length))
        if end == offset:
            # A first frame that exceeds only `max_length`, such as padding, is returned anyway.
            first = block.data[offset : offset + 32].cast("i")[0]
            cut, end = cut_run(block.data, offset, min(limit_position - block.start, offset + ((first + 31) & -32)))
        if end == offset:
            return None
        return Block(block.data[offset:cut], position, block.start + end)

    def consume(self, position: int) -> None:
        """Raises `ValueError` for a position that is not held."""
        if not self.is_closed:
            if not self.cursor.read_position <= position <= self.stream.tail:
                raise ValueError(f"consume {position} outside of {self.cursor.read_position}..{self.stream.tail}")
            self.stream.consume(self.cursor, position)

    def reject(self, reason: str) -> None:
        """Does nothing once the image is closed."""
        if not self.is_closed:
            self._source.drop_image(self, reason)

    def mark_closed(self) -> None:
        """The image ended; it keeps its last positions."""
        if not self.is_closed:
            self._final_received = self.stream.tail
            self._final_end = self.stream.end_position
            self.is_closed = True
            self.stream.remove_cursor(self.cursor)
