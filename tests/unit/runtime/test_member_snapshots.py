"""Members as processes take snapshots, end by the control toggle with status 0, and start from where they ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.runtime.member_processes import SPLIT, TOGETHER, Members, ended, wait_until
from upheaval_node import counters as counter_types
from upheaval_node.client.driver import BlockingClient
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.files import layout
from upheaval_node.files.recording_log_entry import read_entries
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.shared_counters import attach_cnc

pytestmark = pytest.mark.heavy


@pytest.fixture(
    params=[pytest.param(TOGETHER, id="together", marks=pytest.mark.nightly), pytest.param(SPLIT, id="split")]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    cluster = Members(tmp_path, 3, request.param)
    cluster.start_all()
    yield cluster
    cluster.end()


def set_toggle(cluster: Members, value: ControlToggle) -> None:
    """As a tool does it: through the counters of the leader."""
    leader = cluster.wait_until_leader()
    wait_until(lambda: cluster.counter(leader, counter_types.CONTROL_TOGGLE) == ControlToggle.NEUTRAL)
    cnc = attach_cnc(str(cluster.path(leader) / "aeron" / "cnc.dat"))
    assert cnc is not None
    toggle = cnc.counters((0, 0)).find(counter_types.CONTROL_TOGGLE)
    assert toggle is not None
    toggle.set(value)
    cnc.close()


def snapshot_positions(cluster: Members, member_id: int) -> list[int]:
    entries, _, _ = read_entries((cluster.path(member_id) / layout.RECORDING_LOG).read_bytes())
    return [entry.log_position for entry in entries if entry.is_snapshot]


def test_a_cluster_takes_snapshots_and_shuts_down_with_status_0(cluster: Members) -> None:
    cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        client.write("key", b"1")
        set_toggle(cluster, ControlToggle.SNAPSHOT)
        wait_until(lambda: all(cluster.counter(m, counter_types.SNAPSHOT_COUNT) == 1 for m in range(3)))
        client.write("key", b"2")
    set_toggle(cluster, ControlToggle.SHUTDOWN)
    assert {ended(process)[0] for process in cluster.processes.values()} == {ExitStatus.OK}
    positions = [snapshot_positions(cluster, member_id) for member_id in range(3)]
    assert positions[0] == positions[1] == positions[2]
    assert len(positions[0]) == 4
    cluster.start_all()
    cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        assert client.read("key") == b"2"


def test_an_abort_ends_all_processes_with_status_0(cluster: Members) -> None:
    cluster.wait_until_leader()
    with BlockingClient(cluster.ingress, timeout=10) as client:
        client.write("key", b"1")
    set_toggle(cluster, ControlToggle.ABORT)
    assert {ended(process)[0] for process in cluster.processes.values()} == {ExitStatus.OK}
    assert [snapshot_positions(cluster, member_id) for member_id in range(3)] == [[], [], []]
