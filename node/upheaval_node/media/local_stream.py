"""A stream of this process and the images that local subscriptions have of it."""

from typing import Protocol

from upheaval_node.media.image import StreamImage
from upheaval_node.media.stream_buffer import StreamBuffer
from upheaval_node.media.subscription import StreamSubscription


class LocalStream(Protocol):
    """The common interface of publications and arriving streams. Implements `image.ImageSource`."""

    buffer: StreamBuffer
    images: "ImageTable"

    @property
    def source_identity(self) -> str:
        """The origin of the stream, for people; `aeron:ipc` for a publication of this process."""

    @property
    def active_transport_count(self) -> int:
        """The number of transports that deliver the stream; 1 for a publication of this process."""

    def drop_image(self, image: StreamImage, reason: str) -> None:
        """A subscriber rejects the stream: end its image."""


class ImageTable:
    """The images of one stream, by the registration id of their subscription. A subscription joins at most once."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[StreamSubscription, StreamImage]] = {}
        self._ever: set[int] = set()
        self._rung_tail = -1
        self._rung_end = False

    def __len__(self) -> int:
        return len(self._images)

    def may_join(self, subscription: StreamSubscription) -> bool:
        """Whether the subscription is open and never had an image of this stream."""
        return subscription.registration_id not in self._ever and not subscription.is_closed

    def join(self, stream: LocalStream, subscription: StreamSubscription, position: int, correlation_id: int) -> None:
        """Create a subscription's image and inform the subscription."""
        image = StreamImage(stream.buffer, stream, position, correlation_id)
        self._ever.add(subscription.registration_id)
        self._images[subscription.registration_id] = (subscription, image)
        subscription.image_available(image)

    def drop(self, image: StreamImage) -> list[StreamSubscription]:
        """End an image. Returns the subscription that had it."""
        dropped: list[StreamSubscription] = []
        for registration_id, (subscription, joined) in list(self._images.items()):
            if joined is image:
                del self._images[registration_id]
                dropped.append(subscription)
                subscription.image_unavailable(image)
        return dropped

    def ring_if_changed(self, stream: LocalStream) -> None:
        """Wake the subscribers if the stream grew or ended."""
        buffer = stream.buffer
        if buffer.tail != self._rung_tail or buffer.ended is not self._rung_end:
            self._rung_tail, self._rung_end = buffer.tail, buffer.ended
            self.ring()

    def ring(self) -> None:
        """Wake every subscriber."""
        for subscription, _ in self._images.values():
            subscription.ring()

    def ever_joined(self, subscription: StreamSubscription) -> bool:
        """Whether the subscription has or had an image of this stream."""
        return subscription.registration_id in self._ever

    def reap(self) -> None:
        """End the images of closed subscriptions, and those that have consumed all of an ended stream."""
        for subscription, image in list(self._images.values()):
            if subscription.is_closed or image.is_drained:
                self.drop(image)

    def end_all(self) -> None:
        """End all images, consumed or not."""
        for _, image in list(self._images.values()):
            self.drop(image)

    @property
    def has_subscribers(self) -> bool:
        """Whether a subscription other than a spy receives the stream."""
        return any(not subscription.parsed_channel.is_spy for subscription, _ in self._images.values())
