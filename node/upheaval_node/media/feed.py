"""A stream that arrives: one or more transports write into one stream buffer, each validated frame by frame.

Bytes that several transports deliver are kept once, by position (this is how a replay merges with the live stream). If
a publisher no longer holds the bytes that come next, its transport waits until another one has filled the gap. The feed
reports to publishers what was consumed, applies back pressure, and ends the stream by end of stream, liveness or gap.
It knows no subscription and no address.
"""

from typing import Final

from upheaval_node.errors import PeerError
from upheaval_node.media.frame_run import DATA_WORD, FOLLOWS, TYPE_MASK, cut_run, scan_run
from upheaval_node.media.link import FrameLink
from upheaval_node.media.stream_buffer import StreamBuffer
from upheaval_node.protocol.frames import FLAG_EOS, SM_FLAG_END_OF_STREAM, Setup, StatusMessage, compute_position
from upheaval_node.types import FRAME_ALIGNMENT, LONG_AGO_NS, Ns

# A run that is less than one part in this many of the received bytes is copied, so that it does not keep all of them
# alive.
_PIN_SHARE: Final = 2
# Reading stops only beyond this multiple of the window: an honest publisher may exceed it by a message or a block.
_PAUSE_FACTOR: Final = 2
MAX_TRANSPORTS: Final = 8


class StreamTransport:
    """A `link.Transport`: the frames of one stream on one connection, in order and without gaps."""

    def __init__(self, feed: "StreamFeed", link: FrameLink, setup: Setup, source: object) -> None:
        self.feed = feed
        self.link = link
        self.source = source
        self.is_active = False
        self.position = 0
        self.held_from = 0
        self.setup_position = 0
        self._ids = (0, 0, 0)
        self.announce(setup)

    def announce(self, setup: Setup) -> None:
        """The publisher announces its position, and how far back it still holds the stream."""
        self.setup_position = setup.position
        self.held_from = max(setup.position - max(setup.ttl, 0) * FRAME_ALIGNMENT, 0)

    def start(self, position: int) -> None:
        """Ask the publisher to send from `position` on."""
        self.is_active = True
        self._move(position)

    def _move(self, position: int) -> None:
        params = self.feed.buffer.params
        self.position = position
        self._ids = (params.session_id, params.stream_id, params.term_id_at(position))

    def on_frames(self, chunk: memoryview, words: memoryview, index: int, limit: int) -> int:
        """A run of DATA frames, or one of padding. Raises `PeerError` for frames that do not follow."""
        if not self.is_active:
            raise PeerError("data before the receiver asked for it")
        feed = self.feed
        start = self.position
        term_length = feed.buffer.params.term_length
        term_offset = start & (term_length - 1)
        if words[index + 1] & TYPE_MASK == DATA_WORD:
            following, end_offset, verdict = scan_run(words, index, limit, self._ids, term_offset, term_length)
            if verdict != FOLLOWS:
                raise PeerError(f"frame at {start + end_offset - term_offset} does not follow or is malformed")
            if following == index:
                return index
        else:
            following = index + 8
            end_offset = term_offset + words[index]
            placed = words[index + 2] == term_offset and words[index + 5] == self._ids[2]
            if not placed or words[index] & 31 or words[index] < FRAME_ALIGNMENT or end_offset > term_length:
                raise PeerError(f"padding of {words[index]} bytes at {start}")
        end = start + end_offset - term_offset
        self._move(end)
        feed.on_run(chunk[index << 2 : following << 2], start, end, len(chunk))
        return following

    def on_heartbeat(self, term_offset: int, term_id: int, flags: int) -> None:
        """The publisher is alive, or ends the stream. Raises `PeerError` for any position but the next one."""
        params = self.feed.buffer.params
        if not self.is_active:
            raise PeerError("heartbeat before the receiver asked for data")
        if compute_position(term_id, term_offset, params.shift, params.initial_term_id) != self.position:
            raise PeerError(f"heartbeat at {term_id}:{term_offset} does not follow {self.position}")
        self.feed.on_alive()
        if flags & FLAG_EOS:
            self.feed.on_end_of_stream(self)

    def on_link_closed(self, reason: str) -> None:
        """The connection is gone; another transport may continue the stream."""
        self.is_active = False
        self.feed.on_transport_closed(self, reason)

    def send_status(self, position: int, window: int, receiver_id: int, flags: int = 0) -> None:
        """Send an SM frame: the consumed position and how many more bytes are accepted."""
        params = self.feed.buffer.params
        self.link.send_control(
            StatusMessage(
                params.session_id,
                params.stream_id,
                params.term_id_at(position),
                position & (params.term_length - 1),
                window,
                receiver_id,
                flags,
            ).pack()
        )


