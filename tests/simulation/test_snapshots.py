"""Members that start from a snapshot come to the state of members that replay all of the log; and what services asked
for, timers and messages, comes once, through deaths, elections and power cuts."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from support.fault_cases import drive, isolation
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.world import World
from upheaval.system import ClusterSpec
from upheaval.workload import Load, WorkloadSettings
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.counters import CONTROL_TOGGLE, SNAPSHOT_COUNT, cluster_key
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.member import MemberAgent, MemberConfig, MemberPorts, build_together
from upheaval_node.service.api import ClientSession, Cluster, ClusteredService, SnapshotImage
from upheaval_node.service.services.state import Record
from upheaval_node.service.services.workbench import Workbench
from upheaval_node.settings import profile_settings
from upheaval_node.types import S

LOAD = WorkloadSettings(slots=8, keys=4, rate=100)
SERVICE = f"{__name__}:Busy"
DELAY_MS = 300


class Busy(Workbench):
    """A workbench that schedules a timer and offers a message for each fifth request, and counts what comes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.fired: dict[int, int] = {}
        self.heard: dict[int, int] = {}
        self.delivered = 0
        self.ended_at: int | None = None
        self._cluster: Cluster | None = None

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        self._cluster = cluster
        super().on_start(cluster, snapshot_image)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        self.delivered += 1
        if session is None:
            number = int.from_bytes(payload, "little")
            self.heard[number] = self.heard.get(number, 0) + 1
            return
        super().on_session_message(session, timestamp, payload, position)
        self.requests += 1
        if self.requests % 5 == 0:
            assert self._cluster is not None
            self._cluster.schedule_timer(position, timestamp + DELAY_MS)
            self._cluster.offer(self.requests.to_bytes(8, "little"))

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.fired[correlation_id] = self.fired.get(correlation_id, 0) + 1

    def on_terminate(self, cluster: Cluster) -> None:
        self.ended_at = cluster.log_position

    def records(self) -> Iterator[Record]:
        yield from super().records()
        yield Record(7, "requests", self.requests.to_bytes(8, "little"))
        for kind, table in ((8, self.fired), (9, self.heard)):
            for number, count in table.items():
                yield Record(kind, "", number.to_bytes(8, "little") + count.to_bytes(8, "little"))

    def load(self, record: Record) -> None:
        first, second = (int.from_bytes(record.value[at : at + 8], "little") for at in (0, 8))
        match record.kind:
            case 7:
                self.requests = first
            case 8:
                self.fired[first] = second
            case 9:
                self.heard[first] = second
            case _:
                super().load(record)


class Watched:
    """A simulated cluster whose services and modules can be looked at. `replays_all` start without their snapshots."""

    def __init__(self, seed: int, sync_level: int = 1) -> None:
        settings = profile_settings("test", sync_level=sync_level)
        self.cluster = SimulatedCluster(World(seed), ClusterSpec(service=SERVICE), settings=settings)
        self.cluster.build = self._build
        self.services: dict[int, Busy] = {}
        self.modules: dict[int, ConsensusModule] = {}
        self.replays_all: set[int] = set()
        self.cluster.start_all()
        self.cluster.wait_until_leader()

    def _build(
        self, config: MemberConfig, ports: MemberPorts, services: Sequence[ClusteredService]
    ) -> list[MemberAgent]:
        if config.member_id in self.replays_all:
            log = RecordingLog(ports.storage)
            log.invalidate_snapshot([entry for entry in log.entries if entry.is_snapshot])
            log.close()
        agents = build_together(config, ports, services)
        (service,) = services
        assert isinstance(service, Busy)
        self.services[config.member_id] = service
        (self.modules[config.member_id],) = (agent for agent in agents if isinstance(agent, ConsensusModule))
        return agents

    def take_snapshot(self) -> None:
        cluster = self.cluster
        leader = cluster.wait_until_leader()
        before = self._snapshot_count(leader)
        self.set_toggle(ControlToggle.SNAPSHOT)
        cluster.wait_until(
            lambda: cluster.leader() != leader or self._snapshot_count(leader) > before, 20, "a snapshot"
        )

    def set_toggle(self, value: ControlToggle) -> None:
        leader = self.cluster.wait_until_leader()
        toggle = self.cluster.members[leader].counters.find(CONTROL_TOGGLE, cluster_key(0))
        assert toggle is not None
        toggle.set(value)

    def _snapshot_count(self, member_id: int) -> int:
        count = self.cluster.members[member_id].counters.find(SNAPSHOT_COUNT, cluster_key(0))
        return 0 if count is None else count.get()

    def settle(self, load: Load) -> None:
        load.stop()
        self.cluster.wait_until(lambda: load.is_idle, 20, "end of the load")
        self.cluster.world.run_for(2 * S)
        converge = self.cluster.converge()
        assert converge.reached, self.cluster.describe()

    def states(self) -> list[object]:
        """What each member knows, apart from who is connected where."""
        return [
            (
                list(self.services[member_id].records()),
                self.services[member_id].requests,
                self.modules[member_id]._state.sessions.records(),
                self.modules[member_id]._state.sessions.next_committed_session_id,
                list(self.modules[member_id]._state.timers),
                [(each.next_id, each.log_id, len(each)) for each in self.modules[member_id]._state.pending_messages],
            )
            for member_id in self.cluster.member_ids
        ]


