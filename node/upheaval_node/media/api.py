"""The interface of the media to other components: streams of messages with positions.

A publication appends messages to a stream; every subscriber reads the stream through its own image. There are two
implementations: `driver.MediaDriver` owns the network, `client.MediaClient` runs in another process of the same member
and talks to the driver. This module knows neither.
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

# The default limit on the length of a block from `Image.next_block`, in bytes.
MAX_BLOCK_LENGTH: Final = 1024 * 1024


class Abort(Exception):
    """Raised by a poll handler: this message is not delivered, and the next poll delivers it again.

    Nothing wakes the poller for it: a handler that aborts needs its own deadline for the next poll.
    """


class Break(Exception):
    """Raised by a poll handler: this message is delivered, but it is the last of this poll."""


class Message:
    """One reassembled message. `payload` may be kept: it never changes."""

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

    Of a padding frame, only the 32-byte header is held. A padding frame is always the last of its block, and `end`
    counts its whole length.
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
    """The properties of a stream that both its ends know. Lengths in bytes, positions as in Aeron's logs."""

    @property
    def stream_id(self) -> int:
        """The kind of messages on the stream. Channel and stream id together name the stream."""

    @property
    def session_id(self) -> int:
        """Distinguishes the streams of several publications with the same stream id (Aeron: session id)."""

    @property
    def initial_term_id(self) -> int:
        """The term id at position 0. Term ids count up from it."""

    @property
    def term_length(self) -> int:
        """Bytes of a term, a power of two. No frame crosses the end of a term."""

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
        """The channel URI that the publication was added with."""

    @property
    def max_payload_length(self) -> int:
        """The longest message that is not fragmented."""

    @property
    def max_message_length(self) -> int:
        """The longest message in bytes, fragmented if necessary: an eighth of a term, at most 16 MiB."""

    @property
    def position(self) -> int:
        """Where the next message begins."""

    @property
    def is_connected(self) -> bool:
        """Whether a subscriber, local or over a live link, receives this stream."""

    @property
    def is_closed(self) -> bool:
        """Whether the publication was closed here or ended by the driver: `offer` then returns CLOSED."""

    @property
    def error(self) -> str | None:
        """Why the driver refused or ended this publication, or None."""

    def offer(self, *parts: Buffer) -> int:
        """Append one message, given as parts. Returns the position after it or a negative result code.

        Raises `UsageError` for a message longer than `max_message_length`.
        """

    def claim_position(self, length: int) -> int:
        """The position that offering a message of this payload length would return now, or a negative result code."""

    def offer_frames(self, block: bytearray, count_hint: int = 0) -> int:
        """Append whole DATA frames. Sets their term offset, session, stream and term id in place.

        The block and its memory then belong to the stream. A run that does not fit the term is split at a message
        boundary, with padding before the term's end. The last frame may be a padding header, which then must fit the
        term.

        Returns the new position, or a negative result code if nothing was appended. Raises `UsageError` if the bytes
        are not such frames.
        """

    def add_destination(self, channel: str) -> None:
        """Also send to this channel; only with `control-mode=manual`."""

    def remove_destination(self, channel: str) -> None:
        """Stop sending to this channel. Does nothing if it was not added."""

    def close(self, *, eos: bool = True) -> None:
        """Send what is still held, then end the stream. Without `eos`, receivers see a lost stream, not its end."""


class Image(StreamEnd, Protocol):
    """The receiving end of one stream for one subscription."""

    @property
    def correlation_id(self) -> int:
        """Distinguishes the images of one session that the same subscription has had (Aeron: image correlation id)."""

    @property
    def source_identity(self) -> str:
        """The origin of the stream, for people."""

    @property
    def join_position(self) -> int:
        """The position at which this subscriber began to read."""

    @property
    def position(self) -> int:
        """The position up to which this subscriber has consumed."""

    @property
    def received_position(self) -> int:
        """The position up to which the stream was received, consumed or not."""

    @property
    def is_closed(self) -> bool:
        """Whether the subscription was closed, or the stream ended and everything received was consumed."""

    @property
    def is_end_of_stream(self) -> bool:
        """Whether the publisher ended the stream and everything was consumed."""

    @property
    def end_of_stream_position(self) -> int | None:
        """The position at which the publisher ended the stream, or None."""

    @property
    def active_transport_count(self) -> int:
        """The number of transports that deliver this stream; 1 for local streams (Aeron's replay merge uses it)."""

    def poll(self, handler: MessageHandler, fragment_limit: int, limit_position: int = MAX_POSITION) -> int:
        """Deliver up to `fragment_limit` fragments that end at or before `limit_position`. Returns their number."""

    def next_block(self, limit_position: int = MAX_POSITION, max_length: int = MAX_BLOCK_LENGTH) -> Block | None:
        """The next unconsumed frames, or None. A block holds at least one frame, even if that exceeds `max_length`."""

    def consume(self, position: int) -> None:
        """Mark everything before `position` as consumed. It must be the end of a block or of a frame in it."""

    def reject(self, reason: str) -> None:
        """Drop this image because of a fault of its publisher."""


ImageHandler = Callable[[Image], None]


class Subscription(Protocol):
    """A subscription to the streams of one stream id on one channel."""

    @property
    def registration_id(self) -> int:
        """The correlation id with which the subscription was added."""

    @property
    def channel(self) -> str:
        """The channel URI that the subscription was added with."""

    @property
    def stream_id(self) -> int:
        """The stream id of all its images."""

    @property
    def images(self) -> list[Image]:
        """The present images, in the order of their arrival."""

    @property
    def is_closed(self) -> bool:
        """Whether the subscription was closed here or ended with the driver: it has no images and gets none."""

    @property
    def resolved_endpoint(self) -> str | None:
        """The bound `host:port` once the subscription listens."""

    @property
    def error(self) -> str | None:
        """Why the subscription does not listen (it keeps trying), or why the driver refused it."""

    def image(self, session_id: int) -> Image | None:
        """The present image of that session, or None."""

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        """Poll all images in turn. Each poll starts with another image."""

    def add_destination(self, channel: str) -> None:
        """Also receive from this channel; only with `control-mode=manual`."""

    def remove_destination(self, channel: str) -> None:
        """Stop receiving through this channel. Does nothing if it was not added."""

    def close(self) -> None:
        """End all images and release the address, without calls to the handlers."""


class Media(Agent, Protocol):
    """Adds publications and subscriptions. Callbacks are called from its `do_work`."""

    @property
    def is_closed(self) -> bool:
        """Whether the media was closed here or the driver is gone: nothing can be added or sent any more."""

    def next_correlation_id(self) -> int:
        """A positive number that is unlikely to be used elsewhere in the cluster (also serves as a response token)."""

    def add_publication(self, channel: str, stream_id: int, *, session_id: int | None = None) -> Publication:
        """Add a stream with its own session id, random if none is given. Raises `UsageError` for an unusable
        channel.
        """

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
    ) -> Subscription:
        """Subscribe to a stream. The handlers are called for new and ended images.

        Raises `UsageError` for an unusable channel.
        """

    def close(self) -> None:
        """Send what connections take at once, and close every stream without end of stream."""
