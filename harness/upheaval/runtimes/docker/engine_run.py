"""What one run has in the engine beside its nodes: its names, labels and networks, and who removes all of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from upheaval.runtimes.docker.containers import ALL, create_network, network_name
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.reaper import Cleaning


@dataclass(slots=True)
class EngineRun:
    """`is_apart`: from the next start on, each member has a network of its own and publishes nothing, because proxies
    lead to it.
    """

    client: Client
    run_id: str
    members: int
    labels: Mapping[str, str]
    cleaning: Cleaning
    is_apart: bool = False

    def container_name(self, name: str, component: str = ALL) -> str:
        """Of a node's component; without one, also of its volume."""
        suffix = "" if component == ALL else f"-{component}"
        return f"{network_name(self.run_id)}-{name}{suffix}"

    def member_network(self, member_id: int) -> str:
        """The network that a member is in."""
        name = network_name(self.run_id)
        return f"{name}-{member_id}" if self.is_apart else name

    def make_networks(self) -> None:
        """Those that are not there yet."""
        self.cleaning.begin()
        wanted = dict.fromkeys(map(self.member_network, range(self.members)))
        with engine_errors("looking for the network"):
            known = {network.name for network in self.client.networks.list(names=list(wanted))}
        for name in wanted:
            if name not in known:
                create_network(self.client, name, self.labels)
