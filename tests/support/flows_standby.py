"""A standby as one body for every runtime: it takes a snapshot for the members, and becomes a cluster of its own.

The runtimes are not known here: who calls says how clusters are made.
"""

from collections.abc import Callable
from pathlib import Path

from upheaval import Verdict
from upheaval.checkers.backups import BACKED_UP
from upheaval.checkers.snapshots import SNAPSHOT_IS_REPLAY, STATES_AGREE
from upheaval.testing.cluster import Cluster

OPERATIONS = 60
RATE = 60

Make = Callable[..., Cluster]
"""A cluster of the runtime in question, by the keywords of `Cluster`."""


def standby_snapshot_and_promotion(make: Make, folder: Path) -> None:
    """Under load: snapshots that no member takes, a dead leader, members that start from what the standby took."""
    with make(folder=folder / "first") as cluster:
        position = snapshots_under_load(cluster)
        report = cluster.verify()
    assert report.verdict is Verdict.VALID, report.findings
    for promise in (STATES_AGREE, SNAPSHOT_IS_REPLAY, BACKED_UP):
        assert report.finding(promise).verdict is Verdict.VALID, report.finding(promise)
    assert "standby-0 has" in report.finding(BACKED_UP).detail
    promote_and_go_on(make, cluster.standby.folder, folder / "second", position)


def snapshots_under_load(cluster: Cluster) -> int:
    """Returns up to where the standby's services were told when it was stopped; the load goes on behind that."""
    workload, standby = cluster.workload, cluster.standby
    workload.start(rate=RATE)
    workload.wait_for(OPERATIONS)
    standby.start()
    standby.wait_until_caught_up()
    first = cluster.standby_snapshot()
    assert standby.status().snapshot_position == first
    workload.wait_for(OPERATIONS)
    cluster.replicate_standby_snapshot()
    cluster.kill("leader")
    cluster.wait_until_leader()
    workload.wait_for(OPERATIONS)
    standby.wait_until_caught_up()
    cluster.heal()
    second = cluster.standby_snapshot()
    assert second > first
    standby.kill()
    workload.wait_for(OPERATIONS)
    standby.start()
    position = standby.wait_until_caught_up()
    standby.stop()
    workload.wait_for(OPERATIONS)
    return position


def promote_and_go_on(make: Make, standby: Path, folder: Path, position: int) -> None:
    """Clients go on; the history of both clusters together is explained by the one log."""
    with make(folder=folder, restore_from=standby, seed=2) as cluster:
        leader = cluster.wait_until_leader()
        assert cluster.status()[leader].commit_position >= position
        cluster.workload.start(rate=RATE)
        cluster.workload.wait_for(OPERATIONS)
        report = cluster.verify()
    assert report.verdict is Verdict.VALID, report.findings
    finding = report.finding(BACKED_UP)
    assert "restored from standby-0" in finding.detail
    assert finding.verdict is Verdict.VALID, finding
