"""One receiver of a stream over a link: announces the stream, sends its blocks, keeps the receiver's reports.

An outlet outlives its connections: when the owner attaches it to a new link, it announces the stream again and
continues at the position that the receiver names. It knows no subscription, no address and no publication.
"""

from collections import deque
from typing import Final, Protocol

from upheaval_node.errors import PeerError
from upheaval_node.media.link import FrameLink, pack_token, pad_frame
from upheaval_node.media.stream_buffer import Cursor, StreamBuffer
from upheaval_node.ports import Buffer
from upheaval_node.protocol.frames import (
    FLAGS_EOS_HEARTBEAT,
    FLAGS_UNFRAGMENTED,
    SM_FLAG_END_OF_STREAM,
    Setup,
    StatusMessage,
    compute_position,
    pack_heartbeat,
)
from upheaval_node.types import FRAME_ALIGNMENT, LONG_AGO_NS, Ns

_MAX_TTL: Final = (1 << 31) - 1


class OutletOwner(Protocol):
    """The owner of an outlet. It is called during the delivery of bytes, so it should act only in the next
    duty cycle.
    """

    def on_outlet_changed(self, outlet: "Outlet") -> None:
        """Connectivity or the receiver's limit changed."""

    def on_outlet_detached(self, outlet: "Outlet") -> None:
        """The connection is gone."""


