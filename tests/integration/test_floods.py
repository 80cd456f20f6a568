"""Floods on the ports of a live member: each hostile frame is counted, and the first of a peer and kind is reported.

One member is enough: nothing here is between members. A healthy client is served after each flood.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from random import Random
from struct import pack

import pytest

from support.live_clusters import end_without_trace
from support.tls_world import certificates
from upheaval.runtimes.ports import member_ports
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.counters import ARCHIVE_ERRORS, CLUSTER_ERRORS, SYSTEM_COUNTER, TLS_REFUSED
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.link import pad_frame
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import archive_messages as am
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.shared_counters import attach_cnc
from upheaval_node.settings import MediaSettings
from upheaval_node.types import MS

pytestmark = pytest.mark.heavy

FLOOD = 10_000
CONNECTIONS = 1_000
HOST = "127.0.0.1"
TIMEOUT_S = 30.0
INVALID_PACKETS = (14).to_bytes(4, "little")
HALF_FRAME = pack("<iBBH", 1408, 0, 0xC0, 1) + bytes(100)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    made = ProcessCluster.create(tmp_path_factory.mktemp("floods") / "run", ClusterSpec(members=1))
    try:
        made.up()
        yield made
    finally:
        end_without_trace(made)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    made = ProcessCluster.create(
        tmp_path_factory.mktemp("tls-floods") / "run", ClusterSpec(members=1, tls=str(certificates()))
    )
    try:
        made.up()
        # The counters show the leader a moment before its ingress listens.
        assert is_served(made)
        yield made
    finally:
        end_without_trace(made)


def port(cluster: ProcessCluster, place: int) -> int:
    return member_ports(cluster.config.base_port, 0)[place]


def counter(cluster: ProcessCluster, type_id: int, key: bytes = b"") -> int:
    cnc = attach_cnc(str(cluster.run.member(0).path / "aeron" / "cnc.dat"))
    assert cnc is not None
    try:
        found = cnc.counters().find(type_id, key)
        assert found is not None
        return found.get()
    finally:
        cnc.close()


def lines(cluster: ProcessCluster, kind: str) -> list[str]:
    printed = (cluster.run.member(0).path / "all.log").read_text(encoding="utf-8").splitlines()
    return [line for line in printed if f" {kind}-" in line]


def told(cluster: ProcessCluster) -> int:
    """How many lines say that one peer has too many connections."""
    return sum("connections of one peer" in line for line in lines(cluster, "media-peer"))


def is_served(cluster: ProcessCluster) -> bool:
    with BlockingClient(cluster.ingress_endpoints(), TIMEOUT_S, tls=cluster.client_tls()) as client:
        client.write("k", b"v")
        return client.read("k") == b"v"


def wait_for(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    wait_until(condition, timeout_s=TIMEOUT_S, describe=lambda: f"it stands at {what()}")


def send(target: int, stream_id: int, message: bytes, count: int, have_come: Callable[[], bool]) -> None:
    """So many messages on one stream, which stays until its receiver has taken all of them."""
    loop = Loop()
    network = SelectorNetwork(loop)
    media = MediaDriver(network, StaticResolver(), MediaSettings(), Random(1))
    cycle = DutyCycle(loop, SystemClock(), (media,))
    publication = media.add_publication(f"aeron:tcp?endpoint={HOST}:{target}|term-length=64k", stream_id)
    deadline_ns = time.monotonic_ns() + round(TIMEOUT_S * 1e9)
    try:
        for _ in range(count):
            assert cycle.run_until(lambda: publication.offer(message) > 0, deadline_ns), "the stream is gone"
        cycle.run_until(have_come, deadline_ns)
        publication.close()
    finally:
        media.close()
        network.drain(200 * MS)
        network.close()
        loop.close()


@pytest.mark.parametrize(
    ("place", "stream_id", "errors", "kind", "message"),
    [
        (0, 101, CLUSTER_ERRORS, "ingress-peer", pack("<HHHH", 0, 9, 4711, 0)),
        (4, 10, ARCHIVE_ERRORS, "control-peer", am.SCHEMA.encode(am.StopRecordingRequest(control_session_id=4711))),
    ],
    ids=["ingress", "archive"],
)
def test_ten_thousand_messages_that_nobody_wants_are_counted_one_by_one_and_told_in_one_line(
    cluster: ProcessCluster, place: int, stream_id: int, errors: int, kind: str, message: bytes
) -> None:
    before = counter(cluster, errors)
    send(port(cluster, place), stream_id, message, FLOOD, lambda: counter(cluster, errors) >= before + FLOOD)
    assert counter(cluster, errors) == before + FLOOD
    assert len(lines(cluster, kind)) == 1
    assert is_served(cluster)


@pytest.mark.parametrize("count", [CONNECTIONS, pytest.param(FLOOD, marks=pytest.mark.nightly)])
def test_each_connection_with_bytes_that_are_no_frame_is_counted_and_one_line_told(
    cluster: ProcessCluster, count: int
) -> None:
    before = counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS)
    lines_before = len(lines(cluster, "media-peer"))
    for number in range(count):
        speak(port(cluster, (0, 1, 4)[number % 3]), pad_frame(b"\xff" * 32))
    wait_for(
        lambda: counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS) >= before + count,
        lambda: counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS) - before,
    )
    assert counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS) == before + count
    assert len(lines(cluster, "media-peer")) == max(lines_before, 1)
    assert is_served(cluster)


def test_one_peer_cannot_take_all_connections_and_half_frames_hold_nobody_up(cluster: ProcessCluster) -> None:
    limit = MediaSettings().max_connections_of_peer
    before = counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS)
    target = port(cluster, 1)
    held = [socket.create_connection((HOST, target), TIMEOUT_S) for _ in range(limit + 20)]
    try:
        wait_for(
            lambda: counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS) >= before + 20,
            lambda: counter(cluster, SYSTEM_COUNTER, INVALID_PACKETS) - before,
        )
        # The line is printed after the count.
        wait_for(lambda: told(cluster) > 0, lambda: "a count without a line")
        # Only now: who sends these is cut off, and leaves room for others.
        for each in held[: limit // 2]:
            each.sendall(HALF_FRAME)
        assert is_served(cluster)
        assert told(cluster) == 1
    finally:
        for each in held:
            each.close()


def test_peers_without_tls_are_counted_and_logged_in_one_line(guarded: ProcessCluster) -> None:
    before = counter(guarded, TLS_REFUSED)
    for number in range(CONNECTIONS):
        speak(port(guarded, (0, 1, 4)[number % 3]), b"GET / HTTP/1.1\r\n\r\n")
    wait_for(lambda: counter(guarded, TLS_REFUSED) >= before + CONNECTIONS, lambda: counter(guarded, TLS_REFUSED))
    assert counter(guarded, TLS_REFUSED) == before + CONNECTIONS
    assert len(lines(guarded, "tls-peer")) == 1
    assert is_served(guarded)


def speak(target: int, data: bytes) -> None:
    """Say this, and wait until the other side has had enough."""
    with socket.create_connection((HOST, target), TIMEOUT_S) as sock:
        sock.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(4096):
                pass
