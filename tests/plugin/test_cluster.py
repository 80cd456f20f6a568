"""`Cluster` without pytest's fixtures: components killed alone, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.valid import require_valid
from upheaval import Cluster, HarnessError
from upheaval.errors import UsageError
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.system.process_table import processes_of
from upheaval_chaos.faults import Members
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import LinkFaultKind


@pytest.mark.heavy
def test_a_component_is_killed_alone_and_the_run_is_judged(tmp_path: Path) -> None:
    with Cluster(components="split", folder=tmp_path / "run") as cluster:
        chaos = cluster.chaos
        cluster.workload.wait_for(100)
        leader = cluster.wait_until_leader()
        chaos.kill(leader, "archive")
        cluster.wait_until_leader(other_than=leader)
        cluster.workload.wait_for(50)
        report = cluster.verify()
    require_valid(report)
    (fault,) = cluster.run.read_faults()
    assert (fault.what, fault.where) == ("kill", f"member-{leader}/archive")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"runtime": "moon"}, "runtime 'moon': use one of simulated, process, docker"),
        ({"image": "bank:1"}, "an image is for containers: use runtime docker"),
        ({"members": 0}, "a cluster has 1 to 9 members"),
        ({"service": "a.b:C", "source": "nowhere"}, "nowhere is not a folder"),
        (
            {"runtime": "simulated", "components": "split"},
            "system upheaval has no components split on the simulated runtime",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(HarnessError, match=says) as raised:
        Cluster(folder=tmp_path / "run", **options)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_what_a_run_does_not_have_is_refused(tmp_path: Path) -> None:
    with Cluster(service="echo", runtime="simulated", folder=tmp_path / "run") as cluster:
        with pytest.raises(HarnessError, match="this cluster runs echo"):
            cluster.workload.start()
        with pytest.raises(HarnessError, match="unknown member 3: this cluster has members 0 to 2"):
            cluster.kill(3)
        cluster.kill(1)
        with pytest.raises(HarnessError, match="member 1 is under fault 'kill-1': heal it first"):
            cluster.pause(1)


@pytest.mark.heavy
def test_members_end_though_their_faults_cannot_be_written(tmp_path: Path) -> None:
    cluster = Cluster(members=1, folder=tmp_path / "run")
    run_id = cluster.run.read_manifest().run_id
    cluster.up()
    assert processes_of(run_id)
    cluster.kill(0)
    cluster.start(0)
    cluster.run.faults_file.unlink(missing_ok=True)
    cluster.run.faults_file.mkdir()
    cluster.pause(0)
    with pytest.raises(HarnessError, match=r"cannot write .*faults\.jsonl"):
        cluster.down()
    assert processes_of(run_id) == []


@pytest.mark.heavy
def test_a_cluster_ends_and_leaves_no_sockets_though_its_faults_cannot_be_written(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(members=1))
    cluster.up()
    cluster.run.faults_file.unlink()
    cluster.run.faults_file.mkdir()
    with pytest.raises(HarnessError, match=r"cannot write .*faults\.jsonl"):
        cluster.member(0).pause()
    cluster.down()
    assert processes_of(cluster.config.run_id) == []
    assert not [entry for entry in (tmp_path / "run").rglob("*") if entry.is_socket()]


AFTER_THE_END: dict[str, Callable[[Cluster], object]] = {
    "up": Cluster.up,
    "start": lambda cluster: cluster.start(0),
    "start_all": Cluster.start_all,
    "restart_from_snapshot": Cluster.restart_from_snapshot,
    "heal": Cluster.heal,
    "kill": lambda cluster: cluster.kill(0),
    "inject": lambda cluster: cluster.chaos.inject(
        LinkFault(LinkFaultKind.BLACKHOLE, Members(member_id=0), Members(member_id=1))
    ),
    "client": Cluster.client,
    "workload": lambda cluster: cluster.workload.start(),
    "backup": lambda cluster: cluster.backup.start(),
    "standby": lambda cluster: cluster.standby.start(),
    "converge": Cluster.converge,
}


@pytest.mark.parametrize("what", AFTER_THE_END)
def test_a_cluster_that_has_ended_starts_nothing_more(tmp_path: Path, what: str) -> None:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        first = cluster.verify()
        with pytest.raises(UsageError, match="this cluster has ended, by verify, end or down: make another one"):
            AFTER_THE_END[what](cluster)
        assert not any(status.alive for status in cluster.status())
        assert cluster.verify() == first
    assert cluster.backup.folder == tmp_path / "run" / "backup-0"


@pytest.mark.heavy
def test_an_end_that_was_interrupted_is_made_good_and_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(members=1, folder=tmp_path / "run")
    run_id = cluster.run.read_manifest().run_id
    cluster.up()

    def interrupted(cluster: ProcessCluster) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProcessCluster, "note_companions", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.down()
    assert processes_of(run_id)
    with pytest.raises(UsageError, match="this cluster has ended"):
        cluster.up()
    cluster.down()
    assert processes_of(run_id) == []
    with pytest.raises(UsageError, match="this cluster has ended"):
        cluster.up()
    assert processes_of(run_id) == []
