"""Scenarios on the simulated runtime: faults of virtual links and processes, all from one seed.

The observer looks at the simulated processes and at the bytes that the virtual links delivered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, Self

from upheaval.errors import UnknownOutcome, UsageError
from upheaval.execution.invariants import Invariants
from upheaval.execution.stage import require_tasks_passed
from upheaval.records import (
    BACKUP,
    CompanionConfig,
    ControlRecord,
    Converge,
    RunFolder,
    check_companion,
    companion_name,
)
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated import links as virtual
from upheaval.runtimes.simulated.cluster import Beside, Plan, SimulatedCluster, member_settings
from upheaval.runtimes.simulated.collect import digest
from upheaval.runtimes.simulated.companion import SimulatedCompanion, make_backup
from upheaval.runtimes.simulated.files import SimulatedFiles
from upheaval.runtimes.simulated.gate import Gate
from upheaval.runtimes.simulated.hosts import PORTS, SimulatedHosts, host_of_end
from upheaval.runtimes.simulated.sockets import EndReason
from upheaval.runtimes.simulated.standby import make_standby
from upheaval.runtimes.simulated.world import Action, World
from upheaval.scenario import Scenario
from upheaval.system import ControlStatus, MemberStatus, check_system, is_caught_up, shown
from upheaval.workload import ClientLoad, Load, LoadCounts, LoadMaker
from upheaval_chaos.host_faults import NOT_SIMULATED
from upheaval_chaos.pings import PingText, channel_of_ping, ping_text
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import Answer, Link, LinkEffect, LinkFaultKind, Means, Node, Ping
from upheaval_node.ports import Connection
from upheaval_node.settings import MemberSettings
from upheaval_node.types import MS, S

_STRANGERS_S: Final = 20.0

LEADER_TIMEOUT_S = 60.0
LOAD_END_S = 30.0
# On an ordinary link, bytes that are in flight at the end of a ping need this long.
ARRIVAL_S = 0.005


class _Prober:
    """A separate process on one host that makes one connection. Implements `network.Owner`."""

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
        """Does nothing: everything was sent at once."""

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
    """A simulated cluster as target of faults. Implements `upheaval_chaos.target.Target`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self._hosts = SimulatedHosts(cluster)
        self._imposed: dict[_Part, Counter[LinkEffect]] = {}

    @property
    def run(self) -> RunFolder:
        """The run folder of the cluster."""
        return self.cluster.run

    @property
    def member_ids(self) -> Sequence[int]:
        """The ids of all members, running or not."""
        return self.cluster.member_ids

    def leader(self) -> int | None:
        """The serving leader, None without one."""
        return self.cluster.leader()

    def acknowledged(self) -> int:
        """How many operations of the load were acknowledged; 0 if the target runs no load."""
        return 0

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the serving leader, and its election is over."""
        return is_caught_up(self.cluster.status(), member_id)

    def added_lines(self) -> Callable[[], Iterable[bytes]]:
        """Reads the lines of all members' traces since its last call."""
        return self.cluster.journal.added_lines()

    def record_fault(self, fault: FaultRecord) -> None:
        """Keep the record until the run folder is written."""
        self.cluster.faults.append(fault)

    # --- clock ---

    def now_ns(self) -> int:
        """The virtual time."""
        return self.world.now_ns

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Conditions that let time pass themselves are asked again until the time-out."""
        deadline_ns = self.world.now_ns + int(timeout_s * S)
        while not condition():
            if self.world.now_ns >= deadline_ns:
                raise UnknownOutcome(f"no {what} within {timeout_s:g} s: {shown(self.cluster.status())}")
            self.let_pass(0.0005)

    def let_pass(self, seconds: float) -> None:
        """Run the world for that many seconds. Raises `ProcessFailed` when a defect ended a process."""
        self.world.run_for(int(seconds * S))
        self.cluster.require_no_failure()

    def node(self, member_id: int) -> Node:
        """The injector and observer of a member."""
        return self.cluster.members[member_id]

    def try_strangers(self) -> None:
        """Let time pass until the stranger has tried all wrong credentials, if the cluster requires credentials."""
        if self.cluster.gate is not None:
            with suppress(UnknownOutcome):
                self.wait_until(self.cluster.has_refused_strangers, _STRANGERS_S, "answer to wrong credentials")

    def converge(self, timeout_s: float) -> Converge:
        """Let time pass until all members have the same position."""
        return self.cluster.converge(timeout_s)

    # --- commands ---

    def status(self) -> list[MemberStatus]:
        """The status from each member's counters."""
        return self.cluster.status()

    def give(self, member_id: int, command: str) -> str:
        """Set the member's control toggle. Returns why it was refused, empty if it was not."""
        return self.cluster.members[member_id].give(command)

    def control_statuses(self) -> Sequence[ControlStatus]:
        """What each member reports about its consensus module and snapshots, in order of member ids."""
        return [member.control_status() for member in self.cluster.members]

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        """The exit status of a process that ended on its own; None while it runs, or if it was killed."""
        return self.cluster.members[member_id].exit_statuses.get(incarnation)

    def record_control(self, record: ControlRecord) -> None:
        """Keep the record until the run folder is written."""
        self.cluster.controls.append(record)

    # --- companions ---

    def companion(self, name: str) -> Beside:
        """The companion of this name. Raises `UsageError` if it was never started here."""
        companion = self.cluster.companions.get(companion_name(name))
        if companion is None:
            raise UsageError(f"this cluster has no {name}: start it first")
        return companion

    def add_companion(self, config: CompanionConfig) -> SimulatedCompanion:
        """Raises `UsageError` when it was started before with other options, which cannot change here."""
        check_companion(config)
        make = make_backup if config.kind == BACKUP else make_standby
        companion = make(self.cluster, config)
        if (companion.config.source, companion.config.replay_start) != (config.source, config.replay_start):
            raise UsageError(f"{config.name} copies from {companion.config.source}, which the simulation cannot change")
        return companion

    # --- hosts and links ---

    def files(self, member_id: int) -> SimulatedFiles:
        """The files on the disk of a member's host."""
        return SimulatedFiles(self.cluster.members[member_id])

    def hosts(self, purpose: str, kind: str = "") -> SimulatedHosts:
        """The hosts of the cluster. Raises `UsageError` for what is not simulated."""
        if kind in NOT_SIMULATED:
            raise UsageError(f"the simulated runtime cannot {purpose}: {NOT_SIMULATED[kind]}: use --runtime process")
        return self._hosts

    def datagrams(self, purpose: str) -> NoReturn:
        """Raises `UsageError`: simulated members use streams."""
        raise UsageError(f"simulated members send no datagrams to {purpose}: use --runtime process --system aeron")

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Raises `UsageError` for packet filters and for faults of one end's connections: the simulation has
        neither.
        """
        if any(link.dialler for link in links):
            raise UsageError(
                "simulated links are cut whichever end dialled: leave out dialled-by, or use --runtime process"
            )
        if effect.means is not Means.PROXY:
            raise UsageError("the simulated runtime has no packets to filter: leave out by=packets")
        for part in _parts(links, effect):
            self._imposed.setdefault(part, Counter())[effect] += 1
            self._settle(part)
            if effect.kind is LinkFaultKind.RESET:
                self.cluster.fabric.reset(*part)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Effects of other faults on the same links remain."""
        for part in _parts(links, effect):
            self._imposed.setdefault(part, Counter())[effect] -= 1
            self._settle(part)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """One direction of one channel is one stream here."""
        parts = [_Part(host_of_end(link.source), host_of_end(link.target), PORTS[channel]) for channel in link.channels]
        return {f"{part.source}->{part.target}:{part.port}": self._virtual(part).delivered_bytes for part in parts}

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Dials from the source's host. It takes the virtual time of the answer."""
        channel = channel_of_ping(link.channels)
        prober = _Prober(self.world, host_of_end(link.source), ping_text(channel, extra_length))
        begin_ns = self.world.now_ns
        address = f"{host_of_end(link.target)}:{PORTS[channel]}"
        connection = self.cluster.fabric.network(prober).dial(address, prober)
        self.world.run_until(lambda: prober.is_over, int(timeout_s * S))
        round_trip_ns = self.world.now_ns - begin_ns
        self.let_pass(ARRIVAL_S)
        connection.close()
        return Ping(prober.answer(), round_trip_ns)

    def _settle(self, part: "_Part") -> None:
        """Apply all imposed effects, and no others: latencies add up, and the smallest limit applies."""
        fabric, link, effects = self.cluster.fabric, self._virtual(part), list(self._imposed[part].elements())
        kinds = {effect.kind for effect in effects}
        if LinkFaultKind.BLACKHOLE in kinds:
            fabric.cut(*part)
        else:
            fabric.heal(*part)
        link.refuses = LinkFaultKind.RESET in kinds
        link.extra_latency_ns = sum(effect.latency_ms for effect in effects) * MS
        link.bytes_per_second = min((e.bytes_per_second for e in effects if e.bytes_per_second), default=None)
        silence_ns = min((effect.timeout_ms * MS for effect in effects if effect.timeout_ms), default=None)
        if silence_ns != link.silence_ns:
            fabric.silence(*part, silence_ns)

    def _virtual(self, part: "_Part") -> virtual.Link:
        return self.cluster.fabric.channel(part.source, part.target, part.port)


