"""The end of a load on members as processes."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from upheaval.errors import UnknownOutcome
from upheaval.records import SessionEnd
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.system import ClusterSpec
from upheaval.system.aeron_clients import Bridge, BridgeClients, Egress
from upheaval.system.clients import ClientNeeds
from upheaval.waits import wait_until
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


class ThroughProgram:
    """A system whose clients reach it through this program, which a shell runs."""

    def __init__(self, program: str) -> None:
        self._program = program
        self.bridge: Bridge | None = None

    def clients(self, needs: ClientNeeds) -> BridgeClients:
        folder = needs.way.folder
        command = ["sh", "-c", f"echo BRIDGE 9; {self._program}"]
        self.bridge = Bridge(command, folder, folder / "driver", Egress(needs.way))
        return BridgeClients(needs, self.bridge)


def test_a_load_whose_clients_lost_their_program_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1))
    system = ThroughProgram("echo java.lang.OutOfMemoryError: Java heap space >&2; exit 3")
    monkeypatch.setattr(cluster, "system", system)
    load = ProcessLoad(cluster, WorkloadSettings())
    load.start()
    bridge = system.bridge
    assert bridge is not None
    wait_until(lambda: bridge.failure, timeout_s=60, describe=lambda: "the program runs on")
    why = (
        "the load on workbench ended: the bridge for clients ended with status 3: "
        "java.lang.OutOfMemoryError: Java heap space"
    )
    with pytest.raises(UnknownOutcome) as while_it_runs:
        load.wait_until_acknowledged(1, 60)
    with pytest.raises(UnknownOutcome) as at_its_end:
        load.finish()
    assert [str(raised.value) for raised in (while_it_runs, at_its_end)] == [why, why]
