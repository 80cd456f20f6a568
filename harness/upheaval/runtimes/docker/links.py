"""Proxied links of a cluster of containers: each end has its own Toxiproxy, through which it dials all members.

Each member shares a network with the Toxiproxies only, so every connection to it goes through one of them. Clients
connect to the clients' Toxiproxy, whose ports are published instead of the members' ports.

With one Toxiproxy per end, the kernel of a receiver knows the source of a connection by its address. The kernel counts
the bytes of live connections, whereas a Toxiproxy counts a connection only when it has ended.
"""

import contextlib
import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.containers import NO_HEALTH_CHECK, member_hosts, network_name, network_of
from upheaval.runtimes.docker.engine import engine_errors, engine_host, require_image
from upheaval.runtimes.ports import HOST, member_ports
from upheaval.system import port_in_container
from upheaval.waits import wait_until
from upheaval_chaos import connections
from upheaval_chaos.connections import Received
from upheaval_chaos.target import CHANNELS, CLIENTS, INGRESS, Answer, Link, Ping
from upheaval_chaos.toxic_links import ProxyPlace, Stream, ToxicInjector, all_proxies, streams_of
from upheaval_chaos.toxics import UPSTREAM
from upheaval_chaos.toxiproxy import PythonToxiproxy
from upheaval_node import __version__

IMAGE: Final = f"upheaval/toxiproxy:{__version__}"
API_PORT: Final = 8474
_FIRST_PORT: Final = 20000
_PORTS_A_MEMBER: Final = 10
_COUNTED_S: Final = 1.5
_START_TIMEOUT_S: Final = 120.0
_INSIDE: Final = Path(connections.__file__).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Toxiproxy:
    """A running Toxiproxy: its API, and its address in each member's network."""

    api: PythonToxiproxy
    addresses: Mapping[int, str]


