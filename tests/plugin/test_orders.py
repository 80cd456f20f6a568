"""What an operator orders, as a test holds it: the order's effect on every member, and what is written down of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.valid import require_valid
from upheaval import Cluster, UnknownOutcome


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        yield cluster


def test_snapshots_and_a_shutdown_are_proved_and_written_down(cluster: Cluster) -> None:
    cluster.workload.wait_for(50)
    first = cluster.snapshot()
    cluster.workload.wait_for(50)
    cluster.shutdown()
    assert not any(status.alive for status in cluster.status())
    cluster.start_all()
    cluster.workload.wait_for(50)
    assert cluster.snapshot() > first
    report = cluster.verify()
    require_valid(report)
    controls = list(cluster.run.read_controls())
    assert [control.what for control in controls] == ["snapshot", "shutdown", "start", "snapshot", "snapshot"]
    assert all(control.proof.holds for control in controls)
    assert controls[0].members == {str(member): {"snapshot_position": first} for member in range(3)}
    ended = controls[1].members["2"]
    assert isinstance(ended, dict)
    assert ended["exit_statuses"] == [0]


def test_a_suspended_cluster_takes_nothing_until_it_is_resumed(cluster: Cluster) -> None:
    load = cluster.workload
    load.wait_for(50)
    cluster.suspend()
    before = load.counts.ok
    with pytest.raises(UnknownOutcome):
        load.wait_for(100, timeout_s=2)
    assert load.counts.ok <= before + 8
    cluster.resume_cluster()
    load.wait_for(50)
    require_valid(cluster.verify())


def test_an_abort_ends_all_members_and_leaves_no_snapshot(cluster: Cluster) -> None:
    cluster.workload.wait_for(100)
    cluster.abort()
    cluster.down()
    (control,) = cluster.run.read_controls()
    assert control.members == {str(m): {"exit_statuses": [0], "snapshot_position": -1} for m in range(3)}


def test_what_is_not_taken_is_written_down_as_not_proved(cluster: Cluster) -> None:
    with pytest.raises(UnknownOutcome, match=r"not proved: .*the cluster is not suspended"):
        cluster.resume_cluster(timeout_s=1)
    cluster.down()
    (control,) = cluster.run.read_controls()
    assert control.what == "resume"
    assert not control.proof.holds
