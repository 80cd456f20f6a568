"""A scenario as a value: a cluster, a load, steps that wait, inject and heal, and the promises that must hold.

The same value runs on every runtime. This module knows neither its text (`scenario.text`) nor how it is run.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.cluster import needs_closing_snapshot
from upheaval.records import BACKUP_NAME, OWN_SYSTEM, TOGETHER, AdminCommand, CompanionConfig
from upheaval.records.jsonfields import FilePath
from upheaval.runtime_names import DOCKER, PROCESS, SIMULATED
from upheaval.system import ClusterSpec
from upheaval.workload import WorkloadSettings
from upheaval_chaos.datagram_faults import DatagramFault
from upheaval_chaos.faults import Fault, Who
from upheaval_chaos.host_faults import IN_CONTAINERS, NOT_SIMULATED, ON_PROCESSES, HostFault
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import Means
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.rules import OWN

LIBRARY = Path(__file__).parents[1] / "scenarios"
SNAPSHOT_STATE: Final = "snapshot"
"""A state of the consensus module; the other states are of its elections."""
STATES: Final = (*(state.name.lower().replace("_", "-") for state in ElectionState), SNAPSHOT_STATE)
"""The states of a member that a scenario can wait for."""
_ON_LIVE: Final = {PROCESS: ON_PROCESSES, DOCKER: IN_CONTAINERS}
# A user that lost its leader opens another session, and its old sessions remain until they time out.
SESSIONS_A_USER = 6
SPARE_SESSIONS = 8


@dataclass(frozen=True, slots=True)
class WaitOperations:
    """Wait until `count` more operations are acknowledged."""

    count: int


@dataclass(frozen=True, slots=True)
class WaitLeader:
    """Wait until a leader serves; if `other_than` names a fault, a leader that it did not hit."""

    other_than: str = ""


@dataclass(frozen=True, slots=True)
class WaitCaughtUp:
    """Wait until each victim of a fault follows the leader, or leads."""

    fault: str


@dataclass(frozen=True, slots=True)
class WaitMoment:
    """Wait until `operations` are acknowledged in all, and `after_ms` after the last fault began or was healed.

    The first wait of a scenario counts from the beginning of the load. A recorded schedule consists of these waits.
    """

    operations: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class WaitTime:
    """Wait until this many nanoseconds have passed since the load began; continue at once if they have."""

    since_load_ns: int


@dataclass(frozen=True, slots=True)
class WaitSeconds:
    """Wait for this time, under load."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitSent:
    """Wait until one of the members `source` has sent such a message to one of the members `target`.

    Only messages count that were sent after the last fault began or was healed, or after the last such message. Fields
    have their names in a trace, and values are written as there.
    """

    message: str
    source: Who | None = None
    target: Who | None = None
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WaitState:
    """Wait until one of the members `of` has entered a state of `STATES`.

    Only states count that were entered after the last fault began or was healed, or after the last awaited event. A
    drawn wait goes on without the state after `at_most_ns`; with 0 the wait fails, as that for a message does. Later
    targets mean the member by the name.
    """

    state: str
    of: Who | None = None
    at_most_ns: int = 0
    name: str = ""

    @property
    def traced(self) -> str:
        """The state as traces have it."""
        return self.state.replace("-", "_").upper()


