"""`BlockingClient`: a cluster client for scripts, workloads and load generators, with calls that wait.

A thin shell: it owns a loop with real sockets and turns it inside its calls. It starts no thread of its own and holds
no lock, so that under gevent's monkey patching (locust) each greenlet can have a client. Use a client from one thread
or greenlet at a time. Between calls nothing runs: a client that is idle for longer than the session time-out of the
cluster (10 s by default) loses its session unless `idle` is called.
"""

import time
from collections.abc import Callable, Mapping
from random import Random, SystemRandom
from types import TracebackType
from typing import Final, Self

from upheaval_node.client import operations
from upheaval_node.client.connect import CredentialsSupplier
from upheaval_node.client.ingress import parse_ingress_endpoints
from upheaval_node.client.operations import Response, Status
from upheaval_node.client.session import ClusterClient
from upheaval_node.errors import NodeError, PeerError, TimeoutExpired, UsageError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import Resolver, StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.settings import MS, MediaSettings, S
from upheaval_node.types import MAX_POSITION, Now

RETRY_INTERVAL_NS: Final = MS
"""How long to wait before offering again what the transport did not take; nothing announces that it would."""

CLOSE_TIMEOUT_NS: Final = 200 * MS
POLL_LIMIT: Final = 100


class NotSent(NodeError):
    """The request did not leave the client: it has no effect, now or later."""


class OutcomeUnknown(TimeoutExpired):
    """The request was sent and no answer came: it may have happened, may still happen, or never happen."""


class OperationFailed(NodeError):
    """The service refused the operation; it had no effect."""