class _Part(NamedTuple):
    """A link, or one channel of it: two hosts, and the port of its connections, empty for all."""

    source: str
    target: str
    port: str


def _parts(links: Sequence[Link], effect: LinkEffect) -> list[_Part]:
    """The parts that an effect applies to: whole links, or channels. A bandwidth limit applies to each channel."""
    return [
        _Part(host_of_end(link.source), host_of_end(link.target), PORTS[channel] if channel else "")
        for link in links
        for channel in (link.channels if effect.bytes_per_second else (link.channel,))
    ]


class SimulatedStage(SimulatedTarget):
    """Implements `stage.Stage`."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        folder: Path,
        planted: str | None = None,
        *,
        settings: MemberSettings | None = None,
        gate: Gate | None = None,
        traces_protocol: bool = True,
        writes_scenario: bool = True,
        make_load: LoadMaker = Load,
    ) -> None:
        plan = scenario.cluster
        check_system(plan.made(""), SIMULATED)
        self._workload = replace(scenario.workload, seed=seed)
        self._make_load = make_load
        self._load: ClientLoad | None = None
        cluster = SimulatedCluster(
            World(seed),
            replace(plan, planted=planted),
            settings=settings or member_settings(plan),
            folder=RunFolder(folder),
            gate=gate,
            traces_protocol=traces_protocol,
        )
        cluster.plan = Plan(
            scenario.planned_faults,
            scenario.planned_commands,
            scenario.promises,
            scenario=scenario.text if writes_scenario else None,
        )
        super().__init__(cluster)
        self.invariants = Invariants(cluster) if scenario.has_invariants else None

    # --- the run ---

    @property
    def target(self) -> Self:
        """This object: in the simulation, stage and target are the same."""
        return self

    def open(self, say: Callable[[str], None]) -> None:  # noqa: ARG002 - there is nothing to say about it
        """Start all members, wait for a leader, and start the load."""
        self.cluster.start_all()
        self.cluster.wait_until_leader(LEADER_TIMEOUT_S)
        self._load = self.cluster.start_load(self._workload, self._make_load)

    def acknowledged(self) -> int:
        """The operations of the load that were answered."""
        return self._required_load().counts.ok

    def end_load(self) -> LoadCounts:
        """Raises `UnknownOutcome` when operations remain outstanding."""
        load = self._required_load()
        load.stop()
        self.wait_until(lambda: load.is_idle, LOAD_END_S, "end of the load")
        return load.counts

    def close(self) -> None:
        """Write the run folder."""
        self.cluster.write()
        require_tasks_passed(self.run, () if self._load is None else self._load.raised)

    def digest(self) -> str:
        """The SHA-256 over traces, history (the logs have the sessions) and disks: for one seed, always the same."""
        history = [replace(operation, session=None).to_json() for operation in self.cluster.history]
        return digest(self.cluster.journal, history, {member.host: member.disk for member in self.cluster.members})

    def _required_load(self) -> ClientLoad:
        if self._load is None:
            raise UsageError("the load has not begun")
        return self._load
