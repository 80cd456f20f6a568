"""The proxies on real sockets, driven over their HTTP API: what each toxic does to bytes, and what the API refuses."""

import http.client
import json
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from upheaval.errors import EnvironmentFault
from upheaval.waits import wait_until
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.toxiproxy import StandardToxiproxy

LATENCY_MS = 150
TIMEOUT_MS = 1000
PATIENCE_S = 60.0
SILENCE_S = 0.3


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        connection: socket.socket = self.request
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            return


class _EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture
def upstream() -> Iterator[str]:
    """A server that sends back what it gets."""
    with _EchoServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def api() -> Iterator[str]:
    with ProxyServer() as server:
        yield server.address


Dial = Callable[[], socket.socket]


@pytest.fixture
def dial(api: str, upstream: str) -> Iterator[Dial]:
    """Makes connections through a proxy with the name `p`."""
    host, _, port = StandardToxiproxy(api).create("p", upstream).rpartition(":")
    made: list[socket.socket] = []

    def connect() -> socket.socket:
        made.append(socket.create_connection((host, int(port)), PATIENCE_S))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


def call(api: str, method: str, path: str, body: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(api, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send it and read as much."""
    connection.sendall(data)
    got = b""
    while len(got) < len(data):
        part = connection.recv(65536)
        if not part:
            break
        got += part
    return got


def drain(connection: socket.socket) -> None:
    """Read to the end of the stream."""
    while connection.recv(65536):
        pass


def test_bytes_pass_are_counted_and_an_end_of_stream_passes_too(api: str, dial: Dial) -> None:
    connection = dial()
    payload = bytes(range(256)) * 1000
    assert exchange(connection, payload) == payload
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
    assert StandardToxiproxy(api).sent_bytes() == {("p", "upstream"): len(payload), ("p", "downstream"): len(payload)}


def test_what_a_latency_held_back_arrives_when_it_is_taken_away(api: str, dial: Dial) -> None:
    client = StandardToxiproxy(api)
    client.add_toxic("p", "latency", "upstream", {"latency": int(2 * PATIENCE_S * 1000), "jitter": 0})
    connection = dial()
    connection.sendall(b"A")
    read = re.compile(r'received_bytes_total\{[^}]*"upstream"[^}]*\} 1\n')
    wait_until(
        lambda: read.search(call(api, "GET", "/metrics")[1]), timeout_s=PATIENCE_S, describe=lambda: "a byte was read"
    )
    client.remove_toxic("p", "latency", "upstream")
    connection.sendall(b"B")
    assert connection.recv(1) + connection.recv(1) == b"AB"


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_timeout_swallows_one_stream_and_ends_what_it_hit_when_it_goes(api: str, dial: Dial, stream: str) -> None:
    client = StandardToxiproxy(api)
    before, during = dial(), None
    assert exchange(before, b"one") == b"one"
    client.add_toxic("p", "timeout", stream, {"timeout": 0})
    during = dial()
    for connection in (before, during):
        connection.settimeout(SILENCE_S)
        connection.sendall(b"two")
        with pytest.raises(TimeoutError):
            connection.recv(1)
    arrived = client.sent_bytes()
    assert arrived["p", "downstream"] == 3
    assert arrived["p", "upstream"] == (3 if stream == "upstream" else 9)
    client.remove_toxic("p", "timeout", stream)
    for connection in (before, during):
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1) == b""
    assert exchange(dial(), b"three") == b"three"


def test_timeout_with_a_time_ends_the_connection_when_nothing_came_for_so_long(api: str, dial: Dial) -> None:
    StandardToxiproxy(api).add_toxic("p", "timeout", "downstream", {"timeout": TIMEOUT_MS})
    connection = dial()
    connection.settimeout(TIMEOUT_MS / 5000)
    sent_at = []
    for _ in range(4):
        # What comes is swallowed, and the time of silence begins anew.
        sent_at.append(time.monotonic())
        try:
            connection.sendall(b"x")
            assert connection.recv(1) == b""
            break
        except TimeoutError:
            pass
    connection.settimeout(PATIENCE_S)
    assert connection.recv(1) == b""
    # A test that gets no processor for so long is silent, too.
    silent_from = next((a for a, b in pairwise(sent_at) if b - a >= TIMEOUT_MS / 1000), sent_at[-1])
    assert time.monotonic() - silent_from >= TIMEOUT_MS / 1000


def test_reset_peer_resets_old_and_new_connections(api: str, dial: Dial) -> None:
    client = StandardToxiproxy(api)
    old = dial()
    assert exchange(old, b"one") == b"one"
    client.add_toxic("p", "reset_peer", "upstream", {"timeout": 0})
    with pytest.raises(ConnectionError):
        exchange(old, b"two")
    with pytest.raises(ConnectionError):  # maybe before it is even made
        exchange(dial(), b"two")
    client.remove_toxic("p", "reset_peer", "upstream")
    assert exchange(dial(), b"three") == b"three"


def test_latency_delays_one_stream(api: str, dial: Dial) -> None:
    StandardToxiproxy(api).add_toxic("p", "latency", "upstream", {"latency": LATENCY_MS, "jitter": 0})
    connection = dial()
    begin = time.monotonic()
    assert exchange(connection, b"one") == b"one"
    assert time.monotonic() - begin >= LATENCY_MS / 1000


def test_bandwidth_holds_bytes_back(api: str, dial: Dial) -> None:
    StandardToxiproxy(api).add_toxic("p", "bandwidth", "downstream", {"rate": 100})
    connection = dial()
    begin = time.monotonic()
    assert len(exchange(connection, b"x" * 40_000)) == 40_000
    assert time.monotonic() - begin >= 0.3


def test_a_timeout_swallows_what_a_limit_holds_back(api: str, dial: Dial) -> None:
    client = StandardToxiproxy(api)
    client.add_toxic("p", "bandwidth", "upstream", {"rate": 10})
    connection = dial()
    connection.sendall(bytes(60_000))
    begin = time.monotonic()
    while not client.sent_bytes().get(("p", "upstream")):
        assert time.monotonic() - begin < PATIENCE_S
    client.add_toxic("p", "timeout", "upstream", {"timeout": 0})
    passed = client.sent_bytes()["p", "upstream"]
    connection.settimeout(SILENCE_S)
    with pytest.raises(TimeoutError):
        drain(connection)
    assert client.sent_bytes()["p", "upstream"] == passed < 60_000


def test_a_proxy_can_be_switched_off_reset_and_ended(api: str, dial: Dial) -> None:
    connection = dial()
    assert exchange(connection, b"one") == b"one"
    assert call(api, "POST", "/proxies/p", '{"enabled": false}')[0] == 200
    assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        dial()
    StandardToxiproxy(api).add_toxic("p", "timeout", "upstream", {"timeout": 0})
    assert call(api, "POST", "/reset")[0] == 204
    assert exchange(dial(), b"two") == b"two"
    assert json.loads(call(api, "GET", "/proxies")[1])["p"]["toxics"] == []
    assert call(api, "DELETE", "/proxies/p")[0] == 204
    assert call(api, "GET", "/proxies") == (200, "{}")


def test_an_upstream_that_is_not_there_ends_the_connection(api: str, dial: Dial) -> None:
    host, _, port = StandardToxiproxy(api).create("nobody", "127.0.0.1:1").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/proxies/q", None, 404),
        ("DELETE", "/proxies/p/toxics/t", None, 404),
        ("POST", "/proxies", '{"name": "p", "upstream": "127.0.0.1:1"}', 409),
        ("POST", "/proxies", '{"name": "q"}', 400),
        ("POST", "/proxies", '{"name": "q", "upstream": "nowhere"}', 400),
        ("POST", "/proxies", '{"name": "q", "upstream": "h:' + "9" * 5000 + '"}', 400),
        ("POST", "/proxies", "{", 400),
        ("POST", "/proxies", "[]", 400),
        ("POST", "/proxies/p/toxics", '{"type": "magic"}', 400),
        ("POST", "/proxies/p/toxics", '{"type": "latency", "stream": "sideways"}', 400),
        ("POST", "/proxies/p/toxics", '{"type": "latency", "attributes": {"latency": -1}}', 400),
        ("POST", "/proxies/p/toxics", '{"type": "latency", "attributes": {"rate": 1}}', 400),
        ("POST", "/proxies/p/toxics", '{"type": "latency", "toxicity": 2}', 400),
    ],
)
def test_what_makes_no_sense_is_refused(
    api: str, dial: Dial, method: str, path: str, body: str | None, status: int
) -> None:
    answered, text = call(api, method, path, body)
    assert answered == status
    assert json.loads(text)["error"]


def test_the_client_says_what_was_refused_and_who_does_not_answer(api: str, dial: Dial) -> None:
    with pytest.raises(EnvironmentFault, match="refused POST /proxies/q/toxics"):
        StandardToxiproxy(api).add_toxic("q", "latency", "upstream", {})
    with pytest.raises(EnvironmentFault, match="does not answer"):
        StandardToxiproxy("127.0.0.1:1").sent_bytes()
