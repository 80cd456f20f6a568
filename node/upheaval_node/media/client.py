"""Media in another process of the member: publications and images over connections to the driver.

Each publication and each subscription has its own connection, which carries the same frames as between hosts and a few
commands. When the driver goes, everything closes and the client reports it; the owner then ends its process. This
module knows no socket: the network port interprets the driver's address.
"""

from random import Random
from typing import Final

from upheaval_node.errors import PeerError, UsageError
from upheaval_node.media import commands
from upheaval_node.media.api import NOT_CONNECTED, ImageHandler
from upheaval_node.media.client_ports import ClientPort, PublicationPort, SubscriptionPort
from upheaval_node.media.link import FrameLink
from upheaval_node.media.outbound import STATUS_INTERVALS
from upheaval_node.media.parameters import join_position, publication_parameters
from upheaval_node.media.publication import StreamPublication
from upheaval_node.media.subscription import StreamSubscription
from upheaval_node.ports import Network
from upheaval_node.protocol.channel import CONTROL_MODE, SESSION_ID, Channel
from upheaval_node.protocol.frames import Setup
from upheaval_node.settings import MediaSettings
from upheaval_node.types import NEVER_NS, NOT_YET, Now, Ns

__all__ = ["NOT_CONNECTED", "MediaClient"]

_CLOSED_TEXT: Final = "the media driver is gone"


class ControlPort(ClientPort):
    """The connection whose only purpose is to show that the driver lives."""

    def hello(self) -> bytes:
        return commands.encode(commands.HELLO)

    def on_extension(self, link: FrameLink, payload: bytes) -> None:  # noqa: ARG002
        raise PeerError("an unasked command")

    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:  # noqa: ARG002
        raise PeerError("an unasked stream")

    def end(self, reason: str) -> None:
        pass


class MediaClient:
    """Implements `api.Media` for a process that does not own the network.

    The client keeps dialling until the driver answers for the first time. A connection that is lost later closes the
    client: `is_closed`.
    """

    def __init__(self, network: Network, address: str, settings: MediaSettings, random: Random, name: str = "") -> None:
        self.name = name
        self.settings = settings
        self.network = network
        self.address = address
        self.is_closed = False
        self.receiver_id = random.getrandbits(62)
        self._random = random
        self._correlation_id = random.getrandbits(62)
        self._ports: list[ClientPort] = []
        self._dirty_ports: list[ClientPort] = []
        self._dirty_links: list[FrameLink] = []
        self._now = NOT_YET
        self._next_tick_ns = 0
        self._control = ControlPort(self)
        self._ports.append(self._control)

    @property
    def is_connected(self) -> bool:
        """Whether the driver has answered."""
        return self._control.link is not None and self._control.link.is_connected

    def next_correlation_id(self) -> int:
        """Count up from a random number, to avoid the numbers of other processes."""
        self._correlation_id = (self._correlation_id + 1) & ((1 << 62) - 1) or 1
        return self._correlation_id

    def add_publication(self, channel: str, stream_id: int, *, session_id: int | None = None) -> StreamPublication:
        """Raises `UsageError` for an unusable channel. If the driver refuses the publication, it ends with an
        `error`.
        """
        self._check_open()
        parsed = Channel.parse(channel)
        if parsed.media == "tcp" and parsed.endpoint is None and parsed.get(CONTROL_MODE) is None:
            raise UsageError(f"{parsed} names no endpoint")
        params, position = publication_parameters(parsed, stream_id, session_id, self.settings, self._random)
        port = PublicationPort(self, channel, params, position)
        self._add(port)
        return port.publication

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
    ) -> StreamSubscription:
        """Raises `UsageError` for an unusable channel."""
        self._check_open()
        parsed = Channel.parse(channel)
        parsed.get_int32(SESSION_ID)
        join_position(parsed, self.settings)
        if not parsed.is_spy and parsed.media == "udp":
            raise UsageError(f"{parsed}: aeron:udp is not available")
        port = SubscriptionPort(self, parsed, stream_id, on_available, on_unavailable)
        self._add(port)
        return port.subscription

    def _check_open(self) -> None:
        if self.is_closed:
            raise UsageError(_CLOSED_TEXT)

    def _add(self, port: ClientPort) -> None:
        self._ports.append(port)
        self._next_tick_ns = 0

    # --- for the ports ---

    @property
    def now_ns(self) -> Ns:
        """Monotonic time of this duty cycle."""
        return self._now.ns

    def mark_port(self, port: ClientPort) -> None:
        """The port has something to do in this duty cycle or the next."""
        self._dirty_ports.append(port)

    def mark_link(self, link: FrameLink) -> None:
        """The link has something to send in this duty cycle or the next."""
        self._dirty_links.append(link)

    def tick_soon(self) -> None:
        """Run the timers in the next duty cycle."""
        self._next_tick_ns = 0

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Run one duty cycle. When the driver is gone, it ends everything."""
        if self.is_closed:
            return 0
        self._now = now
        if now.ns >= self._next_tick_ns:
            self._tick(now.ns)
        count = 0
        while self._dirty_ports:
            dirty, self._dirty_ports = self._dirty_ports, []
            for port in dirty:
                port.do_work()
            count += len(dirty)
        links, self._dirty_links = self._dirty_links, []
        count += sum(link.flush() > 0 for link in links)
        if self._control.is_lost:
            self._end(_CLOSED_TEXT)
            count += 1
        return count

    def next_deadline_ns(self) -> int:
        """At once while something is to be sent, else the next tick; never once closed."""
        if self._dirty_ports or self._dirty_links or (self._control.is_lost and not self.is_closed):
            return self._now.ns
        return NEVER_NS if self.is_closed else self._next_tick_ns

    def _tick(self, now_ns: Ns) -> None:
        status_interval_ns = STATUS_INTERVALS * self.settings.heartbeat_interval_ns
        self._ports = [port for port in self._ports if not port.is_done]
        for port in self._ports:
            if port.link is None and not port.is_done and not (self._control.was_connected and port.was_connected):
                port.connect()
            port.tick(now_ns, self.settings.heartbeat_interval_ns, status_interval_ns)
        if all(port.link is not None and port.link.is_connected for port in self._ports):
            needs = any(port.needs_ticks for port in self._ports)
            self._next_tick_ns = now_ns + self.settings.heartbeat_interval_ns if needs else NEVER_NS
        else:
            self._next_tick_ns = now_ns + self.settings.redial_interval_ns

    def _end(self, reason: str) -> None:
        self.is_closed = True
        for port in list(self._ports):
            if port.link is not None:
                port.link.close(reason)
            port.end(reason)
        self._ports.clear()

    def close(self) -> None:
        """Send what links take at once, then end everything."""
        if not self.is_closed:
            for link in self._dirty_links:
                link.flush()
            self._end("closed")
