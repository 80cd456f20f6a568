"""The HTTP endpoint over real sockets on the real loop: right answers, and bounds that no client gets past."""

import socket
import struct
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus

import pytest

from unit.runtime.parties import run_until
from upheaval_node.errors import NetworkError
from upheaval_node.runtime import http_endpoint
from upheaval_node.runtime.http_endpoint import MAX_CONNECTIONS, MAX_REQUEST_LENGTH, HttpEndpoint, Response
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork

BIG = bytes(range(256)) * 64 * 1024


class Server:
    """An endpoint on a loop, and plain sockets that talk to it."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.network = SelectorNetwork(self.loop)
        self.asked = 0
        self.clients: list[socket.socket] = []
        self.endpoint = self.open()

    def open(self, timeout_ns: int = http_endpoint.CONNECTION_TIMEOUT_NS) -> HttpEndpoint:
        paths = {"/page": self._page, "/big": lambda: Response(HTTPStatus.OK, "application/octet-stream", BIG)}
        return HttpEndpoint(self.network, "127.0.0.1:0", paths, timeout_ns=timeout_ns)

    def reopen(self, timeout_ns: int) -> None:
        self.endpoint.close()
        self.endpoint = self.open(timeout_ns)

    def dial(self, request: bytes = b"") -> socket.socket:
        host, _, port = self.endpoint.address.rpartition(":")
        client = socket.create_connection((host, int(port)))
        client.setblocking(False)
        self.clients.append(client)
        if request:
            client.sendall(request)
        return client

    def read_to_end(self, client: socket.socket) -> bytes:
        """All that comes until the server hangs up; a reset counts as that."""
        received = bytearray()

        def is_over() -> bool:
            try:
                data = client.recv(1 << 20)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            received.extend(data)
            return not data

        run_until(self.loop, is_over)
        return bytes(received)

    def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        head, _, body = self.read_to_end(self.dial(request)).partition(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        version, status, *_ = line.split(" ")
        assert version == "HTTP/1.1"
        headers = dict(each.split(": ", 1) for each in rest)
        assert int(headers["Content-Length"]) == len(body)
        assert headers["Connection"] == "close"
        return int(status), headers, body

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.endpoint.close()
        self.network.drain(1_000_000_000)
        self.loop.close()

    def _page(self) -> Response:
        self.asked += 1
        return Response(HTTPStatus.OK, http_endpoint.TEXT, b"hello\n")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.mark.parametrize(
    "request_line", [b"GET /page HTTP/1.1", b"GET /page HTTP/1.0", b"GET /page?x=1 HTTP/1.1", b"GET /page? HTTP/1.1"]
)
def test_a_path_is_served(server: Server, request_line: bytes) -> None:
    status, headers, body = server.ask(request_line + b"\r\nHost: here\r\nAccept: */*\r\n\r\n")
    assert (status, body) == (200, b"hello\n")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", 404),
        (b"GET /page/ HTTP/1.1", 404),
        (b"POST /elsewhere HTTP/1.1", 404),
        (b"POST /page HTTP/1.1", 405),
        (b"HEAD /page HTTP/1.1", 405),
        (b"get /page HTTP/1.1", 405),
        (b"GET /page", 400),
        (b"GET /page HTTP/2.0", 400),
        (b"GET page HTTP/1.1", 400),
        (b"GET /page HTTP/1.1 more", 400),
        (b"", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\xff" * 100, 400),
    ],
)
def test_anything_else_is_refused_with_its_status(server: Server, request_line: bytes, status: int) -> None:
    found, headers, _ = server.ask(request_line + b"\r\nHost: here\r\n\r\n")
    assert found == status
    assert headers.get("Allow") == ("GET" if status == 405 else None)
    assert server.asked == 0


def test_a_request_may_come_in_single_bytes(server: Server) -> None:
    client = server.dial()
    for byte in b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n":
        client.send(bytes([byte]))
        server.loop.run_once(0.01)
    assert server.read_to_end(client).endswith(b"hello\n")


def test_only_the_first_request_of_a_connection_is_answered(server: Server) -> None:
    assert server.read_to_end(server.dial(b"GET /page HTTP/1.1\r\n\r\n" * 5)).count(b"HTTP/1.1 200") == 1
    assert server.asked == 1


def test_a_body_is_thrown_away_and_the_answer_still_arrives(server: Server) -> None:
    request = b"GET /page HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)
    assert server.ask(request)[::2] == (200, b"hello\n")


def test_a_request_without_end_is_refused_at_the_limit(server: Server) -> None:
    request = b"GET /page HTTP/1.1\r\nX: " + b"x" * MAX_REQUEST_LENGTH
    assert server.ask(request)[0] == 400
    assert server.asked == 0


def test_a_silent_client_is_hung_up_on(server: Server) -> None:
    server.reopen(50_000_000)
    silent, begun = server.dial(), server.dial(b"GET /pa")
    assert server.read_to_end(silent) == server.read_to_end(begun) == b""
    assert server.endpoint.connection_count == 0


def test_a_client_that_does_not_read_holds_up_nobody_and_is_hung_up_on(server: Server) -> None:
    server.reopen(300_000_000)
    slow = server.dial(b"GET /big HTTP/1.1\r\n\r\n")
    run_until(server.loop, lambda: server.endpoint.connection_count == 1)
    assert server.ask(b"GET /page HTTP/1.1\r\n\r\n")[0] == 200
    run_until(server.loop, lambda: server.endpoint.connection_count == 0)
    assert len(server.read_to_end(slow)) < len(BIG)


def test_a_long_answer_is_sent_as_fast_as_it_is_read(server: Server) -> None:
    assert server.ask(b"GET /big HTTP/1.1\r\n\r\n")[::2] == (200, BIG)


def test_clients_that_hold_their_connections_keep_nobody_out(server: Server) -> None:
    holders = [server.dial(b"GET /") for _ in range(3 * MAX_CONNECTIONS)]
    assert server.ask(b"GET /page HTTP/1.1\r\n\r\n")[0] == 200
    assert server.endpoint.connection_count <= MAX_CONNECTIONS
    assert len(server.network.connections.open) <= MAX_CONNECTIONS
    assert server.read_to_end(holders[0]) == b""


def test_answered_clients_that_do_not_hang_up_are_bounded_as_well(server: Server) -> None:
    for _ in range(3 * MAX_CONNECTIONS):
        client = server.dial(b"GET /page HTTP/1.1\r\n\r\n")
        run_until(server.loop, partial(_has_input, client))
    assert server.asked == 3 * MAX_CONNECTIONS
    assert len(server.network.connections.open) <= MAX_CONNECTIONS


def test_clients_that_reset_their_connections_are_forgotten(server: Server) -> None:
    for request in (b"", b"GET", b"GET /big HTTP/1.1\r\n\r\n"):
        client = server.dial(request)
        run_until(server.loop, lambda: server.endpoint.connection_count > 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        server.clients.remove(client)
    server.reopen(50_000_000)
    assert server.ask(b"GET /page HTTP/1.1\r\n\r\n")[0] == 200


def test_a_closed_endpoint_lets_go_of_its_port_and_its_clients(server: Server) -> None:
    client = server.dial(b"GET /")
    run_until(server.loop, lambda: server.endpoint.connection_count == 1)
    address = server.endpoint.address
    server.endpoint.close()
    assert server.read_to_end(client) == b""
    server.network.listen(address, lambda _: pytest.fail("nobody dials")).close()


def test_an_address_in_use_is_told(server: Server) -> None:
    with pytest.raises(NetworkError, match="in use by another process"):
        HttpEndpoint(server.network, server.endpoint.address, {})


def _has_input(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
