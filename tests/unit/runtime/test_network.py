"""The network port over real sockets."""

import errno
import os
import resource
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from unit.runtime.parties import Echo, Pair, Recorder, Sender, child, read_line, run_until
from upheaval_node.errors import NetworkError
from upheaval_node.runtime.connection import READ_BUFFER_LENGTH
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork

ADDRESSES = ["127.0.0.1:0", "unix:s"]
MEGABYTE = 1024 * 1024


@pytest.fixture(autouse=True)
def _short_unix_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("address", ADDRESSES)
def test_bytes_arrive_whole_and_in_order_through_partial_writes(network: SelectorNetwork, address: str) -> None:
    payload = os.urandom(16 * MEGABYTE)
    sender = Sender(payload)
    pair = Pair(network, address, sender, Recorder())
    assert sender.rest, "the first send was to take a part only"
    run_until(network.loop, lambda: len(pair.server.received) == len(payload))
    assert pair.server.received == payload
    assert sender.writable_count > 0
    assert pair.server.chunk_count >= len(payload) // READ_BUFFER_LENGTH


def test_an_echo_of_many_megabytes_comes_back(network: SelectorNetwork) -> None:
    payload = os.urandom(8 * MEGABYTE)
    start = time.monotonic()
    pair = Pair(network, "127.0.0.1:0", Sender(payload), Echo())
    run_until(network.loop, lambda: len(pair.client.received) == len(payload))
    seconds = time.monotonic() - start
    assert pair.client.received == payload
    print(f"echo: {len(payload) / MEGABYTE / seconds:.0f} MB/s each way")


def test_more_parts_than_one_system_call_takes_are_sent(network: SelectorNetwork) -> None:
    pair = Pair(network, "127.0.0.1:0", Recorder(), Recorder())
    parts = [index.to_bytes(4, "little") for index in range(5000)]
    assert pair.client.link.send(parts) == 20_000
    run_until(network.loop, lambda: len(pair.server.received) == 20_000)
    assert pair.server.received == b"".join(parts)


def test_write_interest_ends_with_the_need(network: SelectorNetwork) -> None:
    pair = Pair(network, "127.0.0.1:0", Sender(bytes(8 * MEGABYTE)), Recorder())
    run_until(network.loop, lambda: len(pair.server.received) == 8 * MEGABYTE)
    while network.loop.run_once(0.01):
        pass
    assert network.loop.run_once(0.01) == 0, "an idle connection keeps the loop awake"


def test_a_refused_connection_is_reported_from_the_loop(network: SelectorNetwork) -> None:
    listener = network.listen("127.0.0.1:0", lambda _: Recorder())
    listener.close()
    handler = Recorder()
    network.dial(listener.address, handler)
    assert handler.closed == []
    run_until(network.loop, lambda: handler.closed)
    assert handler.closed == ["connection refused"]


def test_a_missing_unix_socket_is_reported_from_the_loop(network: SelectorNetwork) -> None:
    handler = Recorder()
    network.dial("unix:missing", handler)
    assert handler.closed == []
    run_until(network.loop, lambda: handler.closed)
    assert handler.closed == ["no such file or directory"]


@pytest.mark.parametrize("address", ["nonsense", "host:", "host:99999", f"unix:{'x' * 200}"])
def test_an_address_that_is_none_ends_like_a_refused_one(network: SelectorNetwork, address: str) -> None:
    handler = Recorder()
    network.dial(address, handler)
    run_until(network.loop, lambda: handler.closed)
    assert address in handler.closed[0]


def test_a_name_that_nobody_knows_is_reported_from_the_loop(network: SelectorNetwork) -> None:
    handler = Recorder()
    network.dial("no-such-host.invalid:1", handler)
    assert handler.closed == []
    run_until(network.loop, lambda: handler.closed, patience_s=60)
    assert handler.closed[0].startswith("cannot resolve 'no-such-host.invalid'")


def test_a_port_in_use_is_one_clear_line(network: SelectorNetwork) -> None:
    first = network.listen("127.0.0.1:0", lambda _: Recorder())
    with pytest.raises(NetworkError) as caught:
        network.listen(first.address, lambda _: Recorder())
    assert str(caught.value) == f"cannot listen on {first.address}: the address is in use by another process"


