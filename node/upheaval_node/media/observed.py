"""Media that wraps another one: it shows every whole message that passes to an observer, and changes nothing else.

A member uses it when its protocol is traced, so tracing costs nothing when it is off, and no component knows of it.
Messages are observed where they are whole: taken by a publication, delivered by a poll, or consumed from a block of
frames. Messages of snapshots are left out. The module decodes only frame headers.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

from upheaval_node.media.api import (
    MAX_BLOCK_LENGTH,
    Abort,
    Block,
    Image,
    ImageHandler,
    Media,
    Message,
    MessageHandler,
    Publication,
    Subscription,
)
from upheaval_node.ports import Buffer, MessageObserver
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID
from upheaval_node.protocol.fragments import FragmentAssembler
from upheaval_node.protocol.frames import TYPE_PAD
from upheaval_node.types import FRAME_HEADER_LENGTH, MAX_POSITION, Now

SEND: Final = "send"
RECEIVE: Final = "receive"
_SNAPSHOT_STREAMS: Final = frozenset((SERVICE_SNAPSHOT_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID))


class ObservedMedia:
    """Implements `api.Media` for one component.

    `sees_logs` is False for the archive, which moves blocks of frames of other components' messages.
    """

    def __init__(self, media: Media, observer: MessageObserver, component: str, *, sees_logs: bool) -> None:
        self._media = media
        self._observer = observer
        self._component = component
        self._sees_logs = sees_logs

    @property
    def is_closed(self) -> bool:
        """As the wrapped media."""
        return self._media.is_closed

    def do_work(self, now: Now) -> int:
        """A duty cycle of the wrapped media."""
        return self._media.do_work(now)

    def next_deadline_ns(self) -> int:
        """The deadline of the wrapped media."""
        return self._media.next_deadline_ns()

    def next_correlation_id(self) -> int:
        """From the count of the wrapped media."""
        return self._media.next_correlation_id()

    def add_publication(self, channel: str, stream_id: int, *, session_id: int | None = None) -> Publication:
        """A publication whose messages are shown as sent, except those of snapshots."""
        publication = self._media.add_publication(channel, stream_id, session_id=session_id)
        if stream_id in _SNAPSHOT_STREAMS:
            return publication
        show = _Show(self._observer, self._component, SEND, stream_id, _endpoint(channel))
        return cast(Publication, _ObservedPublication(publication, show, sees_frames=self._sees_logs))

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
    ) -> Subscription:
        """A subscription whose messages are shown as received: once a poll delivers them or they are consumed in a
        block.
        """
        show = _Show(self._observer, self._component, RECEIVE, stream_id, "")
        images = _Images(show, on_available, on_unavailable)
        if not self._sees_logs:
            inner = self._media.add_subscription(
                channel, stream_id, on_available=on_available, on_unavailable=on_unavailable
            )
            return cast(Subscription, _ObservedSubscription(inner, show, None))
        inner = self._media.add_subscription(
            channel, stream_id, on_available=images.available, on_unavailable=images.unavailable
        )
        return cast(Subscription, _ObservedSubscription(inner, show, images))

    def close(self) -> None:
        """Close the wrapped media."""
        self._media.close()


class _Show:
    """Passes the messages of one stream in one direction to the observer."""

    def __init__(self, observer: MessageObserver, component: str, direction: str, stream_id: int, peer: str) -> None:
        self._observer = observer
        self._component = component
        self._direction = direction
        self._stream_id = stream_id
        self._peer = peer

    def message(self, payload: Buffer, position: int, peer: str | None = None) -> None:
        self._observer.on_message(
            self._component,
            self._direction,
            self._stream_id,
            self._peer if peer is None else peer,
            position,
            bytes(payload),
        )


class _ObservedPublication:
    """Delegates everything to the publication, except the methods below."""

    def __init__(self, publication: Publication, show: _Show, *, sees_frames: bool) -> None:
        self._publication = publication
        self._show = show
        self._sees_frames = sees_frames
        self._assembler = FragmentAssembler()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._publication, name)

    def offer(self, *parts: Buffer) -> int:
        position = self._publication.offer(*parts)
        if position > 0:
            self._show.message(parts[0] if len(parts) == 1 else b"".join(parts), position)
        return position

    def offer_frames(self, block: bytearray, count_hint: int = 0) -> int:
        position = self._publication.offer_frames(block, count_hint)
        if position > 0 and self._sees_frames:
            inner = self._publication
            shift = inner.term_length.bit_length() - 1
            for offset, _ in _frames(memoryview(block), 0, len(block)):
                words = memoryview(block)[offset : offset + FRAME_HEADER_LENGTH].cast("i")
                start = ((words[5] - inner.initial_term_id & 0xFFFFFFFF) << shift) + words[2]
                _show_frame(self._show, self._assembler, memoryview(block), offset, start)
        return position


class _Images:
    """The images of one subscription, each wrapped in the same observer as long as it exists."""

    def __init__(self, show: _Show, on_available: ImageHandler | None, on_unavailable: ImageHandler | None) -> None:
        self._show = show
        self._on_available = on_available
        self._on_unavailable = on_unavailable
        self._known: dict[int, Image] = {}

    def of(self, image: Image) -> Image:
        # The value holds the object that the key identifies, so that no other object gets this key meanwhile.
        known = self._known.get(id(image))
        if known is None:
            known = self._known[id(image)] = cast(Image, _ObservedImage(image, self._show))
        return known

    def available(self, image: Image) -> None:
        observed = self.of(image)
        if self._on_available is not None:
            self._on_available(observed)

    def unavailable(self, image: Image) -> None:
        observed = self.of(image)
        del self._known[id(image)]
        if self._on_unavailable is not None:
            self._on_unavailable(observed)


class _ObservedSubscription:
    """Shows the messages that polls deliver. Without `images`, the images are returned unwrapped."""

    def __init__(self, subscription: Subscription, show: _Show, images: _Images | None) -> None:
        self._subscription = subscription
        self._show = show
        self._images = images
        self._refused: tuple[int, int] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subscription, name)

    @property
    def images(self) -> list[Image]:
        images = self._subscription.images
        return images if self._images is None else [self._images.of(image) for image in images]

    def image(self, session_id: int) -> Image | None:
        image = self._subscription.image(session_id)
        return image if image is None or self._images is None else self._images.of(image)

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        def observed(message: Message) -> None:
            place = (message.image.correlation_id, message.position)
            if place != self._refused:
                self._show.message(message.payload, message.position, message.image.source_identity)
            self._refused = None
            try:
                handler(message)
            except Abort:
                # An aborted message comes again and must not be shown twice.
                self._refused = place
                raise

        return self._subscription.poll(observed, fragment_limit)


class _ObservedImage:
    """Shows the messages of blocks once they are consumed."""

    def __init__(self, image: Image, show: _Show) -> None:
        self._image = image
        self._show = show
        self._assembler = FragmentAssembler()
        self._block: Block | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image, name)

    def next_block(self, limit_position: int = MAX_POSITION, max_length: int = MAX_BLOCK_LENGTH) -> Block | None:
        self._block = self._image.next_block(limit_position, max_length)
        return self._block

    def consume(self, position: int) -> None:
        block, self._block = self._block, None
        if block is not None:
            end = min(position - block.start, len(block.data))
            for offset, start in _frames(block.data, block.start, end):
                _show_frame(self._show, self._assembler, block.data, offset, start, self._image.source_identity)
        self._image.consume(position)


def _frames(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Offset and position of each frame of a block that begins at position `start`, up to offset `end`."""
    offset = 0
    while offset + FRAME_HEADER_LENGTH <= end:
        length = int.from_bytes(data[offset : offset + 4], "little", signed=True)
        if length < FRAME_HEADER_LENGTH:
            return
        yield offset, start + offset
        offset += (length + 31) & -32


def _show_frame(
    show: _Show, assembler: FragmentAssembler, data: memoryview, offset: int, start: int, peer: str | None = None
) -> None:
    words = data[offset : offset + FRAME_HEADER_LENGTH].cast("i")
    length, kind = words[0], words[1]
    if kind >> 16 == TYPE_PAD:
        return
    end = start + ((length + 31) & -32)
    payload = data[offset + FRAME_HEADER_LENGTH : offset + length]
    whole = assembler.on_fragment(kind >> 8 & 0xFF, payload, start, end)
    if whole is not None:
        show.message(whole, end, peer)


def _endpoint(channel: str) -> str:
    """The receiver of a publication, as far as its channel names it."""
    return Channel.parse(channel).params.get("endpoint", "")
