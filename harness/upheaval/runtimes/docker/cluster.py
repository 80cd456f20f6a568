"""The docker runtime: a live cluster of containers, one per member or one per component.

Any process can open a handle on a running cluster: the folder has the run's id, and everything of a run in the engine
is named and labelled after it. `containers` makes the containers; `under_test` says what a member is.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from upheaval.checkers.evidence.stalls import Stall, stalls_since
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.records import SPLIT, CompanionConfig, RunFolder, load_companions, owned_folder, write_schema
from upheaval.runtime_names import DOCKER
from upheaval.runtimes import cluster_file, ports
from upheaval.runtimes.docker import collect, labels
from upheaval.runtimes.docker.companion import DockerCompanion
from upheaval.runtimes.docker.container_state import KILLED, is_running, last_line
from upheaval.runtimes.docker.containers import (
    ALL,
    ContainerPlan,
    Place,
    member_hosts,
    put_copies,
    start_container,
)
from upheaval.runtimes.docker.engine import (
    Client,
    closed_on_failure,
    connect,
    engine_host,
    inspect,
    require_image,
)
from upheaval.runtimes.docker.engine_run import EngineRun
from upheaval.runtimes.docker.eye import Eye
from upheaval.runtimes.docker.files import VolumeFiles
from upheaval.runtimes.docker.inside import ATTEMPTS, ContainerEnded, require_shared_clock
from upheaval.runtimes.docker.machines import DockerMachines
from upheaval.runtimes.docker.node import POLL_INTERVAL_S, DockerNode
from upheaval.runtimes.docker.reaper import choose_cleaning
from upheaval.runtimes.live import LiveCluster, LiveMember, Result
from upheaval.runtimes.new_runs import made, new_manifest, with_base_port
from upheaval.runtimes.node import STOP_TIMEOUT_S
from upheaval.security import policy as security
from upheaval.system import (
    CLUSTER_OF_THREE,
    COMPONENTS,
    SOURCE_FOLDER,
    ClusterSpec,
    ControlStatus,
    MemberPlan,
    MemberStatus,
    SystemInContainers,
    in_containers,
)
from upheaval.system.aeron_launcher import unstarted
from upheaval_chaos.host_faults import IN_CONTAINERS
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.tls_files import member_name


class DockerMember(LiveMember[DockerNode]):
    """One member: one container, or one container per component."""

    def __init__(self, cluster: "DockerCluster", member_id: int) -> None:
        components = COMPONENTS if cluster.config.components == SPLIT else (ALL,)
        names = {
            component: cluster.engine_run.container_name(f"member-{member_id}", component) for component in components
        }
        node = DockerNode(f"member {member_id}", cluster.client, names, self._make, self._bring_copies)
        super().__init__(cluster, member_id, node)
        self._cluster = cluster
        self._eye = Eye(cluster.system.status_command, f"asking {node.name}")
        self._has_begun = False
        """Whether its launcher launched a component since its last start by this handle."""
        self._trace_start = 0
        """Where the lines of that start begin in its trace."""

    @property
    def ingress_address(self) -> str:
        """The member's ingress address as seen from this machine."""
        port = ports.member_ports(self._cluster.config.base_port, self.member_id)[0]
        return f"{engine_host(self._cluster.client)}:{port}"

    # --- observer ---

    def status(self) -> MemberStatus:
        """What the member reports about itself. A member that is down, paused or about to end reports nothing."""
        system = self._cluster.system
        try:
            return system.parse_status(self.member_id, self._eye.ask(self.node.container()))
        except ContainerEnded:
            return MemberStatus(self.member_id, alive=False)

    def control_status(self) -> ControlStatus:
        """The answer of a command inside the member's container."""
        return self._ask(None)[1]

    def exit_status(self, incarnation: str) -> int | None:
        """The exit status that the engine reports; None while that incarnation runs, or after it was replaced."""
        return self.node.exit_status(incarnation)

    def raise_if_unstarted(self, *, is_late: bool) -> None:
        """Raises `EnvironmentFault` if the launcher ended well, or is late and runs, and launched no component."""
        container = None if self._has_begun else self.node.container()
        runs = container is not None and is_running(container)
        if container is None or (runs and not is_late) or (not runs and container.attrs["State"]["ExitCode"]):
            return
        self._has_begun = self._trace_length(container) != self._trace_start
        if not self._has_begun:
            what = "has written no trace" if runs else "ended with status 0"
            raise EnvironmentFault(unstarted(self.name, what, last_line(container, self.name)))

    def _trace_length(self, container: Any) -> int:
        trace = self._cluster.run.member(self.member_id).trace.name
        return collect.size_of(container, str(self._cluster.system.folder / trace))

    def close(self) -> None:
        """Stop observing the member."""
        self._eye.close()

    def _ask(self, command: str | None) -> tuple[str, ControlStatus]:
        """Give the member an admin command, if any. Returns why it was refused (empty if it was not) and the member's
        status, which comes from its files when it is down.
        """
        system = self._cluster.system
        try:
            attempts = ATTEMPTS if command is None else 1
            _, text = self.node.run_inside(system.command_line(command), attempts=attempts, stderr=False)
            return system.parse_control(text)
        except ContainerEnded:
            container = self.node.container()
            content = b"" if container is None else collect.read_file(container, str(system.recording_log))
            return "the member is not running", system.control_of_files(content)

    # --- injector ---

    def give(self, command: str) -> str:
        """Set the member's control toggle by a command in its container. Returns why it was refused, empty if it was
        not.
        """
        return self._ask(command)[0]

    def files(self) -> VolumeFiles:
        """Those in its volume."""
        cluster, config = self._cluster, self._cluster.config
        volume = cluster.engine_run.container_name(member_hosts(config.members)[self.member_id])
        folder, labels_of_run = cluster.system.folder, cluster.engine_run.labels
        return VolumeFiles(cluster.client, self.node.container, volume, config.image, folder, labels_of_run)

    def _bring_copies(self, container: Any) -> None:
        """Copy the current certificates and credentials file into the container, which starts again: they may have
        changed while the member was down.
        """
        cluster = self._cluster
        cluster.machines.note_end(self.member_id, container)
        self.note_trace(container)
        put_copies(
            container,
            cluster.config.tls,
            member_name(self.member_id),
            cluster.config.credentials,
            cluster.system.folder,
        )

    def note_trace(self, container: Any) -> None:
        """Its launcher starts again, perhaps in another container on the same files."""
        if self._cluster.config.launcher:
            self._has_begun, self._trace_start = False, self._trace_length(container)

    def collect(self) -> None:
        """Copy the member's files and output into the run folder."""
        container = self.node.container()
        if container is not None:
            collect.collect_folder(container, str(self._cluster.system.folder), self.folder)
        for component in self.node.containers:
            container = self.node.container(component)
            if container is not None:
                collect.collect_output(container, self.folder / f"{component}.log")

    # --- what it is ---

    @property
    def place(self) -> Place:
        """The place of the container that holds the member's sockets, unless another container holds its network."""
        cluster = self._cluster
        port = ports.member_ports(cluster.config.base_port, self.member_id)[0]
        return Place(
            member_hosts(cluster.config.members)[self.member_id],
            cluster.engine_run.member_network(self.member_id),
            ingress_host_port=None if cluster.engine_run.is_apart or not cluster.system.has_streams else port,
            addresses={} if cluster.system.has_streams else cluster.member_addresses(),
        )

    def _make(self, component: str) -> None:
        """Create and start the container of a component."""
        self._has_begun = False
        cluster = self._cluster
        config, system, engine_run = cluster.config, cluster.system, cluster.engine_run
        hosts = member_hosts(config.members)
        member = MemberPlan(
            config,
            self.member_id,
            endpoints=[[f"{host}:{port}" for port in system.ports] for host in hosts],
            metrics=f"0.0.0.0:{system.metrics_port}",
            folder=str(system.folder),
            component=component,
            python_path=(SOURCE_FOLDER,),
            names=cluster.names.get(self.member_id, {}),
            tls=security.FILES_OF_COPIES if config.tls else {},
            credentials=security.CREDENTIALS_COPY if config.credentials else "",
        )
        holds_sockets = component == next(iter(self.node.containers))
        security.copy_for_container(config.tls, member_name(self.member_id), config.credentials, self.folder)
        place = cluster.holders.get(self.member_id) or self.place
        plan = ContainerPlan(
            self.name,
            system.environment(member),
            system.arguments(member),
            {labels.MEMBER: str(self.member_id), labels.COMPONENT: component},
            place if holds_sockets else Place(hosts[self.member_id], network=None),
            name=self.node.containers[component],
            volume=engine_run.container_name(hosts[self.member_id]),
            image=config.image,
            labels=engine_run.labels,
            volume_labels=engine_run.cleaning.labels,
            source=config.source if holds_sockets else "",
            ignored=config.ignored,
            restore=self.folder if holds_sockets and self.folder.is_dir() else None,
        )
        start_container(cluster.client, plan, system)
        if holds_sockets and self.member_id == 0:
            require_shared_clock(self.node.container(component), self.name)


