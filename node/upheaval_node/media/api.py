"""What other components see of the media: streams of messages with positions.

A publication appends messages to a stream; every subscriber sees the stream through an image of its own. Two
implementations exist: `driver.MediaDriver` owns the network, `client.MediaClient` lives in another process of the
same member and talks to the driver. This module may know neither.
"""

from collections.abc import Callable
from typing import Final, Protocol

from upheaval_node.ports import Agent, Buffer
from upheaval_node.types import MAX_POSITION

# What `offer` returns instead of a position (Aeron: offer results; its -3 reports a term rotation, which happens
# inside `offer` here).
NOT_CONNECTED: Final = -1
BACK_PRESSURED: Final = -2
CLOSED: Final = -4
MAX_POSITION_EXCEEDED: Final = -5

# The longest block that `Image.next_block` hands out by default.
MAX_BLOCK_LENGTH: Final = 1024 * 1024


class Abort(Exception):
    """Raised by a poll handler: this message counts as not delivered and comes again with the next poll.

    Nothing wakes the poller for it: who aborts has a deadline of its own at which it polls again.
    """


class Break(Exception):
    """Raised by a poll handler: this message is delivered, but no further one in this poll."""


class Message:
    """One reassembled message. `payload` may be kept: it does not change later."""

    __slots__ = ("image", "payload", "position", "reserved_value")

    def __init__(self, payload: memoryview | bytes, position: int, reserved_value: int, image: "Image") -> None:
        self.payload = payload
        self.position = position
        self.reserved_value = reserved_value
        self.image = image

    @property
    def session_id(self) -> int:
        """The session of the publication that sent the message."""
        return self.image.session_id


class Block:
    """A run of whole frames of one term, from position `start` to position `end`.

    A padding frame is held as its 32-byte header, is always the last of its block, and `end` counts all of it.
    """

    __slots__ = ("data", "end", "start")

    def __init__(self, data: memoryview, start: int, end: int) -> None:
        self.data = data
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Block({self.start}..{self.end}, {len(self.data)} bytes)"


MessageHandler = Callable[[Message], None]


class StreamEnd(Protocol):
    """What both ends of a stream know of it. Lengths in bytes, positions as in Aeron's logs."""

    @property
    def stream_id(self) -> int:
        """Which kind of messages the stream carries; together with the channel it names the stream."""

    @property
    def session_id(self) -> int:
        """Tells the streams of several publications of one stream id apart (Aeron: session id)."""

    @property
    def initial_term_id(self) -> int:
        """The term id at position 0; term ids count up from it."""

    @property
    def term_length(self) -> int:
        """Bytes of a term, a power of two; no frame crosses the end of one."""

    @property
    def mtu(self) -> int:
        """The longest frame with its header, in bytes; longer messages are fragmented."""


class Publication(StreamEnd, Protocol):
    """The sending end of one stream."""

    @property
    def registration_id(self) -> int:
        """The correlation id with which the publication was added."""

    @property
    def channel(self) -> str:
        """The channel URI as the publication was added with it."""

    @property
    def max_payload_length(self) -> int:
        """The longest message that is not fragmented."""

    @property
    def max_message_length(self) -> int:
        """The longest message in bytes, fragmented where need be: an eighth of a term, at most 16 MiB."""

    @property
    def position(self) -> int:
        """Where the next message begins."""

    @property
    def is_connected(self) -> bool:
        """Whether at least one subscriber, local or over a live link, receives this stream."""

    @property
    def is_closed(self) -> bool:
        """Closed here, or ended by the driver: `offer` returns CLOSED."""

    @property
    def error(self) -> str | None:
        """Why the driver refused or ended this publication, if it did."""

    def offer(self, *parts: Buffer) -> int:
        """Append one message, given in parts of bytes, and return the position after it or a negative result code.

        Raises `UsageError` for a message longer than `max_message_length`.
        """

    def claim_position(self, length: int) -> int:
        """The position after a message of this payload length if it were offered now, or a negative result code."""

    def offer_frames(self, block: bytearray, count_hint: int = 0) -> int:
        """Append whole DATA frames, of which this call sets term offset, session, stream and term id in place.

        The block belongs to the stream afterwards, also its memory. A run that does not fit the term is split at
        a message boundary, with padding before the term's end. The last frame may be a padding header, which then
        must fit the term. Returns the new position or a negative result code, when nothing was appended. Raises
        `UsageError` for bytes that are no such frames.
        """

    def add_destination(self, channel: str) -> None:
        """Also send to this channel; only with `control-mode=manual`."""

    def remove_destination(self, channel: str) -> None:
        """Stop sending to this channel; one that was not added is passed over."""

    def close(self, *, eos: bool = True) -> None:
        """Send what is still held, then end the stream; without `eos` the receivers only miss it."""


