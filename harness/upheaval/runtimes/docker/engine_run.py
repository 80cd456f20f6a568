"""The resources of one run in the engine, apart from its nodes: names, labels and networks, and who removes them."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.containers import ALL, create_network, network_name
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.reaper import Cleaning

_THIS_MACHINE: Final = 1
"""The offset of the gateway's address in a network; the gateway is this machine."""
_FIRST_MEMBER: Final = 4
"""The offset of the first member's address. The engine gives the lowest addresses to containers without a fixed one."""


@dataclass(slots=True)
class EngineRun:
    """The names, labels and networks of one run. `is_apart`: from the next start on, each member has a network of its
    own and publishes no port, because proxies lead to it.
    """

    client: Client
    run_id: str
    members: int
    labels: Mapping[str, str]
    cleaning: Cleaning
    is_apart: bool = False

    def container_name(self, name: str, component: str = ALL) -> str:
        """The name of a component's container; without a component, also of the node's volume."""
        suffix = "" if component == ALL else f"-{component}"
        return f"{network_name(self.run_id)}-{name}{suffix}"

    def member_network(self, member_id: int) -> str:
        """The name of the member's network."""
        name = network_name(self.run_id)
        return f"{name}-{member_id}" if self.is_apart else name

    def addresses(self) -> Sequence[str]:
        """The address of this machine in the members' network, then one address per member.

        Raises `EnvironmentFault` if the network does not exist.
        """
        name = network_name(self.run_id)
        with engine_errors("looking into the network"):
            known = self.client.networks.list(names=[name])
            network = next((network for network in known if network.name == name), None)
        if network is None:
            raise EnvironmentFault(f"network {name} is gone: take the cluster down and start it again")
        subnet = ipaddress.IPv4Network(network.attrs["IPAM"]["Config"][0]["Subnet"])
        return [
            str(subnet[_THIS_MACHINE]),
            *(str(subnet[_FIRST_MEMBER + member_id]) for member_id in range(self.members)),
        ]

    def make_networks(self) -> None:
        """Create the networks that do not exist yet."""
        self.cleaning.begin()
        wanted = dict.fromkeys(map(self.member_network, range(self.members)))
        with engine_errors("looking for the network"):
            known = {network.name for network in self.client.networks.list(names=list(wanted))}
        for name in wanted:
            if name not in known:
                create_network(self.client, name, self.labels)
