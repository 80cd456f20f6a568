"""Hostile bytes on the ports of a running cluster: its members live on, their memory is bounded, clients are served."""

from pathlib import Path

import pytest

from support.hostile_peer import HostilePeer
from upheaval.runtimes.ports import member_ports
from upheaval_node.client.driver import BlockingClient

from .conftest import NewCluster

pytestmark = pytest.mark.heavy

INGRESS, CONSENSUS, ARCHIVE = 101, 108, 10
PLACES = {INGRESS: 0, CONSENSUS: 1, ARCHIVE: 4}
SCHEMAS = {INGRESS: "cluster-codecs", CONSENSUS: "cluster-codecs", ARCHIVE: "archive-codecs"}
MOST_GROWTH = 48 << 20
"""Of the resident memory of a member, in bytes."""


def resident_bytes(pid: int) -> int:
    line = next(
        line for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("count", [2_000, pytest.param(50_000, marks=pytest.mark.nightly)])
def test_members_outlive_hostile_peers_and_serve_healthy_clients(new_cluster: NewCluster, count: int) -> None:
    cluster = new_cluster()
    cluster.up()
    ports = {
        member_ports(cluster.config.base_port, member_id)[place]: stream_id
        for member_id in range(3)
        for stream_id, place in PLACES.items()
    }
    with BlockingClient(cluster.ingress_endpoints(), 20.0) as client:
        client.write("k", b"before")
    pids = {member_id: cluster.member(member_id).status().pids for member_id in range(3)}
    before = {pid: resident_bytes(pid) for each in pids.values() for pid in each.values()}
    peer = HostilePeer(ports, SCHEMAS, seed=count)
    try:
        peer.attack(count)
    finally:
        peer.close()
    assert set(peer.sent) == set(ports)
    assert peer.refused > 0
    assert {member_id: cluster.member(member_id).status().pids for member_id in range(3)} == pids
    cluster.wait_until_leader(30.0)
    with BlockingClient(cluster.ingress_endpoints(), 20.0) as client:
        assert client.read("k") == b"before"
        client.write("k", b"after")
        assert client.read("k") == b"after"
    growth = {pid: resident_bytes(pid) - size for pid, size in before.items()}
    assert max(growth.values()) < MOST_GROWTH, growth
