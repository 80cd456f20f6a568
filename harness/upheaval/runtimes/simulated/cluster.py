"""A cluster in a simulated world: hosts with disks, one process per member, clients, and the faults that affect them.

The members are the node's own agents. `upheaval_node.member` wires them to virtual clock, network and disk; all
knowledge about them comes from their counters and files. All time-outs are in virtual time, which passes only inside
the calls that wait.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from upheaval.checkers.protocol.identities import SECURITY_FILE
from upheaval.cluster.companion_control import Companion
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import (
    RECORD_FILES,
    ConnectAnswer,
    ConnectAttempt,
    ControlRecord,
    Converge,
    Expected,
    FinalPosition,
    Json,
    Manifest,
    Operation,
    RunFolder,
    SessionEnd,
    Stray,
    WrongCredentials,
    seal,
    source_digest,
    write_atomically,
    write_schema,
)
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated.client_host import ClientHost
from upheaval.runtimes.simulated.collect import write_files, write_protocol, write_trace
from upheaval.runtimes.simulated.errors import ProcessFailed
from upheaval.runtimes.simulated.gate import SOURCE, Gate, Stranger
from upheaval.runtimes.simulated.links import LinkProfile
from upheaval.runtimes.simulated.machine import Machine
from upheaval.runtimes.simulated.network import Fabric
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.single_client import SingleClient
from upheaval.runtimes.simulated.trace import Journal, ProtocolTraces
from upheaval.runtimes.simulated.world import World
from upheaval.system import (
    CLUSTER_OF_THREE,
    ELECTION_CLOSED,
    LEADER,
    ClusterSpec,
    ControlStatus,
    MemberStatus,
    give_command,
    log_recording_id,
    read_control,
    serving_leader,
    shown,
    status_from_counters,
    with_leaders,
)
from upheaval.system.service_logging import TraceHandler
from upheaval.workload import ClientLoad, Load, LoadMaker, WorkloadSettings
from upheaval.workload.other_clients import ANSWER_NS, OtherClient, OtherClients, Records
from upheaval_chaos.planted.catalogue import build_with
from upheaval_chaos.record import FaultRecord
from upheaval_node import __version__
from upheaval_node.client.session import ClusterClient
from upheaval_node.counters import Counters
from upheaval_node.errors import ContradictionError, NodeError, TerminationError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.member import (
    MemberAgent,
    MemberConfig,
    close_agents,
    end_services,
    ends_before_its_member,
    has_lost_service,
)
from upheaval_node.ports import Agent
from upheaval_node.protocol_trace import Observer
from upheaval_node.service.loader import load_service
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MemberId, Now, S

INGRESS_PORT: Final = 9000
WAIT_S: Final = 30.0
BYE_GRACE_NS: Final = 2 * S
"""How long a consensus module may run past the time-out of a termination."""
LAST_WORDS_NS: Final = S // 10
"""How long a member runs after its consensus module has ended, so that its last messages are sent."""
_IN_ORDER, _DEFECT, _HAD_TO_END = 0, 1, 7
"""The exit statuses that the node's programs have for these ends (`docs/operations.md`)."""


def member_settings(spec: ClusterSpec) -> MemberSettings:
    """The members' settings for this specification."""
    settings = profile_settings("test", sync_level=spec.sync_level)
    timeouts = replace(settings.cluster.timeouts, **spec.timeouts)
    sessions = spec.max_sessions or settings.cluster.max_sessions
    cluster = replace(
        settings.cluster,
        timeouts=timeouts,
        max_sessions=sessions,
        compatibility=spec.compatibility,
        app_version=spec.app_version or settings.cluster.app_version,
    )
    return replace(settings, cluster=cluster)


def _own_timeouts(settings: MemberSettings) -> dict[str, int]:
    """The time-outs that differ from the profile's, by name."""
    of_profile = asdict(profile_settings(settings.profile).cluster.timeouts)
    return {name: ns for name, ns in asdict(settings.cluster.timeouts).items() if ns != of_profile[name]}


