"""Proxied links of a cluster of processes: the proxies run in this process, on loopback.

Member A dials B only through the proxies from A to B, because A's configuration names them for B's endpoints. Clients
dial members through their own proxies. Where members use datagrams, the proxies carry datagrams, and members dial
clients, too. The injector sets toxics over Toxiproxy's API. The observer reads how many bytes the proxies wrote, and
makes its own connections or sends datagrams. The messages that pass the proxies of the consensus stream are recorded,
also with agents in the networks of containers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Final

from upheaval.errors import UsageError
from upheaval.execution.agents_watch import AgentsWatch
from upheaval.execution.consensus_watch import ConsensusWatch
from upheaval.runtime_names import DOCKER
from upheaval.runtimes.live import AnyCluster, Links
from upheaval.runtimes.ports import HOST, egress_ports, member_ports, metrics_port
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import SystemUnderTest, require_meaning
from upheaval_chaos import connections, datagrams
from upheaval_chaos.datagram_faults import DatagramFault
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.pings import PingText
from upheaval_chaos.proxy_server import ProxyServer, unwatched
from upheaval_chaos.target import (
    Answer,
    DatagramEffect,
    Datagrams,
    Link,
    LinkEffect,
    Means,
    Ping,
)
from upheaval_chaos.toxic_links import (
    CONSENSUS,
    DATAGRAM_LEGS,
    EGRESS,
    REPLICATION,
    STREAM_LEGS,
    ProxyPlace,
    ToxicInjector,
    all_proxies,
    streams_of,
)
from upheaval_chaos.toxics import UPSTREAM
from upheaval_chaos.toxiproxy import connect_toxiproxy

if TYPE_CHECKING:
    from upheaval.runtimes.docker.cluster import DockerCluster
    from upheaval.runtimes.docker.queue_links import QueueAgents

_TCP: Final = "tcp"
_UDP: Final = "udp"


def open_links(cluster: AnyCluster, seed: int, means: Means = Means.PROXY) -> None:
    """Give a cluster its link injector: proxies in all links, as its runtime has them, or packet filters.

    Call it before the members start. The cluster closes the links.
    """
    cluster.use_links(_links_of(cluster, seed, means))


def watch_consensus(cluster: AnyCluster, seed: int) -> None:
    """Put proxies into the consensus links only, to observe messages that members do not trace. They break no links.

    Call it before the members start. The cluster closes them. Containers get them if the agents' image is present.
    """
    members = range(cluster.config.members)
    places = [ProxyPlace(source, target, CONSENSUS) for source, target in permutations(members, 2)]
    if cluster.system.has_streams or not places:
        return
    if isinstance(cluster, ProcessCluster):
        cluster.hold(Forwarders(cluster, seed, places))
        return
    from upheaval.runtimes.docker.cluster import DockerCluster
    from upheaval.runtimes.docker.engine import inspect
    from upheaval.runtimes.docker.helpers import IMAGE
    from upheaval.runtimes.docker.queue_links import QueueAgents

    if isinstance(cluster, DockerCluster) and inspect(cluster.client, IMAGE) is not None:
        _watch_agents(cluster, QueueAgents(cluster, seed, places))


def _watch_agents(cluster: "DockerCluster", agents: "QueueAgents") -> None:
    places = all_proxies(cluster.config.members, DATAGRAM_LEGS)
    cluster.hold(AgentsWatch(cluster.run.consensus_file, places, agents.apis))


def _links_of(cluster: AnyCluster, seed: int, means: Means) -> Links:
    if isinstance(cluster, ProcessCluster) and means is Means.PACKETS:
        raise UsageError("processes on one machine have no packets of their own to filter: leave out by=packets")
    if isinstance(cluster, ProcessCluster):
        return ProxiedLinks(cluster, seed) if cluster.system.has_streams else DatagramLinks(cluster, seed)
    from upheaval.runtimes.docker.cluster import DockerCluster
    from upheaval.runtimes.docker.links import DockerLinks
    from upheaval.runtimes.docker.packet_links import PacketLinks
    from upheaval.runtimes.docker.queue_links import QueueLinks

    if not isinstance(cluster, DockerCluster):
        raise UsageError(f"the links of a cluster of the {cluster.runtime} runtime cannot be proxied")
    if means is Means.PACKETS:
        return PacketLinks(cluster)
    if cluster.system.has_streams:
        return DockerLinks(cluster)
    links = QueueLinks(cluster, seed)
    _watch_agents(cluster, links.agents)
    return links


def require_link_faults(system: SystemUnderTest, faults: Iterable[LinkFault | DatagramFault]) -> None:
    """Raises `UsageError` for a fault that does not apply to the protocol of the system's members."""
    for fault in faults:
        require_meaning(system, fault.kind)


def require_link_images(runtime: str, means: Means, system: SystemUnderTest) -> None:
    """Raises `EnvironmentFault` when the link injector needs an image that is missing. Creates nothing."""
    if runtime != DOCKER:
        return
    from upheaval.runtimes.docker import helpers, links
    from upheaval.runtimes.docker.engine import connected, require_image

    with connected() as client:
        by_proxies = means is Means.PROXY and system.has_streams
        require_image(client, links.IMAGE if by_proxies else helpers.IMAGE)


