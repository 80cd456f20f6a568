"""A stream that arrives from other hosts and the images that local subscriptions have of it."""

from upheaval_node.media.feed import StreamFeed
from upheaval_node.media.image import StreamImage
from upheaval_node.media.local_stream import ImageTable
from upheaval_node.media.stream_buffer import StreamBuffer


class InboundStream:
    """Implements `local_stream.LocalStream` for a feed. `group` says by which subscriptions it was asked for."""

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
        return self._identity

    @property
    def active_transport_count(self) -> int:
        return self.feed.active_transport_count

    def drop_image(self, image: StreamImage, reason: str) -> None:
        self.rejected_by += [subscription.registration_id for subscription in self.images.drop(image)]
        if not self.images.has_subscribers:
            self.feed.end(f"rejected: {reason}")

    @property
    def is_done(self) -> bool:
        return self.buffer.ended and not len(self.images)

    def flush(self) -> None:
        self.feed.flush()
        self.images.reap()
        if not self.buffer.ended and not self.images.has_subscribers:
            self.feed.end("no subscription")

    def tick(self, now_ns: int, status_interval_ns: int) -> None:
        self.feed.tick(now_ns, status_interval_ns)

    def abandon(self) -> None:
        """The driver closes."""
        self.buffer.end(eos=False)
        self.images.end_all()
