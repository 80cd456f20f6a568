"""Scenarios on the simulated runtime: faults of virtual links and processes, all of it from one seed.

Eyes look at the simulated processes and at the bytes that came out of the virtual links.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import (
    BACKUP,
    CompanionConfig,
    ControlRecord,
    Converge,
    RunFolder,
    check_companion,
    companion_name,
)
from upheaval.runtimes.simulated import links as virtual
from upheaval.runtimes.simulated.cluster import INGRESS_PORT, Beside, SimulatedCluster, host_of
from upheaval.runtimes.simulated.collect import digest
from upheaval.runtimes.simulated.companion import SimulatedCompanion, make_backup
from upheaval.runtimes.simulated.network import EndReason
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.standby import make_standby
from upheaval.runtimes.simulated.world import Action, World
from upheaval.scenario import Scenario
from upheaval.system import ControlStatus, MemberStatus, is_caught_up
from upheaval.workload import Load, LoadCounts
from upheaval_chaos.pings import PingText, channel_of_ping, ping_text
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import CHANNELS, CLIENTS, INGRESS, Answer, Link, LinkEffect, LinkFaultKind, Means, Ping
from upheaval_node.ports import Connection
from upheaval_node.settings import profile_settings
from upheaval_node.types import MS, S

LEADER_TIMEOUT_S = 30.0
LOAD_END_S = 30.0
# What is under way when a ping is over needs this long on an ordinary link.
ARRIVAL_S = 0.005
# The load is the one client.
CLIENT_HOST = "client-1"
_PORTS = {channel: str(INGRESS_PORT + index) for index, channel in enumerate((INGRESS, *CHANNELS))}


class _Prober:
    """A process of its own on one host, which makes one connection. Implements `network.Owner`."""

    alive = True

    def __init__(self, world: World, host: str, text: PingText) -> None:
        self.host = host
        self.is_answered = False
        self.end_reason: str | None = None
        self._world = world
        self._text = text
        self._connection: Connection | None = None

    @property
    def is_over(self) -> bool:
        return self.is_answered or self.end_reason is not None

    def deliver(self, action: Action) -> None:
        self._world.after(0, action)

    def on_connected(self, connection: Connection) -> None:
        self._connection = connection
        connection.send([self._text.opening])

    def on_data(self, data: memoryview) -> None:  # noqa: ARG002 - whatever it says
        self.is_answered = True
        if self._connection is not None and self._text.farewell:
            self._connection.send([self._text.farewell])

    def on_writable(self) -> None:
        """All was sent at once."""

    def on_closed(self, reason: str) -> None:
        self.end_reason = reason

    def answer(self) -> Answer:
        if self.is_answered:
            return Answer.ANSWERED
        match self.end_reason:
            case None | EndReason.TIMED_OUT:
                return Answer.SILENT
            case EndReason.RESET | EndReason.RESET_ON_THE_WAY:
                return Answer.RESET
            case EndReason.REFUSED:
                return Answer.REFUSED
        return Answer.ENDED


class SimulatedTarget:
    """A simulated cluster as faults see it. Implements `upheaval_chaos.target.Target`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self._imposed: dict[_Part, Counter[LinkEffect]] = {}

    @property
    def run(self) -> RunFolder:
        return self.cluster.run

    @property
    def member_ids(self) -> Sequence[int]:
        return self.cluster.member_ids

    def leader(self) -> int | None:
        return self.cluster.leader()

    def acknowledged(self) -> int:
        """How many operations of the load were acknowledged; none where there is no load of the target's own."""
        return 0

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the member that does, with its election over."""
        return is_caught_up(self.cluster.status(), member_id)

    def record_fault(self, fault: FaultRecord) -> None:
        self.cluster.faults.append(fault)

    # --- clock ---

    def now_ns(self) -> int:
        return self.world.now_ns

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Conditions that let time pass themselves are asked again until it is over."""
        deadline_ns = self.world.now_ns + int(timeout_s * S)
        while not condition():
            if self.world.now_ns >= deadline_ns:
                raise UnknownOutcome(f"no {what} within {timeout_s:g} s")
            self.let_pass(0.0005)

    def let_pass(self, seconds: float) -> None:
        self.world.run_for(int(seconds * S))
        self.cluster.require_no_failure()

    # --- members ---

    def kill(self, member_id: int, component: str | None) -> None:
        self.cluster.members[member_id].kill(component)

    def stop(self, member_id: int, component: str | None) -> None:
        self._require_whole(component)
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

    # --- orders ---

    def status(self) -> list[MemberStatus]:
        return self.cluster.status()

    def order(self, member_id: int, order: str) -> str:
        return self.cluster.members[member_id].order(order)

    def control_statuses(self) -> Sequence[ControlStatus]:
        return [member.control_status() for member in self.cluster.members]

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        return self.cluster.members[member_id].exit_statuses.get(incarnation)

    def record_control(self, record: ControlRecord) -> None:
        self.cluster.controls.append(record)

    # --- companions ---

    def companion(self, name: str) -> Beside:
        """Raises `UsageError` for one that was never started here."""
        found = self.cluster.companions.get(companion_name(name))
        if found is None:
            raise UsageError(f"this cluster has no {name}: start it first")
        return found

    def add_companion(self, config: CompanionConfig) -> SimulatedCompanion:
        """Raises `UsageError` when it was started before and asked for otherwise: that cannot be changed here."""
        check_companion(config)
        make = make_backup if config.kind == BACKUP else make_standby
        found = make(self.cluster, config)
        if (found.config.source, found.config.replay_start) != (config.source, config.replay_start):
            raise UsageError(f"{config.name} copies from {found.config.source}: in the simulation it goes on so")
        return found

    # --- links ---

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        if effect.means is not Means.PROXY:
            raise UsageError("the simulated runtime has no packets to filter: leave out by=packets")
        for part in _parts(links):
            holder = self._imposed.setdefault(part, Counter())
            holder[effect] += 1
            self._carry_out(part, effect)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        for part in _parts(links):
            holder = self._imposed.get(part, Counter())
            holder[effect] -= 1
            if holder[effect] <= 0:
                del holder[effect]
                self._take_away(part, effect)
                for rest in holder:
                    self._carry_out(part, rest)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """What comes in one direction on one channel is one stream here."""
        return {
            f"{part.source}->{part.target}:{part.port}": self._virtual(part).delivered_bytes for part in _parts([link])
        }

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        channel = channel_of_ping(link.channels)
        prober = _Prober(self.world, _host(link.source), ping_text(channel, extra_length))
        begin_ns = self.world.now_ns
        address = f"{_host(link.target)}:{_PORTS[channel]}"
        connection = self.cluster.fabric.network(prober).dial(address, prober)
        self.world.run_until(lambda: prober.is_over, int(timeout_s * S))
        round_trip_ns = self.world.now_ns - begin_ns
        self.let_pass(ARRIVAL_S)
        connection.close()
        return Ping(prober.answer(), round_trip_ns)

    def _carry_out(self, part: "_Part", effect: LinkEffect) -> None:
        fabric, virtual_link = self.cluster.fabric, self._virtual(part)
        match effect.kind:
            case LinkFaultKind.BLACKHOLE:
                fabric.cut(part.source, part.target, part.port)
            case LinkFaultKind.RESET:
                virtual_link.refuses = True
                fabric.reset(part.source, part.target, part.port)
            case LinkFaultKind.SLOW:
                virtual_link.extra_latency_ns = effect.latency_ms * MS
                virtual_link.bytes_per_second = effect.bytes_per_second or None
            case LinkFaultKind.TIMEOUT:
                fabric.silence(part.source, part.target, part.port, effect.timeout_ms * MS)

    def _take_away(self, part: "_Part", effect: LinkEffect) -> None:
        fabric, virtual_link = self.cluster.fabric, self._virtual(part)
        match effect.kind:
            case LinkFaultKind.BLACKHOLE:
                fabric.heal(part.source, part.target, part.port)
            case LinkFaultKind.RESET:
                virtual_link.refuses = False
            case LinkFaultKind.SLOW:
                virtual_link.extra_latency_ns, virtual_link.bytes_per_second = 0, None
            case LinkFaultKind.TIMEOUT:
                fabric.silence(part.source, part.target, part.port, None)

    def _virtual(self, part: "_Part") -> virtual.Link:
        return self.cluster.fabric.channel(part.source, part.target, part.port)


class _Part(NamedTuple):
    """One channel of a link: hosts, and the port to which its connections are dialled."""

    source: str
    target: str
    port: str


def _parts(links: Sequence[Link]) -> list[_Part]:
    return [
        _Part(_host(link.source), _host(link.target), _PORTS[channel]) for link in links for channel in link.channels
    ]


def _host(end: int) -> str:
    return CLIENT_HOST if end == CLIENTS else host_of(end)


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
            service=plan.service,
            folder=RunFolder(folder),
            planted=planted,
            traces_protocol=True,
        )
        super().__init__(cluster)

    # --- the run ---

    @property
    def target(self) -> Self:
        return self

    def open(self, say: Callable[[str], None]) -> None:  # noqa: ARG002 - there is nothing to say about it
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
