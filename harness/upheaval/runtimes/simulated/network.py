"""The network of a simulation: TCP-like byte streams between named hosts, over links that can be cut.

Every directed pair of hosts is a link with its own latency, drawn from the seed. Bytes arrive in order, in chunks
that are drawn too, so that frames arrive in parts. As with TCP:

* a cut link is a black hole: what is sent waits, and arrives some time after the link heals (retransmission), or ends
  the connection when it is not acknowledged within the user time-out;
* dialling a port without a listener is refused; dialling through a cut or to a dead host is tried again for a while;
* a process that dies loses its sockets: peers see the end of the stream, or a reset when it had not read everything;
* a host that loses power says nothing; a peer that sends to it after it came back gets a reset.

`unix:` addresses and a host's own names stay inside the host: such streams are never cut.
This module knows nothing of what the bytes mean.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.runtimes.simulated.links import Link, LinkProfile, Links, LinkTraffic
from upheaval.runtimes.simulated.sockets import EndReason, Owner
from upheaval.runtimes.simulated.world import World
from upheaval_node.errors import NetworkError
from upheaval_node.ports import Buffer, Connection, ConnectionHandler
from upheaval_node.types import S

# The send and receive buffers of one direction together. Bytes beyond that wait at the sender.
PIPE_CAPACITY: Final = 512 * 1024
SPLIT_PROBABILITY: Final = 0.06
# The process runtime sets TCP_USER_TIMEOUT to this: bytes (or a SYN) not acknowledged for so long end the connection.
UNACKNOWLEDGED_NS: Final = 5 * S
# Linux sends a SYN again after 1 and 3 seconds; the next one would come after that time-out.
SYN_RETRIES_NS: Final = (S, 2 * S)
# After an outage the next retransmission comes at an arbitrary time within the back-off reached so far.
RETRANSMIT_MAX_NS: Final = 3 * S
FIRST_EPHEMERAL_PORT: Final = 40_000


class Pipe:
    """One direction of a connection: the bytes in flight to `receiver`."""

    __slots__ = (
        "_fabric",
        "blocked",
        "freed",
        "heard_ns",
        "last_arrival_ns",
        "link",
        "outstanding",
        "receiver",
        "reverse",
        "segments",
        "stalled_since_ns",
    )

    def __init__(self, fabric: "Fabric", link: Link, reverse: Link) -> None:
        self._fabric = fabric
        self.link = link
        self.reverse = reverse
        self.receiver: StreamEnd
        self.segments: deque[tuple[int, bytes, str, int]] = deque()
        self.outstanding = 0
        self.freed = 0
        self.blocked = False
        self.stalled_since_ns: int | None = None
        self.last_arrival_ns = 0
        self.heard_ns = 0

    def push(self, data: bytes) -> None:
        """Send bytes, sometimes in two chunks."""
        link = self.link
        self.outstanding += len(data)
        link.push(len(data))
        arrival_ns = self._fabric.arrival_ns(link, len(data), self.last_arrival_ns)
        if len(data) > 1 and link.draw_chunk() < SPLIT_PROBABILITY:
            cut = 1 + int(link.draw_chunk() * (len(data) - 1))
            self._plan(arrival_ns, data[:cut], "")
            arrival_ns += int(link.draw_chunk() * link.latency_ns)
            data = data[cut:]
        self._plan(arrival_ns, data, "")

    def push_end(self, reason: str) -> None:
        """Send the end of the stream, because of `reason`. Nothing follows it."""
        self._plan(self._fabric.arrival_ns(self.link, 0, self.last_arrival_ns), b"", reason)

    def _plan(self, arrival_ns: int, data: bytes, end: str) -> None:
        self.last_arrival_ns = arrival_ns
        self.segments.append((arrival_ns, data, end, self._fabric.world.now_ns))
        self._fabric.world.at(arrival_ns, self.arrive)

    def arrive(self) -> None:
        """Deliver everything that is due, unless the link is cut or the host is off."""
        now_ns = self._fabric.world.now_ns
        if self._is_dead:
            self._stall()
            return
        while self.segments and self.segments[0][0] <= now_ns:
            _, data, end, sent_ns = self.segments.popleft()
            if self.link.timeout_ns is not None and not end:
                self._swallow(len(data))
            else:
                self.link.count(len(data), sent_ns, now_ns)
                self.receiver.receive(data, end)

    @property
    def _is_dead(self) -> bool:
        return self.link.is_cut or self.receiver.is_ghost

    def _swallow(self, length: int) -> None:
        """Drop bytes on the way: the sender may send more, but the receiver never sees these."""
        self.freed += length
        self._acknowledge()
        self.watch_silence()

    def watch_silence(self) -> None:
        """Restart the silence of the connection, which ends it after the link's time-out."""
        self.heard_ns = since_ns = self._fabric.world.now_ns
        timeout_ns = self.link.timeout_ns
        if timeout_ns is not None:
            self._fabric.world.after(timeout_ns, lambda: self._end_silence(since_ns))

    def _end_silence(self, since_ns: int) -> None:
        if self.heard_ns == since_ns and self.link.timeout_ns is not None:
            self.break_off()

    def break_off(self) -> None:
        """End the connection at both ends. What is in flight is lost."""
        for end in (self.receiver, self.receiver.other):
            if end is not None:
                end.incoming.segments.clear()
                end.receive(b"", EndReason.BROKEN_OFF)

    def _stall(self) -> None:
        if self.stalled_since_ns is None:
            since_ns = self.stalled_since_ns = self._fabric.world.now_ns
            self._fabric.world.after(UNACKNOWLEDGED_NS, lambda: self._give_up(since_ns))

    def _give_up(self, since_ns: int) -> None:
        """End the connection silently, as the sender's kernel does when nothing was acknowledged for the whole
        time-out.
        """
        sender = self.receiver.other
        if self.stalled_since_ns == since_ns and sender is not None:
            self.segments.clear()
            sender.time_out()

    def consumed(self, length: int) -> None:
        """The reader took bytes: the sender may send again after their acknowledgement."""
        self.freed += length
        if not self.reverse.is_cut:
            self._acknowledge()
        else:
            self._stall()

    def _acknowledge(self) -> None:
        self.outstanding -= self.freed
        self.freed = 0
        if self.blocked and self.outstanding <= PIPE_CAPACITY // 2:
            self.blocked = False
            self._fabric.world.after(self.reverse.latency_ns, self._wake_sender)

    def _wake_sender(self) -> None:
        if self.receiver.other is not None:
            self.receiver.other.writable()

    def heal(self, outage_ns: int) -> None:
        """The link works again: waiting bytes arrive with the next retransmission."""
        self.stalled_since_ns = None
        if not self.segments:
            return
        drawn = self._fabric.world.stream(f"retransmission/{self.link.name}").random()
        delay_ns = int(drawn * min(outage_ns, RETRANSMIT_MAX_NS)) + self.link.latency_ns
        first_ns = self._fabric.world.now_ns + delay_ns
        self.segments = deque((max(ns, first_ns), data, end, sent_ns) for ns, data, end, sent_ns in self.segments)
        self.last_arrival_ns = max(self.last_arrival_ns, first_ns)
        for time_ns in sorted({segment[0] for segment in self.segments}):
            self._fabric.world.at(time_ns, self.arrive)

    def heal_reverse(self) -> None:
        """The reverse link works again: the sender receives the acknowledgements."""
        if not self._is_dead:
            self.stalled_since_ns = None
        if self.freed:
            self._acknowledge()

    def drop_after(self, time_ns: int) -> None:
        """Drop everything that would arrive after `time_ns`: a reset overtakes it."""
        while self.segments and self.segments[-1][0] > time_ns:
            self.segments.pop()


