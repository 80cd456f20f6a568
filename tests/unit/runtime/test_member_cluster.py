"""Three members as processes: they elect, serve, and survive the loss of any of their processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.runtime.member_processes import SPLIT, TOGETHER, Members, ended, wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.counters import COMMIT_POSITION
from upheaval_node.runtime.exit_status import ExitStatus

pytestmark = pytest.mark.heavy


@pytest.fixture(
    params=[pytest.param(TOGETHER, id="together"), pytest.param(SPLIT, id="split", marks=pytest.mark.nightly)]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    cluster = Members(tmp_path, 3, request.param)
    cluster.start_all()
    yield cluster
    cluster.end()


def commit_positions(cluster: Members) -> list[int | None]:
    return [cluster.counter(member_id, COMMIT_POSITION) for member_id in range(3)]


def is_even(cluster: Members) -> bool:
    positions = commit_positions(cluster)
    return None not in positions and len(set(positions)) == 1


def test_a_cluster_serves_and_its_members_reach_one_position(cluster: Members) -> None:
    cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        for number in range(50):
            client.write("key", b"%d" % number)
        assert client.read("key") == b"49"
    wait_until(lambda: is_even(cluster))
    assert commit_positions(cluster)[0] > 50 * 32  # type: ignore[operator]


def test_the_kill_of_the_leader_costs_no_acknowledged_write(cluster: Members) -> None:
    leader = cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        client.write("key", b"1")
        for process in cluster.of_member(leader):
            process.kill()
        wait_until(lambda: cluster.leader() not in (None, leader))
    with BlockingClient(cluster.ingress, timeout=10) as client:
        assert client.read("key") == b"1"
        client.write("key", b"2")
    cluster.start_member(leader)
    wait_until(lambda: is_even(cluster))
    with BlockingClient(cluster.ingress, timeout=10) as client:
        assert client.read("key") == b"2"


def test_all_members_end_in_order_and_come_back_with_what_they_knew(cluster: Members) -> None:
    cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        client.write("key", b"7")
    for process in cluster.processes.values():
        process.terminate()
    assert {ended(process)[0] for process in cluster.processes.values()} == {ExitStatus.OK}
    cluster.start_all()
    cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        assert client.read("key") == b"7"


@pytest.mark.parametrize(
    "component", [pytest.param(each, marks=() if each == "consensus" else pytest.mark.nightly) for each in SPLIT]
)
def test_one_component_of_the_leader_dies_and_the_cluster_goes_on(tmp_path: Path, component: str) -> None:
    cluster = Members(tmp_path, 3, SPLIT)
    try:
        cluster.start_all()
        leader = cluster.wait_until_leader()
        with BlockingClient(cluster.ingress, timeout=10) as client:
            client.write("key", b"1")
        cluster.processes[leader, component].kill()
        wait_until(lambda: cluster.leader() not in (None, leader))
        wait_until(lambda: all(process.poll() is not None for process in cluster.of_member(leader)))
        cluster.start_member(leader)
        wait_until(lambda: is_even(cluster))
        with BlockingClient(cluster.ingress, timeout=10) as client:
            assert client.read("key") == b"1"
    finally:
        cluster.end()
