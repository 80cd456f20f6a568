"""Reads the log for one service, up to the commit position, and delivers its entries in order.

The log is read in blocks of frames. Session messages are frequent: they are found by index operations on the block and
cost one call each. Every other entry is decoded and passed to the container. Nothing beyond the commit position is
read, because it may still be replaced. Knows nothing of acks, roles or the connections of sessions.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.media.api import Block, Image
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.fragments import FragmentAssembler
from upheaval_node.protocol.frames import DATA_UNFRAGMENTED, TYPE_PAD
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.session_header import (
    ANY_VERSION_MASK,
    ANY_VERSION_WORD,
    HEADER_LONG,
    SESSION_LONG,
    SHORTEST_FRAME,
    TIMESTAMP_LONG,
)
from upheaval_node.service.api import ClusteredService
from upheaval_node.service.cluster_view import ClusterView
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, MAX_POSITION

MAX_BLOCK_LENGTH: Final = 64 * 1024
"""The most log bytes per duty cycle: a few milliseconds of callbacks, so that acks and egress are not delayed."""

EntryHandler = Callable[[Message, int], None]
"""Takes a decoded entry other than a session message, and the position after it."""

CallbackErrorHandler = Callable[[Exception], None]
"""Takes an exception of a service callback, or the error of a broken entry. May raise to stop."""


class LogConsumer:
    """Delivers one log at a time, from the image that `attach` passes.

    A replay may end inside a fragmented entry. The next attached log continues that entry.
    """

    def __init__(
        self,
        service: ClusteredService,
        view: ClusterView,
        on_entry: EntryHandler,
        on_error: CallbackErrorHandler,
    ) -> None:
        self.max_log_position: int = MAX_POSITION
        self.is_held = False
        """Set by an entry after which delivery must pause."""
        self._on_message = service.on_session_message
        self._view = view
        self._on_entry = on_entry
        self._on_error = on_error
        self._image: Image | None = None
        self._assembler = FragmentAssembler()
        self._position = 0

    @property
    def is_attached(self) -> bool:
        """Whether there is a log to read."""
        return self._image is not None

    @property
    def position(self) -> int:
        """The position up to which the image was consumed, including padding."""
        return self._position

    @property
    def is_done(self) -> bool:
        """Whether this log delivers nothing more: its bound is reached, or the stream has ended or is closed."""
        image = self._image
        assert image is not None
        return self._position >= self.max_log_position or image.is_closed or image.is_end_of_stream

    def attach(self, image: Image, max_log_position: int) -> None:
        """Read this image from its join position up to `max_log_position`. The previous log must be detached."""
        assert self._image is None
        self._image = image
        if image.join_position != self._position:
            self._assembler.reset()
        self._position = image.join_position
        self.max_log_position = max_log_position

    def detach(self) -> None:
        """Release the image. The position and a partly read entry are kept."""
        self._image = None

    def poll(self, commit_position: int) -> int:
        """Deliver at most MAX_BLOCK_LENGTH committed bytes. Returns the number of frames."""
        image = self._image
        assert image is not None
        limit = min(commit_position, self.max_log_position)
        if self._position >= limit or self.is_held:
            return 0
        block = image.next_block(limit, MAX_BLOCK_LENGTH)
        if block is None:
            return 0
        try:
            return self._deliver(block)
        finally:
            image.consume(self._position)

    def _deliver(self, block: Block) -> int:
        data = block.data
        words = data.cast("i")
        longs = data.cast("q")
        end = len(data)
        view = self._view
        sessions = view.sessions
        on_message = self._on_message
        position = block.start
        offset = 0
        frames = 0
        while offset < end:
            word = offset >> 2
            length = words[word]
            assert length > 0, f"frame of length {length} at {position} of the log"
            aligned = (length + FRAME_ALIGNMENT - 1) & -FRAME_ALIGNMENT
            start, position = position, position + aligned
            # Advanced before the callback: an entry whose callback failed counts as delivered.
            self._position = position
            long = offset >> 3
            if (
                words[word + 1] == DATA_UNFRAGMENTED
                and length >= SHORTEST_FRAME
                and longs[long + HEADER_LONG] & ANY_VERSION_MASK == ANY_VERSION_WORD
            ):
                view.log_position = position
                view.time = timestamp = longs[long + TIMESTAMP_LONG]
                session = sessions.get(longs[long + SESSION_LONG])
                payload = data[offset + SHORTEST_FRAME : offset + length]
                try:
                    on_message(session, timestamp, payload, position)
                except Exception as error:  # noqa: BLE001 - the container decides what it means
                    self._on_error(error)
            else:
                self._on_other_frame(data[offset : offset + length], words[word + 1], start, position)
                if self.is_held:
                    return frames + 1
            offset += aligned
            frames += 1
        return frames

    def _on_other_frame(self, frame: memoryview, version_flags_type: int, start: int, end: int) -> None:
        if version_flags_type >> 16 == TYPE_PAD:
            return
        flags = (version_flags_type >> 8) & 0xFF
        message = self._assembler.on_fragment(flags, frame[FRAME_HEADER_LENGTH:], start, end)
        if message is None:
            return
        self._view.log_position = end
        try:
            self._on_whole_entry(memoryview(message), end)
        except Exception as error:  # noqa: BLE001 - the container decides what it means
            self._on_error(error)

    def _on_whole_entry(self, entry: memoryview, position: int) -> None:
        decoded = cm.SCHEMA.decode(entry)
        if isinstance(decoded, cm.SessionMessageHeader):
            view = self._view
            view.time = decoded.timestamp
            session = view.sessions.get(decoded.cluster_session_id)
            payload = entry[session_header.LENGTH :]
            self._on_message(session, decoded.timestamp, payload, position)
        elif decoded is not None:
            self._on_entry(decoded, position)
