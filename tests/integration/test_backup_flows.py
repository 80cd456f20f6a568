"""The flow of `support.flows_backup` in virtual time, by seed, and on processes; tests/docker has it on containers."""

from functools import partial
from pathlib import Path

import pytest

from support.flows import SERVICE, SOURCE, Books
from support.flows_backup import backup_under_load_and_restore
from upheaval import Verdict
from upheaval.checkers.promises import Promise
from upheaval.records import read_origin
from upheaval.testing.cluster import Cluster


@pytest.mark.parity("BK-11", "BK-15", "BK-16", "BK-18", "BK-19")
def test_backup_under_load_and_restore_on_processes(tmp_path: Path) -> None:
    backup_under_load_and_restore(partial(Cluster, runtime="process"), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (2, 3))])
def test_backup_under_load_and_restore_by_seed(tmp_path: Path, seed: int) -> None:
    backup_under_load_and_restore(partial(Cluster, runtime="simulated", seed=seed), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


@pytest.mark.parity("BK-12")
def test_a_backup_that_begins_at_the_latest_snapshot_is_restored(tmp_path: Path) -> None:
    """What was before the log's beginning is in the snapshot: the balances show it, no log can."""
    with Cluster(SERVICE, SOURCE, runtime="simulated", folder=tmp_path / "first", seed=3) as cluster:
        books = Books(cluster)
        books.deposit("in the snapshot")
        snapshot = cluster.snapshot()
        books.deposit("beyond the snapshot")
        cluster.backup.start(source="FOLLOWER", replay_start="LATEST_SNAPSHOT")
        books.deposit("live")
        position = cluster.backup.wait_until_caught_up()
        assert cluster.verify().finding(Promise.BACKED_UP).verdict is Verdict.VALID
    folder = tmp_path / "second"
    backup = cluster.backup.folder
    with Cluster(SERVICE, SOURCE, runtime="simulated", folder=folder, seed=4, restore_from=backup) as cluster:
        assert Books(cluster, first_id=1000).balances() == books.expected
        report = cluster.verify()
    origin = read_origin(folder)
    assert origin is not None
    assert (origin.start_position, origin.snapshots, origin.position >= position) == (snapshot, (snapshot,), True)
    assert report.finding(Promise.BACKED_UP).verdict is Verdict.VALID
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.UNKNOWN


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4, 24))
def test_backup_under_load_and_restore_by_many_seeds(tmp_path: Path, seed: int) -> None:
    backup_under_load_and_restore(partial(Cluster, runtime="simulated", sync_level=seed % 3, seed=seed), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()
