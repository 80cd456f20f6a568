"""Reads log entries on a member that does not write them: a follower, or a member that replays its own log.

The log is read in blocks of frames. Session messages are frequent and cost a few index operations each: only their ids
are read. Every other entry is decoded and passed to the module. Of commit positions, it knows only the limit of each
poll.
"""

from typing import Protocol

from upheaval_node.errors import DecodeError
from upheaval_node.media.api import Block, Image
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.fragments import FragmentAssembler
from upheaval_node.protocol.frames import DATA_UNFRAGMENTED, FLAG_BEGIN, FLAGS_UNFRAGMENTED, TYPE_PAD
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.session_header import (
    ANY_VERSION_MASK,
    ANY_VERSION_WORD,
    HEADER_LONG,
    SESSION_LONG,
    SHORTEST_FRAME,
)
from upheaval_node.types import FRAME_HEADER_LENGTH, MAX_POSITION, NULL_POSITION, Now


class LogHandler(Protocol):
    """Takes the entries of the log."""

    def on_log_messages(self, ids: list[int]) -> None:
        """Take the session id of each message in a part of the log. Negative ids are those of services' messages."""

    def on_log_entry(self, now: Now, entry: Message, end_position: int) -> bool:
        """Take any other entry. Returns True when no later entry may be read in this turn."""

    def on_bad_log_entry(self, now: Now, end_position: int, error: DecodeError) -> None:
        """An entry that cannot be decoded ends at `end_position`. Reading continues after it."""


class LogAdapter:
    """Reads one log at a time. A fragmented entry may begin in one image and end in the next."""

    def __init__(self, handler: LogHandler, *, max_block_length: int) -> None:
        self._handler = handler
        self._max_block_length = max_block_length
        self._image: Image | None = None
        self._assembler = FragmentAssembler()
        self._position: int = NULL_POSITION
        # The start of a partly read entry, else -1.
        self._entry_start: int = NULL_POSITION

    @property
    def is_attached(self) -> bool:
        """Whether there is a log to read."""
        return self._image is not None

    @property
    def image(self) -> Image | None:
        """The image of the log being read, None without one."""
        return self._image

    @property
    def position(self) -> int:
        """The position up to which the log was read, -1 before the first log."""
        return self._position

    @property
    def whole_entries_position(self) -> int:
        """The position up to which the log was read in whole entries."""
        return self._position if self._entry_start == NULL_POSITION else self._entry_start

    @property
    def is_image_closed(self) -> bool:
        """Whether no more will arrive: there is no log, or its stream is closed."""
        return self._image is None or self._image.is_closed

    def attach(self, image: Image) -> None:
        """Read this log from its join position, which may differ from where the last log was left."""
        self._image = image
        if image.join_position != self._position:
            self._assembler.reset()
            self._entry_start = NULL_POSITION
        self._position = image.join_position

    def detach(self) -> int:
        """Stop reading. Returns the position read so far."""
        self._image = None
        return self._position

    def poll(self, now: Now, limit_position: int = MAX_POSITION) -> int:
        """Read one block before the limit. Returns the number of frames read."""
        image = self._image
        if image is None or limit_position <= self._position:
            return 0
        block = image.next_block(limit_position, self._max_block_length)
        if block is None:
            return 0
        try:
            return self._read(now, block)
        finally:
            image.consume(self._position)

    def _read(self, now: Now, block: Block) -> int:
        data = block.data
        words = data.cast("i")
        longs = data.cast("q")
        limit = len(data)
        position = block.start
        ids: list[int] = []
        offset = frames = 0
        while offset < limit:
            word = offset >> 2
            length = words[word]
            long = offset >> 3
            aligned = (length + 31) & -32
            frames += 1
            if (
                words[word + 1] == DATA_UNFRAGMENTED
                and length >= SHORTEST_FRAME
                and longs[long + HEADER_LONG] & ANY_VERSION_MASK == ANY_VERSION_WORD
            ):
                ids.append(longs[long + SESSION_LONG])
                position += aligned
            else:
                self._position = position
                if ids:
                    self._on_messages(ids)
                    ids = []
                position += aligned
                if self._on_frame(now, data[offset : offset + length], words[word + 1], position):
                    self._position = position
                    return frames
            offset += aligned
        self._position = position
        if ids:
            self._on_messages(ids)
        return frames

    def _on_messages(self, ids: list[int]) -> None:
        # A whole message ends any partial entry before it.
        self._entry_start = NULL_POSITION
        self._handler.on_log_messages(ids)

    def _on_frame(self, now: Now, frame: memoryview, kind: int, end: int) -> bool:
        """Handle a frame other than a whole session message. Returns whether to stop after it."""
        start = self._position
        self._position = end
        if kind >> 16 == TYPE_PAD:
            return False
        flags = kind >> 8 & 0xFF
        if flags & FLAGS_UNFRAGMENTED == FLAGS_UNFRAGMENTED:
            self._entry_start = NULL_POSITION
        elif flags & FLAG_BEGIN:
            self._entry_start = start
        entry = self._assembler.on_fragment(flags, frame[FRAME_HEADER_LENGTH:], start, end)
        if entry is None:
            return False
        self._entry_start = NULL_POSITION
        return self._on_entry(now, entry, end)

    def _on_entry(self, now: Now, entry: Buffer, end: int) -> bool:
        try:
            decoded = cm.SCHEMA.decode(entry)
        except DecodeError as error:
            self._handler.on_bad_log_entry(now, end, error)
            return False
        if decoded is None:
            return False
        if isinstance(decoded, cm.SessionMessageHeader):
            self._handler.on_log_messages([decoded.cluster_session_id])
            return False
        return self._handler.on_log_entry(now, decoded, end)
