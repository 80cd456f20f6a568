"""The stream of a local publication: its receivers, its flow control, and its end.

Local subscribers read the buffer themselves. Each remote receiver is a destination: an endpoint that is dialled again
whenever its connection is lost, or a connection of the receiver that announced a response token. The writer is a
publication in this process, or a feed from a client process. This module knows no subscription's channel and no
listener.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from upheaval_node.errors import NetworkError, UsageError
from upheaval_node.media.api import CLOSED, NOT_CONNECTED
from upheaval_node.media.feed import StreamFeed
from upheaval_node.media.image import StreamImage
from upheaval_node.media.link import FrameLink
from upheaval_node.media.local_stream import ImageTable
from upheaval_node.media.outlet import Outlet
from upheaval_node.media.publication import StreamPublication
from upheaval_node.media.stream_buffer import StreamBuffer, StreamParams
from upheaval_node.protocol.channel import (
    CONTROL_MODE,
    CONTROL_MODE_MANUAL,
    CONTROL_MODE_RESPONSE,
    EOS,
    LINGER,
    RESPONSE_CORRELATION_ID,
    Channel,
)
from upheaval_node.settings import MediaSettings
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import NEVER_NS, Ns

# Receivers report at least this many heartbeat intervals apart (Aeron: status messages every 200 ms).
STATUS_INTERVALS: Final = 2
_FIRST_WAIT: Final = 16
"""The divisor of the redial interval that bounds the first wait before redialling. Each wait is twice the
previous one.
"""


class PublicationState(IntEnum):
    """Aeron's states of a network publication."""

    ACTIVE = 0
    DRAINING = 1
    LINGER = 2
    DONE = 3


LEGAL_MOVES: Final = {
    PublicationState.ACTIVE: frozenset({PublicationState.DRAINING}),
    PublicationState.DRAINING: frozenset({PublicationState.LINGER}),
    PublicationState.LINGER: frozenset({PublicationState.DONE}),
    PublicationState.DONE: frozenset[PublicationState](),
}


class LinkSource(Protocol):
    """Where destinations get their connections. Implemented by the driver."""

    def dial(self, endpoint: str, stream_id: int) -> FrameLink:
        """Raises `NetworkError` when the endpoint cannot be resolved."""

    def link_of_token(self, token: int, stream_id: int) -> FrameLink | None:
        """The newest live connection on which the token was announced, or None."""

    def mark_stream(self, stream: "OutboundStream") -> None:
        """The stream has something to flush, trim or report."""

    def tick_soon(self) -> None:
        """Timers have something to do before their next interval."""


def response_token(channel: Channel) -> int:
    """The token of a `control-mode=response` channel. Raises `UsageError`."""
    token = channel.get_int(RESPONSE_CORRELATION_ID)
    if token is None:
        raise UsageError(f"{channel} names no {RESPONSE_CORRELATION_ID}")
    return token


