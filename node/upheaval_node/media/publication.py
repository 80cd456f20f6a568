"""The sending end of a stream: messages and frame runs become frames at the tail of a stream buffer.

The owner (the driver, or the link to it) decides who reads the stream, how far the writer may run ahead, and what
closing does. This module knows no connection and no time.
"""

import struct
from typing import Final, Protocol

from upheaval_node.bell import Bell
from upheaval_node.errors import UsageError
from upheaval_node.media.api import BACK_PRESSURED, CLOSED, MAX_POSITION_EXCEEDED
from upheaval_node.media.frame_run import measure_run, patch_run
from upheaval_node.media.stream_buffer import OPEN_BLOCK_LENGTH, StreamBuffer
from upheaval_node.ports import Buffer
from upheaval_node.protocol.fragments import append_message, framed_length, padding_header
from upheaval_node.protocol.frames import DATA_UNFRAGMENTED, max_message_length, max_position
from upheaval_node.types import FRAME_HEADER_LENGTH

_PACK_HEADER: Final = struct.Struct("<iiiiiiq").pack
_ZEROS: Final = [bytes(count) for count in range(32)]


class PublicationOwner(Protocol):
    """The publication's interface to the owner that sends its stream."""

    def limit_position(self) -> int:
        """The position before which a message must start; or NOT_CONNECTED."""

    @property
    def is_connected(self) -> bool:
        """Whether at least one subscriber receives the stream."""

    @property
    def error(self) -> str | None:
        """Why the driver refused or ended the publication, or None."""

    def add_destination(self, channel: str) -> None:
        """Raises `UsageError` if the channel or the publication does not allow it."""

    def remove_destination(self, channel: str) -> None:
        """Stop sending to this channel."""

    def close_publication(self, *, eos: bool) -> None:
        """Accept no more offers: send what is held, then end the stream."""