class StreamFeed:
    """Writes the frames of its transports into `buffer`. With `liveness_ns` None, a lost connection ends the stream."""

    def __init__(self, buffer: StreamBuffer, *, window: int, receiver_id: int, liveness_ns: int | None) -> None:
        self.buffer = buffer
        self.window = min(window, buffer.params.term_length // 2)
        self.transports: list[StreamTransport] = []
        # Whether other transports may still fill a gap; the owner sets it for subscriptions with destinations.
        self.may_be_filled = False
        # Set when a connection was lost, so that the owner informs its subscribers.
        self.has_lost_transport = False
        self.end_reason = ""
        self._receiver_id = receiver_id
        self._liveness_ns = liveness_ns
        self._is_alive = True
        self._last_alive_ns = LONG_AGO_NS
        self._last_status_ns = LONG_AGO_NS
        self._status_position = buffer.tail
        self._pause_at = buffer.tail + _PAUSE_FACTOR * self.window
        self._is_paused = False

    @property
    def active_transport_count(self) -> int:
        """The number of transports that deliver at present. A transport that waits for a gap to be filled does not
        count.
        """
        return sum(transport.is_active for transport in self.transports)

    @property
    def has_news(self) -> bool:
        """Whether more was consumed than was reported to the publishers."""
        return self.buffer.consumed_position() != self._status_position

    # --- transports ---

    def on_setup(self, link: FrameLink, setup: Setup, source: object = None) -> None:
        """Take the announcement of the stream on `link`, which reached us through `source`.

        Raises `PeerError` when it is a different stream.
        """
        params = self.buffer.params
        if (setup.initial_term_id, setup.term_length) != (params.initial_term_id, params.term_length):
            raise PeerError(f"session {setup.session_id} is announced with other terms than before")
        transport = next((known for known in self.transports if known.link is link), None)
        if transport is None:
            if len(self.transports) >= MAX_TRANSPORTS:
                raise PeerError(f"more than {MAX_TRANSPORTS} connections for session {setup.session_id}")
            transport = StreamTransport(self, link, setup, source)
            link.add_transport(params.stream_id, params.session_id, transport)
            self.transports.append(transport)
        else:
            transport.announce(setup)
            if transport.is_active and transport.position < transport.held_from:
                transport.is_active = False
        self._resume(transport)
        # A publisher that only announces what cannot be joined does not keep the image alive.
        self._is_alive = self._is_alive or transport.is_active

    def _resume(self, transport: StreamTransport) -> None:
        """Ask for the next bytes if the publisher holds them; otherwise wait for other transports to fill the gap."""
        received = self.buffer.tail
        if not transport.is_active:
            if transport.held_from > received:
                if not self.may_be_filled and self.active_transport_count == 0:
                    self.end(f"gap from {received} to {transport.held_from}")
                return
            transport.start(min(received, transport.setup_position))
            if self._is_paused:
                transport.link.pause(self, paused=True)
        # A repeated announcement gets the same answer, because the first answer may have been lost.
        transport.send_status(transport.position, self.window, self._receiver_id)

    def on_run(self, data: memoryview, start: int, end: int, chunk_length: int) -> None:
        """Append frames; bytes that another transport has delivered are dropped. Raises `PeerError` for a gap."""
        buffer = self.buffer
        self._is_alive = True
        if buffer.ended:
            return
        tail = buffer.tail
        if start != tail:
            if end <= tail:
                return
            cut, cut_end = cut_run(data, 0, tail - start)
            if start > tail or start + cut_end != tail:
                raise PeerError(f"frames from {start} to {end} do not meet the position {tail} of the stream")
            data = data[cut:]
        if len(data) * _PIN_SHARE < chunk_length:
            data = memoryview(bytes(data))
        buffer.append(data, end)
        if end > self._pause_at:
            self._check_pause()

    def on_alive(self) -> None:
        """A publisher has shown that it is alive."""
        self._is_alive = True

    def on_end_of_stream(self, transport: StreamTransport) -> None:
        """One publisher ends the stream. The stream ends when no other transport is left."""
        position = transport.position
        transport.send_status(position, 0, self._receiver_id, SM_FLAG_END_OF_STREAM)
        self._remove(transport)
        if not self.transports and position >= self.buffer.tail:
            self.end_reason = "end of stream"
            self.buffer.end(eos=True)

    def on_transport_closed(self, transport: StreamTransport, reason: str) -> None:
        """Without a liveness time-out the stream ends with its connection."""
        if transport in self.transports:
            self.transports.remove(transport)
            self.has_lost_transport = True
            self.buffer.touch()
        if self._liveness_ns is None:
            self.end(reason)

    def _remove(self, transport: StreamTransport) -> None:
        self.transports.remove(transport)
        transport.link.pause(self, paused=False)
        transport.link.remove_transport(self.buffer.params.stream_id, self.buffer.params.session_id)

    def detach(self, transport: StreamTransport) -> None:
        """Receive nothing more from this transport, and tell its publisher."""
        transport.send_status(self.buffer.tail, 0, self._receiver_id, SM_FLAG_END_OF_STREAM)
        self._remove(transport)

    def detach_source(self, source: object) -> None:
        """Receive nothing more through one destination of the subscription."""
        for transport in [transport for transport in self.transports if transport.source == source]:
            self.detach(transport)

    def end(self, reason: str) -> None:
        """End the stream without end-of-stream, and tell the publishers that it has no receiver here."""
        self.end_reason = self.end_reason or reason
        for transport in list(self.transports):
            self.detach(transport)
        self.buffer.end(eos=False)

    # --- flow ---

    def flush(self) -> None:
        """After receipt or consumption: trim, report what was consumed, and let publishers continue."""
        buffer = self.buffer
        consumed = buffer.trim()
        self._pause_at = consumed + _PAUSE_FACTOR * self.window
        if self._is_paused and buffer.tail - consumed <= self.window:
            self._set_paused(False)
        if consumed - self._status_position > self.window >> 2:
            self._send_statuses(consumed)
        for transport in list(self.transports):
            if not transport.is_active and transport.held_from <= buffer.tail:
                self._resume(transport)

    def tick(self, now_ns: Ns, status_interval_ns: int) -> None:
        """Report at intervals, and end the stream when its publishers have been silent for too long."""
        if self._is_alive or self._is_paused or self._last_alive_ns == LONG_AGO_NS:
            self._is_alive = False
            self._last_alive_ns = now_ns
        if self.buffer.ended:
            return
        due = now_ns - self._last_status_ns >= status_interval_ns
        if due and (self._liveness_ns is not None or self.has_news):
            self._last_status_ns = now_ns
            self._send_statuses(self.buffer.consumed_position())
        if self._liveness_ns is not None and now_ns - self._last_alive_ns >= self._liveness_ns:
            silent = [transport.link for transport in self.transports]
            self.end("no sign of life from the publisher")
            for link in silent:
                if not link.transports and not link.senders:
                    link.close("no sign of life from the publisher")

    def _send_statuses(self, consumed: int) -> None:
        self._status_position = consumed
        for transport in self.transports:
            if transport.is_active:
                transport.send_status(min(consumed, transport.position), self.window, self._receiver_id)

    def _check_pause(self) -> None:
        buffer = self.buffer
        self._pause_at = buffer.consumed_position() + _PAUSE_FACTOR * self.window
        if buffer.tail > self._pause_at:
            self._set_paused(True)

    def _set_paused(self, paused: bool) -> None:
        self._is_paused = paused
        for transport in self.transports:
            transport.link.pause(self, paused=paused)
