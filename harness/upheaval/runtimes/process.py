"""The process runtime: a cluster of real processes on this machine, on loopback, without root or a container engine.

Any process can open a handle on a running cluster: the folder holds everything it needs, and processes are found by the
run id in their environment. This module starts and ends members; `member_status` reads what they publish.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.records import SPLIT, CompanionConfig, CompanionStatus, MemberFolder, write_atomically, write_schema
from upheaval.runtime_names import PROCESS
from upheaval.runtimes import cluster_file, ports
from upheaval.runtimes.abandoned import end_abandoned, owner_variables
from upheaval.runtimes.companions import LiveCompanion, companion_endpoints, with_ports
from upheaval.runtimes.conditions import START_TIMEOUT_S
from upheaval.runtimes.control_groups import remove_abandoned_groups
from upheaval.runtimes.live import LiveCluster, LiveMember
from upheaval.runtimes.member_files import FolderFiles
from upheaval.runtimes.new_runs import made, new_manifest, with_base_port
from upheaval.runtimes.node import STOP_TIMEOUT_S, LiveNode
from upheaval.runtimes.owner import Owner
from upheaval.runtimes.process_node import ProcessNode
from upheaval.runtimes.volumes import save_abandoned
from upheaval.security import policy as security
from upheaval.system import (
    CLUSTER_OF_THREE,
    COMPONENTS,
    ClusterSpec,
    ControlStatus,
    MemberPlan,
    MemberStatus,
    SystemUnderTest,
    companions as companion_system,
)
from upheaval.system.aeron_launcher import unstarted
from upheaval.system.process_table import (
    COMPONENT_VARIABLE,
    ENDED_BY_SIGTERM,
    MEMBER_VARIABLE,
    RUN_ID_VARIABLE,
    FoundProcess,
    processes_of,
    send_signal,
    wait_until_gone,
)
from upheaval.waits import wait_until
from upheaval_chaos.host_faults import ON_PROCESSES
from upheaval_chaos.programs import environment, printed
from upheaval_chaos.target import CLIENTS
from upheaval_node.files import layout
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.tls_files import member_name

ALL: Final = "all"
START_DELAY_MAX_S: Final = 30.0
"""How many seconds a start waits, at most, for a system that delays the return of a killed member."""
_LOG_TAIL_LENGTH: Final = 4096
_STACK: Final = ("at ", "... ")
_PROXIES_OWNER: Final = "proxies.owner"
"""The file that names the process with the proxies that members dial."""


@dataclass(frozen=True, slots=True)
class _Spawned:
    """A process that this handle started. `log_start` and `trace_start` are where its lines begin in its files."""

    pid: int
    who: str
    log: Path
    log_start: int
    trace_start: int

    @property
    def has_begun(self) -> bool:
        """Whether it traced anything, as a component of Aeron does when it is launched."""
        return _trace_length(self.log.parent) != self.trace_start

    def exit_status(self, *, wait: bool = False) -> int | None:
        """The exit status, negative for a signal; None while it runs. Do not call it again once the status is known."""
        try:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None


class ProcessMember(LiveMember[ProcessNode]):
    """One member: one process, or one process per component."""

    def __init__(self, cluster: "ProcessCluster", member_id: int) -> None:
        spec = cluster.config
        components = COMPONENTS if spec.components == SPLIT else (ALL,)
        node = ProcessNode(f"member {member_id}", spec.run_id, member_id, components, self._spawn)
        super().__init__(cluster, member_id, node)
        self._cluster = cluster
        self.wrapper: Sequence[str] = ()
        """A command and its options to put in front of the member's own: strace, nice, taskset."""
        self.variables: Mapping[str, str] = {}
        """Additional environment variables of its processes."""

    @property
    def endpoints(self) -> list[str]:
        """The member's endpoints, in the order of the system's ports."""
        return [f"{ports.HOST}:{port}" for port in ports.member_ports(self._cluster.config.base_port, self.member_id)]

    @property
    def configuration(self) -> Path:
        """The configuration file that its processes read at their start."""
        return self.folder / self._cluster.system.configuration_file

    def plan(self, component: str, names: Mapping[str, str] | None = None) -> MemberPlan:
        """The plan from which a process of the member is started."""
        spec = self._cluster.config
        return MemberPlan(
            spec,
            self.member_id,
            endpoints=[member.endpoints for member in self._cluster.members],
            metrics=f"{ports.HOST}:{ports.metrics_port(spec.base_port, self.member_id)}",
            folder=str(self.folder),
            component=component,
            python_path=spec.python_path,
            names=names or {},
            tls=security.fields_of(spec.tls, member_name(self.member_id)),
            credentials=spec.credentials,
        )

    def configure(self, names: Mapping[str, str] | None = None) -> None:
        """Create the member's folder and configuration. `names`: the address to dial for an endpoint of
        another member.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"cannot make the folder {self.folder}: {error.strerror}") from error
        write_atomically(self.configuration, self._cluster.system.configuration_text(self.plan(ALL, names)))

    # --- observer ---

    def status(self) -> MemberStatus:
        """Read the status from the member's counters and mark files."""
        return self._cluster.system.read_status(self.folder, self.member_id, self._cluster.config.run_id)

    def control_status(self) -> ControlStatus:
        """Read the control status from the member's counters, or from its files when it is down."""
        return self._cluster.system.read_control(self.folder)

    def progress(self) -> object:
        """The member's status, and which of its mark files and recording log exist."""
        marks = (layout.ARCHIVE_MARK, layout.CLUSTER_MARK, layout.RECORDING_LOG)
        # `Path.exists` raises for a folder that may not be read; the member itself reports that.
        return self.status(), [os.access(self.folder / mark, os.F_OK) for mark in marks]

    def exit_status(self, incarnation: str) -> int | None:
        """The exit status as reported by the kernel or by the process's own trace."""
        pid = int(incarnation.rpartition(" ")[2])
        status = self._cluster.exit_status_of(self.member_id, pid)
        if status != ENDED_BY_SIGTERM:
            return status
        # A JVM ends with this status even after an orderly end, so the trace decides.
        traced = self._cluster.system.traced_exit_status(self._cluster.run.member(self.member_id), pid)
        return status if traced is None else traced

    # --- injector ---

    def files(self) -> FolderFiles:
        """Those in its folder."""
        return FolderFiles(self.folder)

    def give(self, command: str) -> str:
        """Set the member's control toggle. Returns why it was refused, empty if it was not."""
        return self._cluster.system.give_command(self.folder, command)

    def _spawn(self, component: str) -> None:
        system = self._cluster.system
        self._cluster.leave_lost_proxies()
        _wait_for_start(system, self, component)
        arguments = [*self.wrapper, *system.command(self.plan(component), self.configuration)]
        variables = {**self.variables, MEMBER_VARIABLE: str(self.member_id), COMPONENT_VARIABLE: component}
        self._cluster.spawn(self.name, arguments, self.folder / f"{component}.log", variables)


