"""The flow of `support.flows_standby` in virtual time, by seed, and on processes; tests/docker has it on containers."""

from functools import partial
from pathlib import Path

import pytest

from support.flows_standby import standby_snapshot_and_promotion
from support.valid import require_valid
from upheaval import Verdict
from upheaval.checkers.promises import Promise
from upheaval.errors import UsageError
from upheaval.testing.cluster import Cluster


def test_standby_snapshot_and_promotion_on_processes(tmp_path: Path) -> None:
    standby_snapshot_and_promotion(partial(Cluster, runtime="process"), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (2, 3))])
def test_standby_snapshot_and_promotion_by_seed(tmp_path: Path, seed: int) -> None:
    standby_snapshot_and_promotion(partial(Cluster, runtime="simulated", seed=seed), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4, 24))
def test_standby_snapshot_and_promotion_by_many_seeds(tmp_path: Path, seed: int) -> None:
    standby_snapshot_and_promotion(partial(Cluster, runtime="simulated", sync_level=seed % 3, seed=seed), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


def test_a_snapshot_that_no_standby_took_cannot_be_fetched(tmp_path: Path) -> None:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        cluster.wait_until_leader()
        with pytest.raises(UsageError, match="members 0, 1, 2 know of no snapshot of a standby"):
            cluster.replicate_standby_snapshot()
        assert list(cluster.run.read_controls()) == []


def test_a_backup_and_a_standby_of_one_cluster_outlive_a_member_that_is_wiped(tmp_path: Path) -> None:
    with Cluster(runtime="simulated", folder=tmp_path / "run", seed=5) as cluster:
        cluster.workload.start(rate=60)
        cluster.workload.wait_for(60)
        cluster.chaos.inject("wipe follower")
        cluster.workload.wait_for(30)
        cluster.heal()
        cluster.snapshot()
        for companion in (cluster.backup, cluster.standby):
            companion.start()
            companion.wait_until_caught_up()
        cluster.standby_snapshot()
        cluster.workload.wait_for(60)
        report = cluster.verify()
    require_valid(report)
    for promise in (Promise.SNAPSHOTS_TAKEN, Promise.STANDBYS_KNOWN, Promise.BACKED_UP, Promise.EVIDENCE_BOUND):
        assert report.finding(promise).verdict is Verdict.VALID, report.finding(promise)
    assert "were committed then" in report.finding(Promise.BACKED_UP).detail
