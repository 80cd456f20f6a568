"""The driver's end of its client processes: one connection for each of their publications and subscriptions.

A client's publication is a stream of this driver that a feed writes; a client's subscription is a subscription of this
driver whose images are forwarded. A lost connection ends them: a publication without end of stream, a subscription
without notice. This module knows no socket and no payload.
"""

from collections import deque
from typing import Protocol

from upheaval_node.errors import PeerError, UsageError
from upheaval_node.media import commands
from upheaval_node.media.api import Image, ImageHandler, Subscription
from upheaval_node.media.commands import Command
from upheaval_node.media.feed import StreamFeed
from upheaval_node.media.image import StreamImage
from upheaval_node.media.link import MAX_STREAMS, FrameLink
from upheaval_node.media.outbound import OutboundStream
from upheaval_node.media.outlet import Outlet
from upheaval_node.media.stream_buffer import StreamParams
from upheaval_node.ports import Connection, Network
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.frames import Setup
from upheaval_node.settings import MediaSettings
from upheaval_node.types import Ns


class Driver(Protocol):
    """The driver's interface to the sessions of its clients."""

    network: Network
    settings: MediaSettings
    receiver_id: int

    def now_ns(self) -> Ns:
        """Monotonic time of the present duty cycle, in nanoseconds."""

    def add_outbound(self, channel: Channel, params: StreamParams, position: int) -> OutboundStream:
        """Add the stream of a client's publication. Raises `UsageError` when it is already published."""

    def add_subscription(
        self, channel: str, stream_id: int, *, on_available: ImageHandler, on_unavailable: ImageHandler
    ) -> Subscription:
        """Add a subscription whose images are for a client. Raises `UsageError` for an unusable channel."""

    def mark_link(self, link: FrameLink) -> None:
        """Flush a link at the end of the duty cycle."""

    def on_peer_error(self, link: FrameLink, error: PeerError) -> None:
        """Count and report a client's fault."""

    def tick_soon(self) -> None:
        """Tick outlets and feeds in this duty cycle."""

    def take_a_turn(self) -> None:
        """Run a duty cycle: a client asked for something, or has gone."""


class ClientServer:
    """Accepts client connections on one address and drives their sessions."""

    def __init__(self, driver: Driver, address: str) -> None:
        self._driver = driver
        self._sessions: list[ClientSession] = []
        self._listener = driver.network.listen(address, self._accept)

    def _accept(self, connection: Connection) -> FrameLink:
        session = ClientSession(self._driver)
        self._sessions.append(session)
        session.link.on_connected(connection)
        return session.link

    @property
    def has_work(self) -> bool:
        """Whether a client's request waits to be served."""
        return any(session.has_work for session in self._sessions)

    def do_work(self) -> int:
        """Serve the requests that arrived since the last duty cycle."""
        if not self.has_work:
            return 0
        count = sum(session.do_work() for session in list(self._sessions))
        self._sessions = [session for session in self._sessions if not session.is_done]
        return count

    def report_changes(self) -> None:
        """Report changed addresses, transports and ends of streams to the clients."""
        for session in self._sessions:
            session.report_changes()

    def tick(self, now_ns: Ns) -> None:
        """Run the timers of the streams that are sent to clients."""
        for session in self._sessions:
            session.tick(now_ns)

    def close(self) -> None:
        """Accept no more clients and close all connections."""
        self._listener.close()
        for session in self._sessions:
            session.link.flush()
            session.link.close("driver closed")


