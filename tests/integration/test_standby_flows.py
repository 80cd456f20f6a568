"""The flow of `support.flows_standby` in virtual time, by seed, and on processes; tests/docker has it on containers."""

from functools import partial
from pathlib import Path

import pytest

from support.flows_standby import standby_snapshot_and_promotion
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