class Image(StreamEnd, Protocol):
    """The receiving end of one stream for one subscription."""

    @property
    def correlation_id(self) -> int:
        """Tells images apart that the same subscription has had of one session (Aeron: image correlation id)."""

    @property
    def source_identity(self) -> str:
        """Where the stream comes from, for people."""

    @property
    def join_position(self) -> int:
        """The position at which this subscriber began to read."""

    @property
    def position(self) -> int:
        """What this subscriber has consumed."""

    @property
    def received_position(self) -> int:
        """Up to where the stream is here, consumed or not."""

    @property
    def is_closed(self) -> bool:
        """The subscription was closed, or the stream ended and everything received was consumed."""

    @property
    def is_end_of_stream(self) -> bool:
        """The publisher ended the stream and everything was consumed."""

    @property
    def end_of_stream_position(self) -> int | None:
        """Where the publisher ended the stream, if it did."""

    @property
    def active_transport_count(self) -> int:
        """How many transports deliver this stream; 1 for local ones (Aeron's replay merge looks at it)."""

    def poll(self, handler: MessageHandler, fragment_limit: int, limit_position: int = MAX_POSITION) -> int:
        """Deliver up to `fragment_limit` fragments that end at or before `limit_position`; returns how many."""

    def next_block(self, limit_position: int = MAX_POSITION, max_length: int = MAX_BLOCK_LENGTH) -> Block | None:
        """The next unconsumed frames, or None. A block holds at least one frame, however small `max_length`."""

    def consume(self, position: int) -> None:
        """Count everything before `position`, the end of a block or of a frame in it, as consumed."""

    def reject(self, reason: str) -> None:
        """Drop this image for a fault of its publisher."""


ImageHandler = Callable[[Image], None]


class Subscription(Protocol):
    """Interest in the streams of one stream id on one channel."""

    @property
    def registration_id(self) -> int:
        """The correlation id with which the subscription was added."""

    @property
    def channel(self) -> str:
        """The channel URI as the subscription was added with it."""

    @property
    def stream_id(self) -> int:
        """The stream id of all its images."""

    @property
    def images(self) -> list[Image]:
        """The images there are now, in the order of their coming."""

    @property
    def is_closed(self) -> bool:
        """Closed here, or ended with the driver: it has no images and gets none."""

    @property
    def resolved_endpoint(self) -> str | None:
        """The bound `host:port` once the subscription listens."""

    @property
    def error(self) -> str | None:
        """Why the subscription does not listen (it keeps trying), or why the driver refused it."""

    def image(self, session_id: int) -> Image | None:
        """The image of that session, if there is one now."""

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        """Poll all images in turn, starting with another one each time."""

    def add_destination(self, channel: str) -> None:
        """Also receive from this channel; only with `control-mode=manual`."""

    def remove_destination(self, channel: str) -> None:
        """Receive nothing through this channel any more; one that was not added is passed over."""

    def close(self) -> None:
        """End all images and let go of the address, without calls to the handlers."""


class Media(Agent, Protocol):
    """Adds publications and subscriptions. Callbacks are called from its `do_work`."""

    @property
    def is_closed(self) -> bool:
        """Closed here, or the driver is gone: nothing can be added or sent any more."""

    def next_correlation_id(self) -> int:
        """A positive number that nothing else in the cluster is likely to use (also as a response token)."""

    def add_publication(self, channel: str, stream_id: int, *, session_id: int | None = None) -> Publication:
        """A new stream with its own session id, random where none is given.

        Raises `UsageError` for an unusable channel."""

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
    ) -> Subscription:
        """Interest in a stream.

        The handlers receive images that come and go. Raises `UsageError` for an unusable channel."""

    def close(self) -> None:
        """Send what connections take at once, and end every stream without end of stream."""
