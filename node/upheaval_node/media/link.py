"""One connection that carries Aeron's frames of several streams in both directions.

This module turns bytes into frames, validates them, and passes them to the transports (incoming streams), the senders
(outgoing streams) or the owner (everything about the connection itself). Each frame takes a multiple of 32 bytes on the
wire; of a padding frame, only the header is sent. A fault of the peer closes this connection and nothing else.

Differences to Aeron's datagrams, which only a byte stream allows: `ttl` of a SETUP counts the bytes that the publisher
still holds before the position it names, in units of 32; RSP_SETUP carries a 64-bit response token in its two session
fields; frames of type EXT carry commands between the processes of one member. This module knows no subscription and no
time.
"""

from collections import deque
from typing import Final, Protocol

from upheaval_node.errors import PeerError
from upheaval_node.media.frame_run import DATA_WORD, PAD_WORD, TYPE_MASK
from upheaval_node.ports import Buffer, Connection
from upheaval_node.protocol.frames import (
    MAX_MTU,
    TYPE_RSP_SETUP,
    TYPE_SETUP,
    TYPE_SM,
    ResponseSetup,
    Setup,
    StatusMessage,
    unpack_response_setup,
    unpack_setup,
    unpack_status,
)
from upheaval_node.types import FRAME_ALIGNMENT

TYPE_EXT: Final = 0xFFFF
# A response token that is withdrawn.
FLAG_WITHDRAWN: Final = 0x40
# The most streams in each direction. A connection to an archive carries a few replays beside the control stream.
MAX_STREAMS: Final = 64
# Streams are sent in steps of this length, so that they share a connection fairly.
SEND_STEP: Final = 256 * 1024
# Beyond this backlog, no control frames are queued: all of them are repeated or replaced later.
MAX_CONTROL_BACKLOG: Final = 64 * 1024
# Commands must arrive: the connection to a process that lets this many of them pile up is closed.
MAX_COMMAND_BACKLOG: Final = 4 * 1024 * 1024

_PADDING: Final = [bytes(count) for count in range(FRAME_ALIGNMENT)]


class Sender(Protocol):
    """A stream that is sent over the link."""

    def on_status(self, status: StatusMessage) -> None:
        """The receiver reports what it consumed and how much more it accepts. Raises `PeerError` for
        impossible values.
        """

    def pump(self, parts: deque[Buffer], room: int) -> int:
        """Add up to about `room` bytes of frames. Returns how many."""

    def on_link_closed(self, reason: str) -> None:
        """The connection is gone; the stream needs another one."""


class Transport(Protocol):
    """A stream that is received over the link."""

    def on_frames(self, chunk: memoryview, words: memoryview, index: int, limit: int) -> int:
        """Take the frames of this stream from word `index` on. Returns the index after them.

        If that is the same index, the frame is not whole yet. Raises `PeerError`.
        """

    def on_heartbeat(self, term_offset: int, term_id: int, flags: int) -> None:
        """A DATA frame of length 0: the publisher is alive; with FLAG_EOS, the stream ends there."""

    def on_link_closed(self, reason: str) -> None:
        """The connection is gone; it delivers no more of the stream."""


class LinkOwner(Protocol):
    """The side that opened or accepted the connection.

    It is called during the delivery of bytes, so it should act only in the next duty cycle.
    """

    def mark_link(self, link: "FrameLink") -> None:
        """The link has something to send."""

    def on_link_connected(self, link: "FrameLink") -> None:
        """The connection is established; frames may be queued."""

    def on_link_closed(self, link: "FrameLink", reason: str) -> None:
        """The connection is gone. Its streams have already been informed."""

    def on_setup(self, link: "FrameLink", setup: Setup, token: int | None) -> None:
        """A SETUP frame. `token` is from the RSP_SETUP just before it, if the stream answers on this connection."""

    def on_response_token(self, link: "FrameLink", token: int, stream_id: int, *, withdrawn: bool) -> None:
        """The peer announces a response token for a stream id, or withdraws it."""

    def on_extension(self, link: "FrameLink", payload: bytes) -> None:
        """An EXT frame. Raises `PeerError` if the owner takes no commands."""

    def on_peer_error(self, link: "FrameLink", error: PeerError) -> None:
        """The peer broke the protocol. The connection is closed next."""


def pad_frame(frame: bytes) -> bytes:
    """A control frame in its form on the wire."""
    return frame + _PADDING[-len(frame) % FRAME_ALIGNMENT]