def _own_max_sessions(settings: MemberSettings) -> int:
    """The limit of sessions if it differs from the profile's, else 0."""
    max_sessions = settings.cluster.max_sessions
    return 0 if max_sessions == profile_settings(settings.profile).cluster.max_sessions else max_sessions


def host_of(member_id: int) -> str:
    """The name of the host that a member runs on."""
    return f"member-{member_id}"


class SimulatedMember(Machine):
    """One member. Implements `upheaval_chaos.target.Node`."""

    def __init__(self, cluster: "SimulatedCluster", member_id: int) -> None:
        super().__init__(cluster.world, cluster.fabric, cluster.journal, host_of(member_id), member_id, "all")
        self._cluster = cluster
        self.member_id = member_id
        self.clock_skew_ms = 0
        self.share_ns = 0
        self.exit_statuses: dict[str, int] = {}
        """Of the processes that ended by themselves: 0 in order, 1 by a failure."""
        self.expected_ends: set[str] = set()
        """Processes that may end by an error of the node's own (no bug) without failing the run."""
        self._agents: Sequence[MemberAgent] = ()
        self._last_status = MemberStatus(member_id, alive=False)
        self._last_read: tuple[Counters, int, int | None] | None = None
        """The counters, how often they had changed, and the recording of the log: what `_last_status` was read from."""

    def _prepare(self, process: SimulatedProcess) -> None:
        process.clock_skew_ms = self.clock_skew_ms
        process.share_ns = self.share_ns
        if self._cluster.on_cycle is not None:
            process.on_cycle = partial(self._cluster.on_cycle, self)
        if any(":" in service for service in self._cluster.services):
            process.listener = TraceHandler(self.tracer(), process.now)
        process.on_ended = lambda agent, _: self._on_ended(process, agent)
        process.on_failing = lambda: end_services(self._agents)

    def _build(self, process: SimulatedProcess) -> Sequence[Agent]:
        cluster = self._cluster
        self.tracer().emit(process.now(), TraceKind.PROCESS_START, version=__version__)
        config = MemberConfig(
            member_id=MemberId(self.member_id),
            members=cluster.endpoints,
            folder=self.host,
            services=cluster.services,
            settings=cluster.own_settings.get(self.member_id, cluster.settings),
        )
        ports = self.ports(process, cluster.observer(self.member_id, self.incarnations, process))
        if cluster.gate is not None:
            users = cluster.gate.users
            ports = replace(ports, read_credentials=lambda _: users)
        self._agents = cluster.build(config, ports, [load_service(name) for name in cluster.services])
        return self._agents

    @property
    def agents(self) -> Sequence[MemberAgent]:
        """The agents of the current process, or of the last one."""
        return self._agents

    @property
    def media_driver(self) -> MediaDriver:
        """The media driver of the current process, or of the last one."""
        return next(agent for agent in self._agents if isinstance(agent, MediaDriver))

    # --- for faults: components run together here, so a fault cannot affect only one of them ---

    def turns(self, component: str | None = None) -> Mapping[str, int]:
        """The number of cycles of its process: a paused process does not run any."""
        process = self._whole(component)
        return {} if process is None else dict.fromkeys(self.incarnation(component), process.cycles)

    def pause(self, component: str | None = None) -> None:
        """Pause the process, if it has one."""
        process = self._whole(component)
        if process is not None:
            process.pause()

    def resume(self, component: str | None = None) -> None:
        """Resume the process, if it has one."""
        process = self._whole(component)
        if process is not None:
            process.resume()

    def _on_ended(self, process: SimulatedProcess, agent: Agent) -> None:
        """Close the member soon, or give its consensus module time to finish, as in the process runtime."""
        timeouts = self._cluster.settings.cluster.timeouts
        if ends_before_its_member(agent) and has_lost_service(self._agents):
            raise TerminationError("a service of this member has ended", expected=False)
        delay_ns = timeouts.termination_ns + BYE_GRACE_NS if ends_before_its_member(agent) else LAST_WORDS_NS
        world = self._cluster.world
        world.at(world.now_ns + delay_ns, lambda: process.post(lambda: self._close(process)))

    def _close_agents(self, now: Now) -> None:
        close_agents(self._agents, now)

    def _on_exit(self, process: SimulatedProcess) -> None:
        self._cluster.fabric.kill(process)
        failure, status = process.failure, _IN_ORDER
        if failure is not None:
            is_defect = isinstance(failure, ContradictionError) or not isinstance(failure, NodeError)
            status = _DEFECT if is_defect else _HAD_TO_END
            may_end = process.name in self.expected_ends or self.disk.is_full or self.disk.has_wrong_bytes
            if is_defect or not may_end:
                self._cluster.failures.append((process.name, failure))
        self.exit_statuses[process.name] = status
        self.tracer().emit(process.now(), TraceKind.PROCESS_END, status=status, reason=str(failure or ""))

    def status(self) -> MemberStatus:
        """The status from its counters; only that it is down when it has no process."""
        if not self.alive:
            return MemberStatus(self.member_id, alive=False)
        # Conditions ask every half a millisecond of virtual time, and the counters rarely change in between.
        recording_id = log_recording_id(self.recording_log())
        read = (self.counters, self.counters.changes, recording_id)
        if read != self._last_read:
            status = MemberStatus(self.member_id, alive=True)
            self._last_read, self._last_status = read, status_from_counters(status, self.counters, recording_id)
        return self._last_status

    def control_status(self) -> ControlStatus:
        """What the consensus module reports, or its files when the member is down."""
        return read_control(self.counters if self.alive else None, self.recording_log())

    def give(self, command: str) -> str:
        """Set the member's control toggle. Returns why it was refused, empty if it was not."""
        process = self.process
        if process is None or not process.alive:
            return "the member is not running"
        # Setting the toggle is no input and wakes no process; the next turn finds it.
        return give_command(self.counters, command)


