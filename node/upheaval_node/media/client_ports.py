"""The two kinds of connection from a media client to its driver: one publication, or one subscription.

Each port owns its link, speaks the commands of its kind and keeps the stream buffers. Ports use the client only for
connections and duty cycles.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from upheaval_node.errors import PeerError, UsageError
from upheaval_node.media import commands
from upheaval_node.media.api import CLOSED, NOT_CONNECTED, ImageHandler
from upheaval_node.media.feed import StreamFeed
from upheaval_node.media.image import StreamImage
from upheaval_node.media.link import FrameLink
from upheaval_node.media.local_stream import ImageTable
from upheaval_node.media.outlet import Outlet
from upheaval_node.media.publication import StreamPublication
from upheaval_node.media.stream_buffer import StreamBuffer, StreamParams
from upheaval_node.media.subscription import StreamSubscription
from upheaval_node.ports import Network
from upheaval_node.protocol.channel import EOS, Channel
from upheaval_node.protocol.frames import Setup
from upheaval_node.settings import MediaSettings
from upheaval_node.types import Ns


class PortOwner(Protocol):
    """The client's interface to its ports."""

    network: Network
    address: str
    settings: MediaSettings
    receiver_id: int

    @property
    def now_ns(self) -> Ns:
        """Monotonic time of this duty cycle."""

    def next_correlation_id(self) -> int:
        """A number for what a port adds."""

    def mark_port(self, port: "ClientPort") -> None:
        """Give the port a turn: `do_work` is called soon."""

    def mark_link(self, link: FrameLink) -> None:
        """Have what is queued on the link sent soon."""

    def tick_soon(self) -> None:
        """Run the timers of all ports in the next turn."""


class ClientPort(ABC):
    """A connection to the driver, dialled until it is established once. Implements `link.LinkOwner`."""

    def __init__(self, client: PortOwner) -> None:
        self.link: FrameLink | None = None
        self.was_connected = False
        self.is_lost = False
        self.is_done = False
        self.is_dirty = False
        self.client = client

    def connect(self) -> None:
        """Dial the driver."""
        self.link = FrameLink(self)
        self.link.connection = self.client.network.dial(self.client.address, self.link)

    def mark(self) -> None:
        """Ask for a duty cycle, once until it has come."""
        if not self.is_dirty:
            self.is_dirty = True
            self.client.mark_port(self)

    def send(self, command: bytes) -> None:
        """Queue a command. It is dropped if there is no connection."""
        if self.link is not None:
            self.link.send_command(command)

    # --- link.LinkOwner ---

    def mark_link(self, link: FrameLink) -> None:
        """Passed on to the client."""
        self.client.mark_link(link)

    def on_link_connected(self, link: FrameLink) -> None:
        """Send the first command, then what waited for the connection."""
        self.was_connected = True
        link.send_command(self.hello())
        self.on_ready(link)
        self.client.tick_soon()

    def on_link_closed(self, link: FrameLink, reason: str) -> None:  # noqa: ARG002 - the port has only this one
        """An established connection is not dialled again: the port is lost."""
        self.link = None
        if self.was_connected:
            self.is_lost = True
            self.is_done = True
            self.end(reason)
            self.mark()

    def on_response_token(self, link: FrameLink, token: int, stream_id: int, *, withdrawn: bool) -> None:  # noqa: ARG002
        """Raises `PeerError`: drivers announce tokens to hosts, not to their clients."""
        raise PeerError("a response token from the driver")

    def on_peer_error(self, link: FrameLink, error: PeerError) -> None:
        """Nothing to count here: the link closes itself, and that ends the port."""

    # --- for the kinds of port ---

    @property
    def needs_ticks(self) -> bool:
        """Whether the port has timers to run."""
        return False

    @abstractmethod
    def hello(self) -> bytes:
        """The first command on a new connection."""

    def on_ready(self, link: FrameLink) -> None:
        """The connection is established and the first command is queued."""

    @abstractmethod
    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:
        """A SETUP arrived: the driver announces a stream."""

    @abstractmethod
    def on_extension(self, link: FrameLink, payload: bytes) -> None:
        """A command of the driver arrived. Raises `PeerError` for one that the port does not know."""

    def do_work(self) -> None:
        """Run the duty cycle that `mark` asked for."""
        self.is_dirty = False

    def tick(self, now_ns: Ns, heartbeat_interval_ns: int, status_interval_ns: int) -> None:
        """Run the timers, while `needs_ticks`."""

    @abstractmethod
    def end(self, reason: str) -> None:
        """The connection is gone for good."""