class StreamPublication:
    """Implements `api.Publication` on a stream buffer."""

    def __init__(self, stream: StreamBuffer, owner: PublicationOwner, *, channel: str, registration_id: int) -> None:
        params = stream.params
        self.registration_id = registration_id
        self.channel = channel
        self.stream_id = params.stream_id
        self.session_id = params.session_id
        self.initial_term_id = params.initial_term_id
        self.term_length = params.term_length
        self.mtu = params.mtu
        self.max_payload_length = params.mtu - FRAME_HEADER_LENGTH
        self.max_message_length = max_message_length(params.term_length)
        self.is_closed = False
        self.bell: Bell | None = None
        self._was_refused = False
        self._was_connected = False
        self._owner = owner
        self._stream = stream
        self._max_position = max_position(params.term_length)
        # Offers that start before this position need not ask the owner; `invalidate` makes the next one ask.
        self._limit = -1
        self._term_id = params.term_id_at(stream.tail)

    @property
    def position(self) -> int:
        """The tail of the stream."""
        return self._stream.tail

    @property
    def is_connected(self) -> bool:
        """Never once closed."""
        return not self.is_closed and self._owner.is_connected

    @property
    def error(self) -> str | None:
        """The owner's error."""
        return self._owner.error

    def invalidate(self) -> None:
        """The owner's limit or connectivity changed for the worse."""
        self._limit = -1

    def ring_if_changed(self) -> None:
        """Wake the publisher when its connectivity changed, or when it may continue after back pressure."""
        if self.bell is None or self.is_closed:
            return
        is_connected = self._owner.is_connected
        if is_connected is not self._was_connected:
            self._was_connected = is_connected
            self.bell.rung = True
        elif self._was_refused and self._stream.tail < self._owner.limit_position():
            self._was_refused = False
            self.bell.rung = True

    def offer(self, *parts: Buffer) -> int:
        """A message becomes one frame if it fits, else fragments. Nothing is sent before the next duty cycle."""
        stream = self._stream
        position = stream.tail
        if position >= self._limit and (refused := self._refresh(position)):
            return refused
        length = 0
        for part in parts:
            length += len(part)
        if length > self.max_payload_length:
            return self._offer_fragmented(parts, length)
        frame_length = length + FRAME_HEADER_LENGTH
        aligned = (frame_length + 31) & -32
        offset = position & stream.term_mask
        if aligned > self.term_length - offset:
            if not self._rotate(aligned):
                return MAX_POSITION_EXCEEDED
            position = stream.tail
            offset = 0
        block = stream.open
        if block is None or len(block) > OPEN_BLOCK_LENGTH:
            block = stream.open_block()
        block += _PACK_HEADER(
            frame_length, DATA_UNFRAGMENTED, offset, self.session_id, self.stream_id, self._term_id, 0
        )
        for part in parts:
            block += part
        block += _ZEROS[aligned - frame_length]
        return self._advance(position + aligned)

    def claim_position(self, length: int) -> int:
        """Counts the padding before a message that does not fit the term."""
        position = self._stream.tail
        if position >= self._limit and (refused := self._refresh(position)):
            return refused
        framed = self._framed(length)
        remaining = self.term_length - (position & self._stream.term_mask)
        if framed > remaining:
            position += remaining
        return position + framed if position + framed <= self._max_position else MAX_POSITION_EXCEEDED

    def offer_frames(self, block: bytearray, count_hint: int = 0) -> int:  # noqa: ARG002 - part of the contract
        """Raises `UsageError` for anything but whole frames of at most `mtu` bytes, and padding that crosses a term."""
        position = self._stream.tail
        if position >= self._limit and (refused := self._refresh(position)):
            return refused
        view = memoryview(block)
        if len(view) & 31:
            raise UsageError(f"a run of frames has {len(view)} bytes")
        words = view.cast("i")
        length, padding = measure_run(words, self.mtu)
        if length < 0:
            raise UsageError(f"no run of whole frames of at most {self.mtu} bytes")
        if padding and (position & self._stream.term_mask) + length + padding > self.term_length:
            raise UsageError(f"padding of {padding} bytes crosses the end of the term")
        if position + length + padding + self.term_length > self._max_position:
            return MAX_POSITION_EXCEEDED
        self._append_run(view, words, length)
        if padding:
            self._append_padding(view[length:], words[length >> 2 :], padding)
        return self._stream.tail

    def _append_run(self, view: memoryview, words: memoryview, length: int) -> None:
        stream = self._stream
        done = 0
        while done < length:
            offset = stream.tail & stream.term_mask
            room = self.term_length - offset
            part = words[done >> 2 : length >> 2]
            count = patch_run(part, (self.session_id, self.stream_id, self._term_id), offset, room)
            if count:
                end = stream.tail + count
                stream.append(view[done : done + count], end)
                self._advance(end)
                done += count
            elif offset == 0:
                raise UsageError("a message in the run is longer than a term")
            if done < length:
                self._rotate(room)

    def _append_padding(self, view: memoryview, words: memoryview, padding: int) -> None:
        stream = self._stream
        offset = stream.tail & stream.term_mask
        words[2], words[3], words[4], words[5] = offset, self.session_id, self.stream_id, self._term_id
        end = stream.tail + padding
        stream.append(view, end)
        self._advance(end)

    def _offer_fragmented(self, parts: tuple[Buffer, ...], length: int) -> int:
        if length > self.max_message_length:
            raise UsageError(f"message of {length} bytes, at most {self.max_message_length} fit")
        stream = self._stream
        framed = self._framed(length)
        if framed > self.term_length - (stream.tail & stream.term_mask) and not self._rotate(framed):
            return MAX_POSITION_EXCEEDED
        block = stream.open
        if block is None or len(block) > OPEN_BLOCK_LENGTH:
            block = stream.open_block()
        position = stream.tail
        append_message(
            block,
            parts,
            max_payload_length=self.max_payload_length,
            term_offset=position & stream.term_mask,
            session_id=self.session_id,
            stream_id=self.stream_id,
            term_id=self._term_id,
        )
        return self._advance(position + framed)

    def _framed(self, length: int) -> int:
        if length > self.max_message_length:
            raise UsageError(f"message of {length} bytes, at most {self.max_message_length} fit")
        return framed_length(length, self.max_payload_length)

    def _advance(self, position: int) -> int:
        stream = self._stream
        stream.tail = position
        if position & stream.term_mask == 0:
            stream.seal()
            self._term_id = stream.params.term_id_at(position)
        if not stream.dirty:
            stream.touch()
        return position

    def _rotate(self, required: int) -> bool:
        """Fill the rest of the term with padding. False if no term follows that has room for `required` bytes."""
        stream = self._stream
        offset = stream.tail & stream.term_mask
        remaining = self.term_length - offset
        if stream.tail + remaining + required > self._max_position:
            return False
        if offset:
            block = stream.open if stream.open is not None else stream.open_block()
            block += padding_header(
                length=remaining,
                term_offset=offset,
                session_id=self.session_id,
                stream_id=self.stream_id,
                term_id=self._term_id,
            )
            self._advance(stream.tail + remaining)
        return True

    def _refresh(self, position: int) -> int:
        """0 if an offer at `position` may continue, else the result code that says why not."""
        if self.is_closed:
            return CLOSED
        limit = self._owner.limit_position()
        if limit < 0:
            return limit
        if position >= self._max_position:
            return MAX_POSITION_EXCEEDED
        if position >= limit:
            self._was_refused = True
            return BACK_PRESSURED
        self._limit = min(limit, self._max_position)
        return 0

    def add_destination(self, channel: str) -> None:
        """Raises `UsageError` without `control-mode=manual`."""
        self._owner.add_destination(channel)

    def remove_destination(self, channel: str) -> None:
        """Does nothing for a channel that was not added."""
        self._owner.remove_destination(channel)

    def close(self, *, eos: bool = True) -> None:
        """Closing twice does nothing."""
        if not self.is_closed:
            self.mark_closed()
            self._owner.close_publication(eos=eos)

    def mark_closed(self) -> None:
        """The stream is gone; offers return CLOSED."""
        self.is_closed = True
        self._limit = -1
