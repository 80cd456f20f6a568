"""A standby as one body for every runtime: it takes a snapshot for the members, and becomes a cluster of its own.

The runtimes are not known here: who calls says how clusters are made.
"""

from collections.abc import Callable
from pathlib import Path

from support.valid import require_valid
from upheaval import Verdict
from upheaval.checkers.promises import Promise
from upheaval.testing.cluster import Cluster

OPERATIONS = 60
RATE = 60

Make = Callable[..., Cluster]
"""A cluster of the runtime in question, by the keywords of `Cluster`."""


def standby_snapshot_and_promotion(make: Make, folder: Path, *, deaths: bool = True) -> None:
    """Under load: a snapshot that no member takes, fetched by all of them, and a new cluster from what the standby has.

    With `deaths` the leader and the standby are lost on the way, and there is a second snapshot in a later term.
    """
    with make(folder=folder / "first") as cluster:
        position = snapshots_under_load(cluster, deaths=deaths)
        report = cluster.verify()
    require_valid(report)
    for promise in (Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY, Promise.BACKED_UP):
        assert report.finding(promise).verdict is Verdict.VALID, report.finding(promise)
    assert "standby-0 has" in report.finding(Promise.BACKED_UP).detail
    promote_and_go_on(make, cluster.standby.folder, folder / "second", position)


def snapshots_under_load(cluster: Cluster, *, deaths: bool) -> int:
    """Returns the position that the standby's services had reached when it was stopped; the load goes on after that."""
    workload, standby = cluster.workload, cluster.standby
    workload.start(rate=RATE)
    workload.wait_for(OPERATIONS)
    standby.start()
    standby.wait_until_caught_up()
    first = cluster.standby_snapshot()
    assert standby.status().snapshot_position == first
    workload.wait_for(OPERATIONS)
    cluster.replicate_standby_snapshot()
    if deaths:
        lose_leader_and_standby(cluster, first)
    position = standby.wait_until_caught_up()
    standby.stop()
    workload.wait_for(OPERATIONS)
    return position


def lose_leader_and_standby(cluster: Cluster, first: int) -> None:
    """`first` is where the first snapshot was taken. Both are back in the end."""
    workload, standby = cluster.workload, cluster.standby
    cluster.kill("leader")
    cluster.wait_until_leader()
    workload.wait_for(OPERATIONS)
    standby.wait_until_caught_up()
    cluster.heal()
    assert cluster.standby_snapshot() > first
    standby.kill()
    workload.wait_for(OPERATIONS)
    standby.start()


def promote_and_go_on(make: Make, standby: Path, folder: Path, position: int) -> None:
    """Clients go on; the history of both clusters together is explained by the one log."""
    with make(folder=folder, restore_from=standby, seed=2) as cluster:
        leader = cluster.wait_until_leader()
        assert cluster.status()[leader].commit_position >= position
        cluster.workload.start(rate=RATE)
        cluster.workload.wait_for(OPERATIONS)
        report = cluster.verify()
    require_valid(report)
    finding = report.finding(Promise.BACKED_UP)
    assert "restored from standby-0" in finding.detail
    assert finding.verdict is Verdict.VALID, finding