@pytest.mark.parametrize("address", ["127.0.0.1:0", "unix:s"])
def test_a_listener_without_a_descriptor_is_one_clear_line(network: SelectorNetwork, address: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(NetworkError, match=f"cannot listen on {address}: too many open files"):
            network.listen(address, lambda _: Recorder())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_unix_socket_in_use_is_refused_and_a_left_one_is_replaced(network: SelectorNetwork) -> None:
    listener = network.listen("unix:s", lambda _: Recorder())
    with pytest.raises(NetworkError, match="in use"):
        network.listen("unix:s", lambda _: Recorder())
    listener.close()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind("s")
    Pair(network, "unix:s", Recorder(), Recorder())


def test_a_foreign_address_cannot_be_listened_on(network: SelectorNetwork) -> None:
    with pytest.raises(NetworkError, match="not an address of this machine"):
        network.listen("192.0.2.1:1234", lambda _: Recorder())


@pytest.mark.parametrize("address", ["h", "h:x", "h:65536", f"h:{'9' * 5000}"])
def test_what_is_no_address_is_refused(network: SelectorNetwork, address: str) -> None:
    with pytest.raises(NetworkError, match="expected host:port, got "):
        network.listen(address, lambda _: Recorder())


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_was_sent_before_a_close_arrives_although_input_was_left_unread(
    network: SelectorNetwork, address: str
) -> None:
    pair = Pair(network, address, Recorder(), Recorder())
    pair.client.link.pause_reading(True)
    pair.server.link.send([b"unread" * 1000])
    assert pair.client.link.send([b"last words" * 10_000]) == 100_000
    pair.client.link.close()
    run_until(network.loop, lambda: pair.server.closed)
    assert pair.server.received == b"last words" * 10_000
    assert pair.server.closed == ["closed by the peer"]
    assert pair.client.closed == [], "whoever closes is not told"
    run_until(network.loop, lambda: not network.connections.lingering)


def test_a_peer_that_never_closes_does_not_keep_a_closed_connection(network: SelectorNetwork) -> None:
    pair = Pair(network, "127.0.0.1:0", Recorder(), Recorder())
    pair.server.link.pause_reading(True)
    pair.client.link.close()
    assert len(network.connections.lingering) == 1
    start = time.monotonic()
    network.drain(60_000_000_000)
    assert not network.connections.lingering
    assert time.monotonic() - start < 30


def test_a_peer_that_is_killed_is_noticed(network: SelectorNetwork) -> None:
    server = Recorder()
    listener = network.listen("127.0.0.1:0", lambda _: server)
    code = """
        import socket, sys
        host, port = sys.argv[1].rsplit(":", 1)
        connection = socket.create_connection((host, int(port)))
        connection.sendall(b"here")
        sys.stdin.read()
    """
    with child(code, listener.address) as process:
        run_until(network.loop, lambda: server.received == b"here")
        process.kill()
        run_until(network.loop, lambda: server.closed)


def test_a_paused_connection_makes_the_sender_wait_and_loses_nothing(network: SelectorNetwork) -> None:
    payload = os.urandom(16 * MEGABYTE)
    sender = Sender(payload)
    pair = Pair(network, "unix:s", sender, Recorder())
    pair.server.link.pause_reading(True)
    while network.loop.run_once(0.05):
        pass
    stuck_at = len(pair.server.received)
    assert sender.rest
    assert network.loop.run_once(0.05) == 0
    assert len(pair.server.received) == stuck_at
    pair.server.link.pause_reading(False)
    run_until(network.loop, lambda: len(pair.server.received) == len(payload))
    assert pair.server.received == payload


def test_a_connection_that_is_closed_while_connecting_says_nothing(network: SelectorNetwork) -> None:
    listener = network.listen("127.0.0.1:0", lambda _: Recorder())
    handler = Recorder()
    network.dial(listener.address, handler).close()
    while network.loop.run_once(0.02):
        pass
    assert handler.connection is None
    assert handler.closed == []


class Unlucky(socket.socket):
    """A listening socket on which some connections are over before they are accepted."""

    failures = [errno.EHOSTUNREACH, errno.EPERM, errno.EPROTO]

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            raise OSError(self.failures.pop(), "over before it was accepted")
        return super().accept()


def test_a_connection_that_cannot_be_accepted_ends_nothing(network: SelectorNetwork, loop: Loop) -> None:
    server = Recorder()
    listener = network.listen("127.0.0.1:0", lambda _: server)
    listener._socket = Unlucky(fileno=listener._socket.detach())
    listener._socket.setblocking(False)
    network.dial(listener.address, Recorder())
    run_until(loop, lambda: server.connection)
    assert Unlucky.failures == []
    listener.close()


def test_running_out_of_descriptors_does_not_spin_and_heals(network: SelectorNetwork, loop: Loop) -> None:
    code = """
        import resource, sys, time
        from upheaval_node.runtime.loop import Loop
        from upheaval_node.runtime.network import SelectorNetwork

        class Quiet:
            def __init__(self): accepted.append(self)
            def on_connected(self, connection): pass
            def on_data(self, data): pass
            def on_closed(self, reason): pass
            def on_writable(self): pass

        accepted = []
        loop = Loop()
        listener = SelectorNetwork(loop).listen("127.0.0.1:0", lambda _: Quiet())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, hard))
        print(listener.address, flush=True)
        while len(accepted) < 20:
            rounds, end = 0, time.monotonic() + 0.35
            while time.monotonic() < end:
                loop.run_once(end - time.monotonic() if end > time.monotonic() else 0)
                rounds += 1
            print(len(accepted), rounds, flush=True)
            if len(accepted) >= 2:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        print("all", flush=True)
    """
    with child(code) as process:
        address = read_line(process).decode()
        clients = [Recorder() for _ in range(20)]
        for client in clients:
            network.dial(address, client)
        run_until(loop, lambda: all(client.connection for client in clients))
        lines: list[bytes] = []
        while not lines or lines[-1] != b"all":
            lines.append(read_line(process))
            assert lines[-1], "the child ended early"
        starved = [line.split() for line in lines[:-1]]
        assert int(starved[0][0]) < 20
        assert all(int(rounds) < 100 for _, rounds in starved)


def test_the_peer_of_an_accepted_connection_has_an_address(network: SelectorNetwork) -> None:
    pair = Pair(network, "127.0.0.1:0", Recorder(), Recorder())
    host, _, port = pair.server.link.peer.rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    assert pair.client.link.peer == pair.listener.address


def test_localhost_needs_no_look_up(network: SelectorNetwork) -> None:
    listener = network.listen("localhost:0", lambda _: Recorder())
    client = Recorder()
    network.dial(listener.address, client)
    run_until(network.loop, lambda: client.connection)
    assert listener.address.startswith("localhost:")


def test_a_name_that_nobody_answers_for_holds_up_no_other(
    network: SelectorNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_given_up = threading.Event()
    real, asked = socket.getaddrinfo, []

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        if host == "silent.test":
            is_given_up.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    listener = network.listen("127.0.0.1:0", lambda _: Recorder())
    silent, answered = [Recorder(), Recorder()], [Recorder() for _ in range(3)]
    for each in silent:
        network.dial("silent.test:1", each)
    for number, each in enumerate(answered):
        network.dial(f"name-{number}.test:{listener.address.rpartition(':')[2]}", each)
    run_until(network.loop, lambda: all(each.connection for each in answered))
    assert not any(each.closed for each in silent)
    is_given_up.set()
    run_until(network.loop, lambda: all(each.closed for each in silent))
    assert asked.count("silent.test") == 1


def test_a_storm_of_dials_to_ones_own_free_port_never_connects(network: SelectorNetwork) -> None:
    """Two thirds of the ephemeral ports are tried; without the check about one in forty runs connects to itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    handlers = [Recorder() for _ in range(300)]
    for handler in handlers:
        network.dial(address, handler)
    run_until(network.loop, lambda: all(handler.closed for handler in handlers))
    assert not any(handler.connection for handler in handlers)
