"""A host of a simulation with clients of the cluster: one process, its media driver, and the draws of its clients."""

from collections.abc import Callable, Mapping
from typing import Protocol

from upheaval.runtimes.simulated.network import Fabric
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.world import World
from upheaval_node.bell import Bell
from upheaval_node.client.connect import MESSAGE_TIMEOUT_NS
from upheaval_node.client.session import ClusterClient
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.media.component import ComponentMedia
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.settings import MediaSettings
from upheaval_node.types import Now


class Clients(Protocol):
    """An agent that its media ring when there is input for it."""

    bell: Bell | None

    def do_work(self, now: Now) -> int:
        """Do what is due and return how much was done."""

    def next_deadline_ns(self) -> int:
        """The time of the next call that is due without input."""


class ClientHost:
    """The host of that name. `endpoints` are the members' present ingress endpoints."""

    def __init__(
        self,
        name: str,
        world: World,
        fabric: Fabric,
        settings: MediaSettings,
        endpoints: Callable[[], Mapping[int, str]],
        on_exit: Callable[[SimulatedProcess], None],
    ) -> None:
        self.name = name
        self.process = SimulatedProcess(world, name, name, on_exit=on_exit)
        self.random = world.stream(name)
        self.driver = MediaDriver(fabric.network(self.process), StaticResolver(), settings, self.random, name=name)
        self._media = ComponentMedia(self.driver)
        self._endpoints = endpoints

    def open_session(
        self,
        credentials: CredentialsSupplier | None = None,
        member_id: int | None = None,
        timeout_ns: int = MESSAGE_TIMEOUT_NS,
    ) -> ClusterClient:
        """A session of a client that knows all members, or that member only."""
        known = self._endpoints()
        return ClusterClient(
            self._media,
            known if member_id is None else {member_id: known[member_id]},
            random=self.random,
            client_name=self.name,
            credentials=credentials,
            message_timeout_ns=timeout_ns,
        )

    def start(self, clients: Clients) -> None:
        """Run the clients in the process of the host."""
        clients.bell = self._media.bell
        self.process.start((self.driver, clients))
