"""Processes that a handle starts: the status of each is its own, also when the kernel gives an id again."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until

LIMIT_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1))
    yield cluster
    cluster.down()


def test_a_process_with_the_id_of_an_ended_one_has_no_status(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = os.posix_spawnp

    def spawn_again(*arguments: Any, **options: Any) -> int:
        pid = spawn(*arguments, **options)
        # As it was seen of an earlier process.
        cluster._exit_statuses[pid] = -signal.SIGKILL
        return pid

    monkeypatch.setattr(os, "posix_spawnp", spawn_again)
    cluster.spawn("member 0", ["sleep", "600"], cluster.folder / "all.log", {})
    (pid,) = cluster.started
    assert cluster.exit_status_of(0, pid) is None
    os.kill(pid, signal.SIGTERM)
    status = wait_until(lambda: cluster.exit_status_of(0, pid), timeout_s=LIMIT_S, describe=lambda: "it does not end")
    assert status == -signal.SIGTERM