def assert_all_once(watched: Watched) -> None:
    for service in watched.services.values():
        expected = service.requests // 5
        assert expected > 10
        assert len(service.fired) == len(service.heard) == expected
        assert set(service.fired.values()) == set(service.heard.values()) == {1}


@pytest.mark.parametrize("seed", range(2))
def test_a_snapshot_and_the_log_after_it_give_the_state_of_the_whole_log(seed: int) -> None:
    watched = Watched(seed)
    cluster = watched.cluster
    load = cluster.start_load(LOAD)
    cluster.world.run_for(2 * S)
    watched.take_snapshot()
    cluster.world.run_for(2 * S)
    watched.settle(load)
    states = watched.states()
    assert states[0] == states[1] == states[2]
    assert_all_once(watched)
    cluster.down()
    watched.replays_all = {1}
    cluster.start_all()
    cluster.wait_until_leader()
    cluster.world.run_for(2 * S)
    assert cluster.converge().reached
    again = watched.states()
    assert again[0] == again[1] == again[2]
    assert_all_once(watched)
    counts = {member_id: service.delivered for member_id, service in watched.services.items()}
    assert 0 < counts[0] == counts[2] < counts[1]
    assert cluster.failures == []


@pytest.mark.parametrize("seed", range(4))
def test_snapshots_among_deaths_and_elections_change_no_state(seed: int) -> None:
    watched = Watched(100 + seed, sync_level=seed % 3)
    cluster = watched.cluster
    driver = drive(cluster)
    random = Random(seed)
    load = cluster.start_load(LOAD)
    for _ in range(4):
        cluster.world.run_for(S)
        victim = random.choice(cluster.member_ids)
        if random.random() < 0.5:
            watched.take_snapshot()
        else:
            # In the middle of one.
            watched.set_toggle(ControlToggle.SNAPSHOT)
            cluster.world.run_for(random.randrange(S // 50))
        if seed % 2:
            cluster.members[victim].kill()
        else:
            driver.begin("cut-off", isolation(victim))
        cluster.world.run_for(random.randrange(3 * S))
        driver.end("cut-off")
        cluster.start_all()
        cluster.wait_until_leader()
    watched.settle(load)
    states = watched.states()
    assert states[0][:2] == states[1][:2] == states[2][:2]  # type: ignore[index]
    assert_all_once(watched)
    watched.replays_all = {random.choice(cluster.member_ids)}
    cluster.down()
    cluster.start_all()
    cluster.wait_until_leader()
    cluster.world.run_for(2 * S)
    assert cluster.converge().reached
    states = watched.states()
    assert states[0] == states[1] == states[2]
    assert_all_once(watched)
    assert cluster.failures == []


@pytest.mark.parametrize("toggle", [ControlToggle.SHUTDOWN, ControlToggle.ABORT])
def test_a_cluster_ends_under_load_at_one_position_and_starts_from_there(toggle: ControlToggle) -> None:
    watched = Watched(200)
    cluster = watched.cluster
    load = cluster.start_load(LOAD)
    cluster.world.run_for(2 * S)
    watched.set_toggle(toggle)
    cluster.wait_until(lambda: not any(member.alive for member in cluster.members), 15, "end of the cluster")
    assert cluster.failures == []
    ends = {service.ended_at for service in watched.services.values()}
    assert len(ends) == 1
    assert None not in ends
    load.stop()
    load.close()
    before = watched.services[0].requests
    cluster.start_all()
    cluster.wait_until_leader()
    again = cluster.start_load(LOAD)
    cluster.world.run_for(2 * S)
    watched.settle(again)
    states = watched.states()
    assert states[0] == states[1] == states[2]
    assert_all_once(watched)
    replayed = {service.delivered > service.requests for service in watched.services.values()}
    assert replayed == {toggle is ControlToggle.ABORT}
    assert watched.services[0].requests > before
