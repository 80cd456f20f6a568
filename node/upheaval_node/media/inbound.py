"""A stream that arrives from other hosts and the images that local subscriptions have of it."""

from upheaval_node.media.feed import StreamFeed
from upheaval_node.media.image import StreamImage
from upheaval_node.media.local_stream import ImageTable
from upheaval_node.media.stream_buffer import StreamBuffer
from upheaval_node.types import Ns


class InboundStream:
    """Implements `local_stream.LocalStream` for a feed. `group` identifies the subscriptions that share the stream."""

    def __init__(self, group: tuple[str, int | str], buffer: StreamBuffer, feed: StreamFeed, identity: str) -> None:
        self.group = group
        self.buffer = buffer
        self.feed = feed
        self.images = ImageTable()
        # Registration ids of the subscriptions that rejected this stream.
        self.rejected_by: list[int] = []
        self._identity = identity

    @property
    def source_identity(self) -> str:
        """The address of the first publisher, and over TLS its name."""
        return self._identity

    @property
    def active_transport_count(self) -> int:
        """The number of connections that deliver the stream at present."""
        return self.feed.active_transport_count

    def drop_image(self, image: StreamImage, reason: str) -> None:
        """End the subscription's image for good. Without subscribers the stream ends, and its publisher learns that."""
        self.rejected_by += [subscription.registration_id for subscription in self.images.drop(image)]
        if not self.images.has_subscribers:
            self.feed.end(f"rejected: {reason}")

    @property
    def is_done(self) -> bool:
        """Whether the stream has ended and all subscribers have consumed it: the driver then forgets it."""
        return self.buffer.ended and not len(self.images)

    def flush(self) -> None:
        """After receipt or consumption: flush the feed. A stream without subscribers ends."""
        feed = self.feed
        feed.flush()
        if feed.has_lost_transport:
            feed.has_lost_transport = False
            self.images.ring()
        self.images.reap()
        if not self.buffer.ended and not self.images.has_subscribers:
            self.feed.end("no subscription")

    def tick(self, now_ns: Ns, status_interval_ns: int) -> None:
        """Status messages at intervals, and the liveness time-out."""
        self.feed.tick(now_ns, status_interval_ns)

    def abandon(self) -> None:
        """The driver closes."""
        self.buffer.end(eos=False)
        self.images.end_all()