class Forwarders:
    """Proxies of one kind in some places of a cluster of processes. Members dial them from their next start on."""

    def __init__(self, cluster: ProcessCluster, seed: int, places: Collection[ProxyPlace]) -> None:
        self._cluster = cluster
        protocol, watch = _TCP, None
        if not cluster.system.has_streams:
            protocol, watch = _UDP, ConsensusWatch(cluster.run.consensus_file, places)
        server = ProxyServer(seed, unwatched if watch is None else watch.watch_of)
        with ExitStack() as stack:
            if watch is not None:
                stack.callback(lambda: watch.close(server.carried()))
            stack.enter_context(server)
            self.api = connect_toxiproxy(server.address)
            self.listen = {
                place: self.api.create(place.name, self._endpoint(place.target, place.channel), protocol=protocol)
                for place in places
            }
            stack.callback(cluster.dial_directly)
            for source in dict.fromkeys(place.source for place in places):
                cluster.dial_through(source, self._names(source))
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the proxies and all connections through them. At the next start, members dial the endpoints directly."""
        self._stack.close()

    def _names(self, source: int) -> dict[str, str]:
        """The addresses that one end dials for the endpoints of the others."""
        return {
            self._endpoint(place.target, place.channel): address
            for place, address in self.listen.items()
            if place.source == source
        }

    def _endpoint(self, end: int, leg: str) -> str:
        if leg in EGRESS:
            return egress_endpoints(self._cluster)[EGRESS.index(leg)]
        base_port = self._cluster.config.base_port
        if leg == REPLICATION:
            return f"{HOST}:{metrics_port(base_port, end)}"
        return f"{HOST}:{member_ports(base_port, end)[self._cluster.system.channels.index(leg)]}"


def egress_endpoints(cluster: ProcessCluster) -> list[str]:
    """The endpoints on which clients receive answers from members that dial them."""
    return [f"{HOST}:{port}" for port in egress_ports(cluster.config.base_port)]


class ProxiedLinks(ToxicInjector):
    """Implements `Links` for processes."""

    def __init__(self, cluster: ProcessCluster, seed: int, legs: Mapping[str, Sequence[str]] = STREAM_LEGS) -> None:
        self._cluster = cluster
        self._forwarders = Forwarders(cluster, seed, [*all_proxies(cluster.config.members, legs)])
        self._api = self._forwarders.api
        self._listen = self._forwarders.listen
        super().__init__(lambda _: self._api, legs)

    def close(self) -> None:
        """End the proxies."""
        self._forwarders.close()

    # --- observer ---

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """The bytes that each proxy of the link has written to the receiver."""
        sent = self._api.sent_bytes()
        streams = streams_of(link, self._legs)
        return {str(stream): sent.get((stream.proxy.name, stream.direction), 0) for stream in streams}

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Dials through the source's proxy. If no member received the ping, it counts as refused."""
        channel, text = self._cluster.system.ping(link.channels, extra_length)
        place = self._place(link, channel)
        stream = (place.name, UPSTREAM)
        before = self._api.sent_bytes().get(stream, 0)
        ping = ping_address(self._listen[place], text, timeout_s)
        if ping.answer is Answer.ENDED and self._api.sent_bytes().get(stream, 0) == before:
            # The connection ended without reaching a member.
            return replace(ping, answer=Answer.REFUSED)
        return ping

    def _place(self, link: Link, leg: str) -> ProxyPlace:
        place = ProxyPlace(link.source, link.target, leg)
        if place not in self._listen:
            raise UsageError(f"no connection uses {link}")
        return place


class DatagramLinks(ProxiedLinks):
    """Proxied links for members and clients that use datagrams. Implements `Datagrams`."""

    @property
    def datagrams(self) -> Datagrams:
        """These links."""
        return self

    def __init__(self, cluster: ProcessCluster, seed: int) -> None:
        super().__init__(cluster, seed, DATAGRAM_LEGS)
        cluster.egress_endpoints = egress_endpoints(cluster)

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Raises `UsageError` for faults that end connections."""
        require_meaning(self._cluster.system, effect.kind)
        super().impose(links, effect)

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Sends datagrams to where the source would send them."""
        system, channels = self._cluster.system, link.channels
        channel, _ = system.ping(channels)
        address = self._listen[self._place(link, channel)]
        return datagrams.ping(address, lambda: system.ping(channels, extra_length)[1], timeout_s)

    def volley(self, link: Link, count: int, effect: DatagramEffect) -> Mapping[str, Sequence[int]]:
        """Sends through every proxy that the source dials along the link, concurrently."""
        places = [stream.proxy for stream in streams_of(link, self._legs) if stream.direction == UPSTREAM]
        volley = datagrams.volley_of(count, effect)
        with ThreadPoolExecutor(len(places)) as pool:
            came = pool.map(lambda place: datagrams.volley(self._listen[place], *volley), places)
            return dict(zip((place.name for place in places), came, strict=True))


def ping_address(address: str, text: PingText, timeout_s: float) -> Ping:
    """Connect, send the text, and wait for the answer."""
    host, _, port = address.rpartition(":")
    answer, took_ns = connections.ping(host, int(port), text.opening, text.farewell, timeout_s)
    return Ping(Answer(answer), took_ns)