class StreamEnd:
    """One end of a connection; implements `ports.Connection` for its owner."""

    def __init__(self, fabric: "Fabric", owner: Owner, peer: str, outgoing: Pipe, incoming: Pipe) -> None:
        self._fabric = fabric
        self.owner = owner
        self._peer = peer
        self.outgoing = outgoing
        self.incoming = incoming
        self.other: StreamEnd | None = None
        self.handler: ConnectionHandler | None = None
        self.is_established = False
        self.is_closed = False
        # Closed in order. Bytes that still arrive are dropped, because the other end learns of the close anyway.
        self.is_lingering = False
        # Lost with the power of its host, which does not answer.
        self.is_ghost = False
        self._inbox: deque[bytes] = deque()
        self._end_reason = ""
        self._is_paused = False
        self._is_posted = False
        self._is_silent = False
        incoming.receiver = self

    @property
    def peer(self) -> str:
        """The address of the other end."""
        return self._peer

    @property
    def has_unread(self) -> bool:
        """Whether bytes have arrived that its owner has not read."""
        return bool(self._inbox)

    @property
    def is_broken(self) -> bool:
        """Whether the connection is over: nothing is sent or received any more."""
        return self.is_closed or bool(self._end_reason)

    def send(self, parts: Sequence[Buffer]) -> int:
        """Send as many bytes as fit between the two ends; none before the handshake is over."""
        if self.is_closed or self._end_reason:
            return 0
        pipe = self.outgoing
        if not self.is_established:
            pipe.blocked = True
            return 0
        data = b"".join(parts)
        room = PIPE_CAPACITY - pipe.outstanding
        if len(data) > room:
            pipe.blocked = True
            data = data[: max(room, 0)]
        if data:
            pipe.push(data)
        return len(data)

    def pause_reading(self, paused: bool) -> None:
        """Stop delivery. Arriving bytes wait here, and at the sender when there are too many."""
        self._is_paused = paused
        if not paused:
            self.post_delivery()

    def close(self) -> None:
        """Close the connection. Accepted bytes still arrive at the other end."""
        if not self.is_closed:
            self.is_lingering = True
            self._fabric.close_end(self)

    def time_out(self) -> None:
        """End the connection as the kernel does for unacknowledged bytes."""
        if not self.is_closed:
            self._inbox.clear()
            self._is_silent = True
            self._end_reason = EndReason.TIMED_OUT
            self.post_delivery()

    def connected(self) -> None:
        """The handshake is over. Runs in the owner's loop."""
        if self.is_closed or self.handler is None or self._end_reason:
            return
        self.is_established = True
        tried_to_send, self.outgoing.blocked = self.outgoing.blocked, False
        self.handler.on_connected(self)
        if tried_to_send:
            self._deliver_writable()

    def receive(self, data: bytes, end: str) -> None:
        """Bytes, or the end of the stream, arrive at this host."""
        if self.is_closed:
            if data and not self.is_lingering:
                self._fabric.reset_peer(self)
            return
        if end:
            self._end_reason = self._end_reason or end
        else:
            self._inbox.append(data)
        self.post_delivery()

    def writable(self) -> None:
        """Tell the handler that the connection accepts bytes again."""
        self.owner.deliver(self._deliver_writable)

    def _deliver_writable(self) -> None:
        if not self.is_closed and not self._end_reason and self.handler is not None:
            self.handler.on_writable()

    def post_delivery(self) -> None:
        """Schedule the delivery of arrived bytes in the owner's loop."""
        if not self._is_posted and not self.is_closed:
            self._is_posted = True
            self.owner.deliver(self._deliver)

    def _deliver(self) -> None:
        self._is_posted = False
        while self._inbox and not self._is_paused and not self.is_closed and self.handler is not None:
            data = self._inbox.popleft()
            self.incoming.consumed(len(data))
            self.handler.on_data(memoryview(data))
        if self._end_reason and not self._inbox and not self.is_closed and self.handler is not None:
            self._fabric.close_end(self, is_silent=self._is_silent)
            self.handler.on_closed(self._end_reason)


