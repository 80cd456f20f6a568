"""The media driver: owns the network of a member and connects publications with subscriptions.

All work is done in `do_work`: it matches new streams, answers announcements, sends what was offered and reports what
was consumed. Bytes that arrive between two duty cycles are put into the streams at once. The driver knows no message
and no component.
"""

from random import Random
from typing import Final

from upheaval_node.bell import Bell
from upheaval_node.counters import Counters
from upheaval_node.errors import PeerError, UsageError
from upheaval_node.media.api import ImageHandler, Subscription
from upheaval_node.media.client_server import ClientServer
from upheaval_node.media.endpoints import Endpoints, Source
from upheaval_node.media.feed import StreamFeed
from upheaval_node.media.inbound import InboundStream
from upheaval_node.media.link import FrameLink
from upheaval_node.media.local_stream import LocalStream
from upheaval_node.media.outbound import STATUS_INTERVALS, OutboundStream, PublicationState, response_token
from upheaval_node.media.parameters import JoinPosition, join_position, publication_parameters
from upheaval_node.media.publication import StreamPublication
from upheaval_node.media.resolver import Resolver
from upheaval_node.media.stream_buffer import StreamBuffer, StreamParams
from upheaval_node.media.subscription import StreamSubscription
from upheaval_node.peer_faults import PeerFaults
from upheaval_node.ports import ErrorSink, Network
from upheaval_node.protocol.channel import (
    CONTROL_MODE,
    CONTROL_MODE_MANUAL,
    CONTROL_MODE_RESPONSE,
    REJOIN,
    SESSION_ID,
    Channel,
)
from upheaval_node.protocol.frames import Setup
from upheaval_node.settings import MediaSettings
from upheaval_node.types import FRAME_ALIGNMENT, MS, NEVER_NS, NOT_YET, Now, Ns

SHORTEST_TICK_NS: Final = MS
MAX_INBOUND_STREAMS: Final = 1024
# The most sessions that are remembered for each subscription.
MAX_COOL_DOWNS: Final = 1024
# Aeron: system counter type, and its counter of invalid packets.
_SYSTEM_COUNTER_TYPE_ID: Final = 0
_INVALID_PACKETS: Final = 14

Group = tuple[str, int | str]


