"""The flow of `support.flows_backup` in virtual time, by seed, and on processes; tests/docker has it on containers."""

from functools import partial
from pathlib import Path

import pytest

from support.flows_backup import backup_under_load_and_restore
from upheaval.testing.cluster import Cluster


@pytest.mark.parity("BK-11", "BK-15", "BK-16", "BK-18", "BK-19")
def test_backup_under_load_and_restore_on_processes(tmp_path: Path) -> None:
    backup_under_load_and_restore(partial(Cluster, runtime="process"), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_backup_under_load_and_restore_by_seed(tmp_path: Path, seed: int) -> None:
    backup_under_load_and_restore(partial(Cluster, runtime="simulated", seed=seed), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4, 24))
def test_backup_under_load_and_restore_by_many_seeds(tmp_path: Path, seed: int) -> None:
    backup_under_load_and_restore(partial(Cluster, runtime="simulated", sync_level=seed % 3, seed=seed), tmp_path)
    assert (tmp_path / "second" / "origin.json").is_file()
