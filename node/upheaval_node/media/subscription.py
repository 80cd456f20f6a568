"""A subscription: the images of one stream id on one channel, polled in turn.

Which streams become images is decided by the owner: the driver, or the link to it.
"""

from typing import Protocol

from upheaval_node.bell import Bell
from upheaval_node.media.api import Image, ImageHandler, MessageHandler
from upheaval_node.media.image import StreamImage
from upheaval_node.protocol.channel import Channel


class SubscriptionOwner(Protocol):
    """What a subscription asks of the owner that brings its streams."""

    def add_subscription_destination(self, subscription: "StreamSubscription", channel: str) -> None:
        """Also receive from this channel. Raises `UsageError` where that is not allowed."""

    def remove_subscription_destination(self, subscription: "StreamSubscription", channel: str) -> None:
        """Receive nothing through this channel any more."""

    def close_subscription(self, subscription: "StreamSubscription") -> None:
        """The subscription has no reader any more: let go of images and address."""


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
        """A copy of the list: images may come and go while it is looked at."""
        return list(self.stream_images)

    def image(self, session_id: int) -> Image | None:
        """The image of that session, if there is one now."""
        return next((image for image in self.stream_images if image.session_id == session_id), None)

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        """At most `fragment_limit` fragments of all images together."""
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
        """One that was not added is passed over."""
        self._owner.remove_subscription_destination(self, channel)

    def close(self) -> None:
        """Closing twice does nothing."""
        if not self.is_closed:
            self.is_closed = True
            self._owner.close_subscription(self)

    # --- for the owner ---

    def ring(self) -> None:
        """Tell the subscriber that its next turn has something to look at."""
        if self._bell is not None:
            self._bell.rung = True

    def image_available(self, image: StreamImage) -> None:
        """Take the image into the list and tell the subscriber."""
        self.stream_images.append(image)
        self.ring()
        if self._on_available is not None:
            self._on_available(image)

    def image_unavailable(self, image: StreamImage) -> None:
        """Close an image, take it off the list and tell the subscriber, unless that is what it asked for."""
        image.mark_closed()
        self.ring()
        if image in self.stream_images:
            self.stream_images.remove(image)
            if self._on_unavailable is not None and not self.is_closed:
                self._on_unavailable(image)