class Beside(Companion, Protocol):
    """A companion of a simulated cluster."""

    def write(self, run: Path) -> None:
        """Write its current folder and its entry to a run folder."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run as in its manifest, and the text of its scenario, if the folder should contain it."""

    faults: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    demanded: tuple[str, ...] = ()
    expected: tuple[Expected, ...] = ()
    scenario: str | None = None


class SimulatedCluster:
    """The members `0..members-1`, each on its own host, in one world."""

    def __init__(
        self,
        world: World,
        spec: ClusterSpec = CLUSTER_OF_THREE,
        *,
        settings: MemberSettings | None = None,
        links: LinkProfile | None = None,
        folder: RunFolder | None = None,
        gate: Gate | None = None,
        traces_protocol: bool = False,
    ) -> None:
        """Create the cluster. The members have `settings`, not those of `spec`, and no other cluster has its planted
        bug. With a `gate`, only clients that it names may connect. With `traces_protocol`, every message and state
        change of the members is kept, see `protocol`.
        """
        self.world = world
        self.protocol: ProtocolTraces | None = ProtocolTraces() if traces_protocol else None
        self.fabric = Fabric(world, links)
        self.journal = Journal()
        self.spec = spec
        self.services = (spec.service, *spec.more_services)
        self.gate = gate
        chosen = settings or profile_settings("test")
        of_cluster = replace(chosen.cluster, service_count=len(self.services))
        if gate is not None:
            of_cluster = replace(of_cluster, authenticator=f"credentials:{SOURCE}", authorisation=f"roles:{SOURCE}")
        self.settings = replace(chosen, cluster=of_cluster)
        self.own_settings: dict[int, MemberSettings] = {}
        """Of members that start with others than those of the cluster."""
        self.source_digest = source_digest(spec.source, spec.service)
        self.build = build_with(spec.planted)
        self.on_cycle: Callable[[SimulatedMember], None] | None = None
        """Called after every cycle of a member that starts from now on."""
        self.on_operation: Callable[[Operation], None] | None = None
        """Called with every operation of the load as soon as its outcome is settled."""
        self.failures: list[tuple[str, BaseException]] = []
        """Processes that ended by a defect: the process's name and what it raised."""
        self.history: list[Operation] = []
        self._clients: list[ClientLoad | OtherClients | SingleClient] = []
        self.session_ends: list[SessionEnd] = []
        self.strays: list[Stray] = []
        self.attempts: list[ConnectAttempt] = []
        """Of the stranger, and of clients that know one member."""
        self.first_id = 0
        """Of the load's operations: above those of what the cluster was restored from."""
        self.plan = Plan()
        self.faults: list[FaultRecord] = []
        self.controls: list[ControlRecord] = []
        self.converged: Converge | None = None
        self.members = [SimulatedMember(self, member_id) for member_id in range(spec.members)]
        self.companions: dict[str, Beside] = {}
        """Backups and standbys by name; `make_backup` and `make_standby` add them."""
        self._folder = folder
        self._workload: dict[str, Json] = {}
        self._client_hosts: list[str] = []

    # --- set-up ----------------------------------------------------------------------------------------------------

    @property
    def run(self) -> RunFolder:
        """The run folder that `write` fills. Raises `UsageError` when the cluster was made without one."""
        if self._folder is None:
            raise UsageError("this simulated cluster has no run folder")
        return self._folder

    @property
    def member_ids(self) -> list[int]:
        """The ids of all members, running or not."""
        return [member.member_id for member in self.members]

    @property
    def endpoints(self) -> str:
        """The members string: `id,ingress,consensus,log,catchup,archive|...`."""
        return "|".join(
            ",".join([str(member.member_id), *(f"{member.host}:{INGRESS_PORT + index}" for index in range(5))])
            for member in self.members
        )

    @property
    def ingress_endpoints(self) -> dict[int, str]:
        """The members' ingress endpoints, by member id."""
        return {member.member_id: f"{member.host}:{INGRESS_PORT}" for member in self.members}

    @property
    def consensus_endpoints(self) -> list[str]:
        """The members' consensus endpoints, in order of member ids."""
        return [f"{member.host}:{INGRESS_PORT + 1}" for member in self.members]

    def status(self) -> list[MemberStatus]:
        """What each member reports about itself, and who leads."""
        return with_leaders(member.status() for member in self.members)

    def leader(self) -> int | None:
        """The serving leader; if two members believe that they lead, the one of the later term."""
        return serving_leader(self.status())

    def observer(self, member_id: int, incarnation: int, process: SimulatedProcess) -> Observer | None:
        """The observer of one incarnation's messages, if the protocol is traced."""
        if self.protocol is None:
            return None
        consensus = {f"{member.host}:{INGRESS_PORT + 1}": member.member_id for member in self.members}
        return Observer(process.now, incarnation, consensus, self.protocol.of(member_id).append)

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Let time pass until `condition` holds. Raises `UnknownOutcome` when it does not hold in time, and
        `ProcessFailed` when a defect ended a process.
        """
        self.world.run_until(lambda: bool(self.failures) or condition(), int(timeout_s * S))
        self.require_no_failure()
        if not condition():
            raise UnknownOutcome(f"seed {self.world.seed}: no {what} within {timeout_s:g} s\n{self.describe()}")

    def wait_until_leader(self, timeout_s: float = WAIT_S) -> int:
        """Let time pass until a serving leader exists. Raises `UnknownOutcome` when none does in time."""
        self.wait_until(lambda: self.leader() is not None, timeout_s, "leader")
        leader = self.leader()
        assert leader is not None
        return leader

    def converge(self, timeout_s: float = WAIT_S) -> Converge:
        """Wait until all members have one position in one term. There must be no load."""
        reached = self.world.run_until(lambda: bool(self.failures) or self._is_converged(), int(timeout_s * S))
        self.require_no_failure()
        seen = self.status()
        members = tuple(
            FinalPosition(s.member_id, s.append_position, s.commit_position, s.leadership_term_id) for s in seen
        )
        why = "" if reached else f"{shown(seen)} (waited {timeout_s:g} s)"
        self.converged = Converge(reached, self.world.now_ns, members, why)
        return self.converged

    def _is_converged(self) -> bool:
        status = self.status()
        positions = {(s.append_position, s.commit_position, s.leadership_term_id) for s in status}
        append, commit, _ = next(iter(positions))
        is_settled = all(s.alive and s.election_state == ELECTION_CLOSED for s in status)
        leaders = sum(s.role == LEADER for s in status)
        return is_settled and len(positions) == 1 and append == commit and append > 0 and leaders == 1

    def require_no_failure(self) -> None:
        """Raise `ProcessFailed` when a defect ended a process."""
        if self.failures:
            name, failure = self.failures[0]
            raise ProcessFailed(f"seed {self.world.seed}: process {name} failed: {failure!r}") from failure

    def describe(self) -> str:
        """The members' status for messages, one line per member."""
        return "\n".join(str(status) for status in self.status())

    # --- members ---------------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Start every member that is not alive."""
        for member in self.members:
            member.start()

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        """Move the wall clock of a member's host forward, or back."""
        member = self.members[member_id]
        member.clock_skew_ms += milliseconds
        if member.process is not None:
            member.process.clock_skew_ms = member.clock_skew_ms

    # --- clients ---------------------------------------------------------------------------------------------------

    def start_load(self, settings: WorkloadSettings, make: LoadMaker = Load) -> ClientLoad:
        """Start a load on a separate client host. Settled operations go to `history`."""
        self._workload = settings.to_json()
        host = self._next_client_host()
        credentials = None if self.gate is None else self.gate.client
        load = make(
            settings,
            open_session=lambda: host.open_session(credentials),
            record=self._settle,
            record_end=self.session_ends.append,
            record_stray=self.strays.append,
            clock_ns=lambda: self.world.now_ns,
            first_id=self.first_id,
            first_process=self.first_id,
        )
        self._clients.append(load)
        host.start(load)
        return load

    def _settle(self, operation: Operation) -> None:
        self.history.append(operation)
        if self.on_operation is not None:
            self.on_operation(operation)

    def start_other_clients(self, kinds: Sequence[OtherClient], idle_ns: int) -> OtherClients:
        """Start a host with clients of these kinds. An idle one is idle for `idle_ns` nanoseconds."""
        host = self._next_client_host()
        credentials = None if self.gate is None else self.gate.client
        clients = OtherClients(
            kinds,
            open_session=lambda: host.open_session(credentials),
            open_at=lambda member_id: host.open_session(credentials, member_id, ANSWER_NS),
            records=Records(self._settle, self.session_ends.append, self.attempts.append, lambda: self.world.now_ns),
            service=self.spec.service,
            member_ids=self.member_ids,
            idle_ns=idle_ns,
            first_id=self.first_id,
        )
        self._clients.append(clients)
        host.start(clients)
        return clients

    def start_stranger(self) -> None:
        """Start a host from which a client with wrong credentials tries to connect."""
        host = self._client_host("stranger-1")
        host.start(Stranger(host.open_session, self.attempts.append))

    def has_refused_strangers(self) -> bool:
        """Whether the cluster refused wrong credentials of every kind."""
        return {attempt.shown for attempt in self.attempts if attempt.answer is ConnectAnswer.REFUSED} == set(
            WrongCredentials
        )

    def start_client(self) -> tuple[SimulatedProcess, SingleClient]:
        """Start a client on a separate host. It only does what is posted to its process."""
        host = self._next_client_host()
        client = SingleClient(
            lambda: ClusterClient(host.driver, self.ingress_endpoints, random=host.random, client_name=host.name),
            record=self.history.append,
            record_end=self.session_ends.append,
            record_stray=self.strays.append,
            clock_ns=lambda: self.world.now_ns,
        )
        self._clients.append(client)
        host.process.start((host.driver, client))
        return host.process, client

    def _next_client_host(self) -> ClientHost:
        name = f"client-{len(self._client_hosts) + 1}"
        self._client_hosts.append(name)
        return self._client_host(name)

    def _client_host(self, name: str) -> ClientHost:
        media, endpoints = self.settings.media, lambda: self.ingress_endpoints
        return ClientHost(name, self.world, self.fabric, media, endpoints, self._on_client_exit)

    def _on_client_exit(self, process: SimulatedProcess) -> None:
        if process.failure is not None:
            self.failures.append((process.name, process.failure))

    # --- the end ---------------------------------------------------------------------------------------------------

    def down(self) -> None:
        """Stop all members, and write the run folder if the cluster has one."""
        for companion in self.companions.values():
            companion.stop()
        for member in self.members:
            member.stop()
        if self._folder is not None:
            self.write()

    def _run_id(self) -> str:
        """The run id. Every repetition of one execution has the same id."""
        digest = self.journal.digest()
        for operation in self.history:
            digest.update(operation.to_json().encode())
        return f"simulated-{self.world.seed}-{digest.hexdigest()[:12]}"

    def write(self) -> None:
        """Write the current state to the run folder: manifest, history, faults, the members' traces and files."""
        folder = self.run
        for name in RECORD_FILES:
            (folder.path / name).unlink(missing_ok=True)
        folder.create(
            Manifest(
                run_id=self._run_id(),
                runtime=SIMULATED,
                members=len(self.members),
                profile=self.settings.profile,
                sync_level=self.settings.cluster.file_sync_level,
                service=self.spec.service,
                more_services=self.spec.more_services,
                source=self.spec.source,
                model=self.spec.model,
                model_source=self.spec.source if self.spec.model else "",
                source_digest=self.source_digest,
                seed=self.world.seed,
                planted=self.spec.planted,
                compatibility=self.settings.cluster.compatibility,
                timeouts=_own_timeouts(self.settings),
                max_sessions=_own_max_sessions(self.settings),
                workload=self._workload,
                planned_faults=self.plan.faults,
                planned_commands=self.plan.commands,
                demanded=self.plan.demanded,
                expected=self.plan.expected,
                written=() if self.gate is None else (SECURITY_FILE,),
                converge=self.converged,
            )
        )
        if self.plan.scenario is not None:
            folder.write_scenario(self.plan.scenario)
        write_schema(folder, self.spec.schema)
        if self.gate is not None:
            write_atomically(folder.path / SECURITY_FILE, json.dumps(self.gate.policy(), indent=2) + "\n")
        with folder.history_writer() as writer:
            for operation in self.history:
                writer.add(operation)
        still_open = (end for client in self._clients for end in client.open_sessions())
        for end in (*self.session_ends, *still_open):
            folder.add_session_end(end)
        for stray in self.strays:
            folder.add_stray(stray)
        for attempt in self.attempts:
            folder.add_attempt(attempt)
        for fault in self.faults:
            folder.add_fault(fault)
        for control in self.controls:
            folder.add_control(control)
        for member in self.members:
            files = folder.member(member.member_id)
            write_files(member.disk, files.path)
            write_trace(self.journal, member.member_id, files.trace)
            if self.protocol is not None:
                write_protocol(self.protocol, member.member_id, files.path)
        for companion in self.companions.values():
            companion.write(folder.path)
        seal(folder)