class ProcessCompanion(LiveCompanion[ProcessNode]):
    """A companion in one process."""

    def __init__(self, cluster: "ProcessCluster", config: CompanionConfig) -> None:
        node = ProcessNode(config.name, cluster.config.run_id, -1, (config.name,), self._spawn)
        super().__init__(cluster.run, config, node)
        self._cluster = cluster

    def status(self) -> CompanionStatus:
        """Read the status from the companion's counters and recording log."""
        pid = next((process.pid for process in self.node.processes()), None)
        return self._cluster.system.companions.status_in_folder(self.name, self.folder, pid)

    def _spawn(self, component: str) -> None:
        companions = self._cluster.system.companions
        self.folder.mkdir(exist_ok=True)
        path = self.folder / companions.configuration_file
        write_atomically(path, companions.configuration_text(self._plan()))
        _wait_for_start(self._cluster.system, self, ALL)
        arguments = companions.command(self.config, path)
        self._cluster.spawn(self.name, arguments, self.folder / "all.log", {COMPONENT_VARIABLE: component})

    def _plan(self) -> companion_system.CompanionPlan:
        cluster = self._cluster.config
        endpoints = companion_endpoints(self.config.base_port)
        return companion_system.CompanionPlan(
            cluster,
            self.config,
            members=[f"{ports.HOST}:{ports.member_ports(cluster.base_port, m)[1]}" for m in range(cluster.members)],
            endpoints=endpoints,
            metrics=f"{ports.HOST}:{ports.metrics_port(self.config.base_port, 0)}",
            folder=str(self.folder),
            tls=security.fields_of(cluster.tls, self.name),
            credentials_file=self.config.credentials,
        )


