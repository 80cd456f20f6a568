"""The common part of clusters of real members, in processes or in containers.

A runtime supplies the nodes and the way to ask them. `kill`, `stop`, `pause`, `resume` and `start` of a member inject
and heal faults through the fault driver, which proves and records them. The methods of the same names on its `node` are
the injector that the driver uses. This module knows neither processes nor container engines.
"""

import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.records import (
    SCENARIO_NAME,
    SPLIT,
    CompanionConfig,
    ControlRecord,
    RunFolder,
    WrongCredentials,
    check_companion,
    companion_name,
    load_companions,
    note_companion,
    seal,
    sealed_again,
)
from upheaval.records.added_lines import AddedLines
from upheaval.runtimes import ports
from upheaval.runtimes.companions import LiveCompanion, entry_for
from upheaval.runtimes.conditions import START_TIMEOUT_S, Conditions
from upheaval.runtimes.node import STOP_TIMEOUT_S, LiveNode, Node, Node_co
from upheaval.security import policy as security
from upheaval.security.strangers import attempt
from upheaval.system import (
    COMPONENTS,
    ClusterSpec,
    ControlStatus,
    MemberStatus,
    SystemUnderTest,
    WayIn,
    system_named,
    with_leaders,
)
from upheaval.waits import wait_until
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import MemberFault, MemberFaultKind, Members
from upheaval_chaos.file_faults import FileFault, FileFaultKind
from upheaval_chaos.host_faults import NOT_SIMULATED
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import Datagrams, Files, Hosts, Link, LinkEffect, LinkInjector, LinkObserver, Ping
from upheaval_node.client.driving import ClientOptions
from upheaval_node.media.resolver import Resolver
from upheaval_node.suggestions import did_you_mean
from upheaval_node.tls_files import TlsFiles, member_name
from upheaval_node.types import S

Result = TypeVar("Result")

_ATTEMPT_TIMEOUT_S: Final = 20.0


class Held(Protocol):
    """A resource that a cluster handle holds open."""

    def close(self) -> None:
        """Release it."""


class Links(LinkInjector, LinkObserver, Held, Protocol):
    """The links of one live cluster. Create them before its members start, and close them after the members end."""

    @property
    def datagrams(self) -> Datagrams | None:
        """The same links, for faults of single datagrams; None where members send no datagrams."""


class Machines(Hosts, Held, Protocol):
    """The parts of a machine of its own that each member of one live cluster has, such as a clock or a volume."""

    @property
    def kinds(self) -> Collection[str]:
        """The kinds of faults that they support."""