class Outlet:
    """A `link.Sender`.

    `windowed` outlets hold what their receiver has not consumed and exert back pressure; the others fall out of
    the stream's retention when they are slow. `always_holds` says that this is so before the receiver answers, too.
    `token` marks a stream that answers on a connection of its receiver. Without `signals_end` the owner tells the
    receiver of the end of the stream by other means.
    """

    def __init__(
        self,
        stream: StreamBuffer,
        cursor: Cursor,
        owner: OutletOwner,
        *,
        windowed: bool,
        always_holds: bool = False,
        signals_end: bool = True,
        token: int | None = None,
    ) -> None:
        self.stream = stream
        self.cursor = cursor
        self.link: FrameLink | None = None
        self.is_active = False
        self.is_connected = False
        self.receiver_left = False
        self.window = 0
        self._owner = owner
        self._windowed = windowed
        self._token = token
        self._has_joined = False
        self._saw_status = False
        self._sent_since_tick = False
        self._eos_sent = False
        self._last_status_ns = LONG_AGO_NS
        self._attached_ns = LONG_AGO_NS
        self._last_sent_ns = LONG_AGO_NS
        self._always_holds = always_holds
        self._signals_end = signals_end
        cursor.blocking = always_holds

    def attach(self, link: FrameLink, now_ns: Ns) -> bool:
        """Use this connection from now on. False if it cannot carry another stream."""
        params = self.stream.params
        if not link.add_sender(params.stream_id, params.session_id, self):
            return False
        self.link = link
        self.is_active = False
        self._eos_sent = False
        self._last_sent_ns = LONG_AGO_NS
        self._attached_ns = now_ns
        return True

    def detach(self) -> None:
        """Stop using the connection. A later `attach` announces the stream again."""
        if self.link is not None:
            self.link.remove_sender(self.stream.params.stream_id, self.stream.params.session_id)
            self.link = None
        self.is_active = False

    @property
    def limit(self) -> int:
        """The position up to which the receiver lets the publisher advance."""
        return self.cursor.position + self.window

    @property
    def is_done(self) -> bool:
        """Whether the receiver has everything of an ended stream, or has left."""
        return self.receiver_left or (self.stream.ended and self.cursor.position >= self.stream.tail)

    # --- link.Sender ---

    def on_status(self, status: StatusMessage) -> None:
        """Join at the receiver's position, and move up to what it consumed. Raises `PeerError` for an impossible
        offset.
        """
        params = self.stream.params
        if status.consumption_term_offset >= params.term_length:
            raise PeerError(f"status with term offset {status.consumption_term_offset}")
        if status.flags & SM_FLAG_END_OF_STREAM:
            self.receiver_left = True
            self.is_active = False
            self._set_connected(False)
            return
        position = compute_position(
            status.consumption_term_id, status.consumption_term_offset, params.shift, params.initial_term_id
        )
        self._saw_status = True
        self.receiver_left = False
        self.window = min(status.receiver_window, params.term_length // 2)
        if not self.is_active:
            self._join(position)
        elif self.cursor.position < position <= self.cursor.read_position:
            self.cursor.position = position
            self.stream.touch()
        self._owner.on_outlet_changed(self)

    def _join(self, position: int) -> None:
        if not self.stream.seek(self.cursor, position):
            # The next announcement tells the receiver what is still held.
            self._last_sent_ns = LONG_AGO_NS
            return
        self.is_active = True
        self._has_joined = True
        self._set_connected(True)

    def on_link_closed(self, reason: str) -> None:  # noqa: ARG002 - the owner of the link reports it
        """The owner must attach another connection."""
        self.link = None
        self.is_active = False
        self._owner.on_outlet_detached(self)

    def pump(self, parts: deque[Buffer], room: int) -> int:
        """Sends nothing before the receiver has answered. Windowed outlets stop at the receiver's window."""
        if not self.is_active:
            return 0
        stream = self.stream
        cursor = self.cursor
        limit = self.limit if self._windowed else stream.tail
        added = 0
        while added < room and cursor.read_position < limit:
            block = stream.block_at(cursor)
            if block is None:
                break
            data = block.data
            skip = cursor.read_position - block.start
            parts.append(data[skip:] if skip else data)
            added += len(data) - skip
            stream.advance(cursor, block, block.end)
        if added:
            self._sent_since_tick = True
        if stream.ended and not self._eos_sent and cursor.read_position >= stream.tail:
            added += self._add_end_of_stream(parts)
        return added

    def _add_end_of_stream(self, parts: deque[Buffer]) -> int:
        self._eos_sent = True
        if self.stream.end_position is None or not self._signals_end:
            return 0
        frame = self._heartbeat(FLAGS_EOS_HEARTBEAT)
        parts.append(frame)
        return len(frame)

    # --- time ---

    def tick(self, now_ns: Ns, interval_ns: int, *, heartbeats: bool) -> None:
        """Announce the stream until the receiver answers; afterwards send heartbeats."""
        if self._saw_status:
            self._saw_status = False
            self._last_status_ns = now_ns
        if self._sent_since_tick:
            self._sent_since_tick = False
            self._last_sent_ns = now_ns
        link = self.link
        if link is None or now_ns - self._last_sent_ns < interval_ns:
            return
        if self.receiver_left and self.stream.ended:
            return
        if not self.is_active:
            frame = self._setup()
        elif heartbeats:
            # Bytes that the window still holds back come before the end of the stream.
            ends = self.stream.end_position is not None and self.cursor.read_position >= self.stream.tail
            frame = self._heartbeat(FLAGS_EOS_HEARTBEAT if ends else FLAGS_UNFRAGMENTED)
        else:
            return
        if link.send_control(frame):
            self._last_sent_ns = now_ns

    def expire(self, now_ns: Ns, timeout_ns: int) -> bool:
        """Without a status for `timeout_ns` the receiver counts as gone; whether the link is of no use either."""
        if now_ns - self._last_status_ns >= timeout_ns:
            self._set_connected(False)
        return self.link is not None and now_ns - max(self._last_status_ns, self._attached_ns) >= timeout_ns

    def _set_connected(self, connected: bool) -> None:
        if self.is_connected != connected:
            self.is_connected = connected
            self.cursor.blocking = self._always_holds or (connected and self._windowed)
            self.stream.touch()
            self._owner.on_outlet_changed(self)

    def _setup(self) -> bytes:
        """Where a new receiver joins: where this outlet began until the first has joined, afterwards at the tail."""
        stream = self.stream
        params = stream.params
        fresh = not self._has_joined and not stream.is_lost(self.cursor)
        position = self.cursor.read_position if fresh else stream.tail
        held = min((position - stream.base) // FRAME_ALIGNMENT, _MAX_TTL)
        setup = Setup(
            position & stream.term_mask,
            params.session_id,
            params.stream_id,
            params.initial_term_id,
            params.term_id_at(position),
            params.term_length,
            params.mtu,
            ttl=held,
        ).pack()
        if self._token is None:
            return setup
        return pad_frame(pack_token(self._token, params.stream_id)) + setup

    def _heartbeat(self, flags: int) -> bytes:
        params = self.stream.params
        position = self.cursor.read_position
        return pack_heartbeat(
            flags, position & self.stream.term_mask, params.session_id, params.stream_id, params.term_id_at(position)
        )