class BlockingClient:
    """Connects to the cluster behind `endpoints` (`{0: "host:port"}` or `"0=host:port,..."`) and calls its service.

    `timeout` (seconds) bounds connecting and each call. Usable in a `with` statement, which connects and closes.
    After each call `invoke_ns` and `complete_ns` hold the monotonic times right before the first offer and right after
    the response was read, and `response_position` the log position that a shipped service told.
    """

    def __init__(
        self,
        endpoints: Mapping[int, str] | str,
        timeout: float = 5.0,
        *,
        egress_channel: str | None = None,
        credentials: CredentialsSupplier | None = None,
        client_name: str = "",
        resolver: Resolver | None = None,
        media_settings: MediaSettings | None = None,
        new_leader_timeout: float | None = None,
        random: Random | None = None,
    ) -> None:
        if timeout <= 0:
            raise UsageError(f"time-out of {timeout} s")
        self._endpoints = parse_ingress_endpoints(endpoints) if isinstance(endpoints, str) else dict(endpoints)
        self._timeout_ns = round(timeout * S)
        self._egress_channel = egress_channel
        self._credentials = credentials
        self._client_name = client_name
        self._new_leader_timeout_ns = None if new_leader_timeout is None else round(new_leader_timeout * S)
        self._random = random or SystemRandom()
        self._loop = Loop()
        self._network = SelectorNetwork(self._loop)
        self._media = MediaDriver(
            self._network, resolver or StaticResolver(), media_settings or MediaSettings(), self._random, None
        )
        self._client: ClusterClient | None = None
        self._cycle = DutyCycle(self._loop, SystemClock(), (self._media, self))
        self._is_closed = False
        self._accepts: Callable[[Buffer], bool] | None = None
        self._received: list[bytes] = []
        # Ids of this client only have to differ from those of every other client of the same cluster.
        self._next_operation_id = self._random.getrandbits(62)
        self.invoke_ns = 0
        self.complete_ns = 0
        self.response_position = -1

    # --- connection ---

    @property
    def session(self) -> ClusterClient:
        """The session underneath. Raises `UsageError` before `connect`."""
        if self._client is None:
            raise UsageError("the client is not connected: call connect() or use it in a with statement")
        return self._client

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def leader_member_id(self) -> int:
        return self.session.leader_member_id

    @property
    def session_id(self) -> int:
        return self.session.session_id

    def connect(self) -> None:
        """Open a session. Raises `TimeoutExpired`, or what the cluster answered."""
        if self._is_closed:
            raise UsageError("the client is closed")
        if self._client is not None and not self._client.is_closed:
            raise UsageError("the client is connected already")
        client = self._client = ClusterClient(
            self._media,
            self._endpoints,
            random=self._random,
            egress_channel=self._egress_channel,
            credentials=self._credentials,
            client_name=self._client_name,
            message_timeout_ns=self._timeout_ns,
            new_leader_timeout_ns=self._new_leader_timeout_ns,
        )
        # The session has the same time-out and ends itself; the margin only lets it say why.
        deadline_ns = time.monotonic_ns() + self._timeout_ns + S
        self._cycle.run_until(lambda: client.is_connected or client.is_closed, deadline_ns)
        if client.error is not None:
            raise client.error
        if not client.is_connected:
            client.close()
            raise TimeoutExpired("no session within the time-out")

    def reconnect(self) -> None:
        """Give up the session, if there still is one, and open another, with the members that were last known."""
        if self._client is not None:
            self._endpoints = {**self._endpoints, **self._client.ingress_endpoints}
            self._client.close()
        self.connect()

    def close(self) -> None:
        """Close the session and release the sockets. The client cannot be used again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._client is not None and not self._client.is_closed:
            self._client.close()
            self._cycle.run_once(0)
        self._media.close()
        self._network.drain(CLOSE_TIMEOUT_NS)
        self._loop.close()

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def idle(self, seconds: float) -> None:
        """Keep the session alive for a while without calling anything."""
        self._cycle.run_until(lambda: False, time.monotonic_ns() + round(seconds * S))

    # --- calls ---

    def request(self, payload: Buffer, accepts: Callable[[Buffer], bool] | None = None) -> bytes:
        """Send a message to the service and wait for the response, which `accepts` tells from others (default: any).

        Raises `NotSent` when it could not be sent, with no effect on the cluster, and `OutcomeUnknown` when no answer
        came in time or the session ended before it came.
        """
        client = self.session
        deadline_ns = time.monotonic_ns() + self._timeout_ns
        self._received.clear()
        self._accepts = accepts or _any
        try:
            self._send(client, payload, deadline_ns)
            self._cycle.run_until(lambda: bool(self._received) or client.is_closed, deadline_ns)
        finally:
            self._accepts = None
        if not self._received:
            why = f"the session ended ({client.error})" if client.is_closed else "no answer within the time-out"
            raise OutcomeUnknown(f"{why}: the outcome of the request is unknown")
        self.complete_ns = time.monotonic_ns()
        return self._received.pop()

    def echo(self, value: bytes, *, operation_id: int | None = None) -> bytes:
        response = self._call(operations.echo_request, operation_id, value)
        return response.value or b""

    def read(self, key: str, *, operation_id: int | None = None) -> bytes | None:
        """The value of a register, None for an absent key."""
        return self._call(operations.read_request, operation_id, key).value

    def write(self, key: str, value: bytes, *, operation_id: int | None = None) -> None:
        self._call(operations.write_request, operation_id, key, value)

    def cas(self, key: str, expected: bytes | None, value: bytes, *, operation_id: int | None = None) -> bool:
        """Set a register if it holds `expected` (None: if the key is absent); whether it was set."""
        response = self._call(operations.compare_and_set_request, operation_id, key, expected, value)
        return response.status is Status.OK

    def append(self, key: str, value: bytes, *, operation_id: int | None = None) -> None:
        self._call(operations.append_request, operation_id, key, value)

    def read_list(self, key: str, *, operation_id: int | None = None) -> list[bytes]:
        return list(self._call(operations.read_list_request, operation_id, key).values or ())

    def new_operation_id(self) -> int:
        self._next_operation_id += 1
        return self._next_operation_id

    def _call(self, make: Callable[..., bytes], operation_id: int | None, *arguments: object) -> Response:
        chosen = self.new_operation_id() if operation_id is None else operation_id
        payload = make(chosen, *arguments)
        encoded = self.request(payload, lambda received: operations.is_response_to(chosen, received))
        try:
            response = operations.decode_response(encoded)
        except PeerError as error:
            raise OutcomeUnknown(f"the answer cannot be read ({error}): the outcome is unknown") from error
        self.response_position = response.position
        if response.status is Status.ERROR:
            raise OperationFailed(response.error)
        return response

    def _send(self, client: ClusterClient, payload: Buffer, deadline_ns: int) -> None:
        self.invoke_ns = time.monotonic_ns()
        while client.is_closed or client.offer(payload) <= 0:
            if client.is_closed:
                raise NotSent(f"the session has ended ({client.error}): nothing was sent, reconnect() opens another")
            now_ns = time.monotonic_ns()
            if now_ns >= deadline_ns:
                raise NotSent(f"nothing was sent within the time-out: the session is {client.state.name}")
            self._cycle.run_once(min(RETRY_INTERVAL_NS, deadline_ns - now_ns))
        # On its way before anything is waited for.
        self._cycle.run_once(0)

    # --- the agent that the duty cycle runs ---

    def do_work(self, now: Now) -> int:
        if self._client is None:
            return 0
        return self._client.do_work(now) + self._client.poll(self._on_message, POLL_LIMIT)

    def next_deadline_ns(self) -> int:
        return MAX_POSITION if self._client is None else self._client.next_deadline_ns()

    def _on_message(self, timestamp: int, payload: Buffer) -> None:  # noqa: ARG002 - the cluster time is not needed
        if self._accepts is not None and not self._received and self._accepts(payload):
            self._received.append(bytes(payload))


def _any(payload: Buffer) -> bool:  # noqa: ARG001 - whatever it is
    return True
