"""How clients reach a cluster: a system's sessions and waiting clients. Knows no load."""

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
    """How clients on this machine reach the members. `resolver` gives the address to dial for an ingress endpoint."""

    run_id: str
    folder: Path
    """The run folder."""
    endpoints: Mapping[int, str]
    resolver: Resolver
    host: str
    """The address of this machine as members reach it."""
    egress_endpoints: Sequence[str] = ()
    """Where members send answers, one endpoint per client program; empty for any port of the host."""
    client: str = ""
    """The bridge of all clients, `CLASSPATH:Class` with absolute paths; empty for the system's own clients."""
    bridge: str = ""
    """The address of a running bridge; empty to start one."""

    @property
    def dialled(self) -> Mapping[str, str]:
        """The address to dial for each endpoint, where it differs from the endpoint."""
        address_of = {endpoint: self.resolver.resolve(endpoint, 0) for endpoint in self.endpoints.values()}
        return {endpoint: address for endpoint, address in address_of.items() if address != endpoint}


@dataclass(frozen=True, slots=True)
class ClientNeeds:
    """What a session with a cluster needs."""

    way: WayIn
    network: Network
    random: Random
    credentials: CredentialsSupplier


class Clients(Protocol):
    """The clients of one load."""

    @property
    def agents(self) -> Sequence[Agent]:
        """The agents that need turns in addition to the sessions."""

    def open_session(self) -> Session:
        """A new session, which connects on its own."""

    @property
    def failure(self) -> str:
        """Why no session can go on, whatever the cluster does: a program of the clients has ended. Empty otherwise."""

    def close(self) -> None:
        """Release what the sessions used, after they have ended."""


class WaitingClient(Protocol):
    """A client whose calls wait, such as `upheaval_node.client.driver.BlockingClient`."""

    invoke_ns: int
    """The time right before the first offer of the last request."""
    on_unasked: Callable[[Buffer], None] | None
    """Takes each message of the service that answers no request."""

    @property
    def is_connected(self) -> bool:
        """Whether it has a session that takes messages."""

    @property
    def session(self) -> Session:
        """The current or last session. Raises `upheaval_node.errors.UsageError` before the first one."""

    @property
    def session_id(self) -> int:
        """The cluster session id of that session."""

    def reconnect(self) -> None:
        """Open a session, after closing the previous one. Raises `NodeError`."""

    def request(self, payload: Buffer, accepts: Callable[[Buffer], bool] | None = None) -> bytes:
        """The first message after the request was sent, or the first that `accepts` takes. Raises `NotSent` or
        `OutcomeUnknown`.
        """

    def idle(self, seconds: float) -> None:
        """Receive messages for that many seconds, with 0 those that have arrived."""

    def close(self) -> None:
        """End the session; the client cannot be used again."""


class WaitingClients(Protocol):
    """Creates clients whose calls wait."""

    def new_client(self, timeout_s: float) -> WaitingClient:
        """A client that is not connected yet. The time-out applies to connecting and to each call."""

    @property
    def failure(self) -> str:
        """As of `Clients`."""

    def close(self) -> None:
        """Release what the clients used, after they have ended."""


class NodeWaitingClients:
    """Blocking clients of this repository. Implements `WaitingClients`."""

    failure: Final = ""
    """They are in this process."""

    def __init__(self, way: WayIn, options: ClientOptions) -> None:
        self._way = way
        self._options = options

    def new_client(self, timeout_s: float) -> BlockingClient:
        """A client with its own loop."""
        options: ClientOptions = {**self._options, "resolver": self._way.resolver}
        return BlockingClient(self._way.endpoints, timeout_s, **options)

    def close(self) -> None:
        """Does nothing: each client has released its resources."""


class NodeClients:
    """Sessions of the client of this repository, on one media driver. Implements `Clients`."""

    failure: Final = ""
    """They are in this process."""

    def __init__(self, needs: ClientNeeds) -> None:
        self._needs = needs
        settings = MediaSettings(redial_interval_ns=20 * MS)
        self._media = MediaDriver(needs.network, needs.way.resolver, settings, needs.random, None)

    @property
    def agents(self) -> Sequence[Agent]:
        """The media driver."""
        return (self._media,)

    def open_session(self) -> Session:
        """A session that follows the leader."""
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