class PublicationPort(ClientPort):
    """A publication of this process. Implements `publication.PublicationOwner` and `outlet.OutletOwner`."""

    def __init__(self, client: PortOwner, channel: str, params: StreamParams, position: int) -> None:
        super().__init__(client)
        self.error: str | None = None
        self._channel = channel
        self._position = position
        self._waiting: list[bytes] = []
        self._driver_connected = False
        self._buffer = StreamBuffer(params, position, self.mark)
        cursor = self._buffer.add_cursor(position)
        self._outlet = Outlet(self._buffer, cursor, self, windowed=True, always_holds=True)
        self.publication = StreamPublication(
            self._buffer, self, channel=channel, registration_id=client.next_correlation_id()
        )

    # --- publication.PublicationOwner ---

    def limit_position(self) -> int:
        """CLOSED once the driver is lost, NOT_CONNECTED until it reports a subscriber, else what its window allows."""
        if self.is_done:
            return CLOSED
        return self._outlet.limit if self.is_connected else NOT_CONNECTED

    @property
    def is_connected(self) -> bool:
        """Whether the driver takes the stream up and has a subscriber for it."""
        return self._driver_connected and self._outlet.is_active and not self.is_done

    def add_destination(self, channel: str) -> None:
        """Send the command to the driver, as soon as it is connected."""
        self._destination(commands.ADD_DESTINATION, channel)

    def remove_destination(self, channel: str) -> None:
        """Send the command to the driver, as soon as it is connected."""
        self._destination(commands.REMOVE_DESTINATION, channel)

    def _destination(self, name: str, channel: str) -> None:
        Channel.parse(channel)
        command = commands.encode(name, channel=channel)
        if self.was_connected:
            self.send(command)
        else:
            self._waiting.append(command)

    def close_publication(self, *, eos: bool) -> None:
        """End the stream. The port goes away once the driver has all of it."""
        self._buffer.end(eos=eos and Channel.parse(self._channel).get_bool(EOS, default=True))
        self.mark()

    # --- outlet.OutletOwner ---

    def on_outlet_changed(self, outlet: Outlet) -> None:  # noqa: ARG002 - there is one
        """The driver consumed something or left: look at it in the next turn."""
        self.mark()

    def on_outlet_detached(self, outlet: Outlet) -> None:
        """Nothing to do: a lost connection ends the port as a whole."""

    # --- ClientPort ---

    def hello(self) -> bytes:
        """PUBLISH with the stream's parameters and where it begins."""
        return commands.encode_stream(commands.PUBLISH, self._buffer.params, self._position, channel=self._channel)

    def on_ready(self, link: FrameLink) -> None:
        """Send what waited, and announce the stream."""
        for command in self._waiting:
            link.send_command(command)
        self._waiting.clear()
        self._outlet.attach(link, self.client.now_ns)

    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:  # noqa: ARG002
        """Raises `PeerError`: nothing is received on a publication's connection."""
        raise PeerError("a stream on a publication's connection")

    def on_extension(self, link: FrameLink, payload: bytes) -> None:
        """CONNECTED says whether there are subscribers; REFUSED carries the reason for a refusal."""
        command = commands.decode(payload)
        if command.name == commands.CONNECTED:
            self._driver_connected = bool(command.number("value"))
            self.publication.invalidate()
        elif command.name == commands.REFUSED:
            self.error = command.text("text")
            if not self._outlet.is_active:
                link.close(self.error)
        else:
            raise PeerError(f"command {command.name!r} on a publication's connection")

    @property
    def needs_ticks(self) -> bool:
        """The stream is announced repeatedly until the driver takes it up."""
        return not self._outlet.is_active

    def do_work(self) -> None:
        """Seal, trim and send. Ends the port once the driver has everything of a closed publication."""
        super().do_work()
        buffer = self._buffer
        buffer.dirty = False
        buffer.seal()
        buffer.trim()
        if self.link is not None:
            self.link.mark()
        if self.publication.is_closed and (self._outlet.is_done or not self._outlet.is_active):
            self._finish()

    def _finish(self) -> None:
        if self.link is not None:
            self.link.flush()
            self.link.close("publication closed")
        self.is_done = True

    def tick(self, now_ns: Ns, heartbeat_interval_ns: int, status_interval_ns: int) -> None:  # noqa: ARG002
        """Announce the stream until the driver answers; no heartbeats between processes of one host."""
        self._outlet.tick(now_ns, heartbeat_interval_ns, heartbeats=False)

    def end(self, reason: str) -> None:
        """The publication is closed, with the loss of the driver as its error."""
        self.is_done = True
        if not self.publication.is_closed:
            self.error = self.error or reason
            self.publication.mark_closed()


