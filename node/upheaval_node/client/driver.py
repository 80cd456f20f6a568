"""`BlockingClient`: a cluster client with blocking calls, for scripts, workloads and load generators.

A thin shell: it owns a loop with real sockets and runs it inside its calls. It starts no thread and holds no lock, so
that under gevent's monkey patching (locust) each greenlet can have a client. Use a client from one thread or greenlet
at a time. Nothing runs between calls: a client that is idle for longer than the session time-out of the cluster (10 s
by default) loses its session unless `idle` is called.
"""

import time
from collections.abc import Callable, Mapping
from random import Random, SystemRandom
from types import TracebackType
from typing import Self, Unpack

from upheaval_node.client import operations
from upheaval_node.client.driving import (
    CLOSE_TIMEOUT_NS,
    RETRY_INTERVAL_NS,
    ClientDriver,
    ClientOptions,
    NotSent,
    OperationFailed,
    OutcomeUnknown,
    check_response,
    not_sent,
    outcome_unknown,
    read_response,
)
from upheaval_node.client.operations import Response, Status
from upheaval_node.client.session import ClusterClient
from upheaval_node.ports import Buffer
from upheaval_node.runtime.client_security import client_credentials, client_identity
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.types import S

__all__ = ["BlockingClient", "NotSent", "OperationFailed", "OutcomeUnknown"]


class BlockingClient(ClientDriver):
    """A client with blocking calls. Usable in a `with` statement, which connects and closes.

    `options` are those of `ClientOptions`. After each call `invoke_ns` and `complete_ns` hold the monotonic times right
    before the first offer and right after the response was read, and `response_position` the log position in the
    response of a shipped service.
    """

    def __init__(
        self,
        endpoints: Mapping[int, str] | str,
        timeout: float = 5.0,
        *,
        random: Random | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoints, timeout, random or SystemRandom(), **options)
        self._credentials = client_credentials(options.get("credentials"), options.get("credentials_file", ""))
        identity = client_identity(options.get("tls"), self._on_tls_trouble)
        self._loop = Loop()
        self._network = SelectorNetwork(self._loop, identity)
        self._media = self._make_media(self._network)
        self._cycle = DutyCycle(self._loop, SystemClock(), (self._media, self))
        self._accepts: Callable[[Buffer], bool] | None = None
        self._received: list[bytes] = []
        self.on_unasked: Callable[[Buffer], None] | None = None
        """Takes each message of the service that no call waits for. With None such messages are dropped."""
        self.invoke_ns = 0
        self.complete_ns = 0
        self.response_position = -1

    # --- connection ---

    def connect(self) -> None:
        """Open a session. Raises `TimeoutExpired`, or the error that the cluster answered."""
        self._refuse_to_connect_again()
        client = self._begin_session(self._media)
        # The session ends itself after the same time-out; the margin gives it time to report the cause.
        deadline_ns = time.monotonic_ns() + self._timeout_ns + S
        self._cycle.run_until(lambda: client.is_connected or client.is_closed, deadline_ns)
        self._check_connected(client)

    def reconnect(self) -> None:
        """Give up any open session and open another, with the last known members."""
        self._give_up_session()
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
        self._network.close()
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
        """Keep the session alive for `seconds` without a call. With 0, handle what has arrived."""
        self._cycle.run_once(0)
        self._cycle.run_until(lambda: False, time.monotonic_ns() + round(seconds * S))

    # --- calls ---

    def request(self, payload: Buffer, accepts: Callable[[Buffer], bool] | None = None) -> bytes:
        """Send a message to the service and wait for the response, which `accepts` recognises (default: any).

        A message that arrived before the request was sent is no response. Raises `NotSent` when the request could not
        be sent, with no effect on the cluster, and `OutcomeUnknown` when no answer came in time or the session ended
        before it came.
        """
        client = self.session
        deadline_ns = time.monotonic_ns() + self._timeout_ns
        self._received.clear()
        self._send(client, payload, deadline_ns)
        self._accepts = accepts or _any
        try:
            self._cycle.run_until(lambda: bool(self._received) or client.is_closed, deadline_ns)
        finally:
            self._accepts = None
        if not self._received:
            raise outcome_unknown(client)
        self.complete_ns = time.monotonic_ns()
        return self._received.pop()

    def echo(self, value: bytes, *, operation_id: int | None = None) -> bytes:
        """Send a value through the log and return the value that came back."""
        response = self._call(operations.echo_request, operation_id, value)
        return response.value or b""

    def read(self, key: str, *, operation_id: int | None = None) -> bytes | None:
        """The value of a register, None for an absent key."""
        return self._call(operations.read_request, operation_id, key).value

    def write(self, key: str, value: bytes, *, operation_id: int | None = None) -> None:
        """Set a register."""
        self._call(operations.write_request, operation_id, key, value)

    def cas(self, key: str, expected: bytes | None, value: bytes, *, operation_id: int | None = None) -> bool:
        """Set a register if it holds `expected` (None: if the key is absent). Returns whether it was set."""
        response = self._call(operations.compare_and_set_request, operation_id, key, expected, value)
        return response.status is Status.OK

    def append(self, key: str, value: bytes, *, operation_id: int | None = None) -> None:
        """Add a value to the end of a list."""
        self._call(operations.append_request, operation_id, key, value)

    def read_list(self, key: str, *, operation_id: int | None = None) -> list[bytes]:
        """The values of a list in order, empty for an absent key."""
        return list(self._call(operations.read_list_request, operation_id, key).values or ())

    def _call(self, make: Callable[..., bytes], operation_id: int | None, *arguments: object) -> Response:
        chosen = self.new_operation_id() if operation_id is None else operation_id
        payload = make(chosen, *arguments)
        response = read_response(self.request(payload, lambda received: operations.is_response_to(chosen, received)))
        self.response_position = response.position
        check_response(response)
        return response

    def _send(self, client: ClusterClient, payload: Buffer, deadline_ns: int) -> None:
        self.invoke_ns = time.monotonic_ns()
        while client.is_closed or client.offer(payload) <= 0:
            now_ns = time.monotonic_ns()
            if client.is_closed or now_ns >= deadline_ns:
                raise not_sent(client)
            self._cycle.run_once(min(RETRY_INTERVAL_NS, deadline_ns - now_ns))
        # Handle what has arrived, and let the request leave.
        self._cycle.run_once(0)

    def _on_message(self, timestamp: int, payload: Buffer) -> None:  # noqa: ARG002 - the cluster time is not needed
        if self._accepts is not None and not self._received and self._accepts(payload):
            self._received.append(bytes(payload))
        elif self.on_unasked is not None:
            self.on_unasked(payload)


def _any(payload: Buffer) -> bool:  # noqa: ARG001 - whatever it is
    return True
