"""Reads log entries on a member that does not write them: a follower, or anybody who replays its own log.

The log is read in blocks of frames. Client messages, of which there are many, cost a few index operations each: only
the last timestamp a session is kept. Every other entry is decoded and handed to the module. Knows nothing of commit
positions but the limit it is given.
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
    TIMESTAMP_LONG,
)
from upheaval_node.types import FRAME_HEADER_LENGTH, MAX_POSITION, NULL_POSITION, Now


class LogHandler(Protocol):
    """Takes what the log says."""

    def on_log_messages(self, timestamps: dict[int, int]) -> None:
        """The last timestamp of every session in a part of the log; negative ids are messages of services."""

    def on_log_entry(self, now: Now, entry: Message, end_position: int) -> bool:
        """Any other entry; True when nothing after it may be read in this turn."""

    def on_bad_log_entry(self, now: Now, end_position: int, error: DecodeError) -> None:
        """An entry that cannot be decoded ends at `end_position`; the log goes on after it."""


class LogAdapter:
    """Reads one log at a time. An entry in fragments may begin in one image and end in the next."""

    def __init__(self, handler: LogHandler, *, max_block_length: int) -> None:
        self._handler = handler
        self._max_block_length = max_block_length
        self._image: Image | None = None
        self._assembler = FragmentAssembler()
        self._position: int = NULL_POSITION
        # Where the entry begins of which only a part was read, else -1.
        self._entry_start: int = NULL_POSITION

    @property
    def is_attached(self) -> bool:
        """Whether there is a log to read now."""
        return self._image is not None

    @property
    def image(self) -> Image | None:
        """The log that is being read, if there is one."""
        return self._image

    @property
    def position(self) -> int:
        """Everything before it was read; -1 before the first log."""
        return self._position

    @property
    def whole_entries_position(self) -> int:
        """The same, but not past the start of an entry that was read in part."""
        return self._position if self._entry_start == NULL_POSITION else self._entry_start

    @property
    def is_image_closed(self) -> bool:
        """Whether nothing more will come: there is no log, or its stream is closed."""
        return self._image is None or self._image.is_closed

    def attach(self, image: Image) -> None:
        """Read this log from where it joins; it need not be where the last one was left."""
        self._image = image
        if image.join_position != self._position:
            self._assembler.reset()
            self._entry_start = NULL_POSITION
        self._position = image.join_position

    def detach(self) -> int:
        """Stop reading; the position read so far."""
        self._image = None
        return self._position

    def poll(self, now: Now, limit_position: int = MAX_POSITION) -> int:
        """Read one block before the limit; returns how many frames."""
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
        timestamps: dict[int, int] = {}
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
                timestamps[longs[long + SESSION_LONG]] = longs[long + TIMESTAMP_LONG]
                position += aligned
            else:
                self._position = position
                if timestamps:
                    self._on_messages(timestamps)
                    timestamps = {}
                position += aligned
                if self._on_frame(now, data[offset : offset + length], words[word + 1], position):
                    self._position = position
                    return frames
            offset += aligned
        self._position = position
        if timestamps:
            self._on_messages(timestamps)
        return frames

    def _on_messages(self, timestamps: dict[int, int]) -> None:
        # A whole message ends whatever was begun before it.
        self._entry_start = NULL_POSITION
        self._handler.on_log_messages(timestamps)

    def _on_frame(self, now: Now, frame: memoryview, kind: int, end: int) -> bool:
        """A frame that is no whole client message; whether to stop after it."""
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
            self._handler.on_log_messages({decoded.cluster_session_id: decoded.timestamp})
            return False
        return self._handler.on_log_entry(now, decoded, end)
