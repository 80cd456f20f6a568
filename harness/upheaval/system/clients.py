"""How clients reach a cluster: what a system makes its sessions and its waiting clients of. Knows no load."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

from upheaval.workload import Session
from upheaval_node.client.driver import BlockingClient
from upheaval_node.client.driving import ClientOptions
from upheaval_node.client.session import ClusterClient
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import Resolver
from upheaval_node.ports import Agent, Buffer, Network
from upheaval_node.settings import MediaSettings
from upheaval_node.types import MS, S

CONNECT_TIMEOUT_NS: Final = 5 * S
NEW_LEADER_TIMEOUT_NS: Final = 10 * S


@dataclass(frozen=True, slots=True)
class WayIn:
    """How clients on this machine reach the members: `resolver` says what to dial for an ingress endpoint."""

    run_id: str
    folder: Path
    """The run folder."""
    endpoints: Mapping[int, str]
    resolver: Resolver
    host: str
    """This machine, as the members reach it."""
    egress_endpoints: Sequence[str] = ()
    """Where answers reach each program of clients, as the members know it; without any, at any port of the host."""
    client: str = ""
    """The bridge of all clients, `CLASSPATH:Class` with absolute paths; empty for the system's own clients."""
    bridge: str = ""
    """Where one listens already; empty to start one."""

    @property
    def dialled(self) -> Mapping[str, str]:
        """What is dialled for the endpoints that are not dialled themselves."""
        address_of = {endpoint: self.resolver.resolve(endpoint, 0) for endpoint in self.endpoints.values()}
        return {endpoint: address for endpoint, address in address_of.items() if address != endpoint}


@dataclass(frozen=True, slots=True)
class ClientNeeds:
    """What sessions with a cluster are made with."""

    way: WayIn
    network: Network
    random: Random
    credentials: CredentialsSupplier


class Clients(Protocol):
    """The clients of one load."""

    @property
    def agents(self) -> Sequence[Agent]:
        """What needs turns besides the sessions."""

    def open_session(self) -> Session:
        """A new session, which connects by itself."""

    def close(self) -> None:
        """End what the sessions used, after them."""


class WaitingClient(Protocol):
    """A client whose calls wait, as `upheaval_node.client.driver.BlockingClient` is one."""

    invoke_ns: int
    """Right before the first offer of the last request."""
    on_unasked: Callable[[Buffer], None] | None
    """Takes each message of the service that no request waits for."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a session that takes messages."""

    @property
    def session(self) -> Session:
        """The one that is open, or was last. Raises `UsageError` before the first."""

    @property
    def session_id(self) -> int:
        """Of that session."""

    def reconnect(self) -> None:
        """Open a session, after closing the one before. Raises `NodeError`."""

    def request(self, payload: Buffer, accepts: Callable[[Buffer], bool] | None = None) -> bytes:
        """The first answer, or the first that `accepts` takes. Raises `NotSent` or `OutcomeUnknown`."""

    def idle(self, seconds: float) -> None:
        """Take what has come, for so long."""

    def close(self) -> None:
        """End the session; the client cannot be used again."""


class WaitingClients(Protocol):
    """What makes clients whose calls wait."""

    def new_client(self, timeout_s: float) -> WaitingClient:
        """Not connected yet; the time bounds connecting and each call."""

    def close(self) -> None:
        """End what the clients used, after them."""


class NodeWaitingClients:
    """Blocking clients of this repository. Implements `WaitingClients`."""

    def __init__(self, way: WayIn, options: ClientOptions) -> None:
        self._way = way
        self._options = options

    def new_client(self, timeout_s: float) -> BlockingClient:
        """With a loop of its own."""
        options: ClientOptions = {**self._options, "resolver": self._way.resolver}
        return BlockingClient(self._way.endpoints, timeout_s, **options)

    def close(self) -> None:
        """Each client has ended what it used."""


class NodeClients:
    """Sessions of the client of this repository, on one media driver. Implements `Clients`."""

    def __init__(self, needs: ClientNeeds) -> None:
        self._needs = needs
        settings = MediaSettings(redial_interval_ns=20 * MS)
        self._media = MediaDriver(needs.network, needs.way.resolver, settings, needs.random, None)

    @property
    def agents(self) -> Sequence[Agent]:
        """The media driver."""
        return (self._media,)

    def open_session(self) -> Session:
        """Follows the leader."""
        return ClusterClient(
            self._media,
            self._needs.way.endpoints,
            random=self._needs.random,
            message_timeout_ns=CONNECT_TIMEOUT_NS,
            new_leader_timeout_ns=NEW_LEADER_TIMEOUT_NS,
            client_name="upheaval load",
            credentials=self._needs.credentials,
        )

    def close(self) -> None:
        """Close all streams."""
        self._media.close()
