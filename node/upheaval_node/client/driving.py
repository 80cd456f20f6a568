"""The common base of the client drivers: their session, and the errors of a failed request.

A driver owns a loop and waits in its own way. This module knows nothing of either: it creates sessions on a given
network, and the driver runs them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Final, TypedDict, Unpack

from upheaval_node.client import operations
from upheaval_node.client.ingress import parse_ingress_endpoints
from upheaval_node.client.operations import Response, Status
from upheaval_node.client.session import ClusterClient
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.errors import NodeError, PeerError, TimeoutExpired, UsageError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import NamingResolver, Resolver, StaticResolver
from upheaval_node.ports import Buffer, Network
from upheaval_node.settings import MediaSettings
from upheaval_node.tls_files import MEMBER, TlsFiles, member_name
from upheaval_node.types import MS, NEVER_NS, Now, S

RETRY_INTERVAL_NS: Final = MS
"""The pause in nanoseconds before a refused offer is repeated. Nothing signals that the transport takes more."""

CLOSE_TIMEOUT_NS: Final = 200 * MS
POLL_LIMIT: Final = 100


class NotSent(NodeError):
    """The request did not leave the client and has no effect, now or later."""


class OutcomeUnknown(TimeoutExpired):
    """The request was sent and no answer came: it may have taken effect, may still do so, or never will."""


class OperationFailed(NodeError):
    """The service refused the operation, which had no effect."""


class ClientOptions(TypedDict, total=False):
    """The options of a client besides endpoints and time-out.

    Without an `egress_channel` the cluster answers on the connections that the client dials. `resolver` maps an
    endpoint to the address to dial. With `tls` everything goes over TLS, and only members may answer.
    `credentials_file` is a file or `env:NAME` with `principal:secret`, instead of `credentials`. `new_leader_timeout`
    (seconds) is twice the cluster's leader heartbeat time-out by default.
    """

    egress_channel: str | None
    credentials: CredentialsSupplier | None
    client_name: str
    resolver: Resolver | None
    tls: TlsFiles | None
    credentials_file: str
    media_settings: MediaSettings | None
    new_leader_timeout: float | None


class ClientDriver(ABC):
    """Connects to the cluster at `endpoints` (`{0: "host:port"}` or `"0=host:port,..."`).

    `timeout` (seconds) bounds connecting and each call. Implements `ports.Agent` for the session.
    """

    def __init__(
        self,
        endpoints: Mapping[int, str] | str,
        timeout: float,
        random: Random,
        **options: Unpack[ClientOptions],
    ) -> None:
        if timeout <= 0:
            raise UsageError(f"time-out of {timeout} s")
        self._endpoints = parse_ingress_endpoints(endpoints) if isinstance(endpoints, str) else dict(endpoints)
        self._timeout_ns = round(timeout * S)
        self._options = options
        self._credentials: CredentialsSupplier | None = None
        # The cause of the last TLS refusal, by us or by the other end; empty without one.
        self._tls_trouble = ""
        self._random = random
        self._client: ClusterClient | None = None
        self._is_closed = False
        # The ids of this client must only differ from those of the other clients of the cluster.
        self._next_operation_id = random.getrandbits(62)

    @property
    def session(self) -> ClusterClient:
        """The underlying session. Raises `UsageError` before `connect`."""
        if self._client is None:
            raise UsageError("the client is not connected: call connect() or use it in a with statement")
        return self._client

    @property
    def is_connected(self) -> bool:
        """Whether the session can send messages to the leader."""
        return self._client is not None and self._client.is_connected

    @property
    def leader_member_id(self) -> int:
        """The leader that the cluster named last. Raises `UsageError` before `connect`."""
        return self.session.leader_member_id

    @property
    def session_id(self) -> int:
        """The cluster session id. Raises `UsageError` before `connect`."""
        return self.session.session_id

    def new_operation_id(self) -> int:
        """An id for a request that no other client of the cluster is likely to use."""
        self._next_operation_id += 1
        return self._next_operation_id

    # --- the agent that a driver runs ---

    def do_work(self, now: Now) -> int:
        """Run a duty cycle of the session and handle its messages."""
        if self._client is None:
            return 0
        return self._client.do_work(now) + self._client.poll(self._on_message, POLL_LIMIT)

    def next_deadline_ns(self) -> int:
        """The next deadline of the session, `NEVER_NS` without one."""
        return NEVER_NS if self._client is None else self._client.next_deadline_ns()

    @abstractmethod
    def _on_message(self, timestamp: int, payload: Buffer) -> None:
        """Take a message of the service."""

    # --- for drivers ---

    def _make_media(self, network: Network) -> MediaDriver:
        resolver = self._options.get("resolver") or StaticResolver()
        if self._options.get("tls") is not None:
            names = {endpoint: member_name(member_id) for member_id, endpoint in self._endpoints.items()}
            resolver = NamingResolver(resolver, names, MEMBER)
        settings = self._options.get("media_settings") or MediaSettings()
        return MediaDriver(network, resolver, settings, self._random, None)

    def _begin_session(self, media: MediaDriver) -> ClusterClient:
        """Begin a session. The driver runs it until it is connected or closed."""
        options = self._options
        new_leader_timeout = options.get("new_leader_timeout")
        client = self._client = ClusterClient(
            media,
            self._endpoints,
            random=self._random,
            egress_channel=options.get("egress_channel"),
            credentials=self._credentials,
            client_name=options.get("client_name", ""),
            message_timeout_ns=self._timeout_ns,
            new_leader_timeout_ns=None if new_leader_timeout is None else round(new_leader_timeout * S),
        )
        return client

    def _on_tls_trouble(self, text: str) -> None:
        self._tls_trouble = text

    def _check_connected(self, client: ClusterClient) -> None:
        """Raise the cause if the session was not opened in time."""
        if client.error is not None and not (self._tls_trouble and isinstance(client.error, TimeoutExpired)):
            raise client.error
        if not client.is_connected:
            client.close()
            trouble = f"; TLS: {self._tls_trouble}" if self._tls_trouble else ""
            raise TimeoutExpired(f"{client.error or 'no session within the time-out'}{trouble}")

    def _refuse_to_connect_again(self) -> None:
        if self._is_closed:
            raise UsageError("the client is closed")
        if self._client is not None and not self._client.is_closed:
            raise UsageError("the client is connected already")

    def _give_up_session(self) -> None:
        """Close the session, if there is one, and keep the members that it knew."""
        if self._client is not None:
            self._endpoints = {**self._endpoints, **self._client.ingress_endpoints}
            self._client.close()


def not_sent(client: ClusterClient) -> NotSent:
    """The error of a request that was not sent and never will be."""
    if client.is_closed:
        return NotSent(f"the session has ended ({client.error}): nothing was sent, reconnect() opens another")
    return NotSent(f"nothing was sent within the time-out: the session is {client.state.name}")


def outcome_unknown(client: ClusterClient) -> OutcomeUnknown:
    """The error of a request that was sent and got no answer."""
    why = f"the session ended ({client.error})" if client.is_closed else "no answer within the time-out"
    return OutcomeUnknown(f"{why}: the outcome of the request is unknown")


def read_response(encoded: bytes) -> Response:
    """Decode the answer of a shipped service. Raises `OutcomeUnknown` when it cannot be decoded."""
    try:
        return operations.decode_response(encoded)
    except PeerError as error:
        raise OutcomeUnknown(f"the answer cannot be read ({error}): the outcome is unknown") from error


def check_response(response: Response) -> None:
    """Raise `OperationFailed` when the service refused the operation."""
    if response.status is Status.ERROR:
        raise OperationFailed(response.error)
