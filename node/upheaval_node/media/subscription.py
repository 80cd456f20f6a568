"""A subscription: the images of one stream id on one channel, polled in turn.

The owner (the driver, or the link to it) decides which streams become images.
"""

from typing import Protocol

from upheaval_node.bell import Bell
from upheaval_node.media.api import Image, ImageHandler, MessageHandler
from upheaval_node.media.image import StreamImage
from upheaval_node.protocol.channel import Channel


class SubscriptionOwner(Protocol):
    """The subscription's interface to the owner that provides its streams."""

    def add_subscription_destination(self, subscription: "StreamSubscription", channel: str) -> None:
        """Also receive from this channel. Raises `UsageError` if that is not allowed."""

    def remove_subscription_destination(self, subscription: "StreamSubscription", channel: str) -> None:
        """Stop receiving through this channel."""

    def close_subscription(self, subscription: "StreamSubscription") -> None:
        """The subscription has no reader any more: release images and address."""


class StreamSubscription:
    """Implements `api.Subscription`. Raises `UsageError` for a channel with unusable parameters."""

    def __init__(
        self,
        owner: SubscriptionOwner,
        channel: Channel,
        stream_id: int,
        registration_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
        bell: Bell | None = None,
    ) -> None:
        self.registration_id = registration_id
        self.parsed_channel = channel
        self.channel = str(channel)
        self.stream_id = stream_id
        self.is_closed = False
        self.resolved_endpoint: str | None = None
        self.error: str | None = None
        self.stream_images: list[StreamImage] = []
        self._owner = owner
        self._on_available = on_available
        self._on_unavailable = on_unavailable
        self._turn = 0
        self._bell = bell

    @property
    def images(self) -> list[Image]:
        """A copy of the list, because images may come and go during an iteration."""
        return list(self.stream_images)

    def image(self, session_id: int) -> Image | None:
        """The present image of that session, or None."""
        return next((image for image in self.stream_images if image.session_id == session_id), None)

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        """Poll all images for at most `fragment_limit` fragments together."""
        images = self.stream_images
        if len(images) == 1:
            return images[0].poll(handler, fragment_limit)
        if not images:
            return 0
        self._turn = first = (self._turn + 1) % len(images)
        count = 0
        for image in images[first:] + images[:first]:
            if count >= fragment_limit:
                break
            if image.cursor.read_position < image.stream.tail:
                count += image.poll(handler, fragment_limit - count)
        return count

    def add_destination(self, channel: str) -> None:
        """Raises `UsageError` without `control-mode=manual`."""
        self._owner.add_subscription_destination(self, channel)

    def remove_destination(self, channel: str) -> None:
        """Does nothing for a channel that was not added."""
        self._owner.remove_subscription_destination(self, channel)

    def close(self) -> None:
        """Closing twice does nothing."""
        if not self.is_closed:
            self.is_closed = True
            self._owner.close_subscription(self)

    # --- for the owner ---

    def ring(self) -> None:
        """Wake the subscriber."""
        if self._bell is not None:
            self._bell.rung = True

    def image_available(self, image: StreamImage) -> None:
        """Add the image to the list and inform the subscriber."""
        self.stream_images.append(image)
        self.ring()
        if self._on_available is not None:
            self._on_available(image)

    def image_unavailable(self, image: StreamImage) -> None:
        """Close an image, remove it from the list and inform the subscriber, unless it asked for that itself."""
        image.mark_closed()
        self.ring()
        if image in self.stream_images:
            self.stream_images.remove(image)
            if self._on_unavailable is not None and not self.is_closed:
                self._on_unavailable(image)