@dataclass(slots=True)
class _Listener:
    """A bound address of one process."""

    address: str
    owner: Owner
    accept: Callable[[Connection], ConnectionHandler]
    bound: dict[tuple[str, str], "_Listener"]
    key: tuple[str, str]

    def close(self) -> None:
        if self.bound.get(self.key) is self:
            del self.bound[self.key]


class ProcessNetwork:
    """`ports.Network` of one process."""

    def __init__(self, fabric: "Fabric", owner: Owner) -> None:
        self._fabric = fabric
        self._owner = owner

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> _Listener:
        """Raises `NetworkError` for an address of another host, or an address in use."""
        return self._fabric.listen(self._owner, address, accept)

    def dial(self, address: str, handler: ConnectionHandler) -> StreamEnd:
        """Never fails at once: the handler receives the outcome."""
        return self._fabric.dial(self._owner, address, handler)


@dataclass(slots=True)
class _Dial:
    """A connection attempt in progress."""

    end: StreamEnd
    host: str
    port: str
    source: str
    attempts: int = 0


@dataclass(slots=True)
class _Host:
    off_since_ns: int | None = None
    boots: int = 1
    last_port: int = FIRST_EPHEMERAL_PORT
    # Ends that were lost with the power. A peer that sends to them is answered once the host is back.
    ghosts: list[StreamEnd] = field(default_factory=list)

    def take_port(self) -> str:
        """A port that nothing on this host has used yet."""
        self.last_port += 1
        return str(self.last_port)