def pack_token(token: int, stream_id: int, *, withdrawn: bool = False) -> bytes:
    """A RSP_SETUP frame with a 64-bit token."""
    low = ((token & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    frame = bytearray(ResponseSetup(low, stream_id, token >> 32).pack())
    if withdrawn:
        frame[5] = FLAG_WITHDRAWN
    return bytes(frame)


def pack_extension(payload: bytes) -> bytes:
    """An EXT frame. Raises `ValueError` for a payload that does not fit one frame."""
    length = len(payload) + 8
    if length > MAX_MTU:
        raise ValueError(f"extension frame of {length} bytes")
    return length.to_bytes(4, "little") + b"\0\0\xff\xff" + payload


class FrameLink:
    """A `ports.ConnectionHandler` that speaks frames."""

    def __init__(self, owner: LinkOwner) -> None:
        self.connection: Connection | None = None
        self.is_connected = False
        self.is_closed = False
        self.is_dirty = False
        self.saw_input = False
        self.peer = ""
        self.queued = 0
        self.senders: dict[tuple[int, int], Sender] = {}
        self.transports: dict[tuple[int, int], Transport] = {}
        self._owner = owner
        self._parts: deque[Buffer] = deque()
        self._is_blocked = False
        self._tail = b""
        self._token: int | None = None
        self._paused_by: list[object] = []
        # Streams that were given up recently: their frames in flight are ignored.
        self._ended: deque[tuple[int, int]] = deque(maxlen=MAX_STREAMS)

    # --- ports.ConnectionHandler ---

    def on_connected(self, connection: Connection) -> None:
        """Tell the owner, and send what waited."""
        if self.is_connected or self.is_closed:
            return
        self.connection = connection
        self.is_connected = True
        self.peer = connection.peer
        self._owner.on_link_connected(self)
        self.mark()

    def on_data(self, data: memoryview) -> None:
        """Take the whole frames and keep the rest. A fault of the peer closes the connection."""
        if self.is_closed:
            return
        self.saw_input = True
        chunk = memoryview(b"".join((self._tail, data)))
        whole = len(chunk) & -FRAME_ALIGNMENT
        words = (chunk if whole == len(chunk) else chunk[:whole]).cast("i")
        try:
            used = self._take(chunk, words, whole >> 2) << 2
        except PeerError as error:
            if not self.is_closed:
                self._owner.on_peer_error(self, error)
                self.close(str(error))
            return
        self._tail = b"" if used == len(chunk) else bytes(chunk[used:])

    def on_writable(self) -> None:
        """Continue to send in the next duty cycle."""
        self._is_blocked = False
        self.mark()

    def on_closed(self, reason: str) -> None:
        """Inform streams and owner."""
        self._shut(reason)

    # --- receiving ---

    def _take(self, chunk: memoryview, words: memoryview, limit: int) -> int:
        index = 0
        while index < limit and not self.is_closed:
            length = words[index]
            kind = words[index + 1] & TYPE_MASK
            if kind in (DATA_WORD, PAD_WORD):
                following = self._take_data(chunk, words, index, limit)
            else:
                if length < 8 or length > MAX_MTU:
                    raise PeerError(f"frame of {length} bytes")
                following = index + (((length + 31) & -32) >> 2)
                if following <= limit:
                    self._take_control(chunk[index << 2 : following << 2], kind >> 16 & 0xFFFF, kind & 0xFF)
            if following == index or following > limit:
                break
            index = following
        return index

    def _take_data(self, chunk: memoryview, words: memoryview, index: int, limit: int) -> int:
        transport = self.transports.get((words[index + 4], words[index + 3]))
        length = words[index]
        if length < 0:
            raise PeerError(f"frame of {length} bytes")
        if transport is not None:
            if length:
                return transport.on_frames(chunk, words, index, limit)
            transport.on_heartbeat(words[index + 2], words[index + 5], words[index + 1] >> 8 & 0xFF)
            return index + 8
        return self._skip(words, index, limit, length)

    def _skip(self, words: memoryview, index: int, limit: int, length: int) -> int:
        """Ignore frames of a stream that was just given up. Any other stream was never set up, which is a fault."""
        if length > MAX_MTU and words[index + 1] & TYPE_MASK != PAD_WORD:
            raise PeerError(f"frame of {length} bytes")
        if (words[index + 4], words[index + 3]) not in self._ended:
            raise PeerError(f"data of session {words[index + 3]} of stream {words[index + 4]}, which was not set up")
        if words[index + 1] & TYPE_MASK == PAD_WORD:
            return index + 8
        following = index + max(((length + 31) & -32) >> 2, 8)
        return following if following <= limit else index

    def _take_control(self, frame: memoryview, kind: int, version: int) -> None:
        if version != 0:
            raise PeerError(f"frame of version {version}")
        if kind == TYPE_SM:
            status = unpack_status(frame)
            sender = self.senders.get((status.stream_id, status.session_id))
            if sender is not None:
                sender.on_status(status)
        elif kind == TYPE_SETUP:
            token, self._token = self._token, None
            self._owner.on_setup(self, unpack_setup(frame), token)
        elif kind == TYPE_RSP_SETUP:
            answer = unpack_response_setup(frame)
            token = answer.response_session_id << 32 | answer.session_id & 0xFFFFFFFF
            self._token = token
            withdrawn = bool(frame[5] & FLAG_WITHDRAWN)
            self._owner.on_response_token(self, token, answer.stream_id, withdrawn=withdrawn)
        elif kind == TYPE_EXT:
            length = int.from_bytes(frame[:4], "little")
            self._owner.on_extension(self, bytes(frame[8:length]))
        else:
            raise PeerError(f"frame of type {kind}")

    # --- streams ---

    def add_sender(self, stream_id: int, session_id: int, sender: Sender) -> bool:
        """Add an outgoing stream. False if the connection carries too many streams, or this one already."""
        key = (stream_id, session_id)
        if len(self.senders) >= MAX_STREAMS or key in self.senders:
            return False
        self.senders[key] = sender
        return True

    def remove_sender(self, stream_id: int, session_id: int) -> None:
        """Stop sending the stream through this connection."""
        self.senders.pop((stream_id, session_id), None)

    def add_transport(self, stream_id: int, session_id: int, transport: Transport) -> None:
        """Add an incoming stream. Raises `PeerError` when the peer sets up too many streams."""
        if len(self.transports) >= MAX_STREAMS:
            raise PeerError(f"more than {MAX_STREAMS} streams on one connection")
        self.transports[stream_id, session_id] = transport

    def remove_transport(self, stream_id: int, session_id: int) -> None:
        """Stop receiving the stream. Its frames in flight are ignored."""
        transport = self.transports.pop((stream_id, session_id), None)
        if transport is not None:
            self._ended.append((stream_id, session_id))

    # --- sending ---

    def mark(self) -> None:
        """Ask the owner for a `flush`, once until it has come."""
        if not self.is_dirty and not self.is_closed:
            self.is_dirty = True
            self._owner.mark_link(self)

    @property
    def has_room_for_control(self) -> bool:
        """Whether a frame that may be lost would be queued, because the peer keeps up."""
        return self.is_connected and self.queued < MAX_CONTROL_BACKLOG

    def send_control(self, frame: bytes) -> bool:
        """Queue a frame that may be lost. False if the peer does not keep up."""
        if self.is_closed or not self.has_room_for_control:
            return False
        self._queue(frame)
        return True

    def send_required(self, frame: bytes) -> None:
        """Queue a frame that is not repeated."""
        if not self.is_closed:
            self._queue(frame)

    def send_command(self, payload: bytes) -> None:
        """Queue an EXT frame that must not be lost."""
        if not self.is_closed:
            self._queue(pack_extension(payload))
            if self.queued > MAX_COMMAND_BACKLOG:
                self.close("commands are not read")

    def _queue(self, frame: bytes) -> None:
        frame = pad_frame(frame)
        self._parts.append(frame)
        self.queued += len(frame)
        self.mark()

    def flush(self) -> int:
        """Send queued frames and stream data until the connection takes no more. Returns the bytes sent."""
        self.is_dirty = False
        total = 0
        while self.connection is not None and self.is_connected and not self._is_blocked and not self.is_closed:
            for sender in list(self.senders.values()):
                self.queued += sender.pump(self._parts, SEND_STEP)
            if not self.queued:
                break
            sent = self.connection.send(tuple(self._parts))
            total += sent
            self._sent(sent)
            if self.queued:
                self._is_blocked = True
        return total

    def _sent(self, count: int) -> None:
        parts = self._parts
        self.queued -= count
        if not self.queued:
            parts.clear()
            return
        while count >= len(parts[0]):
            count -= len(parts.popleft())
        if count:
            parts[0] = memoryview(parts[0])[count:]

    # --- back pressure and closing ---

    def pause(self, reason: object, *, paused: bool) -> None:
        """Stop or resume reading for one reason. Reading resumes when no reason is left."""
        if paused == (reason in self._paused_by) or self.connection is None or self.is_closed:
            return
        if paused:
            self._paused_by.append(reason)
        else:
            self._paused_by.remove(reason)
        if len(self._paused_by) == int(paused):
            self.connection.pause_reading(paused)

    def close(self, reason: str) -> None:
        """Close from this side, and inform streams and owner."""
        if not self.is_closed:
            connection = self.connection
            self._shut(reason)
            if connection is not None:
                connection.close()

    def _shut(self, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.is_connected = False
        self._parts.clear()
        self.queued = 0
        self._tail = b""
        for sender in list(self.senders.values()):
            sender.on_link_closed(reason)
        for transport in list(self.transports.values()):
            transport.on_link_closed(reason)
        self.senders.clear()
        self.transports.clear()
        self._owner.on_link_closed(self, reason)
