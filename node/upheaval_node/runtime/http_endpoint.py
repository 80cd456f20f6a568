"""A small HTTP server on the loop of a process: a few paths to read, one request a connection.

It is open to any host that reaches its port and runs in the loop that serves the cluster, so everything is bounded:
the length of a request, the number of connections, and the time that each may take. A new connection pushes out the
oldest one, so that clients which hold theirs keep no other out. Knows nothing of what the paths answer.
"""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from upheaval_node.ports import Connection, ConnectionHandler
from upheaval_node.runtime.connection import SelectorConnection
from upheaval_node.runtime.loop import Timer
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.types import S

MAX_REQUEST_LENGTH: Final = 8 * 1024
MAX_CONNECTIONS: Final = 16
CONNECTION_TIMEOUT_NS: Final = 5 * S
"""The limit on the duration of one connection, in nanoseconds."""

TEXT: Final = "text/plain; charset=utf-8"
_VERSIONS: Final = (b"HTTP/1.0", b"HTTP/1.1")


class Response(NamedTuple):
    """The response of a path."""

    status: HTTPStatus
    content_type: str
    body: bytes


Answer = Callable[[], Response]


class HttpEndpoint:
    """Listens until closed. `paths` returns the response to a GET of each path, and is called in the loop's thread."""

    def __init__(
        self,
        network: SelectorNetwork,
        address: str,
        paths: Mapping[str, Answer],
        *,
        timeout_ns: int = CONNECTION_TIMEOUT_NS,
    ) -> None:
        """Bind and listen. Raises `NetworkError` when the address cannot be used."""
        self._loop = network.loop
        self._paths = {path.encode(): answer for path, answer in paths.items()}
        self._timeout_ns = timeout_ns
        # By age. Includes connections that were answered and wait for their peer to close.
        self._deadlines: dict[SelectorConnection, int] = {}
        self._timer: Timer | None = None
        self._listener = network.listen(address, self._accept)

    @property
    def address(self) -> str:
        """The bound `host:port`."""
        return self._listener.address

    @property
    def connection_count(self) -> int:
        """The number of open connections, including those that were answered and not yet closed."""
        return len(self._deadlines)

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._listener.close()
        while self._deadlines:
            self._drop_oldest()
        if self._timer is not None:
            self._timer.cancel()

    def answer(self, head: bytes) -> bytes:
        """The whole response to a request of which `head` is everything before the empty line."""
        line, *_ = head.split(b"\r\n")
        words = line.split(b" ")
        if len(words) != 3 or words[2] not in _VERSIONS or not words[1].startswith(b"/"):
            return encode(_plain(HTTPStatus.BAD_REQUEST))
        method, target, _version = words
        answer = self._paths.get(target.partition(b"?")[0])
        if answer is None:
            return encode(_plain(HTTPStatus.NOT_FOUND))
        if method != b"GET":
            return encode(_plain(HTTPStatus.METHOD_NOT_ALLOWED), "Allow: GET\r\n")
        return encode(answer())

    def _accept(self, connection: Connection) -> ConnectionHandler:
        assert isinstance(connection, SelectorConnection)
        if len(self._deadlines) >= MAX_CONNECTIONS:
            self._drop_oldest()
        self._deadlines[connection] = time.monotonic_ns() + self._timeout_ns
        if self._timer is None:
            self._set_timer()
        return _Exchange(self, connection)

    def forget(self, connection: SelectorConnection) -> None:
        """The connection is gone."""
        self._deadlines.pop(connection, None)

    def _drop_oldest(self) -> None:
        connection = next(iter(self._deadlines))
        del self._deadlines[connection]
        connection.abandon()

    def _set_timer(self) -> None:
        oldest_ns = next(iter(self._deadlines.values()), None)
        self._timer = None if oldest_ns is None else self._loop.call_at(oldest_ns, self._on_timer)

    def _on_timer(self) -> None:
        now_ns = time.monotonic_ns()
        while self._deadlines and next(iter(self._deadlines.values())) <= now_ns:
            self._drop_oldest()
        self._set_timer()


class _Exchange:
    """One request and its answer. Implements `ports.ConnectionHandler`."""

    def __init__(self, endpoint: HttpEndpoint, connection: SelectorConnection) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._received = bytearray()
        self._unsent: memoryview | None = None

    def on_connected(self, connection: Connection) -> None: ...

    def on_data(self, data: memoryview) -> None:
        if self._unsent is not None:
            return
        self._received += data[: MAX_REQUEST_LENGTH - len(self._received)]
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if end:
            self._unsent = memoryview(self._endpoint.answer(bytes(head)))
        elif len(self._received) >= MAX_REQUEST_LENGTH:
            self._unsent = memoryview(encode(_plain(HTTPStatus.BAD_REQUEST)))
        else:
            return
        # Further input is ignored; it stays with the peer while the answer is being sent.
        self._received.clear()
        self._connection.pause_reading(True)
        self._send()

    def on_writable(self) -> None:
        if self._unsent is not None:
            self._send()

    def on_closed(self, reason: str) -> None:  # noqa: ARG002
        self._endpoint.forget(self._connection)

    def _send(self) -> None:
        assert self._unsent is not None
        self._unsent = self._unsent[self._connection.send([self._unsent]) :]
        if not self._unsent:
            self._connection.close()


def encode(response: Response, more_headers: str = "") -> bytes:
    """The bytes of a response after which the connection is closed."""
    status = response.status
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{more_headers}"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n"
        "\r\n"
    )
    return head.encode("ascii") + response.body


def _plain(status: HTTPStatus) -> Response:
    return Response(status, TEXT, f"{status.value} {status.phrase}\n".encode())