class ClientSession:
    """One connection of a client. Implements `link.LinkOwner` and `outlet.OutletOwner`."""

    def __init__(self, driver: Driver) -> None:
        self.link = FrameLink(self)
        self.is_done = False
        self._driver = driver
        self._commands: deque[Command] = deque()
        self._setup: Setup | None = None
        self._stream: OutboundStream | None = None
        self._subscription: Subscription | None = None
        self._outlets: dict[int, tuple[StreamImage, Outlet, int]] = {}
        self._was_connected = False
        self._was_refused = False
        self._reported: tuple[str | None, str | None] = (None, None)
        self._reported_ended: deque[int] = deque(maxlen=MAX_STREAMS)
        self._left: list[Outlet] = []

    @property
    def has_work(self) -> bool:
        """Whether there are commands, an announced stream, images that the client left, or a lost connection
        to handle.
        """
        return bool(self._commands or self._setup or self._left or self.link.is_closed)

    # --- link.LinkOwner ---

    def mark_link(self, link: FrameLink) -> None:
        """Passed on to the driver."""
        self._driver.mark_link(link)

    def on_link_connected(self, link: FrameLink) -> None:
        """Nothing to do: the client speaks first."""

    def on_link_closed(self, link: FrameLink, reason: str) -> None:  # noqa: ARG002 - whatever the reason
        """The next duty cycle ends the session."""
        self._driver.take_a_turn()

    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:  # noqa: ARG002 - no tokens here
        """Kept for the next duty cycle: the client's publication begins to send."""
        self._setup = setup
        self._driver.take_a_turn()

    def on_response_token(self, link: FrameLink, token: int, stream_id: int, *, withdrawn: bool) -> None:  # noqa: ARG002
        """Raises `PeerError`: a client has no connections on which others could answer."""
        raise PeerError("a response token from a client")

    def on_extension(self, link: FrameLink, payload: bytes) -> None:  # noqa: ARG002 - there is only one link
        """Keep a command for the next duty cycle. Raises `PeerError` for one that cannot be decoded."""
        self._commands.append(commands.decode(payload))
        self._driver.take_a_turn()

    def on_peer_error(self, link: FrameLink, error: PeerError) -> None:
        """Counted by the driver like a fault of another host."""
        self._driver.on_peer_error(link, error)

    # --- outlet.OutletOwner ---

    def on_outlet_changed(self, outlet: Outlet) -> None:
        """Continue to send. An image that the client left is dropped in the next duty cycle."""
        self.link.mark()
        if outlet.receiver_left:
            self._left.append(outlet)

    def on_outlet_detached(self, outlet: Outlet) -> None:
        """Nothing to do: a lost connection ends the session as a whole."""

    # --- duty cycle ---

    def do_work(self) -> int:
        """Run the commands. A broken one is counted and closes the connection."""
        count = 0
        try:
            while self._commands and not self.link.is_closed:
                count += 1
                self._execute(self._commands.popleft())
            if self._setup is not None and not self.link.is_closed:
                setup, self._setup = self._setup, None
                self._on_setup(setup)
        except PeerError as error:
            self._driver.on_peer_error(self.link, error)
            self.link.close(str(error))
        left, self._left = self._left, []
        for outlet in left:
            self._drop(outlet, "dropped by the client")
        if self.link.is_closed and not self.is_done:
            count += 1
            self._end()
        return count

    def _execute(self, command: Command) -> None:
        try:
            match command.name:
                case commands.HELLO:
                    pass
                case commands.PUBLISH if self._stream is None and self._subscription is None:
                    self._publish(command)
                case commands.SUBSCRIBE if self._stream is None and self._subscription is None:
                    self._subscribe(command)
                case commands.ADD_DESTINATION:
                    self._target().add_destination(command.text("channel"))
                case commands.REMOVE_DESTINATION:
                    self._target().remove_destination(command.text("channel"))
                case commands.REJECT:
                    self._reject(command.int32("session_id"), command.text("reason"))
                case _:
                    raise PeerError(f"unknown or misplaced command {command.name!r}")
        except UsageError as error:
            self._was_refused = self._was_refused or command.name == commands.PUBLISH
            self.link.send_command(commands.encode(commands.REFUSED, text=str(error)))

    def _publish(self, command: Command) -> None:
        params, position = command.stream()
        stream = self._driver.add_outbound(Channel.parse(command.text("channel")), params, position)
        stream.feed = StreamFeed(
            stream.buffer,
            window=self._driver.settings.receiver_window_length,
            receiver_id=self._driver.receiver_id,
            liveness_ns=None,
        )
        stream.on_connected_changed = self._report_connected
        self._stream = stream

    def _subscribe(self, command: Command) -> None:
        self._subscription = self._driver.add_subscription(
            command.text("channel"),
            command.int32("stream_id"),
            on_available=self._on_available,
            on_unavailable=self._on_unavailable,
        )

    def _target(self) -> OutboundStream | Subscription:
        target = self._stream or self._subscription
        if target is None:
            raise PeerError("a destination for nothing")
        return target

    def _reject(self, session_id: int, reason: str) -> None:
        entry = self._outlets.get(session_id)
        if entry is not None:
            self._drop(entry[1], reason)

    def _drop(self, outlet: Outlet, reason: str) -> None:
        for image, attached, _ in list(self._outlets.values()):
            if attached is outlet:
                image.reject(reason)

    def _on_setup(self, setup: Setup) -> None:
        stream = self._stream
        if self._was_refused:
            return
        if stream is None or stream.feed is None:
            raise PeerError("a stream that was not announced by a command")
        params = stream.buffer.params
        if (setup.session_id, setup.stream_id) != (params.session_id, params.stream_id):
            raise PeerError("a stream of another session than the publication's")
        if not stream.buffer.ended:
            stream.feed.on_setup(self.link, setup)

    # --- images that are sent on ---

    def _on_available(self, image: Image) -> None:
        assert isinstance(image, StreamImage)
        outlet = Outlet(image.stream, image.cursor, self, windowed=True, always_holds=True, signals_end=False)
        self.link.send_command(
            commands.encode_stream(
                commands.IMAGE,
                image.stream.params,
                image.join_position,
                source=image.source_identity,
                correlation_id=image.correlation_id,
                transports=image.active_transport_count,
            )
        )
        if image.session_id in self._reported_ended:
            self._reported_ended.remove(image.session_id)
        if outlet.attach(self.link, self._driver.now_ns()):
            self._outlets[image.session_id] = (image, outlet, image.active_transport_count)
            self._driver.tick_soon()
        else:
            self.link.close("more streams than a connection carries")

    def _on_unavailable(self, image: Image) -> None:
        assert isinstance(image, StreamImage)
        entry = self._outlets.pop(image.session_id, None)
        if entry is not None:
            entry[1].detach()
            self._report_ended(image)

    def _report_ended(self, image: StreamImage) -> None:
        """The stream has ended. The image stays until the client has consumed what was sent, or has left."""
        if image.session_id not in self._reported_ended:
            self._reported_ended.append(image.session_id)
            self.link.send_command(
                commands.encode(commands.UNAVAILABLE, session_id=image.session_id, end=image.end_of_stream_position)
            )

    # --- reports to clients ---

    def _report_connected(self) -> None:
        if self._stream is not None and self._was_connected != self._stream.is_connected:
            self._was_connected = not self._was_connected
            self.link.send_command(commands.encode(commands.CONNECTED, value=int(self._was_connected)))

    def report_changes(self) -> None:
        """Report the bound address, transport counts and ends of streams of its subscription, where they changed."""
        subscription = self._subscription
        if subscription is None:
            return
        state = (subscription.resolved_endpoint, subscription.error)
        if state != self._reported:
            self._reported = state
            self.link.send_command(commands.encode(commands.LISTENING, endpoint=state[0], error=state[1]))
        for session_id, (image, outlet, reported) in self._outlets.items():
            transports = image.active_transport_count
            if transports != reported:
                self._outlets[session_id] = (image, outlet, transports)
                self.link.send_command(commands.encode(commands.TRANSPORTS, session_id=session_id, count=transports))
            if image.stream.tail > outlet.cursor.read_position:
                if outlet.is_active:
                    self.link.mark()
            elif image.stream.ended:
                self._report_ended(image)

    def tick(self, now_ns: Ns) -> None:
        """Announce images until the client takes them up. Processes of one host need no heartbeats."""
        for _, outlet, _ in self._outlets.values():
            outlet.tick(now_ns, self._driver.settings.heartbeat_interval_ns, heartbeats=False)

    def _end(self) -> None:
        """The client closed this publication or subscription, or died."""
        self.is_done = True
        for _, outlet, _ in self._outlets.values():
            outlet.detach()
        self._outlets.clear()
        if self._stream is not None:
            self._stream.on_connected_changed = None
            self._stream.close_publication(eos=False)
        if self._subscription is not None:
            self._subscription.close()
