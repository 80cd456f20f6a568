"""Link faults for members that use datagrams in containers, made where the kernel hands the datagrams over.

The helper of each member runs an agent. The agent has a proxy for each endpoint of the member and for each place where
the member dials clients. Members keep their addresses and their configuration. The injector sets toxics over
Toxiproxy's API; links are observed by counting filters, and by datagrams. On request, agents also keep the traffic
between consensus modules.
"""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.helpers import Helpers
from upheaval.system import require_meaning
from upheaval.waits import wait_until
from upheaval_chaos import datagrams, queue_agent
from upheaval_chaos.target import CLIENTS, DatagramEffect, Datagrams, Link, LinkEffect, Ping
from upheaval_chaos.toxic_links import DATAGRAM_LEGS, EGRESS, ProxyPlace, ToxicInjector, all_proxies, streams_of
from upheaval_chaos.toxics import UPSTREAM
from upheaval_chaos.toxiproxy import StandardToxiproxy

_API_PORT: Final = 8474
_START_TIMEOUT_S: Final = 120.0


class QueueAgents:
    """One agent in the network of each member, with the proxies of the given places. They are removed with the run."""

    def __init__(
        self, cluster: DockerCluster, seed: int, places: Collection[ProxyPlace], ends: Sequence[int] = ()
    ) -> None:
        """Start the agents. The traffic between `ends` is also counted. Raises `EnvironmentFault`."""
        members = range(cluster.config.members)
        agent = ["python3", "-m", queue_agent.__name__, "0.0.0.0", str(_API_PORT), str(seed)]
        self.helpers = Helpers(cluster, ends, agent)
        self.apis = [StandardToxiproxy(f"{self.helpers.address(member_id)}:{_API_PORT}") for member_id in members]
        self._places = places
        try:
            with ThreadPoolExecutor(len(members)) as pool:
                list(pool.map(self._make_proxies, members))
        except BaseException:
            labels.remove_run(cluster.client, cluster.config.run_id)
            raise

    def api_of(self, place: ProxyPlace) -> StandardToxiproxy:
        """The API of the agent that has the proxy."""
        return self.apis[_here(place)]

    def _make_proxies(self, member_id: int) -> None:
        agent = self.apis[member_id]
        wait_until(
            lambda: _answers(agent),
            timeout_s=_START_TIMEOUT_S,
            describe=lambda: f"the agent in the network of member {member_id} does not start",
        )
        for place in self._places:
            if _here(place) == member_id:
                source = f"{self.helpers.address(place.source)}:0"
                try:
                    agent.create(place.name, self.helpers.endpoint(place), source, protocol="udp")
                except EnvironmentFault as fault:
                    raise EnvironmentFault(f"datagrams cannot be queued here, try by=packets: {fault}") from fault


class QueueLinks(ToxicInjector):
    """Implements `live.Links` and `Datagrams`."""

    def __init__(self, cluster: DockerCluster, seed: int) -> None:
        self._system = cluster.system
        members = cluster.config.members
        self.agents = QueueAgents(cluster, seed, [*all_proxies(members, DATAGRAM_LEGS)], [*range(members), CLIENTS])
        self._helpers = self.agents.helpers
        super().__init__(self.agents.api_of, DATAGRAM_LEGS)
        cluster.egress_endpoints = [self._helpers.endpoint(ProxyPlace(0, CLIENTS, leg)) for leg in EGRESS]

    def close(self) -> None:
        """Does nothing: the agents are removed with the run."""

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Raises `UsageError` for faults that end connections."""
        require_meaning(self._system, effect.kind)
        super().impose(links, effect)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """See `Helpers`."""
        return self._helpers.delivered_by_stream(link)

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """See `Helpers`."""
        return self._helpers.ping(link, timeout_s, extra_length)

    @property
    def datagrams(self) -> Datagrams:
        """These links."""
        return self

    def volley(self, link: Link, count: int, effect: DatagramEffect) -> Mapping[str, Sequence[int]]:
        """Sends datagrams to every place that the source dials along the link, concurrently."""
        places = [stream.proxy for stream in streams_of(link, DATAGRAM_LEGS) if stream.direction == UPSTREAM]
        arguments = datagrams.volley_of(count, effect)

        def came(place: ProxyPlace) -> Sequence[int]:
            address = self._helpers.endpoint(place)
            if place.source == CLIENTS:
                return datagrams.volley(address, *arguments)
            lengths: list[int] = self._helpers.ask(place.source, datagrams.__name__, "volley", address, *arguments)
            return lengths

        with ThreadPoolExecutor(len(places)) as pool:
            return dict(zip((place.name for place in places), pool.map(came, places), strict=True))


def _here(place: ProxyPlace) -> int:
    """The member whose network has the proxy."""
    return place.source if place.target == CLIENTS else place.target


def _answers(agent: StandardToxiproxy) -> bool:
    try:
        return bool(agent.version())
    except EnvironmentFault:
        return False
