"""Helper containers of a cluster of containers: each holds the network of one member and may filter packets there.

Members have no such right. A helper starts before its member and outlives it, so its filters apply to every incarnation
of the member.

A helper also counts the traffic that reaches the member after all filters: that is what was delivered. Traffic to
clients is counted where it leaves, because the harness does not control this machine's network.
"""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.containers import network_name, place_settings
from upheaval.runtimes.docker.engine import engine_errors, require_image
from upheaval.runtimes.docker.inside import run_inside, run_silent
from upheaval.runtimes.ports import egress_ports
from upheaval.system import port_in_container
from upheaval_chaos import connections, datagrams
from upheaval_chaos.target import CLIENTS, Answer, Link, Ping
from upheaval_chaos.toxic_links import DATAGRAM_LEGS, EGRESS, REPLICATION, STREAM_LEGS, ProxyPlace, Stream, streams_of
from upheaval_chaos.toxics import UPSTREAM
from upheaval_node import __version__

IMAGE: Final = f"upheaval/netfault:{__version__}"
_COUNT: Final = "UPHEAVAL-COUNT"
# A reset that a filter sends to one end passes the filter of the other end, but is no traffic between them.
_TCP: Final = "tcp ! --tcp-flags RST RST"
_COUNTED: Final = re.compile(r"^ *\d+ +(\d+) .*/\* (.+) \*/", re.MULTILINE)


