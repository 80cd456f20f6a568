"""A cluster of real members, in processes or in containers: what both have in common.

A runtime fills in the nodes and how they are asked. `kill`, `stop`, `pause`, `resume` and `start` of a member are
faults and their healing, put in, proved and written down by the driver of all faults; the same words of its `node` are
the injector that a driver uses. This module knows neither processes nor engines.
"""

import contextlib
import platform
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar

from upheaval.checkers.protocol.identities import SECURITY_FILE
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.records import (
    SPLIT,
    CompanionConfig,
    ControlRecord,
    Manifest,
    RunFolder,
    WrongCredentials,
    check_companion,
    code_digest,
    companion_name,
    load_companions,
    note_companion,
    seal,
)
from upheaval.runtimes import cluster_file, ports
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
from upheaval.system.process_table import boot_id
from upheaval.waits import wait_until
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import MemberFault, MemberFaultKind, Members
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import Datagrams, Hosts, Link, LinkEffect, LinkInjector, LinkObserver, Ping
from upheaval_node.client.driving import ClientOptions
from upheaval_node.media.resolver import Resolver
from upheaval_node.suggestions import did_you_mean
from upheaval_node.tls_files import TlsFiles, member_name
from upheaval_node.types import MS, S

Result = TypeVar("Result")

_ATTEMPT_TIMEOUT_S: Final = 20.0


class Held(Protocol):
    """What a handle of a cluster holds open."""

    def close(self) -> None:
        """Let go of it."""


class Links(LinkInjector, LinkObserver, Held, Protocol):
    """The links of one live cluster. To be made before its members start, and closed after them."""

    @property
    def datagrams(self) -> Datagrams | None:
        """The same links for what is done to single datagrams; None where members send none."""


class Machines(Hosts, Held, Protocol):
    """What the members of one live cluster have of machines of their own."""

    @property
    def kinds(self) -> Collection[str]:
        """The kinds of faults that can be done to them."""