class Fabric:
    """All hosts, links, listeners and connections of one world."""

    def __init__(self, world: World, profile: LinkProfile | None = None) -> None:
        self.world = world
        self._links = Links(world, profile or LinkProfile())
        self._hosts: dict[str, _Host] = {}
        self._listeners: dict[tuple[str, str], _Listener] = {}
        self._ends: dict[StreamEnd, None] = {}

    def network(self, owner: Owner) -> ProcessNetwork:
        """The `ports.Network` of one process."""
        return ProcessNetwork(self, owner)

    # --- links -----------------------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        """The link from one host to another, drawn at its first use."""
        return self._links.link(source, target)

    def channel(self, source: str, target: str, port: str) -> Link:
        """The channel from one host to another for connections to this port, whichever of the two dialled."""
        return self._links.channel(source, target, port)

    def watch(self, source: str, target: str, port: str = "") -> LinkTraffic:
        """Start to watch the bytes on a link or one channel of it, and its current connections."""
        link = self._links.channel(source, target, port)
        ends = [end for end in self._ends if end.other and end.incoming.link.belongs_to(link)]
        return LinkTraffic(link, self.world.now_ns, ends)

    def arrival_ns(self, link: Link, length: int, not_before_ns: int) -> int:
        """The arrival time of bytes that are sent now."""
        start_ns = self.world.now_ns
        extra_ns = 0
        for part in (link,) if link.whole is None else (link, link.whole):
            extra_ns += part.extra_latency_ns
            if part.bytes_per_second is not None:
                start_ns = max(start_ns, part.free_at_ns) + length * S // part.bytes_per_second
                part.free_at_ns = start_ns
        latency_ns = link.latency_ns + extra_ns + int(link.draw_latency() * link.jitter_ns)
        return max(start_ns + latency_ns, not_before_ns)

    def cut(self, source: str, target: str, port: str = "") -> None:
        """Make the link from `source` to `target`, or one channel of it, a black hole."""
        link = self._links.channel(source, target, port)
        if source != target and link.cut_since_ns is None:
            link.cut_since_ns = self.world.now_ns

    def silence(self, source: str, target: str, port: str, timeout_ns: int | None) -> None:
        """Drop all bytes on the link, and end connections after a silence of that time-out; None ends that.

        As with Toxiproxy, its end ends the connections of the link: what they carried has a hole.
        """
        link = self._links.channel(source, target, port)
        link.silence_ns = timeout_ns
        for end in list(self._ends):
            if not end.incoming.link.belongs_to(link):
                continue
            if end.incoming.link.timeout_ns is not None:
                end.incoming.watch_silence()
            elif end.other is not None:
                end.incoming.break_off()

    def heal(self, source: str, target: str, port: str = "") -> None:
        """Heal the link. Waiting bytes arrive with a retransmission, later for a longer cut."""
        link = self._links.channel(source, target, port)
        if link.cut_since_ns is None:
            return
        outage_ns = self.world.now_ns - link.cut_since_ns
        link.cut_since_ns = None
        for end in list(self._ends):
            if end.incoming.link.belongs_to(link) and not end.incoming.link.is_cut:
                end.incoming.heal(outage_ns)
            if end.incoming.reverse.belongs_to(link) and not end.incoming.reverse.is_cut:
                end.incoming.heal_reverse()

    def reset(self, first: str, second: str, port: str = "") -> int:
        """Reset all connections between two hosts, or those of one channel. Returns how many."""
        links = (self._links.channel(first, second, port), self._links.channel(second, first, port))
        hit = [end for end in self._ends if end.other and any(end.incoming.link.belongs_to(link) for link in links)]
        for end in hit:
            end.receive(b"", EndReason.RESET_ON_THE_WAY)
        return len(hit) // 2

    # --- connections -----------------------------------------------------------------------------------------------

    def listen(self, owner: Owner, address: str, accept: Callable[[Connection], ConnectionHandler]) -> _Listener:
        """Raises `NetworkError` for an address of another host, or an address in use."""
        host, port = self._split(owner.host, address)
        if host != owner.host:
            raise NetworkError(f"cannot bind {address}: {owner.host} has no such address")
        if port == "0":
            port = self._host(host).take_port()
            address = f"{host}:{port}"
        if (host, port) in self._listeners:
            raise NetworkError(f"cannot bind {address}: address in use")
        listener = _Listener(address, owner, accept, self._listeners, (host, port))
        self._listeners[host, port] = listener
        return listener

    def dial(self, owner: Owner, address: str, handler: ConnectionHandler) -> StreamEnd:
        """Begin a handshake, retried for a while when nothing answers."""
        host, port = self._split(owner.host, address)
        source = f"{owner.host}:{self._host(owner.host).take_port()}"
        there, back = self._links.channel(owner.host, host, port), self._links.channel(host, owner.host, port)
        outgoing = Pipe(self, there, back)
        incoming = Pipe(self, outgoing.reverse, outgoing.link)
        end = StreamEnd(self, owner, address, outgoing, incoming)
        end.handler = handler
        self._ends[end] = None
        dial = _Dial(end, host, port, source)
        self.world.at(self.arrival_ns(outgoing.link, 0, 0), lambda: self._syn_arrives(dial))
        return end

    @staticmethod
    def _split(own_host: str, address: str) -> tuple[str, str]:
        if address.startswith("unix:"):
            return own_host, address
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdigit():
            raise NetworkError(f"not an address: {address!r}")
        return own_host if host in ("", "localhost", "127.0.0.1", "0.0.0.0") else host, port

    def _syn_arrives(self, dial: _Dial) -> None:
        end = dial.end
        if end.is_closed:
            return
        is_cut = end.outgoing.link.is_cut or end.incoming.link.is_cut
        if is_cut or self._host(dial.host).off_since_ns is not None:
            if dial.attempts < len(SYN_RETRIES_NS):
                self.world.after(SYN_RETRIES_NS[dial.attempts], lambda: self._syn_arrives(dial))
            else:
                self.world.after(UNACKNOWLEDGED_NS - sum(SYN_RETRIES_NS), end.time_out)
            dial.attempts += 1
            return
        listener = self._listeners.get((dial.host, dial.port))
        if listener is None or end.outgoing.link.is_refusing:
            end.incoming.push_end(EndReason.REFUSED if listener is None else EndReason.RESET_ON_THE_WAY)
            return
        server = StreamEnd(self, listener.owner, dial.source, end.incoming, end.outgoing)
        server.other, end.other = end, server
        self._ends[server] = None
        server.is_established = True
        if end.outgoing.link.timeout_ns is not None or end.incoming.link.timeout_ns is not None:
            end.outgoing.watch_silence()
            end.incoming.watch_silence()
        listener.owner.deliver(lambda: self._accept(listener, server))
        back_ns = self.arrival_ns(end.incoming.link, 0, 0)
        end.incoming.last_arrival_ns = back_ns
        self.world.at(back_ns, lambda: end.owner.deliver(end.connected))

    def _accept(self, listener: _Listener, server: StreamEnd) -> None:
        if server.is_closed:
            return
        handler = listener.accept(server)
        if not server.is_closed:
            server.handler = handler
            handler.on_connected(server)
            server.post_delivery()

    def close_end(self, end: StreamEnd, *, is_silent: bool = False) -> None:
        """Close this end. The other end learns of it in order, unless this end is `is_silent`."""
        end.is_closed = True
        self._ends.pop(end, None)
        if end.other is not None and not end.other.is_closed and not is_silent:
            end.outgoing.push_end(EndReason.CLOSED)

    def reset_peer(self, end: StreamEnd) -> None:
        """Tell the other end that the socket of `end` no longer exists, ahead of the bytes in flight to it."""
        if end.other is None or end.other.is_closed:
            return
        pipe = end.outgoing
        pipe.drop_after(self.world.now_ns + pipe.link.latency_ns)
        pipe.last_arrival_ns = min(pipe.last_arrival_ns, self.world.now_ns)
        pipe.push_end(EndReason.RESET)

    # --- death -----------------------------------------------------------------------------------------------------

    def kill(self, owner: Owner) -> None:
        """Close the sockets of a process that died, as its kernel does."""
        self._drop_listeners(owner)
        for end in [end for end in self._ends if end.owner is owner]:
            drawn = self.world.stream(f"reset/{end.outgoing.link.name}").random()
            is_reset = end.has_unread or drawn < 0.3
            self.close_end(end, is_silent=is_reset)
            if is_reset:
                self.reset_peer(end)

    def power_off(self, host: str) -> None:
        """Cut the host's power. Peers that dial it or send to it get no answer."""
        state = self._host(host)
        state.off_since_ns = self.world.now_ns
        for end in [end for end in self._ends if end.owner.host == host]:
            end.is_ghost = True
            self.close_end(end, is_silent=True)
            state.ghosts.append(end)
        for listener in [listener for listener in self._listeners.values() if listener.owner.host == host]:
            listener.close()

    def power_on(self, host: str) -> None:
        """Restore the host's power. It does not know its old connections: peers that still use them get a reset."""
        state = self._host(host)
        outage_ns = self.world.now_ns - (state.off_since_ns or self.world.now_ns)
        state.off_since_ns = None
        state.boots += 1
        for end in state.ghosts:
            end.is_ghost = False
            end.incoming.heal(outage_ns)
        state.ghosts = []

    def boot_of(self, host: str) -> str:
        """The name of the host's current boot; empty without power."""
        state = self._host(host)
        return f"boot {state.boots} of {host}" if state.off_since_ns is None else ""

    def _drop_listeners(self, owner: Owner) -> None:
        for listener in [listener for listener in self._listeners.values() if listener.owner is owner]:
            listener.close()

    def _host(self, name: str) -> _Host:
        return self._hosts.setdefault(name, _Host())