class Helpers:
    """Observes links, as `live.Links` requires. Create it before the members; it is removed with the run."""

    def __init__(self, cluster: DockerCluster, ends: Sequence[int], command: Sequence[str] = ()) -> None:
        """Observe the links between `ends`. `command` runs in each helper; by default none does."""
        require_image(cluster.client, IMAGE)
        self._cluster = cluster
        self._command = command
        self._ends = ends
        has_streams = cluster.system.has_streams
        self.legs = STREAM_LEGS if has_streams else DATAGRAM_LEGS
        self._protocol = _TCP if has_streams else "udp"
        members = range(cluster.config.members)
        try:
            cluster.engine_run.make_networks()
            with ThreadPoolExecutor(len(members)) as pool:
                self._helpers = dict(zip(members, pool.map(self._start, members), strict=True))
                list(pool.map(self._count, members))
        except BaseException:
            labels.remove_run(cluster.client, cluster.config.run_id)
            raise
        cluster.holders.update((member_id, helper.name) for member_id, helper in self._helpers.items())

    def close(self) -> None:
        """Does nothing: the helpers are removed with the run."""

    # --- observer ---

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """The delivered bytes of each stream, including packet headers."""
        self.require_ends([link])
        listed = self._ask(_counted_at(link), ["iptables", "-w", "-n", "-v", "-x", "-L", _COUNT])
        counts = {name: int(count) for count, name in _COUNTED.findall(listed)}
        return {str(stream): counts[str(stream)] for stream in streams_of(link, self.legs)}

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Pings from the source's network. A refused connection counts as reset."""
        self.require_ends([link])
        if link.target == CLIENTS:
            raise UsageError(f"no connection uses {link}")
        system = self._cluster.system
        channel, text = system.ping(link.channels, extra_length)
        host, port = self.address(link.target), self._port(ProxyPlace(link.source, link.target, channel))
        if link.source == CLIENTS:
            return datagrams.ping(f"{host}:{port}", lambda: system.ping(link.channels, extra_length)[1], timeout_s)
        arguments: Sequence[object] = [f"{host}:{port}", channel, extra_length, timeout_s]
        module = datagrams.__name__
        if system.has_streams:
            arguments = [host, port, text.padding.hex(), text.repeats, text.hello.hex(), text.farewell.hex(), timeout_s]
            module = connections.__name__
        answer, took_ns = self.ask(link.source, module, "ping", *arguments)
        # To the dialling end, a reset of a new connection looks like a refusal.
        return Ping(Answer.RESET if answer == Answer.REFUSED else Answer(answer), took_ns)

    # --- for link faults ---

    def ask(self, member_id: int, module: str, *arguments: object) -> Any:
        """Run a Python module in the member's network. Returns the JSON that it printed."""
        return json.loads(self._ask(member_id, ["python3", "-m", module, *map(str, arguments)]))

    def require_ends(self, links: Sequence[Link]) -> None:
        """Raises `UsageError` when a link has an end that is not observed."""
        if any(end not in self._ends for link in links for end in (link.source, link.target)):
            raise UsageError("packet filters act between members only: leave out by=packets for clients")

    def address(self, end: int) -> str:
        """The address of a member, or of this machine as members see it."""
        if end == CLIENTS:
            return self._cluster.client_host
        network = self._cluster.engine_run.member_network(end)
        return str(self._helpers[end].attrs["NetworkSettings"]["Networks"][network]["IPAddress"])

    def endpoint(self, place: ProxyPlace) -> str:
        """The endpoint that the place's source dials."""
        return f"{self.address(place.target)}:{self._port(place)}"

    def match(self, stream: Stream) -> str:
        """The common part of all filter rules for the packets of a stream."""
        place, port = stream.proxy, self._port(stream.proxy)
        source, target = self.address(place.source), self.address(place.target)
        if stream.direction == UPSTREAM:
            return f"-s {source} -d {target} -p {self._protocol} --dport {port}"
        return f"-s {target} -d {source} -p {self._protocol} --sport {port}"

    def filter(self, member_id: int, rules: Sequence[str]) -> None:
        """Apply all rules in the member's network at once. Raises `EnvironmentFault` when they are refused."""
        command = ["sh", "-ec", "; ".join(f"iptables -w {rule}" for rule in rules)]
        _required(member_id, *run_silent(self._helpers[member_id], command, _doing(member_id)))

    # --- set-up ---

    def _port(self, place: ProxyPlace) -> int:
        cluster, leg = self._cluster, place.channel
        if leg == REPLICATION:
            return cluster.system.metrics_port
        if leg in EGRESS:
            return egress_ports(cluster.config.base_port)[EGRESS.index(leg)]
        return port_in_container(cluster.system, leg)

    def _start(self, member_id: int) -> Any:
        cluster = self._cluster
        with engine_errors(f"starting the helper of member {member_id}"):
            helper = cluster.client.containers.run(
                IMAGE,
                list(self._command) or None,
                name=f"{network_name(cluster.config.run_id)}-netfault-{member_id}",
                **place_settings(cluster.client, cluster.member(member_id).place, cluster.system),
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN", "NET_RAW"],
                security_opt=["no-new-privileges"],
                read_only=True,
                tmpfs={"/run": "size=1m"},
                init=True,
                labels=dict(cluster.engine_run.labels),
                detach=True,
            )
            helper.reload()
            return helper

    def _count(self, member_id: int) -> None:
        links = [Link(end, member_id) for end in self._ends if end != member_id]
        rules = [f"-N {_COUNT}", f"-A INPUT -j {_COUNT}"]
        if CLIENTS in self._ends:
            links.append(Link(member_id, CLIENTS))
            rules.append(f"-A OUTPUT -d {self.address(CLIENTS)} -j {_COUNT}")
        streams = [stream for link in links for stream in streams_of(link, self.legs)]
        rules += [f"-A {_COUNT} {self.match(stream)} -m comment --comment '{stream}'" for stream in streams]
        self.filter(member_id, rules)

    def _ask(self, member_id: int, command: Sequence[str]) -> str:
        """The output of a command in the member's network."""
        return _required(member_id, *run_inside(self._helpers[member_id], command, _doing(member_id)))


def _counted_at(link: Link) -> int:
    return link.source if link.target == CLIENTS else link.target


def _doing(member_id: int) -> str:
    return f"filtering packets of member {member_id}"


def _required(member_id: int, status: int, text: str) -> str:
    """The output of a command. Raises `EnvironmentFault` when the command failed."""
    if status:
        last_line = text.rpartition("\n")[2]
        raise EnvironmentFault(f"packets of member {member_id} cannot be filtered: {last_line}")
    return text