@dataclass(frozen=True, slots=True)
class Inject:
    """Inject a fault under a name, and prove that it took effect."""

    name: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Heal:
    """Heal a fault, and prove that, too."""

    name: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Inject a fault under a name and continue at once.

    A drawn fault is skipped if it is impossible now, and its proof is sought while other steps run. A fault that is not
    drawn is proved before it is healed.
    """

    name: str
    fault: Fault
    is_drawn: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """Heal what was begun, and continue at once."""

    name: str


@dataclass(frozen=True, slots=True)
class AskFor:
    """Let an operator give the present leader a command, and continue whether the leader takes it or not.

    `start` starts the members that are down, unless a fault keeps them down.
    """

    command: AdminCommand


@dataclass(frozen=True, slots=True)
class GiveCommand:
    """Let an operator give a command (`upheaval.cluster.control`), and prove that it took effect on every member."""

    command: str


@dataclass(frozen=True, slots=True)
class KeepCompanion:
    """Start, stop or kill a node beside the members, and prove it. A started node copies from members of `source`."""

    action: str
    source: str = "ANY"
    name: str = BACKUP_NAME

    @property
    def config(self) -> CompanionConfig:
        """The configuration of the node."""
        return CompanionConfig(self.name, self.source)


@dataclass(frozen=True, slots=True)
class WaitCompanion:
    """Wait until a node beside the members has the log up to the commit position at the beginning of the wait."""

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
    | WaitState
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
    """A service that replaces that of a scenario, and its users.

    `service` is a shipped one that a workload drives, or `module:Class`; then `user` is the `module:Class` of its
    users, and `model` judges the service's answers. All are looked up in the folder `source` first. `schema` is the
    file of the SBE schema of its messages.
    """

    service: str
    user: str = ""
    source: FilePath = ""
    model: str = ""
    schema: FilePath = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. `promises` are the promises that must be checkable for it to pass.

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
    """Whether the invariants of the simulation are checked, as in a campaign."""

    def run_by(self, own: OwnCode | None) -> "Scenario":
        """The scenario with that service and its users; unchanged for None."""
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
        """The scenario on that system; unchanged for None. Members of another system have their own rules."""
        if system is None:
            return self
        compatibility = self.cluster.compatibility if system == OWN_SYSTEM else OWN
        return replace(self, cluster=replace(self.cluster, system=system, compatibility=compatibility))

    def launched(self, launcher: str | None, jvm: str | None, source: str = "") -> "Scenario":
        """The scenario with members that the command `launcher` starts, in the folder `source` unless that is
        empty, and with the options `jvm` for Java.
        """
        folder = (source if launcher else "") or self.cluster.source
        return replace(self, cluster=replace(self.cluster, launcher=launcher or "", jvm=jvm or "", source=folder))

    @property
    def _injections(self) -> list[Inject | Begin]:
        return [step for step in self.steps if isinstance(step, Inject | Begin)]

    @property
    def link_faults(self) -> tuple[LinkFault | DatagramFault, ...]:
        """The faults of links in its steps."""
        return tuple(step.fault for step in self._injections if isinstance(step.fault, LinkFault | DatagramFault))

    @property
    def host_faults(self) -> tuple[HostFault, ...]:
        """The faults of hosts in its steps."""
        return tuple(step.fault for step in self._injections if isinstance(step.fault, HostFault))

    @property
    def has_closing_snapshot(self) -> bool:
        """Whether the run ends with a snapshot, by which states are compared."""
        has_commands = any(isinstance(step, GiveCommand) for step in self.steps)
        return needs_closing_snapshot(self.cluster.service, has_commands=has_commands)

    @property
    def planned_faults(self) -> tuple[str, ...]:
        """The names of the faults that are injected in any case."""
        return tuple(step.name for step in self._injections if isinstance(step, Inject) or not step.is_drawn)

    @property
    def planned_commands(self) -> tuple[str, ...]:
        """The commands that are given in any case, as they are recorded, without options."""
        given = [_command_of(step) for step in self.steps if isinstance(step, GiveCommand | KeepCompanion)]
        return (*given, AdminCommand.SNAPSHOT.value) if self.has_closing_snapshot else tuple(given)

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtimes that it can run on.

        The simulated runtime runs components together; some faults of whole hosts are possible only there, and limits
        of memory are not. Only containers filter packets. Simulated members send no datagrams, and their links have no
        dialling side. Traces can be read while they are written in the simulation and of processes.
        """
        of_hosts = {fault.kind for fault in self.host_faults}
        possible = [] if of_hosts.intersection(NOT_SIMULATED) else [SIMULATED]
        if self.has_invariants or not of_hosts.issubset(ON_PROCESSES):
            return tuple(possible)
        possible.append(PROCESS)
        if not of_hosts.issubset(IN_CONTAINERS):
            return tuple(possible)
        if any(fault.means is Means.PACKETS for fault in self.link_faults):
            return (DOCKER,)
        possible.append(DOCKER)
        is_live = any(isinstance(fault, DatagramFault) or fault.dialler for fault in self.link_faults)
        if is_live or self.cluster.components != TOGETHER:
            possible = [runtime for runtime in possible if runtime != SIMULATED]
        return tuple(runtime for runtime in possible if runtime != DOCKER or not self.reads_traces)

    def not_live(self, runtime: str) -> tuple[str, ...]:
        """Its lines that clusters of real members on that runtime cannot follow."""
        kinds = {fault.kind for fault in self.host_faults}.difference(_ON_LIVE[runtime])
        numbered = ((number, line.partition("#")[0].split()) for number, line in enumerate(self.text.split("\n"), 1))
        return tuple(
            f"`{' '.join(words)}` (line {number})"
            for number, words in numbered
            if words == ["invariants", "on"] or kinds.intersection(words[2:3])
        )

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """What of its faults of hosts the simulated runtime cannot do, each with the reason."""
        kinds = dict.fromkeys(fault.kind for fault in self.host_faults if fault.kind in NOT_SIMULATED)
        return tuple(f"{kind} is not simulated, as {NOT_SIMULATED[kind]}" for kind in kinds)

    @property
    def reads_traces(self) -> bool:
        """Whether it waits until a member has sent a message or entered a state."""
        return any(isinstance(step, WaitSent | WaitState) for step in self.steps)


def _command_of(step: GiveCommand | KeepCompanion) -> str:
    return step.command if isinstance(step, GiveCommand) else f"{step.config.kind} {step.action}"