class DockerLinks(ToxicInjector):
    """Implements `live.Links`. Its containers are removed with the run."""

    def __init__(self, cluster: DockerCluster) -> None:
        require_image(cluster.client, IMAGE)
        self._cluster = cluster
        self._members = range(cluster.config.members)
        self._seen: dict[int, dict[str, int]] = {}
        self._delivered: Counter[Stream] = Counter()
        cluster.engine_run.is_apart = True
        try:
            cluster.engine_run.make_networks()
            with ThreadPoolExecutor(len(self._members) + 1) as pool:
                ends = [*self._members, CLIENTS]
                self._toxiproxies = dict(zip(ends, pool.map(self._start, ends), strict=True))
        except BaseException:
            labels.remove_run(cluster.client, cluster.config.run_id)
            raise
        super().__init__(lambda place: self._toxiproxies[place.source].api)
        for member_id in self._members:
            cluster.dial_through(member_id, self._names(member_id))

    def close(self) -> None:
        """Does nothing: the containers are removed with the run."""

    # --- observer ---

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """The bytes that the receiver's kernel counted, on live and ended connections."""
        self._look(link.target)
        return {str(stream): self._delivered[stream] for stream in streams_of(link)}

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Pings from the source's network through its Toxiproxy. If no member received the ping, it counts as
        refused.
        """
        if link.target == CLIENTS:
            raise UsageError(f"no connection uses {link}")
        channel, text = self._cluster.system.ping(link.channels, extra_length)
        place = ProxyPlace(link.source, link.target, channel)
        texts = [text.padding.hex(), text.repeats, text.hello.hex(), text.farewell.hex()]
        arguments = [_alias(link.source), _port(place), *texts, timeout_s]
        prober = self._any_running() if link.source == CLIENTS else link.source
        sent_before = self._sent(place)
        answer, took_ns = self._inside(prober, ["ping", *map(str, arguments)])
        if answer == Answer.ENDED and not self._has_sent_more(place, sent_before):
            answer = Answer.REFUSED
        if answer == Answer.ANSWERED:
            # The connection has ended, so no kernel counts its bytes any more: the question upstream, the answer
            # downstream.
            self._delivered[Stream(place, UPSTREAM)] += len(text.hello)
            back = next(stream for stream in streams_of(Link(link.target, link.source)) if stream.proxy == place)
            self._delivered[back] += len(text.hello)
        return Ping(Answer(answer), took_ns)

    def _sent(self, place: ProxyPlace) -> int:
        counts: Mapping[tuple[str, str], int] = self._toxiproxies[place.source].api.sent_bytes()
        return counts.get((place.name, UPSTREAM), 0)

    def _has_sent_more(self, place: ProxyPlace, before: int) -> bool:
        """Whether a request on an ended connection reached the target: a Toxiproxy counts its bytes a moment later."""
        with contextlib.suppress(UnknownOutcome):
            wait_until(lambda: self._sent(place) > before, timeout_s=_COUNTED_S, describe=lambda: "nothing came out")
            return True
        return False

    def _look(self, receiver: int) -> None:
        """Add the bytes received since the last look to the streams that end at the receiver."""
        if receiver == CLIENTS:
            heard = connections.received()
        else:
            heard = [Received(*fields) for fields in self._inside(receiver, ["received"])]
        before = self._seen.get(receiver, {})
        self._seen[receiver] = {arrival.cookie: arrival.length for arrival in heard}
        streams = self._streams_into(receiver)
        for arrival in heard:
            for key in ((arrival.port, arrival.peer, 0), (0, arrival.peer, arrival.peer_port)):
                if key in streams:
                    self._delivered[streams[key]] += arrival.length - before.get(arrival.cookie, 0)

    def _streams_into(self, receiver: int) -> dict[tuple[int, str, int], Stream]:
        """The streams into a receiver: by own port and peer for accepted connections, by peer and its port for dialled
        ones.
        """
        streams = {}
        client = self._cluster.client
        for place in all_proxies(len(self._members)):
            if place.target == receiver:
                port = port_in_container(self._cluster.system, place.channel)
                streams[port, self._toxiproxies[place.source].addresses[receiver], 0] = Stream(place, UPSTREAM)
            elif place.source == receiver:
                (back,) = (s for s in streams_of(Link(place.target, place.source)) if s.proxy == place)
                if receiver == CLIENTS:
                    port = member_ports(self._cluster.config.base_port, place.target)[0]
                    streams[0, socket.gethostbyname(engine_host(client)), port] = back
                else:
                    streams[0, self._toxiproxies[receiver].addresses[receiver], _port(place)] = back
        return streams

    def _inside(self, member_id: int, arguments: Sequence[str]) -> Any:
        """The answer of the script in a member's network. Raises `UnknownOutcome` when the script fails."""
        status, text = self._cluster.member(member_id).node.run_inside(["python3", "-c", _INSIDE, *arguments])
        if status:
            last_line = text.rpartition("\n")[2]
            raise UnknownOutcome(f"nothing can be seen from member {member_id}: {last_line}")
        return json.loads(text)

    def _any_running(self) -> int:
        for member in self._cluster.members:
            container = member.node.container()
            if container is not None and container.status == "running":
                return member.member_id
        raise UnknownOutcome("no member runs: nothing can be tried")

    # --- set-up ---

    def _start(self, end: int) -> _Toxiproxy:
        """Start a Toxiproxy in all networks, with the proxies of one end."""
        from testcontainers.core.container import DockerContainer

        cluster = self._cluster
        client = cluster.client
        networks = [cluster.engine_run.member_network(member_id) for member_id in self._members]
        bind = HOST if engine_host(client) == HOST else "0.0.0.0"
        with engine_errors("starting Toxiproxy"):
            container = (
                DockerContainer(IMAGE)
                .with_name(f"{network_name(cluster.config.run_id)}-{_alias(end)}")
                .with_kwargs(
                    **network_of(networks[0], _alias(end)),
                    labels=dict(cluster.engine_run.labels),
                    read_only=True,
                    cap_drop=["ALL"],
                    healthcheck=NO_HEALTH_CHECK,
                    init=True,
                )
            )
            container.ports = {f"{API_PORT}/tcp": (bind, None)}
            if end == CLIENTS:
                for member_id in self._members:
                    published = member_ports(cluster.config.base_port, member_id)[0]
                    container.ports[f"{_port(ProxyPlace(CLIENTS, member_id, INGRESS))}/tcp"] = (bind, published)
            try:
                container.start()
                wrapped = client.containers.get(container.get_wrapped_container().id)
            finally:
                container.get_docker_client().client.close()
            for name in networks[1:]:
                client.networks.get(name).connect(wrapped, aliases=[_alias(end)])
            wrapped.reload()
        settings = wrapped.attrs["NetworkSettings"]
        api = PythonToxiproxy(f"{engine_host(client)}:{settings['Ports'][f'{API_PORT}/tcp'][0]['HostPort']}")
        self._populate(api, end)
        addresses = {m: settings["Networks"][cluster.engine_run.member_network(m)]["IPAddress"] for m in self._members}
        return _Toxiproxy(api, addresses)

    def _populate(self, api: PythonToxiproxy, end: int) -> None:
        def answers() -> bool:
            try:
                return bool(api.version())
            except EnvironmentFault:
                return False

        wait_until(answers, timeout_s=_START_TIMEOUT_S, describe=lambda: f"{_alias(end)} does not start")
        places = [place for place in all_proxies(len(self._members)) if place.source == end]
        api.populate({place.name: (f"0.0.0.0:{_port(place)}", self._endpoint(place)) for place in places})

    def _names(self, source: int) -> dict[str, str]:
        """The addresses that a member dials for the endpoints of the others."""
        places = [place for place in all_proxies(len(self._members)) if place.source == source]
        return {self._endpoint(place): f"{_alias(source)}:{_port(place)}" for place in places}

    def _endpoint(self, place: ProxyPlace) -> str:
        host = member_hosts(len(self._members))[place.target]
        return f"{host}:{port_in_container(self._cluster.system, place.channel)}"


def _alias(end: int) -> str:
    return "toxiproxy-clients" if end == CLIENTS else f"toxiproxy-{end}"


def _port(place: ProxyPlace) -> int:
    """The port of a proxy in the Toxiproxy of its source."""
    return _FIRST_PORT + place.target * _PORTS_A_MEMBER + (INGRESS, *CHANNELS).index(place.channel)