class LiveMember(LiveNode[Node_co]):
    """One member."""

    def __init__(self, cluster: "LiveCluster[LiveMember[Node]]", member_id: int, node: Node_co) -> None:
        super().__init__(f"member {member_id}", cluster.run.member(member_id).path, node)
        self.member_id = member_id
        self._live = cluster

    # --- observer ---

    @abstractmethod
    def status(self) -> MemberStatus:
        """What the member reports about itself."""

    @abstractmethod
    def control_status(self) -> ControlStatus:
        """What the member's consensus module reports, or its files when it is down."""

    @abstractmethod
    def exit_status(self, incarnation: str) -> int | None:
        """The exit status of that incarnation; None while it runs, or when the status is unknown."""

    def wait_until_alive(self) -> None:
        """Wait until all components are up. Raises at once when one of them ends instead."""

        def is_alive() -> bool:
            self._live.raise_if_ended(self.member_id)
            return self.status().role is not None

        wait_until(is_alive, timeout_s=START_TIMEOUT_S, describe=lambda: f"no start: {self.status()}")

    @abstractmethod
    def files(self) -> Files:
        """The injector and observer of its files, for a time at which it does not run."""

    @abstractmethod
    def give(self, command: str) -> str:
        """Set the member's control toggle. Returns why it was refused, empty if it was not."""

    # --- recorded in the run ---

    def kill(self, component: str | None = None) -> None:
        """Send SIGKILL to the member, or to one component of a split member."""
        self._break(MemberFaultKind.KILL, component)

    def stop(self, component: str | None = None) -> None:
        """Ask for an orderly end and wait for it. Does nothing to a member that is not running."""
        if self.is_running():
            self._break(MemberFaultKind.STOP, component)

    def pause(self, component: str | None = None) -> None:
        """Freeze the member: it keeps its connections and does not answer."""
        self._break(MemberFaultKind.PAUSE, component)

    def resume(self) -> None:
        """Resume a paused member."""
        self._live.heal(self.member_id, (MemberFaultKind.PAUSE,))
        self.node.resume()

    def start(self) -> None:
        """Start the components that are not running. The member rejoins on its own."""
        self._live.require_unfinished()
        self._live.run.unseal()
        self._live.heal(self.member_id, (MemberFaultKind.KILL, MemberFaultKind.STOP, *FileFaultKind))
        self.node.start()

    def _break(self, kind: MemberFaultKind, component: str | None) -> None:
        self._require_running(kind.value, component)
        self._live.inject(MemberFault(kind, Members(member_id=self.member_id), component))

    def _require_running(self, what: str, component: str | None) -> None:
        if component is not None:
            if component not in COMPONENTS:
                hint = did_you_mean(component, COMPONENTS)
                raise UsageError(f"unknown component {component!r}: use one of {', '.join(COMPONENTS)}{hint}")
            if self._live.config.components != SPLIT:
                raise UsageError(
                    f"member {self.member_id} has all its components together: {what} it without --component, "
                    "or start the cluster with --components split"
                )
        if not self.incarnation(component):
            victim = f"{component} of member {self.member_id}" if component else f"member {self.member_id}"
            raise UsageError(f"{victim} is not running: nothing to {what}")


Member_co = TypeVar("Member_co", bound=LiveMember[Node], covariant=True)


