"""A scenario as a value: a cluster, a load, steps that wait and break and heal, and the promises that must hold.

The same value runs on every runtime. This module knows neither its text (`scenario.text`) nor how it is run.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from upheaval.cluster import needs_closing_snapshot
from upheaval.records import BACKUP_NAME, AdminCommand, CompanionConfig
from upheaval.records.jsonfields import FilePath
from upheaval.runtime_names import DOCKER, LIVE_RUNTIMES, PROCESS, RUNTIMES, SIMULATED
from upheaval.system import ClusterSpec
from upheaval.workload import WorkloadSettings
from upheaval_chaos.datagram_faults import DatagramFault
from upheaval_chaos.faults import Fault, Who
from upheaval_chaos.host_faults import ON_PROCESSES, HostFault
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import Means

LIBRARY = Path(__file__).parents[1] / "scenarios"
# A user whose leader is gone opens another session, and its old ones stay until they time out.
SESSIONS_A_USER = 6
SPARE_SESSIONS = 8


@dataclass(frozen=True, slots=True)
class WaitOperations:
    """Until so many more operations are acknowledged."""

    count: int


@dataclass(frozen=True, slots=True)
class WaitLeader:
    """Until a leader serves; if `other_than` names a fault, one that was not its victim."""

    other_than: str = ""


@dataclass(frozen=True, slots=True)
class WaitCaughtUp:
    """Until the victim of a fault follows the leader, or leads."""

    fault: str


@dataclass(frozen=True, slots=True)
class WaitMoment:
    """Until so many operations are acknowledged in all, and so long after the last fault began or was healed.

    The first of a scenario counts from the beginning of the load. A recorded schedule consists of these.
    """

    operations: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class WaitTime:
    """Until so many nanoseconds have passed since the load began; what is over is not waited for."""

    since_load_ns: int


@dataclass(frozen=True, slots=True)
class WaitSeconds:
    """Time under load and nothing else."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitSent:
    """Until one of some members has sent another of some such a message, after the last fault began or was healed, or
    the last such message was sent. Fields by their names in a trace, values as they are written there.
    """

    message: str
    source: Who | None = None
    target: Who | None = None
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Inject:
    """Put a fault in under a name, and prove that it took effect."""

    name: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Heal:
    """Take a fault away, and prove that too."""

    name: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Put a fault in under a name and go on.

    One that is drawn is left out when it cannot be done now, and what shows of it is looked at while others act. One
    that is not is proved before it is taken away.
    """

    name: str
    fault: Fault
    is_drawn: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """Take away what was begun, and go on."""

    name: str


@dataclass(frozen=True, slots=True)
class AskFor:
    """Let an operator command something of the member that leads now, and go on, taken or not.

    `start` starts what is down, unless a fault keeps it down.
    """

    command: AdminCommand


@dataclass(frozen=True, slots=True)
class GiveCommand:
    """Let an operator command something (`upheaval.cluster.control`), and prove that it took effect on every member."""

    command: str


@dataclass(frozen=True, slots=True)
class KeepCompanion:
    """Start, stop or kill a node beside the members, and prove it. `source` is whom a start copies from."""

    action: str
    source: str = "ANY"
    name: str = BACKUP_NAME

    @property
    def config(self) -> CompanionConfig:
        """What it is asked for as."""
        return CompanionConfig(self.name, self.source)


@dataclass(frozen=True, slots=True)
class WaitCompanion:
    """Until a node beside the members has the log up to where it is committed at the beginning of the wait."""

    name: str = BACKUP_NAME


Step = (
    WaitOperations
    | WaitLeader
    | WaitCaughtUp
    | WaitCompanion
    | WaitMoment
    | WaitTime
    | WaitSeconds
    | WaitSent
    | Inject
    | Heal
    | Begin
    | End
    | AskFor
    | GiveCommand
    | KeepCompanion
)


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A service in the place of that of a scenario, and who asks it.

    `service` is a shipped one that a workload drives, or `module:Class`; then `user` is the `module:Class` of its
    users, and `model` what the service's answers are judged by. All are looked up in the folder `source` first.
    `schema` is the file of the SBE schema of its messages.
    """

    service: str
    user: str = ""
    source: FilePath = ""
    model: str = ""
    schema: FilePath = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. `promises` are those of which it demands that they can be checked.

    `witnesses`: a custom service takes snapshots before the first fault and after each heal, without a statement.
    """

    name: str
    title: str
    text: str
    cluster: ClusterSpec
    workload: WorkloadSettings
    steps: tuple[Step, ...]
    promises: tuple[str, ...] = ()
    witnesses: bool = True
    has_invariants: bool = False
    """Whether the invariants of the simulation are watched, as in a campaign."""

    def run_by(self, own: OwnCode | None) -> "Scenario":
        """The same with that service and its users, or as it is."""
        if own is None:
            return self
        sessions = SESSIONS_A_USER * self.workload.slots + SPARE_SESSIONS if own.user else self.cluster.max_sessions
        return replace(
            self,
            cluster=replace(
                self.cluster,
                service=own.service,
                source=own.source,
                model=own.model,
                schema=own.schema,
                max_sessions=sessions,
            ),
            workload=replace(self.workload, service=own.service, user=own.user),
        )

    def on_system(self, system: str | None) -> "Scenario":
        """The same on that system, or as it is."""
        return self if system is None else replace(self, cluster=replace(self.cluster, system=system))

    def launched(self, launcher: str | None, jvm: str | None) -> "Scenario":
        """The same with members that this command starts, and with these options of Java's."""
        return replace(self, cluster=replace(self.cluster, launcher=launcher or "", jvm=jvm or ""))

    @property
    def link_faults(self) -> tuple[LinkFault | DatagramFault, ...]:
        """The faults of links among its steps."""
        return tuple(
            step.fault
            for step in self.steps
            if isinstance(step, Inject | Begin) and isinstance(step.fault, LinkFault | DatagramFault)
        )

    @property
    def host_faults(self) -> tuple[HostFault, ...]:
        """The faults of machines among its steps."""
        return tuple(
            step.fault for step in self.steps if isinstance(step, Inject | Begin) and isinstance(step.fault, HostFault)
        )

    @property
    def has_closing_snapshot(self) -> bool:
        """Where states are judged, that at the end is, too."""
        has_commands = any(isinstance(step, GiveCommand) for step in self.steps)
        return needs_closing_snapshot(self.cluster.service, has_commands=has_commands)

    @property
    def planned_faults(self) -> tuple[str, ...]:
        """The names of the faults that are put in whatever happens."""
        return tuple(
            step.name
            for step in self.steps
            if isinstance(step, Inject) or (isinstance(step, Begin) and not step.is_drawn)
        )

    @property
    def planned_commands(self) -> tuple[str, ...]:
        """The commands that are given whatever happens, as they are written down, without options."""
        given = [_command_of(step) for step in self.steps if isinstance(step, GiveCommand | KeepCompanion)]
        return (*given, AdminCommand.SNAPSHOT.value) if self.has_closing_snapshot else tuple(given)

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Where it can run: the simulated runtime runs components together, and only it has whole hosts to break;
        only containers filter packets, and simulated members send no datagrams and have no dialling sides. Messages are
        read while they are written on processes alone.
        """
        if self.has_invariants or any(fault.kind not in ON_PROCESSES for fault in self.host_faults):
            return (SIMULATED,)
        if self.host_faults:
            return (SIMULATED, PROCESS)
        if any(fault.means is Means.PACKETS for fault in self.link_faults):
            return (DOCKER,)
        if any(isinstance(step, WaitSent) for step in self.steps):
            return (PROCESS,)
        if any(isinstance(fault, DatagramFault) or fault.dialler for fault in self.link_faults):
            return LIVE_RUNTIMES
        return RUNTIMES if self.cluster.components == "together" else LIVE_RUNTIMES


def _command_of(step: GiveCommand | KeepCompanion) -> str:
    return step.command if isinstance(step, GiveCommand) else f"{step.config.kind} {step.action}"