class ArrivingStream:
    """A stream that the driver forwards. Implements `local_stream.LocalStream`."""

    def __init__(self, port: "SubscriptionPort", params: StreamParams, position: int, source: str) -> None:
        self.buffer = StreamBuffer(params, position, port.mark)
        self.feed = StreamFeed(
            self.buffer,
            window=port.client.settings.receiver_window_length,
            receiver_id=port.client.receiver_id,
            liveness_ns=None,
        )
        self.images = ImageTable()
        self.transports = 1
        self._port = port
        self._source = source

    @property
    def source_identity(self) -> str:
        """The source that the driver named with the image."""
        return self._source

    @property
    def active_transport_count(self) -> int:
        """The count that the driver last reported."""
        return self.transports

    def drop_image(self, image: StreamImage, reason: str) -> None:
        """Tell the driver to reject the image, and end it here at once."""
        self._port.send(commands.encode(commands.REJECT, session_id=image.session_id, reason=reason))
        self.images.drop(image)
        self.feed.end(reason)


class SubscriptionPort(ClientPort):
    """A subscription of this process. Implements `subscription.SubscriptionOwner`."""

    def __init__(
        self,
        client: PortOwner,
        channel: Channel,
        stream_id: int,
        on_available: ImageHandler | None,
        on_unavailable: ImageHandler | None,
    ) -> None:
        super().__init__(client)
        self.subscription = StreamSubscription(
            self,
            channel,
            stream_id,
            client.next_correlation_id(),
            on_available=on_available,
            on_unavailable=on_unavailable,
        )
        self._waiting: list[bytes] = []
        self._streams: dict[int, ArrivingStream] = {}
        self._announced: list[tuple[ArrivingStream, int]] = []

    # --- subscription.SubscriptionOwner ---

    def add_subscription_destination(self, subscription: StreamSubscription, channel: str) -> None:  # noqa: ARG002
        """Send the command to the driver, as soon as it is connected."""
        self._destination(commands.ADD_DESTINATION, channel)

    def remove_subscription_destination(self, subscription: StreamSubscription, channel: str) -> None:  # noqa: ARG002
        """Send the command to the driver, as soon as it is connected."""
        self._destination(commands.REMOVE_DESTINATION, channel)

    def _destination(self, name: str, channel: str) -> None:
        if Channel.parse(channel).media != "tcp":
            raise UsageError(f"expected a destination on aeron:tcp, got {channel}")
        command = commands.encode(name, channel=channel)
        if self.was_connected:
            self.send(command)
        else:
            self._waiting.append(command)

    def close_subscription(self, subscription: StreamSubscription) -> None:  # noqa: ARG002 - there is one
        """Close the connection, which tells the driver, and end the images."""
        self.is_done = True
        if self.link is not None:
            self.link.flush()
            self.link.close("subscription closed")
        for stream in self._streams.values():
            stream.images.end_all()

    # --- ClientPort ---

    def hello(self) -> bytes:
        """SUBSCRIBE with channel and stream id."""
        subscription = self.subscription
        return commands.encode(commands.SUBSCRIBE, channel=subscription.channel, stream_id=subscription.stream_id)

    def on_ready(self, link: FrameLink) -> None:
        """Send what waited for the connection."""
        for command in self._waiting:
            link.send_command(command)
        self._waiting.clear()

    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:  # noqa: ARG002 - none from the driver
        """The driver begins to send a stream that an IMAGE command announced. Any other is ignored."""
        stream = self._streams.get(setup.session_id)
        if stream is not None and not stream.buffer.ended:
            stream.feed.on_setup(link, setup)

    def on_extension(self, link: FrameLink, payload: bytes) -> None:  # noqa: ARG002 - there is only one link
        """New and ended images, their transports, the bound address, refusals. Raises `PeerError` for other
        commands.
        """
        command = commands.decode(payload)
        match command.name:
            case commands.IMAGE:
                params, position = command.stream()
                stream = ArrivingStream(self, params, position, command.text("source"))
                stream.transports = command.number("transports")
                self._streams[params.session_id] = stream
                self._announced.append((stream, command.number("correlation_id")))
                self.mark()
            case commands.UNAVAILABLE:
                self._on_unavailable(command.int32("session_id"), command.optional_number("end"))
            case commands.TRANSPORTS:
                known = self._streams.get(command.int32("session_id"))
                if known is not None:
                    known.transports = command.number("count")
            case commands.LISTENING:
                self.subscription.resolved_endpoint = command.optional_text("endpoint")
                self.subscription.error = command.optional_text("error")
            case commands.REFUSED:
                self.subscription.error = command.text("text")
            case _:
                raise PeerError(f"command {command.name!r} on a subscription's connection")

    def _on_unavailable(self, session_id: int, end_position: int | None) -> None:
        stream = self._streams.get(session_id)
        if stream is not None:
            stream.buffer.end(eos=end_position == stream.buffer.tail)

    @property
    def needs_ticks(self) -> bool:
        """Whether consumption has not been reported to the driver yet."""
        return any(stream.feed.has_news for stream in self._streams.values())

    def do_work(self) -> None:
        """Hand out announced images, report what was consumed, and release streams that ended."""
        super().do_work()
        announced, self._announced = self._announced, []
        for stream, correlation_id in announced:
            if not self.subscription.is_closed:
                stream.images.join(stream, self.subscription, stream.buffer.tail, correlation_id)
        for session_id, stream in list(self._streams.items()):
            if stream.buffer.dirty:
                stream.buffer.dirty = False
                stream.feed.flush()
            if stream.buffer.ended:
                stream.images.reap()
                if not len(stream.images):
                    # Tells the driver that everything was consumed.
                    stream.feed.end("consumed")
                    del self._streams[session_id]
        if self.needs_ticks:
            self.client.tick_soon()

    def tick(self, now_ns: Ns, heartbeat_interval_ns: int, status_interval_ns: int) -> None:  # noqa: ARG002
        """Report what was consumed, at intervals."""
        for stream in self._streams.values():
            stream.feed.tick(now_ns, status_interval_ns)

    def end(self, reason: str) -> None:
        """The subscription is closed and all its images end."""
        self.is_done = True
        self.subscription.is_closed = True
        for stream in self._streams.values():
            stream.feed.end(reason)
            stream.images.end_all()
