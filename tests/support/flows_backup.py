"""Backup and restore as one body for every runtime: a backup under load that loses its source, and what comes from it.

The runtimes are not known here: who calls says how clusters are made.
"""

from collections.abc import Callable
from pathlib import Path

from support.valid import require_valid
from upheaval import Verdict
from upheaval.checkers.promises import Promise
from upheaval.testing.cluster import Cluster

OPERATIONS = 100

Make = Callable[..., Cluster]
"""A cluster of the runtime in question, by the keywords of `Cluster`."""


def backup_under_load_and_restore(make: Make, folder: Path) -> None:
    """Both the leader and the backup are lost while the load runs; the restored cluster goes on from the backup."""
    with make(folder=folder / "first") as cluster:
        position = back_up_under_load(cluster)
        report = cluster.verify()
    require_valid(report)
    assert report.finding(Promise.BACKED_UP).verdict is Verdict.VALID, report.finding(Promise.BACKED_UP)
    restore_and_go_on(make, cluster.backup.folder, folder / "second", position)


def back_up_under_load(cluster: Cluster) -> int:
    """Returns up to where the backup had the log when it was stopped; the load goes on after that."""
    workload, backup = cluster.workload, cluster.backup
    workload.wait_for(OPERATIONS)
    snapshot = cluster.snapshot()
    backup.start()
    backup.wait_until_caught_up()
    assert backup.status().snapshot_position == snapshot
    workload.wait_for(OPERATIONS)
    leader = cluster.wait_until_leader()
    cluster.kill(leader)
    cluster.wait_until_leader(other_than=leader)
    workload.wait_for(OPERATIONS)
    backup.wait_until_caught_up()
    cluster.heal()
    backup.kill()
    workload.wait_for(OPERATIONS)
    backup.start()
    position = backup.wait_until_caught_up()
    backup.stop()
    workload.wait_for(OPERATIONS)
    return position


def restore_and_go_on(make: Make, backup: Path, folder: Path, position: int) -> None:
    """Clients go on; the history of both runs together is explained by the one log."""
    with make(folder=folder, restore_from=backup, seed=2) as cluster:
        assert cluster.status()[cluster.wait_until_leader()].commit_position >= position
        cluster.workload.wait_for(OPERATIONS)
        report = cluster.verify()
    require_valid(report)
    finding = report.finding(Promise.BACKED_UP)
    assert "restored from backup-0" in finding.detail
    assert finding.verdict is Verdict.VALID, finding