class LiveCluster(Conditions, Generic[Member_co]):
    """A cluster of real members. Implements `upheaval.execution.stage.Steered`."""

    runtime: ClassVar[str]
    machine_kinds: ClassVar[Collection[str]] = ()
    """The kinds of machine faults that the runtime supports, if members get machines of their own for them."""

    def __init__(self, folder: Path, config: ClusterSpec, members: Sequence[Member_co]) -> None:
        super().__init__(RunFolder(folder))
        self.config = config
        self.system: SystemUnderTest = system_named(config.system)
        """What its members are."""
        self.folder = folder
        self.members = members
        self.acknowledged: Callable[[], int] = lambda: 0
        """How many operations of the load were acknowledged; the code that runs the load sets it."""
        self.egress_endpoints: Sequence[str] = ()
        """Where clients take answers that members dial them for; any place will do when there are none."""
        self.may_end: set[int] = set()
        """Members that end by what is done to their machines or files, by their ids."""
        self.limited: set[int] = set()
        """Those whose memory is limited, which may end by that."""
        self._links: Links | None = None
        self._machines: Machines | None = None
        self._held = contextlib.ExitStack()

    def added_lines(self) -> AddedLines:
        """Reads the lines of members' traces, and of messages that forwarders saw, since its last call."""
        traces = (self.run.member(member_id).trace for member_id in self.member_ids)
        return AddedLines((self.run.consensus_file, *traces))

    # --- handles ---

    def member(self, member_id: int) -> Member_co:
        """The member with this id. Raises `UsageError` if there is none."""
        if not 0 <= member_id < len(self.members):
            raise UsageError(f"unknown member {member_id}: this cluster has members 0 to {len(self.members) - 1}")
        return self.members[member_id]

    @property
    def notes(self) -> Sequence[str]:
        """Sentences for the user who starts the cluster."""
        return [self.system.note] if self.system.note else []

    @abstractmethod
    def ingress_endpoints(self) -> dict[int, str]:
        """The members' ingress endpoints by member id; dial them through `resolver`."""

    @abstractmethod
    def resolver(self) -> Resolver:
        """How clients on this machine dial the ingress endpoints."""

    @property
    def client_host(self) -> str:
        """The address of this machine as members reach it."""
        return ports.HOST

    def way_in(self) -> WayIn:
        """How clients on this machine reach the members."""
        places = self.ingress_endpoints(), self.resolver(), self.client_host, self.egress_endpoints
        return WayIn(self.config.run_id, self.folder, *places, self.config.client)

    def note_policy(self) -> None:
        """Record for the verdict who may connect from now on."""
        security.note_policy(self.folder, self.config.tls, self.config.credentials, self.config.members)

    def reload_security(self) -> list[str]:
        """Make all running members and companions read their certificates and the credentials file again.

        Returns their names. Raises `UsageError`, before any of them reads a file, when the files are invalid.
        """
        companions = [companion for companion in self.companions() if companion.is_running()]
        if self.config.tls:
            names = [*security.names_needed(self.config.members), *(companion.name for companion in companions)]
            security.require_certificates(Path(self.config.tls), names)
        if self.config.credentials:
            security.require_credentials_file(Path(self.config.credentials))
        self.note_policy()
        running = [member for member in self.members if member.is_running()]
        for member in running:
            member.node.reload()
        for companion in companions:
            companion.node.reload()
        return [*(member_name(member.member_id) for member in running), *(companion.name for companion in companions)]

    def client_tls(self) -> TlsFiles | None:
        """The certificate files of clients on this machine; None without TLS."""
        return security.client_files(self.config.tls)

    def try_strangers(self) -> None:
        """Connect with each kind of wrong credentials, if the cluster requires credentials, and record the answers."""
        if not self.config.credentials:
            return
        known = security.principals_of(self.config.credentials)[0]
        options: ClientOptions = {
            "client_name": "stranger",
            "resolver": self.resolver(),
            "tls": self.client_tls(),
        }
        for wrong in WrongCredentials:
            self.run.add_attempt(attempt(self.ingress_endpoints(), options, wrong, known, _ATTEMPT_TIMEOUT_S))

    @abstractmethod
    def dial_through(self, source: int, names: Mapping[str, str]) -> None:
        """Set the addresses that `source` dials for other ends' endpoints, from its next start on. That puts a proxy
        into a link.
        """

    @property
    def links(self) -> Links:
        """The injector and observer of links. Raises `UsageError` when the links have neither proxies nor filters."""
        if self._links is None:
            raise UsageError(
                "this cluster has no proxies in its links, which faults of links need: make it with links=True"
            )
        return self._links

    def use_links(self, links: Links) -> None:
        """Set the injector and observer of links. Call it before the members start; the cluster closes it."""
        self._links = links
        self.hold(links)

    def hold(self, held: Held) -> None:
        """Close the resource with the cluster."""
        self._held.callback(held.close)

    def is_running(self) -> bool:
        """Whether any member runs."""
        return any(self.for_all(_is_running))

    def companions(self) -> Sequence[LiveCompanion[Node]]:
        """All companions that were ever started here, running or not."""
        return [self.make_companion(config) for config in load_companions(self.folder)]

    def companion(self, name: str) -> LiveCompanion[Node]:
        """The companion of this name. Raises `UsageError` if it was never started here."""
        companion = next((companion for companion in self.companions() if companion.name == companion_name(name)), None)
        if companion is None:
            raise UsageError(f"{self.folder} has no {name}: start it first")
        return companion

    def add_companion(self, config: CompanionConfig) -> LiveCompanion[Node]:
        """A handle to start a companion with. A known companion keeps its files and takes the new options."""
        check_companion(config)
        self.system.companions.check(config, self.runtime)
        self.run.unseal()
        companion = self.make_companion(entry_for(self.folder, config))
        note_companion(self.folder, companion.config)
        return companion

    @abstractmethod
    def make_companion(self, config: CompanionConfig) -> LiveCompanion[Node]:
        """The handle of a companion."""

    def note_companions(self) -> None:
        """Record the log positions of all companions before they end."""
        for companion in self.companions():
            companion.note_position()

    def status(self) -> list[MemberStatus]:
        """What each member reports about itself, and who leads."""
        return with_leaders(self.for_all(_status))

    def for_all(self, action: Callable[[Member_co], Result]) -> list[Result]:
        """Run the action for every member."""
        return [action(member) for member in self.members]

    # --- life ---

    def up(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Start what is not running and wait for a serving leader. Returns its member id.

        The wait lasts up to four times as long while members make progress. The run continues, so final positions from
        an earlier end are removed. On a failure, everything that was started here is ended.
        """
        self.require_unfinished()
        self.run.change_manifest(lambda manifest: replace(manifest, converge=None))
        self.note_policy()
        with self.all_or_nothing():
            self._prepare()
            self.for_all(_start)
            return self.wait_until_first_leader(timeout_s)

    def require_unfinished(self) -> None:
        """Raises `UsageError` for the finished run of a scenario: a start would change its evidence."""
        manifest = self.run.read_manifest()
        if manifest.sealed is not None and SCENARIO_NAME in manifest.written:
            raise UsageError(f"{self.folder} is the finished run of a scenario: start a cluster in a new folder")

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare what members need before the first of them starts."""

    @abstractmethod
    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything in order, by force after the time-out. The folder remains, complete and sealed."""

    def seal(self) -> None:
        """Seal the ended run. A full disk must not keep the cluster from ending."""
        with contextlib.suppress(EnvironmentFault):
            seal(self.run)

    def collect(self) -> None:
        """Copy the members' files into the run folder, in runtimes where members do not write there themselves."""

    @abstractmethod
    def all_or_nothing(self) -> AbstractContextManager[None]:
        """On a failure, end what was started inside."""

    def close(self) -> None:
        """Release everything that this handle holds open; the cluster keeps running. `down` does that too."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- for faults and admin commands ---

    @property
    def member_ids(self) -> Sequence[int]:
        """The ids of all members, running or not."""
        return range(self.config.members)

    def now_ns(self) -> int:
        """The monotonic time of this machine."""
        return time.monotonic_ns()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises `UnknownOutcome` early when the condition does not hold and a member has ended by its own fault."""
        begin_ns = self.now_ns()

        def holds() -> bool:
            if condition():
                return True
            try:
                self.raise_if_ended()
            except EnvironmentFault as error:
                raise UnknownOutcome(str(error)) from error
            return False

        wait_until(
            holds,
            timeout_s=timeout_s,
            describe=lambda: f"no {what}: {self.shown(self.status(), begin_ns)}",
            interval_s=self.poll_interval_s,
        )

    def let_pass(self, seconds: float) -> None:
        """Raises `UnknownOutcome` early when a member ends by its own fault."""
        end_ns = self.now_ns() + int(seconds * S)
        self.wait_until(lambda: self.now_ns() >= end_ns, seconds + 60, "time")

    def node(self, member_id: int) -> Node:
        """The injector and observer of a member."""
        return self.member(member_id).node

    @property
    def spared(self) -> set[int]:
        """Members whose end is no error of the run."""
        return self.may_end | self.limited

    def files(self, member_id: int) -> Files:
        """The files of a member, which may end by what is done to them."""
        self.may_end.add(member_id)
        return self.member(member_id).files()

    def give(self, member_id: int, command: str) -> str:
        """Set the member's control toggle. Returns why it was refused, empty if it was not."""
        return self.member(member_id).give(command)

    def control_statuses(self) -> Sequence[ControlStatus]:
        """What each member reports about its consensus module and snapshots, in order of member ids."""
        return self.for_all(_control_status)

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        """The exit status of the incarnation; None while it runs, or when the status is unknown."""
        return self.member(member_id).exit_status(incarnation)

    def record_control(self, record: ControlRecord) -> None:
        """Write the record to the run folder at once."""
        self.run.add_control(record)

    def use_machines(self, machines: Machines) -> None:
        """Set the members' machines. Call it before the members start; the cluster closes them."""
        self._machines = machines
        self.hold(machines)

    def hosts(self, purpose: str, kind: str = "") -> Hosts:
        """The members' machines. Raises `UsageError` when they do not support faults of this kind."""
        if self._machines is not None and kind in self._machines.kinds:
            return self._machines
        hints = [f"make it with machines=['{kind}']"] if kind in self.machine_kinds else []
        hints += [] if kind in NOT_SIMULATED else ["use --runtime simulated"]
        raise UsageError(f"the {self.runtime} runtime cannot {purpose}: {', or '.join(hints)}")

    def datagrams(self, purpose: str) -> Datagrams:
        """The links as injector for datagrams. Raises `UsageError` when the links have no datagrams."""
        datagrams = self.links.datagrams
        if datagrams is None:
            raise UsageError(f"{self.system.text} on the {self.runtime} runtime has no links of datagrams to {purpose}")
        return datagrams

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Delegates to the cluster's links."""
        self.links.impose(links, effect)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Delegates to the cluster's links."""
        self.links.lift(links, effect)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """Delegates to the cluster's links."""
        return self.links.delivered_by_stream(link)

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Delegates to the cluster's links."""
        return self.links.ping(link, timeout_s, extra_length)

    # --- faults by hand ---

    def inject(self, fault: MemberFault | FileFault, name: str = "") -> None:
        """Inject a fault and record it with its proof. This process or another one may heal it.

        A restart is healed here: it is over when its members run again. Raises `UnknownOutcome` when the fault or the
        healing was not proved.
        """
        # Its members stay down, so nothing else seals the run again.
        with sealed_again(self.run) if isinstance(fault, FileFault) else contextlib.nullcontext():
            self._inject(fault, name)

    def _inject(self, fault: MemberFault | FileFault, name: str) -> None:
        # This process does not know the progress of a load in another process.
        driver = FaultDriver(
            self, lambda record: self.run.add_fault(replace(record, inject_operations=None, heal_operations=None))
        )
        try:
            proof = driver.inject(name, fault)
            if fault.kind is MemberFaultKind.RESTART:
                driver.heal(name).require(f"return of {fault.members}")
        finally:
            driver.leave()
        proof.require(f"{fault.kind} of {fault.members}")

    def heal(self, member_id: int, kinds: Sequence[MemberFaultKind | FileFaultKind]) -> None:
        """Heal the faults of these kinds that affect a member, and record that with its proof.

        That includes faults that another process injected. Raises `UnknownOutcome` when the healing was not proved.
        """
        self.heal_recorded(
            fault
            for fault in self.run.read_faults()
            if fault.members == (member_id,) and fault.what in kinds and fault.heal_end_ns is None
        )

    def heal_recorded(self, faults: Iterable[FaultRecord]) -> None:
        """Heal member faults that are recorded as not healed, and record that with its proof.

        Raises `UnknownOutcome` when the healing was not proved.
        """
        driver = FaultDriver(self, lambda record: self.run.heal_fault(replace(record, heal_operations=None)))
        # If a fault ended a member and the member runs again, something else healed that fault.
        under = [fault for fault in faults if self._is_under(fault)]
        for number, fault in enumerate(under):
            driver.adopt(str(number), fault)
        for number, fault in enumerate(under):
            driver.heal(str(number)).require(f"{fault.what} of {fault.where}")

    def _is_under(self, fault: FaultRecord) -> bool:
        running = [bool(self.node(member_id).incarnation(fault.component)) for member_id in fault.members]
        return all(running) if fault.what == MemberFaultKind.PAUSE else not all(running)


AnyCluster = LiveCluster[LiveMember[Node]]
"""A live cluster of any runtime."""


def _status(member: LiveMember[Node]) -> MemberStatus:
    return member.status()


def _control_status(member: LiveMember[Node]) -> ControlStatus:
    return member.control_status()


def _start(member: LiveMember[Node]) -> None:
    member.node.start()


def _is_running(member: LiveMember[Node]) -> bool:
    return member.is_running()
