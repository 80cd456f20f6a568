"""The package toxiproxy-python drives the proxies of this process like a Toxiproxy; what ours adds to the package."""

import socket
import time
from collections.abc import Iterator

import pytest
from toxiproxy import Toxiproxy
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from upheaval.errors import EnvironmentFault
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.toxiproxy import PythonToxiproxy, StandardToxiproxy, ToxiproxyApi, connect_toxiproxy

PATIENCE_S = 60.0
LATENCY_MS = 150


@pytest.fixture
def api() -> Iterator[str]:
    with ProxyServer() as server:
        yield server.address


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        yield server


@pytest.fixture
def package(api: str) -> Toxiproxy:
    """The package as its users have it."""
    server = Toxiproxy()
    host, _, port = api.rpartition(":")
    server.update_api_consumer(host, int(port))
    return server


def address_of(server: socket.socket) -> str:
    host, port = server.getsockname()
    return f"{host}:{port}"


def connect(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def test_the_package_makes_changes_and_ends_proxies(package: Toxiproxy, listening: socket.socket) -> None:
    assert package.running()
    assert b"2.12.0" in package.version()
    proxy = package.create(upstream=address_of(listening), name="p")
    assert proxy.enabled
    proxy.add_toxic(type="latency", attributes={"latency": LATENCY_MS})
    assert proxy.toxics()["latency_downstream"].attributes["latency"] == LATENCY_MS
    with connect(proxy.listen) as client, listening.accept()[0] as server:
        begin = time.monotonic()
        server.sendall(b"late")
        assert client.recv(4) == b"late"
        assert time.monotonic() - begin >= LATENCY_MS / 1000
    assert proxy.destroy_toxic("latency_downstream")
    assert proxy.toxics() == {}
    with proxy.down(), pytest.raises(ConnectionRefusedError):
        connect(proxy.listen)
    assert package.reset()
    package.populate([{"name": "q", "upstream": address_of(listening), "listen": "127.0.0.1:0"}])
    assert set(package.proxies()) == {"p", "q"}
    package.destroy_all()
    assert package.proxies() == {}


def test_the_package_hears_of_what_is_refused(package: Toxiproxy, listening: socket.socket) -> None:
    proxy = package.create(upstream=address_of(listening), name="p")
    with pytest.raises(ProxyExists):
        package.create(upstream=address_of(listening), name="p")
    with pytest.raises(InvalidToxic):
        proxy.add_toxic(type="magic")
    with pytest.raises(NotFound):
        proxy.destroy_toxic("latency_downstream")


def test_ours_is_the_package_where_it_is_installed(api: str) -> None:
    assert isinstance(connect_toxiproxy(api), PythonToxiproxy)


@pytest.mark.parametrize("kind", [StandardToxiproxy, PythonToxiproxy])
def test_both_of_ours_do_the_same(kind: type[ToxiproxyApi], api: str, listening: socket.socket) -> None:
    toxiproxy = kind(api)
    listen = toxiproxy.create("p", address_of(listening))
    with connect(listen) as client, listening.accept()[0] as server:
        client.sendall(b"four")
        assert server.recv(4) == b"four"
        assert toxiproxy.sent_bytes()["p", "upstream"] == 4
        toxiproxy.add_toxic("p", "timeout", "upstream", {"timeout": 0})
        toxiproxy.remove_toxic("p", "timeout", "upstream")
        assert server.recv(1) == b""
    with pytest.raises(EnvironmentFault, match="refused POST /proxies: "):
        toxiproxy.create("p", address_of(listening))
    with pytest.raises(EnvironmentFault, match="refused POST /proxies/p/toxics: "):
        toxiproxy.add_toxic("p", "magic", "upstream", {})
    with pytest.raises(EnvironmentFault, match="refused DELETE /proxies/p/toxics/latency_upstream: "):
        toxiproxy.remove_toxic("p", "latency", "upstream")


@pytest.mark.parametrize("kind", [StandardToxiproxy, PythonToxiproxy])
def test_errors_of_the_server_and_silence_are_errors(kind: type[ToxiproxyApi], api: str) -> None:
    # The proxy cannot listen where the API does: an error of the server, which the package takes for an answer.
    with pytest.raises(EnvironmentFault, match=r"refused POST /proxies: .*cannot listen"):
        kind(api).create("p", "127.0.0.1:1", api)
    with pytest.raises(EnvironmentFault, match="does not answer"):
        kind("127.0.0.1:1").version()


@pytest.mark.parametrize("kind", [StandardToxiproxy, PythonToxiproxy])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_no_proxy_for_the_web_is_asked(
    kind: type[ToxiproxyApi], variable: str, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert "2.12.0" in kind(api).version()


def test_two_of_ours_drive_two_servers(api: str) -> None:
    with ProxyServer() as other:
        first, second = PythonToxiproxy(api), PythonToxiproxy(other.address)
        first.create("p", "127.0.0.1:1")
        second.create("q", "127.0.0.1:1")
        assert set(first.sent_bytes()) == {("p", "upstream"), ("p", "downstream")}
        assert set(second.sent_bytes()) == {("q", "upstream"), ("q", "downstream")}