class Destination:
    """One remote receiver: an outlet and where its connection comes from."""

    def __init__(self, stream: "OutboundStream", channel: Channel, *, windowed: bool) -> None:
        if channel.media != "tcp":
            raise UsageError(f"expected a destination on aeron:tcp, got {channel}")
        is_response = channel.get(CONTROL_MODE) == CONTROL_MODE_RESPONSE
        self.token = response_token(channel) if is_response else None
        if not is_response and not channel.endpoint:
            raise UsageError(f"{channel} names no endpoint")
        self._endpoint = channel.endpoint or ""
        self._stream = stream
        self._redial_ns = 0
        self._wait_ns = 0
        buffer = stream.buffer
        cursor = buffer.add_cursor(buffer.join_position())
        self.outlet = Outlet(buffer, cursor, stream, windowed=windowed, token=self.token)

    @property
    def next_dial_ns(self) -> int:
        """When it is dialled again; never while it has a connection."""
        return NEVER_NS if self.outlet.link is not None else self._redial_ns

    def tick(self, now_ns: Ns, source: LinkSource, settings: MediaSettings) -> None:
        """Dial if there is no connection, announce, send heartbeats, and give up a silent receiver."""
        outlet = self.outlet
        if outlet.is_active:
            self._redial_ns = self._wait_ns = 0
        if outlet.link is None and now_ns >= self._redial_ns:
            self._connect(now_ns, source, settings)
        outlet.tick(now_ns, settings.heartbeat_interval_ns, heartbeats=True)
        if outlet.expire(now_ns, settings.connection_timeout_ns):
            self.disconnect("no status from the receiver")

    def _connect(self, now_ns: Ns, source: LinkSource, settings: MediaSettings) -> None:
        # A receiver that is about to listen is found soon, one that is gone is not asked often. All destinations are
        # dialled at multiples of their waits, so that many of them cost no more ticks than one.
        longest_ns = settings.redial_interval_ns
        self._wait_ns = min(2 * self._wait_ns, longest_ns) or longest_ns // _FIRST_WAIT
        self._redial_ns = (now_ns // self._wait_ns + 1) * self._wait_ns
        stream_id = self._stream.buffer.params.stream_id
        try:
            if self.token is None:
                self.outlet.attach(source.dial(self._endpoint, stream_id), now_ns)
            elif (link := source.link_of_token(self.token, stream_id)) is not None:
                self.outlet.attach(link, now_ns)
        except NetworkError as error:
            self._stream.error = str(error)

    def retry_now(self) -> None:
        """Dial without waiting for the rest of the redial interval."""
        self._redial_ns = 0

    def disconnect(self, reason: str) -> None:
        """Give up the connection: a dialled one is closed, one of the receiver's stays open."""
        link = self.outlet.link
        if link is not None and self.token is None:
            link.close(reason)
        self.outlet.detach()

    def close(self, reason: str) -> None:
        """Give up the connection and release the bytes that were held for this receiver only."""
        self.disconnect(reason)
        self._stream.buffer.remove_cursor(self.outlet.cursor)


class OutboundStream:
    """Implements `publication.PublicationOwner`, `local_stream.LocalStream` and `outlet.OutletOwner`."""

    def __init__(
        self, source: LinkSource, settings: MediaSettings, channel: Channel, params: StreamParams, position: int
    ) -> None:
        self.channel = channel
        self.is_mdc = channel.media == "tcp" and channel.get(CONTROL_MODE) == CONTROL_MODE_MANUAL
        retention = settings.retention_length if self.is_mdc else 0
        self.buffer = StreamBuffer(params, position, self._mark, retention=retention)
        self.images = ImageTable()
        self.publication: StreamPublication | None = None
        self.feed: StreamFeed | None = None
        self.error: str | None = None
        self.on_connected_changed: Callable[[], None] | None = None
        self._states = StateMachine("publication", PublicationState.ACTIVE, LEGAL_MOVES)
        self._source = source
        self._settings = settings
        self._destinations: dict[str, Destination] = {}
        self._window = min(settings.receiver_window_length, params.term_length // 2)
        linger_ns = channel.get_duration_ns(LINGER)
        self._linger_ns = settings.connection_timeout_ns if linger_ns is None else linger_ns
        self._linger_until_ns = 0
        self._spies_connect = self.is_mdc or channel.get_bool("ssc", default=False)
        if channel.media == "tcp" and not self.is_mdc:
            self._destinations[str(channel)] = Destination(self, channel, windowed=True)

    @property
    def state(self) -> PublicationState:
        """The state of the publication, up to its end."""
        return self._states.current

    def _mark(self) -> None:
        self._source.mark_stream(self)

    # --- publication.PublicationOwner ---

    def limit_position(self) -> int:
        """The limit of the slowest local reader and, unless `control-mode=manual`, of each connected receiver."""
        if self._states.current != PublicationState.ACTIVE:
            return CLOSED
        if not self.is_connected:
            return NOT_CONNECTED
        limit = self.buffer.slowest(self.buffer.tail) + self._window
        if self.is_mdc:
            return limit
        return min(
            [
                limit,
                *(
                    destination.outlet.limit
                    for destination in self._destinations.values()
                    if destination.outlet.is_connected
                ),
            ]
        )

    @property
    def is_connected(self) -> bool:
        """Whether there is a subscriber in this process or a connected receiver. A spy counts with `ssc=true` and
        manual control.
        """
        if self._states.current != PublicationState.ACTIVE:
            return False
        if len(self.images) and (self._spies_connect or self.images.has_subscribers):
            return True
        return any(destination.outlet.is_connected for destination in self._destinations.values())

    def add_destination(self, channel: str) -> None:
        """Raises `UsageError` without `control-mode=manual`, and for an unusable channel."""
        if not self.is_mdc:
            raise UsageError(f"{self.channel} takes no destinations: it is not control-mode=manual")
        parsed = Channel.parse(channel)
        if self._states.current == PublicationState.ACTIVE and str(parsed) not in self._destinations:
            self._destinations[str(parsed)] = Destination(self, parsed, windowed=False)
            self._source.tick_soon()

    def remove_destination(self, channel: str) -> None:
        """The receiver gets nothing from here on, not even the end of the stream."""
        destination = self._destinations.pop(str(Channel.parse(channel)), None)
        if destination is not None:
            destination.close("destination removed")
            self.invalidate()

    def close_publication(self, *, eos: bool) -> None:
        """Send what is held, linger, then remove the stream."""
        if self._states.current == PublicationState.ACTIVE:
            self._states.enter(PublicationState.DRAINING)
            self.invalidate()
            self.buffer.end(eos=eos and self.channel.get_bool(EOS, default=True))
            self._source.tick_soon()

    # --- local_stream.LocalStream ---

    @property
    def source_identity(self) -> str:
        """Always `aeron:ipc`."""
        return "aeron:ipc"

    @property
    def active_transport_count(self) -> int:
        """Always 1: the publication itself."""
        return 1

    def drop_image(self, image: StreamImage, reason: str) -> None:  # noqa: ARG002 - the publisher is ours
        """The subscriber loses its image; the publication continues."""
        self.images.drop(image)
        self.invalidate()

    # --- outlet.OutletOwner ---

    def on_outlet_changed(self, outlet: Outlet) -> None:
        """A receiver consumed something, came or left: continue to send, and compute the limit anew."""
        if outlet.link is not None:
            outlet.link.mark()
        if not outlet.is_connected:
            self.invalidate()
        self.buffer.touch()

    def on_outlet_detached(self, outlet: Outlet) -> None:  # noqa: ARG002 - the next tick dials again
        """A receiver's connection is gone: the next tick dials again."""
        self.buffer.touch()
        self._source.tick_soon()

    # --- duty cycle ---

    def invalidate(self) -> None:
        """Make the publication ask again: connectivity or the limit changed."""
        if self.publication is not None:
            self.publication.invalidate()
        if self.on_connected_changed is not None:
            self.on_connected_changed()

    @property
    def destinations(self) -> list[Destination]:
        """The remote receivers that were added, connected or not."""
        return list(self._destinations.values())

    @property
    def needs_ticks(self) -> bool:
        """Whether there are receivers to keep alive or an end to complete."""
        has_news = self.feed is not None and self.feed.has_news
        return bool(self._destinations) or self._states.current != PublicationState.ACTIVE or has_news

    @property
    def next_dial_ns(self) -> int:
        """When a destination without a connection is dialled again."""
        soonest = NEVER_NS
        for destination in self._destinations.values():
            soonest = min(soonest, destination.next_dial_ns)
        return soonest

    def flush(self) -> None:
        """After an append or consumption: trim, and have the links send the new bytes."""
        buffer = self.buffer
        buffer.seal()
        if self.feed is not None:
            self.feed.flush()
            if buffer.ended and self._states.current == PublicationState.ACTIVE:
                self._states.enter(PublicationState.DRAINING)
                self._source.tick_soon()
        else:
            buffer.trim()
        for destination in list(self._destinations.values()):
            outlet = destination.outlet
            if outlet.is_active and buffer.is_lost(outlet.cursor):
                destination.disconnect("the receiver fell behind what is retained")
            elif outlet.link is not None:
                outlet.link.mark()
        self.images.reap()
        if self.publication is not None:
            self.publication.ring_if_changed()
        if self.on_connected_changed is not None:
            self.on_connected_changed()

    def tick(self, now_ns: Ns) -> None:
        """The receivers' timers, a client's feed, and the next step of the end: drain, linger, done."""
        for destination in list(self._destinations.values()):
            destination.tick(now_ns, self._source, self._settings)
        if self.feed is not None:
            self.feed.tick(now_ns, STATUS_INTERVALS * self._settings.heartbeat_interval_ns)
        match self._states.current:
            case PublicationState.DRAINING:
                self._linger_until_ns = now_ns + self._linger_ns
                self._states.enter(PublicationState.LINGER)
            case PublicationState.LINGER:
                self._finish(now_ns)
            case PublicationState.ACTIVE | PublicationState.DONE:
                pass

    def _finish(self, now_ns: Ns) -> None:
        """End once every receiver has everything or has timed out. Local subscribers have no time limit."""
        for channel, destination in list(self._destinations.items()):
            outlet = destination.outlet
            if outlet.is_done or not outlet.is_connected or now_ns >= self._linger_until_ns:
                del self._destinations[channel]
                destination.close("publication closed")
        if not self._destinations and not len(self.images):
            self._states.enter(PublicationState.DONE)

    def abandon(self) -> None:
        """The driver closes: no draining."""
        if self.publication is not None:
            self.publication.mark_closed()
        for destination in list(self._destinations.values()):
            destination.close("driver closed")
        self._destinations.clear()
        self.buffer.end(eos=False)
        self.images.end_all()
