"""Scenarios on the simulated runtime: faults of virtual links and processes, all of it from one seed.

Eyes look at the simulated processes and at the bytes that came out of the virtual links.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from upheaval.cluster import ELECTION_CLOSED
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.run_folder import Converge, FaultRecord, RunFolder
from upheaval.runtimes.simulated import network as virtual
from upheaval.runtimes.simulated.cluster import INGRESS_PORT, SECOND, SimulatedCluster, host_of
from upheaval.runtimes.simulated.collect import digest
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.world import Action, World
from upheaval.scenario import Scenario
from upheaval.workload import Load, LoadCounts
from upheaval_chaos.target import Answer, Link, Ping
from upheaval_node.ports import Connection
from upheaval_node.settings import profile_settings

LEADER_TIMEOUT_S = 30.0
LOAD_END_S = 30.0
# After its connection stands, the few bytes of a ping need this long on an ordinary link.
ARRIVAL_S = 0.005
CONSENSUS_PORT = INGRESS_PORT + 1


class _Prober:
    """A process of its own on a member's host, which makes one connection. Implements `network.Owner`."""

    alive = True

    def __init__(self, world: World, host: str) -> None:
        self.host = host
        self.is_connected = False
        self.end_reason: str | None = None
        self._world = world

    def post(self, action: Action) -> None:
        self._world.after(0, action)

    def on_connected(self, connection: Connection) -> None:
        self.is_connected = True
        connection.send([b"ping"])

    def on_data(self, data: memoryview) -> None:
        """A member has nothing to say to half a frame."""

    def on_writable(self) -> None:
        """All was sent at once."""

    def on_closed(self, reason: str) -> None:
        self.end_reason = reason


class SimulatedTarget:
    """A simulated cluster as faults see it. Implements `upheaval_chaos.target.Target`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world

    @property
    def run(self) -> RunFolder:
        return self.cluster.run

    @property
    def member_ids(self) -> Sequence[int]:
        return self.cluster.member_ids

    def leader(self) -> int | None:
        return self.cluster.leader()

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the member that does, with its election over."""
        status, leader = self.cluster.status()[member_id], self.leader()
        is_settled = status.alive and status.election_state == ELECTION_CLOSED
        return is_settled and leader is not None and status.leader_member_id == leader

    def record_fault(self, fault: FaultRecord) -> None:
        self.cluster.faults.append(fault)

    # --- clock ---

    def now_ns(self) -> int:
        return self.world.now_ns

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Conditions that let time pass themselves are asked again until it is over."""
        deadline_ns = self.world.now_ns + int(timeout_s * SECOND)
        while not condition():
            if self.world.now_ns >= deadline_ns:
                raise UnknownOutcome(f"no {what} within {timeout_s:g} s")
            self.let_pass(0.0005)

    def let_pass(self, seconds: float) -> None:
        self.world.run_for(int(seconds * SECOND))
        self.cluster.require_no_failure()

    # --- members ---

    def kill(self, member_id: int, component: str | None) -> None:
        self.cluster.members[member_id].kill(component)

    def stop(self, member_id: int) -> None:
        self.cluster.members[member_id].stop()

    def start(self, member_id: int) -> None:
        self.cluster.start(member_id)

    def pause(self, member_id: int, component: str | None) -> None:
        self._require_whole(component)
        self.cluster.pause(member_id)

    def resume(self, member_id: int, component: str | None) -> None:
        self._require_whole(component)
        self.cluster.resume(member_id)

    def incarnation(self, member_id: int, component: str | None) -> frozenset[str]:
        self._require_whole(component)
        process = self._process(member_id)
        return frozenset() if process is None or not process.alive else frozenset([process.name])

    def turns(self, member_id: int, component: str | None) -> int:
        self._require_whole(component)
        process = self._process(member_id)
        return 0 if process is None else process.cycles

    def _process(self, member_id: int) -> SimulatedProcess | None:
        return self.cluster.members[member_id].process

    @staticmethod
    def _require_whole(component: str | None) -> None:
        if component is not None:
            raise UsageError("members of the simulated runtime run their components together")

    # --- links ---

    def cut(self, links: Sequence[Link]) -> None:
        self.cluster.cut_links([self.cluster.link(link.source, link.target) for link in links])

    def reset(self, links: Sequence[Link]) -> None:
        for link in links:
            self._virtual(link).refuses = True
            self.cluster.fabric.reset(host_of(link.source), host_of(link.target))

    def slow(self, links: Sequence[Link], latency_ns: int, bytes_per_second: int) -> None:
        for link in links:
            self._virtual(link).extra_latency_ns = latency_ns
            self._virtual(link).bytes_per_second = bytes_per_second or None

    def heal(self, links: Sequence[Link]) -> None:
        self.cluster.heal_links([self.cluster.link(link.source, link.target) for link in links])
        self.slow(links, 0, 0)
        for link in links:
            self._virtual(link).refuses = False

    def delivered(self, link: Link) -> int:
        return self._virtual(link).delivered_bytes

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        return {"all": self.delivered(link)}

    def ping(self, link: Link, timeout_s: float) -> Ping:
        """The answer is that of the other host's kernel: it needs no member that lives."""
        prober = _Prober(self.world, host_of(link.source))
        begin_ns = self.world.now_ns
        address = f"{host_of(link.target)}:{CONSENSUS_PORT}"
        connection = self.cluster.fabric.network(prober).dial(address, prober)
        timeout_ns = int(timeout_s * SECOND)
        self.world.run_until(lambda: prober.is_connected or prober.end_reason is not None, timeout_ns)
        round_trip_ns = self.world.now_ns - begin_ns
        if prober.end_reason is None:
            self.let_pass(ARRIVAL_S)
        connection.close()
        if prober.end_reason is not None and "reset" in prober.end_reason:
            return Ping(Answer.RESET, round_trip_ns)
        return Ping(Answer.ANSWERED if prober.is_connected else Answer.SILENT, round_trip_ns)

    def _virtual(self, link: Link) -> virtual.Link:
        return self.cluster.fabric.link(host_of(link.source), host_of(link.target))


class SimulatedStage(SimulatedTarget):
    """Implements `scenario_stage.Stage`."""

    def __init__(self, scenario: Scenario, seed: int, folder: Path, planted: str | None = None) -> None:
        plan = scenario.cluster
        self._workload = replace(scenario.workload, seed=seed)
        self._load: Load | None = None
        cluster = SimulatedCluster(
            World(seed),
            members=plan.members,
            settings=profile_settings("test", sync_level=plan.sync_level),
            folder=RunFolder(folder),
            planted=planted,
        )
        super().__init__(cluster)

    # --- the run ---

    def open(self) -> None:
        self.cluster.start_all()
        self.cluster.wait_until_leader(LEADER_TIMEOUT_S)
        self._load = self.cluster.start_load(self._workload)

    def acknowledged(self) -> int:
        return self._required_load().counts.ok

    def end_load(self) -> LoadCounts:
        load = self._required_load()
        load.stop()
        self.wait_until(lambda: load.is_idle, LOAD_END_S, "end of the load")
        return load.counts

    def converge(self) -> Converge:
        return self.cluster.converge()

    def close(self) -> None:
        self.cluster.write()

    def digest(self) -> str:
        history = [operation.to_json() for operation in self.cluster.history]
        return digest(self.cluster.journal, history, {member.host: member.disk for member in self.cluster.members})

    def _required_load(self) -> Load:
        if self._load is None:
            raise UsageError("the load has not begun")
        return self._load