class MediaDriver:
    """Implements `api.Media` in the process that owns the network."""

    def __init__(
        self,
        network: Network,
        resolver: Resolver,
        settings: MediaSettings,
        random: Random,
        counters: Counters | None = None,
        name: str = "",
        errors: ErrorSink | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.random = random
        self.network = network
        self.is_closed = False
        self.bell = Bell(covers_all=True)
        self.endpoints = Endpoints(network, self, settings)
        self._resolver = resolver
        self._faults = None if errors is None else PeerFaults(errors, "media-peer")
        self._invalid = (
            None
            if counters is None
            else counters.allocate(_SYSTEM_COUNTER_TYPE_ID, _INVALID_PACKETS.to_bytes(4, "little"), "Invalid packets")
        )
        self._outbound: dict[int, OutboundStream] = {}
        self._inbound: dict[tuple[Group, int, int], InboundStream] = {}
        # Sessions that a subscription does not take up again, and until when: rejected ones for a while, every
        # former one for ever with `rejoin=false` (Aeron: cool-down).
        self._cool_downs: dict[int, dict[int, int]] = {}
        self._subscriptions: dict[int, StreamSubscription] = {}
        self._sources: dict[int, dict[str, Source]] = {}
        self._joins: dict[int, JoinPosition | None] = {}
        self._dirty_streams: list[OutboundStream | InboundStream] = []
        self._dirty_links: list[FrameLink] = []
        self._topology_changed = False
        self._saw_setup = False
        self._next_tick_ns = 0
        self._now = NOT_YET
        self._clients: ClientServer | None = None
        self.receiver_id = random.getrandbits(62)
        self._correlation_id = random.getrandbits(62)

    def next_correlation_id(self) -> int:
        """Count up from a random number, to avoid the numbers of other drivers."""
        self._correlation_id = (self._correlation_id + 1) & ((1 << 62) - 1) or 1
        return self._correlation_id

    # --- publications ---

    def add_publication(self, channel: str, stream_id: int, *, session_id: int | None = None) -> StreamPublication:
        """Raises `UsageError` for an unusable channel or a session that is in use."""
        parsed = Channel.parse(channel)
        params, position = publication_parameters(parsed, stream_id, session_id, self.settings, self.random)
        stream = self.add_outbound(parsed, params, position)
        publication = StreamPublication(
            stream.buffer, stream, channel=channel, registration_id=self.next_correlation_id()
        )
        stream.publication = publication
        return publication

    def add_outbound(self, channel: Channel, params: StreamParams, position: int) -> OutboundStream:
        """The stream of a publication of this process, or of a client process."""
        for other in self._outbound.values():
            same = (other.buffer.params.stream_id, other.buffer.params.session_id) == (
                params.stream_id,
                params.session_id,
            )
            if same and other.channel == channel and other.state == PublicationState.ACTIVE:
                raise UsageError(f"session {params.session_id} of stream {params.stream_id} is already published")
        stream = OutboundStream(self, self.settings, channel, params, position)
        self._outbound[self.next_correlation_id()] = stream
        self._changed()
        return stream

    def _streams(self) -> list[OutboundStream | InboundStream]:
        return [*self._outbound.values(), *self._inbound.values()]

    def serve_clients(self, address: str) -> None:
        """Let other processes of the member use this driver through `unix:PATH`. Raises `NetworkError`."""
        if self._clients is not None:
            raise UsageError("clients are served already")
        self._clients = ClientServer(self, address)

    # --- outbound.LinkSource ---

    def dial(self, endpoint: str, stream_id: int) -> FrameLink:
        """Connect to the present address of the endpoint. Raises `NetworkError` if it cannot be resolved or dialled."""
        return self.endpoints.dial(self._resolver.resolve(endpoint, stream_id))

    def link_of_token(self, token: int, stream_id: int) -> FrameLink | None:
        """The newest live connection on which a receiver announced the token, or None."""
        return self.endpoints.link_of_token(token, stream_id)

    def now_ns(self) -> Ns:
        """Monotonic time of this duty cycle."""
        return self._now.ns

    def mark_stream(self, stream: OutboundStream | InboundStream) -> None:
        """The stream has something to flush, trim or report in this duty cycle or the next."""
        self._dirty_streams.append(stream)
        self.bell.rung = True

    # --- subscriptions ---

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
        bell: Bell | None = None,
    ) -> Subscription:
        """Raises `UsageError` for an unusable channel. If an address is in use, binding is retried; `error` says so
        meanwhile.
        """
        parsed = Channel.parse(channel)
        parsed.get_int32(SESSION_ID)
        join = join_position(parsed, self.settings)
        subscription = StreamSubscription(
            self,
            parsed,
            stream_id,
            self.next_correlation_id(),
            on_available=on_available,
            on_unavailable=on_unavailable,
            bell=bell,
        )
        self._sources[subscription.registration_id] = {}
        if parsed.media == "tcp" and not parsed.is_spy and parsed.get(CONTROL_MODE) != CONTROL_MODE_MANUAL:
            self._add_source(subscription, parsed)
        elif parsed.media == "udp" and not parsed.is_spy:
            raise UsageError(f"{parsed}: aeron:udp is not available")
        self._subscriptions[subscription.registration_id] = subscription
        self._joins[subscription.registration_id] = join
        self._changed()
        return subscription

    def _add_source(self, subscription: StreamSubscription, channel: Channel) -> None:
        """Listen, or announce a token, for one channel of a subscription. Raises `UsageError`."""
        registration_id = subscription.registration_id
        source: Source
        if channel.media != "tcp":
            raise UsageError(f"expected a destination on aeron:tcp, got {channel}")
        if channel.get(CONTROL_MODE) == CONTROL_MODE_RESPONSE:
            token = response_token(channel)
            source = ("token", token)
            self.endpoints.announce(token, subscription.stream_id)
        elif channel.endpoint:
            # With port 0, every subscription gets its own port.
            own = channel.endpoint.endswith(":0")
            key = f"{channel.endpoint}#{registration_id}" if own else channel.endpoint
            source = ("listen", key)
            self.endpoints.listen(key, channel.endpoint, registration_id)
        else:
            raise UsageError(f"{channel} names no endpoint")
        self._sources[registration_id][str(channel)] = source
        self._refresh_listening(subscription)

    def _refresh_listening(self, subscription: StreamSubscription) -> None:
        """Show the bound address (that of a port 0 before others, as it is unknown before) or why there is none."""
        subscription.error = None
        subscription.ring()
        sources = self._sources[subscription.registration_id].values()
        for _, key in sorted(sources, key=lambda source: "#" in str(source[1])):
            record = self.endpoints.listeners.get(str(key))
            if record is not None and record.listener is not None:
                subscription.resolved_endpoint = record.listener.address
            elif record is not None:
                subscription.error = record.error

    def _remove_source(self, subscription: StreamSubscription, source: Source) -> None:
        kind, key = source
        if kind == "listen":
            self.endpoints.release(str(key), subscription.registration_id)
        else:
            self.endpoints.withdraw(int(key))

    # --- subscription.SubscriptionOwner ---

    def add_subscription_destination(self, subscription: StreamSubscription, channel: str) -> None:
        """Raises `UsageError` without `control-mode=manual`, and for an unusable channel."""
        if subscription.parsed_channel.get(CONTROL_MODE) != CONTROL_MODE_MANUAL:
            raise UsageError(f"{subscription.channel} takes no destinations: it is not control-mode=manual")
        parsed = Channel.parse(channel)
        if not subscription.is_closed and str(parsed) not in self._sources[subscription.registration_id]:
            self._add_source(subscription, parsed)
            self._changed()

    def remove_subscription_destination(self, subscription: StreamSubscription, channel: str) -> None:
        """Streams that other destinations deliver stay."""
        source = self._sources.get(subscription.registration_id, {}).pop(str(Channel.parse(channel)), None)
        if source is None:
            return
        for stream in self._inbound.values():
            if stream.group == ("subscription", subscription.registration_id):
                stream.feed.detach_source(source)
        self._remove_source(subscription, source)
        self._refresh_listening(subscription)
        self._changed()

    def close_subscription(self, subscription: StreamSubscription) -> None:
        """End its images. Streams without a subscriber end, and unused listeners close."""
        for stream in self._streams():
            if any(image.stream is stream.buffer for image in subscription.stream_images):
                stream.images.reap()
                stream.buffer.touch()
                if isinstance(stream, OutboundStream):
                    stream.invalidate()
                else:
                    stream.flush()
        self._subscriptions.pop(subscription.registration_id, None)
        self._joins.pop(subscription.registration_id, None)
        self._cool_downs.pop(subscription.registration_id, None)
        for source in self._sources.pop(subscription.registration_id, {}).values():
            self._remove_source(subscription, source)

    # --- link.LinkOwner ---

    def mark_link(self, link: FrameLink) -> None:
        """The link has something to send in this turn or the next."""
        self._dirty_links.append(link)
        self.bell.rung = True

    def on_link_connected(self, link: FrameLink) -> None:
        """Announce the response tokens on it, and the streams that wait for it."""
        self.endpoints.on_connected(link)
        self.tick_soon()

    def on_link_closed(self, link: FrameLink, reason: str) -> None:  # noqa: ARG002 - its streams know
        """Forget the connection; the link has informed its streams."""
        self.endpoints.forget(link)

    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:
        """Kept for the next duty cycle, which checks whether a subscription wants the stream."""
        self.endpoints.on_setup(link, setup, token)
        self._saw_setup = True
        self.bell.rung = True

    def on_response_token(self, link: FrameLink, token: int, stream_id: int, *, withdrawn: bool) -> None:
        """Destinations that wait for the token are tried at once."""
        if self.endpoints.on_token(link, token, stream_id, withdrawn=withdrawn):
            for stream in self._outbound.values():
                for destination in stream.destinations:
                    if destination.token == token:
                        destination.retry_now()
                        self.tick_soon()

    def on_extension(self, link: FrameLink, payload: bytes) -> None:  # noqa: ARG002 - whatever it says
        """Raises `PeerError`: only processes of this member may send commands."""
        raise PeerError("a command from another host")

    def on_peer_error(self, link: FrameLink, error: PeerError) -> None:
        """Count the fault, and report the first of its kind for each peer."""
        if self._invalid is not None:
            self._invalid.set(self._invalid.get() + 1)
        if self._faults is not None:
            self._faults.note(self._now, link.peer, str(error))

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Run a duty cycle: clients, matching, announced streams, offered and consumed data, timers, connections."""
        if self.is_closed:
            return 0
        self._now = now
        self.endpoints.now_ns = now.ns
        count = 0 if self._clients is None else self._clients.do_work()
        if self._topology_changed:
            self._topology_changed = False
            count += self._match()
        if self._saw_setup:
            self._saw_setup = False
            count += self._take_setups()
        count += self._flush_streams()
        if now.ns >= self._next_tick_ns:
            self._tick(now.ns)
        if self._clients is not None:
            self._clients.report_changes()
        count += self._flush_links()
        self.bell.rung = self.next_deadline_ns() <= now.ns
        return count

    def next_deadline_ns(self) -> int:
        """At once while something is to be done, else the next tick."""
        has_commands = self._clients is not None and self._clients.has_work
        if self._dirty_streams or self._dirty_links or self._topology_changed or self._saw_setup or has_commands:
            return self._now.ns
        return self._next_tick_ns

    def tick_soon(self) -> None:
        """Run the timers in the next duty cycle."""
        self._next_tick_ns = 0
        self.bell.rung = True

    def take_a_turn(self) -> None:
        """Run a duty cycle for a client's session."""
        self.bell.rung = True

    def _changed(self) -> None:
        self._topology_changed = True
        self.tick_soon()

    def _flush_streams(self) -> int:
        count = 0
        while self._dirty_streams:
            dirty, self._dirty_streams = self._dirty_streams, []
            for stream in dirty:
                stream.buffer.dirty = False
                stream.flush()
                stream.images.ring_if_changed(stream)
                if isinstance(stream, InboundStream) and stream.is_done:
                    self._forget_inbound(stream)
            count += len(dirty)
        return count

    def _flush_links(self) -> int:
        """The last link first: a client waits for a response, which is written after the commit position it needs."""
        dirty, self._dirty_links = self._dirty_links, []
        return sum(link.flush() > 0 for link in reversed(dirty))

    def _tick(self, now_ns: Ns) -> None:
        settings = self.settings
        for registration_id, outbound in list(self._outbound.items()):
            outbound.tick(now_ns)
            if outbound.state == PublicationState.DONE:
                del self._outbound[registration_id]
        for inbound in list(self._inbound.values()):
            inbound.tick(now_ns, settings.heartbeat_interval_ns * STATUS_INTERVALS)
        self.endpoints.close_idle(now_ns, settings.connection_timeout_ns)
        if any(record.listener is None for record in self.endpoints.listeners.values()):
            self.endpoints.rebind()
            for subscription in self._subscriptions.values():
                self._refresh_listening(subscription)
        if self._clients is not None:
            self._clients.tick(now_ns)
        self._next_tick_ns = now_ns + self._tick_period_ns()

    def _tick_period_ns(self) -> int:
        """Heartbeats and liveness while anything is connected; shorter only while something is to be tried again."""
        outbound = self._outbound.values()
        dial_ns = NEVER_NS
        for stream in outbound:
            dial_ns = min(dial_ns, stream.next_dial_ns)
        if any(record.listener is None for record in self.endpoints.listeners.values()):
            dial_ns = min(dial_ns, self._now.ns + self.settings.redial_interval_ns)
        if dial_ns < NEVER_NS:
            return min(self.settings.heartbeat_interval_ns, max(dial_ns - self._now.ns, SHORTEST_TICK_NS))
        if self._inbound or self.endpoints.links or any(stream.needs_ticks for stream in outbound):
            return self.settings.heartbeat_interval_ns
        return NEVER_NS - self._now.ns

    def _forget_inbound(self, stream: InboundStream) -> None:
        params = stream.buffer.params
        self._inbound.pop((stream.group, params.stream_id, params.session_id), None)
        for subscription in self._subscriptions.values():
            if stream.images.ever_joined(subscription) and not subscription.parsed_channel.is_spy:
                self._cool_down(subscription, stream)

    def _cool_down(self, subscription: StreamSubscription, stream: InboundStream) -> None:
        may_rejoin = subscription.parsed_channel.get_bool(REJOIN, default=True)
        if may_rejoin and subscription.registration_id not in stream.rejected_by:
            return
        until_ns = self._now.ns + self.settings.image_liveness_timeout_ns if may_rejoin else NEVER_NS
        sessions = self._cool_downs.setdefault(subscription.registration_id, {})
        if len(sessions) >= MAX_COOL_DOWNS:
            del sessions[next(iter(sessions))]
        sessions[stream.buffer.params.session_id] = until_ns

    def _is_cooling_down(self, subscription: StreamSubscription, session_id: int) -> bool:
        return self._cool_downs.get(subscription.registration_id, {}).get(session_id, -1) >= self._now.ns

    # --- matching ---

    def _match(self) -> int:
        """Give subscriptions the images that they lack. Of two streams of one session, the live one is taken."""
        count = 0
        streams = sorted(self._streams(), key=lambda stream: stream.buffer.ended)
        for subscription in list(self._subscriptions.values()):
            for stream in streams:
                if self._sees(subscription, stream):
                    self._join(subscription, stream)
                    count += 1
        return count

    def _sees(self, subscription: StreamSubscription, stream: OutboundStream | InboundStream) -> bool:
        params = stream.buffer.params
        if params.stream_id != subscription.stream_id:
            return False
        if not _session_matches(subscription, params.session_id) or not stream.images.may_join(subscription):
            return False
        if stream.buffer.ended and not _takes_ended(subscription, stream):
            return False
        # One stream a session: the replay of a stream to another subscriber has the same ids as the stream itself.
        if subscription.image(params.session_id) is not None:
            return False
        if subscription.parsed_channel.is_spy:
            return True
        if isinstance(stream, InboundStream):
            return stream.group in self._sources[subscription.registration_id].values()
        return subscription.parsed_channel.media == "ipc" and stream.channel.media == "ipc"

    def _join(self, subscription: StreamSubscription, stream: LocalStream) -> None:
        buffer = stream.buffer
        buffer.seal()
        position = buffer.join_position()
        join = self._joins.get(subscription.registration_id)
        wanted = None if join is None else join.of(buffer.params.initial_term_id, buffer.params.term_length)
        if wanted is not None and buffer.base <= wanted <= buffer.tail:
            position = wanted
        stream.images.join(stream, subscription, position, self.next_correlation_id())
        buffer.touch()

    # --- streams from other hosts ---

    def _take_setups(self) -> int:
        count = 0
        for link, source, setup in self.endpoints.take_setups():
            if link.is_closed:
                continue
            try:
                self._on_announced(link, source, setup)
            except PeerError as error:
                self.on_peer_error(link, error)
                link.close(str(error))
            count += 1
        return count

    def _on_announced(self, link: FrameLink, source: Source | None, setup: Setup) -> None:
        wanted = [
            subscription
            for subscription in self._subscriptions.values()
            if self._wants(subscription, source, setup) and not self._is_cooling_down(subscription, setup.session_id)
        ]
        if not wanted:
            return
        group = self._group(wanted[0], source)
        wanted = [subscription for subscription in wanted if self._group(subscription, source) == group]
        stream = self._inbound.get((group, setup.stream_id, setup.session_id))
        if stream is None:
            position = self._first_position(wanted, setup)
            if position is None:
                return
            stream = self._add_inbound(group, link, setup, position)
        if stream.buffer.ended:
            return
        for subscription in wanted:
            if stream.images.may_join(subscription):
                self._join(subscription, stream)
        self._changed()
        if link.is_closed:
            return
        sources = self._sources.get(wanted[0].registration_id, {})
        stream.feed.may_be_filled = group[0] == "subscription" and len(sources) > 1
        stream.feed.on_setup(link, setup, source)
        stream.images.ring()

    def _add_inbound(self, group: Group, link: FrameLink, setup: Setup, position: int) -> InboundStream:
        if len(self._inbound) >= MAX_INBOUND_STREAMS:
            raise PeerError(f"more than {MAX_INBOUND_STREAMS} streams arrive")
        params = StreamParams(setup.session_id, setup.stream_id, setup.initial_term_id, setup.term_length, setup.mtu)
        buffer = StreamBuffer(params, position, lambda: self.mark_stream(stream))
        feed = StreamFeed(
            buffer,
            window=self.settings.receiver_window_length,
            receiver_id=self.receiver_id,
            liveness_ns=self.settings.image_liveness_timeout_ns,
        )
        stream = InboundStream(group, buffer, feed, link.peer)
        self._inbound[group, setup.stream_id, setup.session_id] = stream
        return stream

    def _wants(self, subscription: StreamSubscription, source: Source | None, setup: Setup) -> bool:
        return (
            subscription.stream_id == setup.stream_id
            and source in self._sources[subscription.registration_id].values()
            and _session_matches(subscription, setup.session_id)
        )

    def _group(self, subscription: StreamSubscription, source: Source | None) -> Group:
        """The group of streams: subscriptions with destinations have their own streams, others share them by
        endpoint.
        """
        if subscription.parsed_channel.get(CONTROL_MODE) == CONTROL_MODE_MANUAL:
            return ("subscription", subscription.registration_id)
        return source or ("", 0)

    def _first_position(self, wanted: list[StreamSubscription], setup: Setup) -> int | None:
        """The position at which a new stream begins here; None to wait for another publisher of it."""
        subscription = wanted[0]
        join = self._joins[subscription.registration_id]
        position = None if join is None else join.of(setup.initial_term_id, setup.term_length)
        if position is None:
            return setup.position
        held_from = setup.position - max(setup.ttl, 0) * FRAME_ALIGNMENT
        if held_from <= position:
            return position
        is_manual = subscription.parsed_channel.get(CONTROL_MODE) == CONTROL_MODE_MANUAL
        return None if is_manual else setup.position

    def close(self) -> None:
        """Send what connections take at once, then close everything without end of stream."""
        if self.is_closed:
            return
        for link in list(self.endpoints.links):
            link.flush()
        for stream in self._streams():
            stream.abandon()
        self.is_closed = True
        if self._clients is not None:
            self._clients.close()
        self.endpoints.close()


def _takes_ended(subscription: StreamSubscription, stream: LocalStream) -> bool:
    """Whether a subscription may join a stream that has ended while another subscription still reads it.

    A subscription to this very session of a local publication may: a short replay may be over before its last reader
    joins. A spy may not: a stream from another host that ended may come again with the same session.
    """
    channel = subscription.parsed_channel
    is_local = channel.media == "ipc" and not channel.is_spy
    return is_local and channel.get(SESSION_ID) is not None and len(stream.images) > 0


def _session_matches(subscription: StreamSubscription, session_id: int) -> bool:
    wanted = subscription.parsed_channel.get_int32(SESSION_ID)
    return wanted is None or wanted == session_id
