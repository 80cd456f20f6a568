"""How a load reaches a cluster: what a system makes its sessions of. Knows no load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

from upheaval.workload import Session
from upheaval_node.client.session import ClusterClient
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import Resolver
from upheaval_node.ports import Agent, Network
from upheaval_node.settings import MediaSettings
from upheaval_node.types import MS, S

CONNECT_TIMEOUT_NS: Final = 5 * S
NEW_LEADER_TIMEOUT_NS: Final = 10 * S


@dataclass(frozen=True, slots=True)
class ClientNeeds:
    """What sessions with a cluster are made with. `resolver` is how clients dial the ingress endpoints, by member;
    `egress_endpoints` are those where answers reach them that they are dialled for, anywhere when there are none.
    """

    run_id: str
    folder: Path
    """The run folder."""
    network: Network
    endpoints: Mapping[int, str]
    resolver: Resolver
    random: Random
    credentials: CredentialsSupplier
    egress_endpoints: Sequence[str] = ()


class Clients(Protocol):
    """The clients of one load."""

    @property
    def agents(self) -> Sequence[Agent]:
        """What needs turns besides the sessions."""

    def open_session(self) -> Session:
        """A new session, which connects by itself."""

    def close(self) -> None:
        """End what the sessions used, after them."""


class NodeClients:
    """Sessions of the client of this repository, on one media driver. Implements `Clients`."""

    def __init__(self, needs: ClientNeeds) -> None:
        self._needs = needs
        settings = MediaSettings(redial_interval_ns=20 * MS)
        self._media = MediaDriver(needs.network, needs.resolver, settings, needs.random, None)

    @property
    def agents(self) -> Sequence[Agent]:
        """The media driver."""
        return (self._media,)

    def open_session(self) -> Session:
        """Follows the leader."""
        return ClusterClient(
            self._media,
            self._needs.endpoints,
            random=self._needs.random,
            message_timeout_ns=CONNECT_TIMEOUT_NS,
            new_leader_timeout_ns=NEW_LEADER_TIMEOUT_NS,
            client_name="upheaval load",
            credentials=self._needs.credentials,
        )

    def close(self) -> None:
        """Close all streams."""
        self._media.close()