class DockerCluster(LiveCluster[DockerMember]):
    """A cluster of containers."""

    runtime = DOCKER
    machine_kinds = IN_CONTAINERS
    poll_interval_s = POLL_INTERVAL_S

    def __init__(self, folder: Path, config: ClusterSpec, client: Client, *, detached: bool = False) -> None:
        members: list[DockerMember] = []
        super().__init__(folder, config, members)
        self.system: SystemInContainers = in_containers(config.system)
        self.client = client
        self._is_detached = detached
        self.engine_run = EngineRun(
            client,
            config.run_id,
            config.members,
            labels.labels_of_run(config.run_id, detached=detached),
            choose_cleaning(client, detached=detached),
        )
        self.names: dict[int, Mapping[str, str]] = {}
        """The addresses that a member dials for endpoints of other members, by the dialling member's id."""
        self.holders: dict[int, str] = {}
        """The containers whose networks members share, by member id; other members have a network name space of their
        own.
        """
        members.extend(DockerMember(self, member_id) for member_id in range(config.members))
        self.machines = DockerMachines(client, [member.node for member in members], self.limited)
        self.use_machines(self.machines)

    # --- making and opening ---

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], spec: ClusterSpec = CLUSTER_OF_THREE, *, detached: bool = False
    ) -> "DockerCluster":
        """Make a new cluster in a new or empty folder; nothing runs yet. `detached`: it may outlive this process.

        A custom service is copied from its source folder, or is part of the image. Containers that killed harnesses
        left in the engine are removed first. With a planted bug, the members run a test build of the node. Raises
        `HarnessError` with one clear line.
        """
        path = Path(folder).absolute()
        spec = made(spec, cls.runtime)
        spec = replace(spec, image=_image_of(spec, in_containers(spec.system)))
        if spec.source and not Path(spec.source).is_dir():
            raise EnvironmentFault(f"the service's source {spec.source} is not a folder")
        client = connect()
        with closed_on_failure(client):
            require_image_of(in_containers(spec.system), client, spec.image)
            labels.remove_abandoned(client, labels.START_TIMEOUT_S)
            spec = with_base_port(spec)
            cluster_file.require_usable(path)
            cluster = cls(path, spec, client, detached=detached)
            cluster.run.create(new_manifest(spec, cls.runtime))
            write_schema(cluster.run, spec.schema)
            cluster_file.save(spec, cls.runtime, path)
        return cluster

    @property
    def notes(self) -> Sequence[str]:
        """Adds how leftovers of this cluster are cleaned up."""
        text = self.engine_run.cleaning.text
        return [*super().notes, *([f"containers: {text}"] if text else [])]

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "DockerCluster":
        """The cluster in a folder, running or not. Raises `UsageError` when the folder has no cluster, or one of
        another version.
        """
        path = Path(folder).absolute()
        spec = cluster_file.load(path)
        if cluster_file.runtime_of(path) != cls.runtime:
            raise UsageError(f"the cluster in {path} does not run in containers")
        client = connect()
        with closed_on_failure(client):
            return cls(path, spec, client, detached=True)

    # --- handles ---

    def ingress_endpoints(self) -> dict[int, str]:
        """The members' ingress endpoints, with the host names that members use for each other."""
        hosts = member_hosts(self.config.members)
        return {member_id: f"{host}:{self.system.ports[0]}" for member_id, host in enumerate(hosts)}

    def resolver(self) -> StaticResolver:
        """Resolves to published ports, or to the members' addresses when they use datagrams: the engine's proxy must
        not relay those.
        """
        endpoints = self.ingress_endpoints()
        if not self.system.has_streams:
            port = self.system.ports[0]
            addresses = self.member_addresses().values()
            return StaticResolver({endpoints[number]: f"{address}:{port}" for number, address in enumerate(addresses)})
        return StaticResolver({endpoints[member.member_id]: member.ingress_address for member in self.members})

    def member_addresses(self) -> Mapping[str, str]:
        """The members' fixed addresses by host name, in order. Their network must exist."""
        _, *addresses = self.engine_run.addresses()
        return dict(zip(member_hosts(self.config.members), addresses, strict=True))

    @property
    def client_host(self) -> str:
        """The address of this machine as members reach it: for members that use datagrams, the gateway of their
        network, which must exist.
        """
        return super().client_host if self.system.has_streams else self.engine_run.addresses()[0]

    def dial_through(self, source: int, names: Mapping[str, str]) -> None:
        """Takes effect for containers that are created from now on."""
        self.names[source] = dict(names)

    def for_all(self, action: Callable[[DockerMember], Result]) -> list[Result]:
        """Run the action for all members concurrently, since each call of the engine takes time."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            return list(pool.map(action, self.members))

    # --- life ---

    def _prepare(self) -> None:
        """Create the networks. After `down`, members get their old files back."""
        self.engine_run.make_networks()

    def companions(self) -> Sequence[DockerCompanion]:
        """The handles of the companions, running or not."""
        return [self.make_companion(config) for config in load_companions(self.folder)]

    def make_companion(self, config: CompanionConfig) -> DockerCompanion:
        """The handle of a companion in the members' network."""
        return DockerCompanion(self.run, self.config, config, self.engine_run, self.system)

    def raise_if_ended(self, member_id: int | None = None) -> None:
        """Checks all members and companions, or only the given member."""
        members = self.members if member_id is None else [self.member(member_id)]
        for member in members:
            if member.member_id in self.spared:
                continue
            member.node.raise_if_ended(self.system.expected_exit_statuses)
            if self.config.launcher:
                member.raise_if_unstarted(is_late=False)
        for companion in self.companions() if member_id is None else ():
            companion.node.raise_if_ended()

    def raise_if_silent(self) -> None:
        """See `Conditions`. Only members with a launcher can run without a component of Aeron."""
        for member in self.members if self.config.launcher else ():
            member.raise_if_unstarted(is_late=True)

    def _stalls_since(self, begin_ns: int) -> list[Stall]:
        """Reads copies of the traces. Containers share the monotonic clock of the engine's machine."""
        with owned_folder("collected") as place:
            copies = RunFolder(place)
            for member in self.members:
                copy, container = copies.member(member.member_id), member.node.container()
                if container is not None:
                    copy.path.mkdir()
                    copy.trace.write_bytes(collect.read_file(container, str(self.system.folder / copy.trace.name)))
            return stalls_since(copies, len(self.members), begin_ns)

    def collect(self) -> None:
        """Copy the files of members and companions into the run folder."""
        self.for_all(DockerMember.collect)
        for companion in self.companions():
            companion.collect()

    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything, collect its files, and remove it from the engine.

        If the files of a detached cluster cannot be collected, it stays in the engine, so that nothing is lost.
        """
        with contextlib.ExitStack() as stack:
            # Callbacks run from the last to the first, each even if another one fails.
            stack.callback(self.close)
            if not self._is_detached:
                stack.callback(self._remove)
            for companion in self.companions():
                companion.stop(timeout_s)
            self._stop_members(timeout_s)
            self.collect()
            # What the links recorded is part of the run, so they are closed before the run is sealed.
            super().close()
            self.seal()
            if self._is_detached:
                self._remove()

    def _stop_members(self, timeout_s: float) -> None:
        """Stop all members. The engine kills a member that does not end in time, and the run records that."""
        begin_ns = self.now_ns()
        running = self.for_all(lambda member: member.incarnation())
        self.for_all(lambda member: member.node.stop(None, timeout_s))
        killed = [
            member.member_id
            for member, incarnations in zip(self.members, running, strict=True)
            if any(member.node.exit_status(incarnation) == KILLED for incarnation in incarnations)
        ]
        self.run.add_forced_end(killed, begin_ns, self.now_ns(), f"did not end within {timeout_s:g} s")

    def close(self) -> None:
        """Close the connections to the engine."""
        super().close()
        for member in self.members:
            member.close()
        self.client.close()

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """On a failure, remove everything if nothing ran before; otherwise end only what was started inside."""
        of_members = self.for_all(lambda member: member.incarnation())
        before = frozenset[str]().union(*of_members, *(companion.incarnation() for companion in self.companions()))
        try:
            yield
        except BaseException:
            try:
                # The caller has to see the original error, not a later one of this clean-up.
                with contextlib.suppress(HarnessError):
                    self._kill_all_but(before)
                with contextlib.suppress(HarnessError):
                    if not before:
                        self.collect()
            finally:
                if not before:
                    self._remove()
            raise

    def _kill_all_but(self, before: frozenset[str]) -> None:
        """Kill all incarnations that are not in `before`, and record that in the run."""
        begin_ns = self.now_ns()
        victims = [member.member_id for member in self.members if member.incarnation() - before]
        try:
            self.for_all(lambda member: member.node.kill_all_but(before))
            for companion in self.companions():
                companion.node.kill_all_but(before)
        finally:
            self.run.add_forced_end(victims, begin_ns, self.now_ns(), "what they were started for failed")

    def _remove(self) -> None:
        for member in self.members:
            member.close()
        labels.remove_run(self.client, self.config.run_id)


def _image_of(spec: ClusterSpec, system: SystemInContainers) -> str:
    """The image of the members. Only the test build can have a planted bug; any other image would run without it."""
    if spec.planted is None:
        return spec.image or system.image
    if spec.image:
        raise UsageError(f"a bug can be planted in {system.test_image} only: leave out the image {spec.image}")
    return system.test_image


def require_image_of(system: SystemInContainers, client: Client, tag: str) -> None:
    """Raises `HarnessError` when the image is missing, or does not hold members of that system."""
    require_image(client, tag)
    labels = ((inspect(client, tag) or {}).get("Config") or {}).get("Labels") or {}
    for label, expected in system.image_labels.items():
        if labels.get(label) != expected:
            got = labels.get(label, "none")
            raise UsageError(
                f"image {tag}: label {label}: expected {expected}, got {got}: build it FROM {system.image}"
            )
