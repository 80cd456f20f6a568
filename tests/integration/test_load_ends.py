"""The end of a load on members as processes."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from upheaval.records import SessionEnd
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.system import ClusterSpec
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_node.bell import Bell
from upheaval_node.types import NEVER_NS, Now, Ns

CLOSES_S = 6.0


class Lingering:
    """A load that never settles, and that takes as long to close as a bridge may. Implements `ClientLoad`."""

    bell: Bell | None = None
    is_idle = False
    raised = ()

    def __init__(self, *_: object, **__: object) -> None:
        self.counts = LoadCounts()
        self.is_closed = False

    def do_work(self, now: Now) -> int:
        return 0

    def next_deadline_ns(self) -> Ns:
        return NEVER_NS

    def stop(self) -> None:
        """Nothing is begun."""

    def open_sessions(self) -> Iterable[SessionEnd]:
        return ()

    def close(self) -> None:
        threading.Event().wait(CLOSES_S)
        self.is_closed = True


@pytest.mark.nightly
def test_a_load_that_does_not_settle_still_closes_its_clients(tmp_path: Path) -> None:
    load = Lingering()
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1))
    with ProcessLoad(cluster, WorkloadSettings(), make=lambda *_, **__: load) as running:
        assert running.finish() == LoadCounts()
    assert load.is_closed