class LiveMember(LiveNode[Node_co]):
    """One member."""

    def __init__(self, cluster: "LiveCluster[LiveMember[Node]]", member_id: int, node: Node_co) -> None:
        super().__init__(f"member {member_id}", cluster.run.member(member_id).path, node)
        self.member_id = member_id
        self._live = cluster

    # --- observer ---

    @abstractmethod
    def status(self) -> MemberStatus:
        """What the member says about itself."""

    @abstractmethod
    def control_status(self) -> ControlStatus:
        """What its consensus module says, or what its files say when it is down."""

    @abstractmethod
    def exit_status(self, incarnation: str) -> int | None:
        """The status that the life of that name ended with; None while it runs, or when that is unknown."""

    def wait_until_alive(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until all components have shown themselves. Raises at once when one of them ends instead."""

        def is_alive() -> bool:
            self._live.raise_if_ended(self.member_id)
            return self.status().role is not None

        wait_until(is_alive, timeout_s=timeout_s, describe=lambda: f"no start: {self.status()}")

    @abstractmethod
    def give(self, command: str) -> str:
        """Set the member's control toggle; why it was not taken, empty when it was."""

    # --- what is written down ---

    def kill(self, component: str | None = None) -> None:
        """SIGKILL to the member, or to one component of a split member."""
        self._break(MemberFaultKind.KILL, component)

    def stop(self, component: str | None = None) -> None:
        """Ask for an orderly end, and wait for it. One that does not run is left alone."""
        if self.is_running():
            self._break(MemberFaultKind.STOP, component)

    def pause(self, component: str | None = None) -> None:
        """Freeze the member: it holds its connections and answers nothing."""
        self._break(MemberFaultKind.PAUSE, component)

    def resume(self) -> None:
        """Let a paused member go on."""
        self._live.heal(self.member_id, (MemberFaultKind.PAUSE,))
        self.node.resume()

    def start(self) -> None:
        """Start what is not running of the member. It joins by itself."""
        self._live.run.unseal()
        self._live.heal(self.member_id, (MemberFaultKind.KILL, MemberFaultKind.STOP))
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
    """The kinds of faults of machines that its members can have machines of their own for."""

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
        self._links: Links | None = None
        self._machines: Machines | None = None
        self._held = contextlib.ExitStack()

    # --- handles ---

    def member(self, member_id: int) -> Member_co:
        """Raises `UsageError` for a member that does not exist."""
        if not 0 <= member_id < len(self.members):
            raise UsageError(f"unknown member {member_id}: this cluster has members 0 to {len(self.members) - 1}")
        return self.members[member_id]

    @property
    def notes(self) -> Sequence[str]:
        """Sentences for the user who starts the cluster."""
        return [self.system.note] if self.system.note else []

    @abstractmethod
    def ingress_endpoints(self) -> dict[int, str]:
        """Where clients find the members; to be dialled through `resolver`."""

    @abstractmethod
    def resolver(self) -> Resolver:
        """How clients on this machine dial the ingress endpoints."""

    @property
    def client_host(self) -> str:
        """This machine, as the members reach it."""
        return ports.HOST

    def way_in(self) -> WayIn:
        """How clients on this machine reach the members."""
        places = self.ingress_endpoints(), self.resolver(), self.client_host, self.egress_endpoints
        return WayIn(self.config.run_id, self.folder, *places, self.config.client)

    def note_policy(self) -> None:
        """Write down who is to be let in by now, for the verdict."""
        security.note_policy(self.folder, self.config.tls, self.config.credentials, self.config.members)

    def reload_security(self) -> list[str]:
        """Have every member that runs read its certificates and the credentials file again, and every companion.

        Returns the names of those that were asked. Raises `UsageError`, and asks none, when the files are no good.
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
        """What clients on this machine show to the members; None without TLS."""
        return security.client_files(self.config.tls)

    def try_strangers(self) -> None:
        """Connect with wrong credentials of each kind, where the cluster asks for any, and write down the answers."""
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
        """Where one end dials for the endpoints of others, from its next start on: how a proxy gets into a link."""

    @property
    def links(self) -> Links:
        """What breaks the links. Raises `UsageError` where links have neither proxies nor filters."""
        if self._links is None:
            raise UsageError(
                "this cluster has no proxies in its links, which faults of links need: make it with links=True"
            )
        return self._links

    def use_links(self, links: Links) -> None:
        """What breaks the links of this cluster. To be made before the members start; it is closed with the cluster."""
        self._links = links
        self.hold(links)

    def hold(self, held: Held) -> None:
        """Close it with the cluster."""
        self._held.callback(held.close)

    def is_running(self) -> bool:
        """Whether any member runs."""
        return any(self.for_all(_is_running))

    def companions(self) -> Sequence[LiveCompanion[Node]]:
        """The nodes beside the members that were ever started here, running or not."""
        return [self.make_companion(config) for config in load_companions(self.folder)]

    def companion(self, name: str) -> LiveCompanion[Node]:
        """Raises `UsageError` for one that was never started here."""
        companion = next((companion for companion in self.companions() if companion.name == companion_name(name)), None)
        if companion is None:
            raise UsageError(f"{self.folder} has no {name}: start it first")
        return companion

    def add_companion(self, config: CompanionConfig) -> LiveCompanion[Node]:
        """A handle to start one with; one that is there already goes on with what it has, asked for otherwise."""
        check_companion(config)
        self.system.companions.check(config, self.runtime)
        self.run.unseal()
        companion = self.make_companion(entry_for(self.folder, config))
        note_companion(self.folder, companion.config)
        return companion

    @abstractmethod
    def make_companion(self, config: CompanionConfig) -> LiveCompanion[Node]:
        """The handle of one."""

    def note_companions(self) -> None:
        """Keep up to where those that run have the log, before they end."""
        for companion in self.companions():
            companion.note_position()

    def status(self) -> list[MemberStatus]:
        """What each member says of itself, and who leads."""
        return with_leaders(self.for_all(_status))

    def for_all(self, action: Callable[[Member_co], Result]) -> list[Result]:
        """Do it for every member."""
        return [action(member) for member in self.members]

    # --- life ---

    def up(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Start what is not running and wait for a leader that serves; returns its member id.

        The run goes on: a position that the members came to at an earlier end is its last no more.
        When that fails, everything that was started here is ended again.
        """
        self.run.write_manifest(replace(self.run.read_manifest(), converge=None))
        self.note_policy()
        with self.all_or_nothing():
            self._prepare()
            self.for_all(_start)
            return self.wait_until_first_leader(timeout_s)

    @abstractmethod
    def _prepare(self) -> None:
        """What members need before the first of them starts."""

    @abstractmethod
    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything in an orderly way, by force what does not end; the folder stays, complete and sealed."""

    def seal(self) -> None:
        """Seal the run, which has ended. A disk that has no room for that must not keep the cluster from ending."""
        with contextlib.suppress(EnvironmentFault):
            seal(self.run)

    def collect(self) -> None:
        """Bring what the members have written so far into the run folder, where it is not there by itself."""

    @abstractmethod
    def all_or_nothing(self) -> AbstractContextManager[None]:
        """On the way out of a failure, end what was started inside."""

    def close(self) -> None:
        """Give back what this handle holds open; the cluster goes on. `down` does that too."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- as faults and admin commands see it ---

    @property
    def member_ids(self) -> Sequence[int]:
        """The ids of all members, whether they run or not."""
        return range(self.config.members)

    def now_ns(self) -> int:
        """Monotonic time of this machine."""
        return time.monotonic_ns()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Ends early when it does not hold and a member has ended by its own fault."""
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
        """Ends early, by `UnknownOutcome`, when a member ends by its own fault."""
        end_ns = self.now_ns() + int(seconds * S)
        self.wait_until(lambda: self.now_ns() >= end_ns, seconds + 60, "time")

    def node(self, member_id: int) -> Node:
        """Injector and observer of a member."""
        return self.member(member_id).node

    def give(self, member_id: int, command: str) -> str:
        """Set the member's control toggle; why it was not taken, empty when it was."""
        return self.member(member_id).give(command)

    def control_statuses(self) -> Sequence[ControlStatus]:
        """What each member says of its module and snapshots, in order of their ids."""
        return self.for_all(_control_status)

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        """The status that the incarnation ended with; None when it runs, or when that is unknown."""
        return self.member(member_id).exit_status(incarnation)

    def record_control(self, record: ControlRecord) -> None:
        """Written to the run folder at once."""
        self.run.add_control(record)

    def use_machines(self, machines: Machines) -> None:
        """What its members have of machines of their own. To be done before they start; closed with the cluster."""
        self._machines = machines
        self.hold(machines)

    def hosts(self, purpose: str, kind: str = "") -> Hosts:
        """Raises `UsageError` for what members have no machines of their own for."""
        if self._machines is not None and kind in self._machines.kinds:
            return self._machines
        hint = f"make it with machines=['{kind}'], or " if kind in self.machine_kinds else ""
        raise UsageError(f"the {self.runtime} runtime cannot {purpose}: {hint}use --runtime simulated")

    def datagrams(self, purpose: str) -> Datagrams:
        """Of the cluster's links. Raises `UsageError` where they have none."""
        datagrams = self.links.datagrams
        if datagrams is None:
            raise UsageError(f"{self.system.text} on the {self.runtime} runtime has no links of datagrams to {purpose}")
        return datagrams

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Done by the cluster's links."""
        self.links.impose(links, effect)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Done by the cluster's links."""
        self.links.lift(links, effect)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """As the cluster's links count it."""
        return self.links.delivered_by_stream(link)

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Done by the cluster's links."""
        return self.links.ping(link, timeout_s, extra_length)

    # --- faults by hand ---

    def inject(self, fault: MemberFault, name: str = "") -> None:
        """Put a fault in and write it down with its proof; this process or another one heals it.

        A restart is healed here: it is over once its members run again. Raises `UnknownOutcome` when one of both was
        not proved.
        """
        # How much a load of another process had done by then is not known here.
        driver = FaultDriver(
            self, lambda record: self.run.add_fault(replace(record, inject_operations=None, heal_operations=None))
        )
        try:
            proof = driver.inject(name, fault)
            if fault.kind is MemberFaultKind.RESTART:
                _require(f"return of {fault.members}", driver.heal(name))
        finally:
            driver.leave()
        _require(f"{fault.kind} of {fault.members}", proof)

    def heal(self, member_id: int, kinds: Sequence[MemberFaultKind]) -> None:
        """Take away the faults of these kinds that a member is under, and write that down with its proof.

        What was put in by another process counts as well. Raises `UnknownOutcome` when it was not proved.
        """
        self.heal_recorded(
            fault
            for fault in self.run.read_faults()
            if fault.members == (member_id,) and fault.what in kinds and fault.heal_end_ns is None
        )

    def heal_recorded(self, faults: Iterable[FaultRecord]) -> None:
        """Take away faults of members that were written down as not healed, and write that down with its proof.

        Raises `UnknownOutcome` when it was not proved.
        """
        driver = FaultDriver(self, lambda record: self.run.heal_fault(replace(record, heal_operations=None)))
        # One that ended what runs again was healed by something else.
        under = [fault for fault in faults if self._is_under(fault)]
        for number, fault in enumerate(under):
            driver.adopt(str(number), fault)
        for number, fault in enumerate(under):
            _require(f"{fault.what} of {fault.where}", driver.heal(str(number)))

    def _is_under(self, fault: FaultRecord) -> bool:
        running = [bool(self.node(member_id).incarnation(fault.component)) for member_id in fault.members]
        return all(running) if fault.what == MemberFaultKind.PAUSE else not all(running)


AnyCluster = LiveCluster[LiveMember[Node]]
"""A live cluster of whichever runtime."""


def _status(member: LiveMember[Node]) -> MemberStatus:
    return member.status()


def _control_status(member: LiveMember[Node]) -> ControlStatus:
    return member.control_status()


def _start(member: LiveMember[Node]) -> None:
    member.node.start()


def _is_running(member: LiveMember[Node]) -> bool:
    return member.is_running()


def _require(what: str, proof: Proof) -> None:
    if not proof.holds:
        raise UnknownOutcome(f"{what}, {proof}")


def made(spec: ClusterSpec, runtime: str) -> ClusterSpec:
    """The cluster of a new run, of a system with its version. Raises `UsageError` for what could never start."""
    spec = replace(spec.made(uuid.uuid4().hex), system=system_named(spec.system).text)
    cluster_file.check(spec, runtime)
    return spec


def with_base_port(spec: ClusterSpec) -> ClusterSpec:
    """With the wished base port, or with one whose ports are free. Raises `HarnessError` when one of them is not."""
    if not spec.base_port:
        return replace(spec, base_port=ports.choose_base_port(spec.members))
    ports.require_free(spec.base_port, spec.members)
    return spec


def new_manifest(spec: ClusterSpec, runtime: str) -> Manifest:
    """The manifest of a run that begins on this machine."""
    source = spec.python_path[0] if spec.python_path else ""
    return Manifest(
        run_id=spec.run_id,
        runtime=runtime,
        members=spec.members,
        profile=spec.profile,
        sync_level=spec.sync_level,
        components=spec.components,
        service=spec.service,
        more_services=spec.more_services,
        source=source,
        model=spec.model,
        model_source=spec.model_source,
        source_digest=code_digest(source, spec.service, spec.system),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        boot_id=boot_id(),
        version=spec.version,
        system=spec.system,
        system_sha256=system_named(spec.system).digest,
        planted=spec.planted,
        timeouts={"leader_disconnect_ns": spec.leader_disconnect_ms * MS} if spec.leader_disconnect_ms else {},
        written=(SECURITY_FILE,) if spec.tls or spec.credentials else (),
    )
