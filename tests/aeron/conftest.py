"""One cluster for all: its members took load and two snapshots, one was killed meanwhile, the others were shut down.

Tests get copies of the members' folders, because some of Aeron's programs change what they look at.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.aeron_tools import Answer, archive_tool, java
from support.live_clusters import end_without_trace
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.counters import CONTROL_TOGGLE, SNAPSHOT_COUNT, Counter, cluster_key
from upheaval_node.runtime.shared_counters import attach_cnc

TIMEOUT_S = 240.0
# Together more than one segment of the `test` profile.
VALUE_LENGTH = 7000
VALUES = 180


class Members:
    """The folders that the cluster left, and what was seen while it ran."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.cluster = cluster
        self.leader = cluster.up()
        self.killed, self.stopped = (each for each in range(3) if each != self.leader)
        self.statistics = Answer(-1, "")
        self.live_description = Answer(-1, "")

    def run(self) -> None:
        with BlockingClient(self.cluster.ingress_endpoints(), TIMEOUT_S) as client:
            write_values(client, "a")
            take_snapshot(self.cluster, self.leader)
            write_values(client, "b")
            driver = self.folder(self.leader) / "aeron"
            self.statistics = java("io.aeron.samples.AeronStat", "watch=false", properties={"aeron.dir": driver})
            self.live_description = archive_tool(self.folder(self.leader), "describe")
            take_snapshot(self.cluster, self.leader)
            self.cluster.member(self.killed).kill()
            write_values(client, "c")
        self.cluster.down()

    def folder(self, member_id: int) -> Path:
        return self.cluster.member(member_id).folder


def take_snapshot(cluster: ProcessCluster, leader: int) -> None:
    """As an operator asks for one, by the toggle of the leader; every member has taken it afterwards."""
    counts = [_counter(member.folder, SNAPSHOT_COUNT) for member in cluster.members]
    before = [count.get() for count in counts]
    _counter(cluster.member(leader).folder, CONTROL_TOGGLE).set(ControlToggle.SNAPSHOT)
    wait_until(
        lambda: all(count.get() > old for count, old in zip(counts, before, strict=True)),
        timeout_s=TIMEOUT_S,
        describe=lambda: "not every member has taken the snapshot",
    )


def _counter(member: Path, type_id: int) -> Counter:
    cnc = attach_cnc(str(member / "aeron" / "cnc.dat"))
    assert cnc is not None
    found = cnc.counters().find(type_id, cluster_key(0))
    cnc.close()
    assert found is not None
    return found


def write_values(client: BlockingClient, name: str) -> None:
    for index in range(VALUES):
        client.write(name, f"{index:06}".encode() + bytes(VALUE_LENGTH))


@pytest.fixture(scope="session")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    cluster = ProcessCluster.create(tmp_path_factory.mktemp("members") / "cluster", ClusterSpec(sync_level=1))
    try:
        made = Members(cluster)
        made.run()
        yield made
    finally:
        end_without_trace(cluster)


CopyOf = Callable[[str], Path]


@pytest.fixture
def copy_of(members: Members, tmp_path: Path) -> CopyOf:
    """A copy of the folder of the member that was `killed` or `stopped`, or of the `leader`."""

    def copy(which: str) -> Path:
        folder = members.folder(getattr(members, which))
        return Path(shutil.copytree(folder, tmp_path / which))

    return copy