class ProcessCluster(LiveCluster[ProcessMember]):
    """A cluster of processes."""

    runtime = PROCESS
    machine_kinds = ON_PROCESSES

    def __init__(self, folder: Path, config: ClusterSpec, *, detached: bool = False) -> None:
        members: list[ProcessMember] = []
        super().__init__(folder, config, members)
        members.extend(ProcessMember(self, member_id) for member_id in range(config.members))
        self._spawned: list[_Spawned] = []
        self.started: list[int] = []
        """The ids of all processes that this handle ever started."""
        self._exit_statuses: dict[int, int] = {}
        self._client_names: Mapping[str, str] = {}
        self._owner = owner_variables(folder, detached=detached)

    # --- making and opening ---

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], spec: ClusterSpec = CLUSTER_OF_THREE, *, detached: bool = False
    ) -> "ProcessCluster":
        """Make a new cluster in a new or empty folder; nothing runs yet. `detached`: it may outlive this process.

        Members that killed harnesses left running are ended first. With a planted bug, the members run a test build of
        the node. Raises `HarnessError` with one clear line.
        """
        if spec.image:
            raise UsageError("an image is for containers: use --runtime docker")
        path = Path(folder).absolute()
        spec = made(spec, cls.runtime)
        end_abandoned()
        save_abandoned()
        remove_abandoned_groups()
        spec = with_base_port(spec)
        cluster_file.require_usable(path)
        cluster = cls(path, spec, detached=detached)
        for member in cluster.members:
            member.configure()
        cluster_file.save(spec, cls.runtime, path)
        cluster.run.create(new_manifest(spec, cls.runtime))
        write_schema(cluster.run, spec.schema)
        return cluster

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "ProcessCluster":
        """The cluster in a folder, running or not. Raises `UsageError` when the folder has no cluster, or one of
        another version.
        """
        path = Path(folder).absolute()
        return cls(path, cluster_file.load(path), detached=True)

    # --- handles ---

    def ingress_endpoints(self) -> dict[int, str]:
        """The members' ingress endpoints on loopback, by member id."""
        return {member.member_id: member.endpoints[0] for member in self.members}

    def resolver(self) -> StaticResolver:
        """Resolves to the clients' proxies if the links have any, else to the endpoints themselves."""
        return StaticResolver(self._client_names)

    def dial_through(self, source: int, names: Mapping[str, str]) -> None:
        """Writes the names to the member's configuration for its next start; for clients they apply at once. The folder
        names this process as the owner of the proxies.
        """
        if source == CLIENTS:
            self._client_names = names
            return
        write_atomically(self._proxies_owner, str(Owner.me()))
        self.member(source).configure(names)

    def dial_directly(self) -> None:
        """End `dial_through` for all ends. A full disk keeps a member's names, and in the folder their owner."""
        self._client_names = {}
        is_whole = True
        for member in self.members:
            try:
                member.configure()
            except EnvironmentFault:
                is_whole = False
        if is_whole:
            self._proxies_owner.unlink(missing_ok=True)

    def leave_lost_proxies(self) -> None:
        """Let members dial directly from their next start on if the owner of their proxies was killed."""
        with contextlib.suppress(OSError):
            owner = self._proxies_owner.read_text(encoding="utf-8", errors="replace")
            if not Owner.parse(owner).listens_here:
                self.dial_directly()

    @property
    def _proxies_owner(self) -> Path:
        return self.folder / _PROXIES_OWNER

    def is_running(self) -> bool:
        """Whether any process of the run lives, member or companion."""
        return bool(processes_of(self.config.run_id))

    def make_companion(self, config: CompanionConfig) -> ProcessCompanion:
        """The handle of a process that has its own ports."""
        return ProcessCompanion(self, with_ports(config, self.config))

    # --- life ---

    def up(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """See `LiveCluster`. Members of this run that a killed harness left running are ended first: they may dial
        proxies that ended with it.
        """
        end_abandoned(self.config.run_id)
        save_abandoned()
        return super().up(timeout_s)

    def _prepare(self) -> None:
        if not any(process.member_id >= 0 for process in processes_of(self.config.run_id)):
            ports.require_free(self.config.base_port, self.config.members)

    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything and remove the sockets."""
        run_id = self.config.run_id
        try:
            self.note_companions()
            processes = processes_of(run_id)
            send_signal(processes, signal.SIGTERM)
            send_signal(processes, signal.SIGCONT)
            try:
                wait_until_gone(processes, run_id, timeout_s)
            except UnknownOutcome:
                self._kill(processes_of(run_id), f"did not end within {timeout_s:g} s")
            self._clean_up()
            # What the links recorded is part of the run, so they are closed before the run is sealed.
            self.close()
            self.seal()
        finally:
            self.close()

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """On a failure, end at once what was started inside.

        The process table has these processes: an interrupt can arrive after a process was started and before this
        handle recorded it.
        """
        before = {process.pid for process in processes_of(self.config.run_id)}
        try:
            yield
        except BaseException:
            victims = [process for process in processes_of(self.config.run_id) if process.pid not in before]
            self._kill(victims, "what they were started for failed")
            if not before:
                self._clean_up()
            raise

    def _kill(self, victims: Sequence[FoundProcess], why: str) -> None:
        """Send SIGKILL, and record that in the run."""
        begin_ns = self.now_ns()
        send_signal(victims, signal.SIGKILL)
        wait_until_gone(victims, self.config.run_id)
        self.run.add_forced_end((process.member_id for process in victims), begin_ns, self.now_ns(), why)

    def _clean_up(self) -> None:
        for spawned in self._spawned:
            spawned.exit_status(wait=True)
        self._spawned.clear()
        for node in (*self.members, *self.companions()):
            if not node.is_running():
                self.system.clean_up(node.folder)

    # --- processes ---

    def spawn(self, who: str, arguments: Sequence[str], log: Path, variables: Mapping[str, str]) -> None:
        """Start a process of the run. Its environment variables identify it."""
        settings = {**self._owner, RUN_ID_VARIABLE: self.config.run_id, **variables}
        try:
            with log.open("ab") as stream:
                start, trace_start = stream.tell(), _trace_length(log.parent)
                # Not subprocess: its objects warn about processes that outlive this one.
                pid = os.posix_spawnp(
                    arguments[0],
                    [*arguments],
                    environment(settings),
                    file_actions=[
                        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_DUP2, stream.fileno(), 1),
                        (os.POSIX_SPAWN_DUP2, stream.fileno(), 2),
                        *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _descriptors_of_the_caller()),
                    ],
                    setsid=True,
                )
        except OSError as error:
            raise EnvironmentFault(f"cannot start {who}: {error.strerror} ({log})") from error
        # The kernel may have given the id of an ended process again.
        self._exit_statuses.pop(pid, None)
        self._spawned.append(_Spawned(pid, who, log, start, trace_start))
        self.started.append(pid)

    def exit_status_of(self, member_id: int, pid: int) -> int | None:
        """The exit status from the kernel if this handle started the process, else from the process's trace."""
        if pid in self._exit_statuses:
            return self._exit_statuses[pid]
        for spawned in list(self._spawned):
            if spawned.pid == pid:
                return self._collected_status(spawned)
        return self.system.traced_exit_status(self.run.member(member_id), pid)

    def _collected_status(self, spawned: _Spawned) -> int | None:
        """The status of an ended process, kept here because the kernel reports it only once."""
        status = spawned.exit_status()
        if status is not None:
            self._spawned.remove(spawned)
            self._exit_statuses[spawned.pid] = status
        return status

    def progress(self) -> Sequence[object]:
        """The progress of each member."""
        return self.for_all(lambda member: member.progress())

    def raise_if_silent(self) -> None:
        """See `Conditions`. Checks only members with a launcher: the harness's own programs are known to start
        correctly.
        """
        latest = {spawned.who: spawned for spawned in self._spawned}
        for member in self.members if self.config.launcher else ():
            process = latest.get(member.name)
            has_begun = _trace_length(member.folder) > 0 if process is None else process.has_begun
            if member.is_running() and not has_begun:
                output = _output_in(member.folder / f"{ALL}.log")
                raise EnvironmentFault(unstarted(member.name, "has written no trace", output))

    def raise_if_ended(self, member_id: int | None = None) -> None:
        """Only notices the end of processes that this handle started."""
        who = None if member_id is None else self.members[member_id].name
        names = {member.name for member in self.members}
        spared = {self.members[spared_id].name for spared_id in self.spared}
        for spawned in list(self._spawned):
            status = self._collected_status(spawned)
            if status is None:
                continue
            if spawned.who in spared:
                continue
            if status == 0 and self.config.launcher and spawned.who in names and not spawned.has_begun:
                raise EnvironmentFault(unstarted(spawned.who, "ended with status 0", _output_in(spawned.log)))
            # A signal came from the harness, and the other components of a killed one end as a consequence.
            if status > 0 and status not in self.system.expected_exit_statuses and who in (None, spawned.who):
                raise EnvironmentFault(
                    f"{spawned.who} ended with status {status}: "
                    f"{last_line(spawned.log, spawned.log_start)} (see {spawned.log})"
                )


def _trace_length(folder: Path) -> int:
    """The bytes in the trace of the node in the folder."""
    try:
        return MemberFolder(folder, -1).trace.stat().st_size
    except OSError:
        return 0


def _output_in(log: Path) -> str:
    return f"{last_line(log, 0)} (see {log})"


def _descriptors_of_the_caller() -> list[int]:
    """All open descriptors except the standard streams. A member that kept one end of a pipe would block its reader for
    ever.
    """
    # A descriptor that is closed by now is no error: C libraries ignore it.
    return [number for path in Path("/proc/self/fd").iterdir() if (number := int(path.name)) > 2]


def _wait_for_start(system: SystemUnderTest, node: LiveNode[ProcessNode], component: str) -> None:
    """Wait until a killed node, or a killed component, may start again."""
    wait_until(
        lambda: system.start_delay_s(node.folder, component) == 0,
        timeout_s=START_DELAY_MAX_S,
        describe=lambda: f"{node.name} cannot start for {system.start_delay_s(node.folder, component):.1f} s",
    )


def last_line(log: Path, start: int) -> str:
    """The last line that a process printed after byte `start` of its log.

    For a Java exception, its message without the stack frames.
    """
    try:
        with log.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(start, end - _LOG_TAIL_LENGTH))
            lines = printed(stream.read()).split("\n")
    except OSError:
        return "its log cannot be read"
    last_lines = (line.strip() for line in reversed(lines))
    return next((line for line in last_lines if line and not line.startswith(_STACK)), "it printed nothing")
