"""The docker runtime: a cluster of containers, one a member or one a component, as a live cluster.

A handle can be opened on a running cluster from any process: the folder says which run it is, and everything of a run
is named and labelled after it. How containers are made is in `containers`, what a member is in `under_test`.
"""

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.evidence.stalls import Stall, stalls_since
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.records import SPLIT, CompanionConfig, RunFolder, load_companions, write_schema
from upheaval.runtime_names import DOCKER
from upheaval.runtimes import cluster_file, ports
from upheaval.runtimes.docker import collect, labels
from upheaval.runtimes.docker.companion import DockerCompanion
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
from upheaval.runtimes.docker.inside import ATTEMPTS, ContainerEnded
from upheaval.runtimes.docker.node import POLL_INTERVAL_S, DockerNode
from upheaval.runtimes.docker.reaper import choose_cleaning
from upheaval.runtimes.live import LiveCluster, LiveMember, Result, made, new_manifest, with_base_port
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
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.tls_files import member_name

_KILLED: Final = 128 + signal.SIGKILL
"""The exit status of a container that the engine had to kill."""


class DockerMember(LiveMember[DockerNode]):
    """One member: a container, or one for each of its components."""

    def __init__(self, cluster: "DockerCluster", member_id: int) -> None:
        components = COMPONENTS if cluster.config.components == SPLIT else (ALL,)
        names = {
            component: cluster.engine_run.container_name(f"member-{member_id}", component) for component in components
        }
        node = DockerNode(f"member {member_id}", cluster.client, names, self._make, self._bring_copies)
        super().__init__(cluster, member_id, node)
        self._cluster = cluster
        self._eye = Eye(cluster.system.status_command, f"asking {node.name}")

    @property
    def ingress_address(self) -> str:
        """Where this machine reaches the member's ingress."""
        port = ports.member_ports(self._cluster.config.base_port, self.member_id)[0]
        return f"{engine_host(self._cluster.client)}:{port}"

    # --- observer ---

    def status(self) -> MemberStatus:
        """What the member says about itself. One that is down, paused or about to end says nothing."""
        system = self._cluster.system
        try:
            return system.parse_status(self.member_id, self._eye.ask(self.node.container()))
        except ContainerEnded:
            return MemberStatus(self.member_id, alive=False)

    def control_status(self) -> ControlStatus:
        """As the member answers to a command inside its container."""
        return self._ask(None)[1]

    def exit_status(self, incarnation: str) -> int | None:
        """As the engine tells it; None when it runs, or was made anew since."""
        return self.node.exit_status(incarnation)

    def close(self) -> None:
        """Look no longer."""
        self._eye.close()

    def _ask(self, command: str | None) -> tuple[str, ControlStatus]:
        """Let the member take an admin command, or none, and say how it is; of one that is down its files say what they
        can.
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
        """Set the member's control toggle by a command inside; why it was not taken, empty when it was."""
        return self._ask(command)[0]

    def _bring_copies(self, container: Any) -> None:
        """Certificates and credentials file as they are now; a member that was down when they changed has those of
        before.
        """
        cluster = self._cluster
        put_copies(
            container,
            cluster.config.tls,
            member_name(self.member_id),
            cluster.config.credentials,
            cluster.system.folder,
        )

    def collect(self) -> None:
        """Copy what the member has written and printed into the run folder."""
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
        """Where the container is that holds its sockets, unless another one holds the network for it."""
        cluster = self._cluster
        port = ports.member_ports(cluster.config.base_port, self.member_id)[0]
        return Place(
            member_hosts(cluster.config.members)[self.member_id],
            cluster.engine_run.member_network(self.member_id),
            ingress_host_port=None if cluster.engine_run.is_apart or not cluster.system.has_streams else port,
            addresses={} if cluster.system.has_streams else cluster.member_addresses(),
        )

    def _make(self, component: str) -> None:
        """Make and start the container of a component."""
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


class DockerCluster(LiveCluster[DockerMember]):
    """A cluster of containers."""

    runtime = DOCKER
    poll_interval_s = POLL_INTERVAL_S

    def __init__(self, folder: Path, config: ClusterSpec, client: Client, *, kept: bool = False) -> None:
        members: list[DockerMember] = []
        super().__init__(folder, config, members)
        self.system: SystemInContainers = in_containers(config.system)
        self.client = client
        self._is_kept = kept
        self.engine_run = EngineRun(
            client,
            config.run_id,
            config.members,
            labels.labels_of_run(config.run_id, kept=kept),
            choose_cleaning(client, kept=kept),
        )
        self.names: dict[int, Mapping[str, str]] = {}
        """Where a member dials for an endpoint of another one, by its id."""
        self.holders: dict[int, str] = {}
        """The containers in whose networks members are, by their ids; others have a network name space of their own."""
        members.extend(DockerMember(self, member_id) for member_id in range(config.members))

    # --- making and opening ---

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], spec: ClusterSpec = CLUSTER_OF_THREE, *, kept: bool = False
    ) -> "DockerCluster":
        """Make a new cluster in a new or empty folder; nothing runs yet. `kept`: it shall outlive this process.

        A custom service is copied in from its source, or is in the image already. What killed harnesses have left
        in the engine is removed first. With a planted bug the members are a test build of the node. Raises
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
            labels.remove_abandoned(client)
            spec = with_base_port(spec)
            cluster_file.require_usable(path)
            cluster = cls(path, spec, client, kept=kept)
            cluster.run.create(new_manifest(spec, cls.runtime))
            write_schema(cluster.run, spec.schema)
            cluster_file.save(spec, cls.runtime, path)
        return cluster

    @property
    def notes(self) -> Sequence[str]:
        """Besides, how leftovers of this cluster are cleaned."""
        text = self.engine_run.cleaning.text
        return [*super().notes, *([f"containers: {text}"] if text else [])]

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "DockerCluster":
        """The cluster of a folder, running or not. Raises `UsageError` when there is none or of another version."""
        path = Path(folder).absolute()
        spec = cluster_file.load(path)
        if cluster_file.runtime_of(path) != cls.runtime:
            raise UsageError(f"the cluster in {path} does not run in containers")
        client = connect()
        with closed_on_failure(client):
            return cls(path, spec, client, kept=True)

    # --- handles ---

    def ingress_endpoints(self) -> dict[int, str]:
        """The members' ingress under the names that they know each other by."""
        hosts = member_hosts(self.config.members)
        return {member_id: f"{host}:{self.system.ports[0]}" for member_id, host in enumerate(hosts)}

    def resolver(self) -> StaticResolver:
        """Published ports; the addresses of members that speak datagrams, which no engine's proxy is to pass on."""
        endpoints = self.ingress_endpoints()
        if not self.system.has_streams:
            port = self.system.ports[0]
            addresses = self.member_addresses().values()
            return StaticResolver({endpoints[number]: f"{address}:{port}" for number, address in enumerate(addresses)})
        return StaticResolver({endpoints[member.member_id]: member.ingress_address for member in self.members})

    def member_addresses(self) -> Mapping[str, str]:
        """Fixed ones by the members' names, in order. Raises `EnvironmentFault` before there is a network."""
        _, *addresses = self.engine_run.addresses()
        return dict(zip(member_hosts(self.config.members), addresses, strict=True))

    @property
    def client_host(self) -> str:
        """The gateway of the members' network. Raises `EnvironmentFault` before there is one."""
        return super().client_host if self.system.has_streams else self.engine_run.addresses()[0]

    def dial_through(self, source: int, names: Mapping[str, str]) -> None:
        """In force for containers that are made from now on."""
        self.names[source] = dict(names)

    def for_all(self, action: Callable[[DockerMember], Result]) -> list[Result]:
        """Do it for all members at once; the engine takes its time for each."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            return list(pool.map(action, self.members))

    # --- life ---

    def _prepare(self) -> None:
        """The networks. After `down`, members get back what they had written."""
        self.engine_run.make_networks()

    def companions(self) -> Sequence[DockerCompanion]:
        """The handles of the containers and volumes beside the members, running or not."""
        return [self.make_companion(config) for config in load_companions(self.folder)]

    def make_companion(self, config: CompanionConfig) -> DockerCompanion:
        """The handle of a container in the members' network."""
        return DockerCompanion(self.run, self.config, config, self.engine_run, self.system)

    def raise_if_ended(self, member_id: int | None = None) -> None:
        """Of all members and companions, or of one member."""
        members = self.members if member_id is None else [self.member(member_id)]
        for member in members:
            member.node.raise_if_ended(self.system.expected_exit_statuses)
        for companion in self.companions() if member_id is None else ():
            companion.node.raise_if_ended()

    def _stalls_since(self, begin_ns: int) -> list[Stall]:
        """By copies of the traces; monotonic clocks of containers are those of the engine's machine."""
        with tempfile.TemporaryDirectory() as place:
            copies = RunFolder(place)
            for member in self.members:
                copy, container = copies.member(member.member_id), member.node.container()
                if container is not None:
                    copy.path.mkdir()
                    copy.trace.write_bytes(collect.read_file(container, str(self.system.folder / copy.trace.name)))
            return stalls_since(copies, len(self.members), begin_ns)

    def collect(self) -> None:
        """Copy what members and companions have written into the run folder."""
        self.for_all(DockerMember.collect)
        for companion in self.companions():
            companion.collect()

    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything, collect what it wrote, and remove it from the engine.

        When that cannot be collected, a cluster that was to be kept stays in the engine, so that nothing is lost.
        """
        with contextlib.ExitStack() as stack:
            # From the last to the first, and each whatever becomes of the others.
            stack.callback(self.close)
            if not self._is_kept:
                stack.callback(self._remove)
            for companion in self.companions():
                companion.stop(timeout_s)
            self._stop_members(timeout_s)
            self.collect()
            # What was seen of the links is a part of the run.
            super().close()
            self.seal()
            if self._is_kept:
                self._remove()

    def _stop_members(self, timeout_s: float) -> None:
        """The engine kills what does not end in time; the run gets a word of that."""
        begin_ns = self.now_ns()
        running = self.for_all(lambda member: member.incarnation())
        self.for_all(lambda member: member.node.stop(None, timeout_s))
        killed = [
            member.member_id
            for member, incarnations in zip(self.members, running, strict=True)
            if any(member.node.exit_status(incarnation) == _KILLED for incarnation in incarnations)
        ]
        self.run.add_forced_end(killed, begin_ns, self.now_ns(), f"did not end within {timeout_s:g} s")

    def close(self) -> None:
        """The connections to the engine."""
        super().close()
        for member in self.members:
            member.close()
        self.client.close()

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """On the way out of a failure, remove everything if nothing ran before; else end what was started inside."""
        of_members = self.for_all(lambda member: member.incarnation())
        before = frozenset[str]().union(*of_members, *(companion.incarnation() for companion in self.companions()))
        try:
            yield
        except BaseException:
            try:
                # The error to report is what failed, not what this runs into.
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
        """And a word of it in the run."""
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
    """The image of the members. A bug can only be planted in the test build: another image would go without it."""
    if spec.planted is None:
        return spec.image or system.image
    if spec.image:
        raise UsageError(f"a bug can be planted in {system.test_image} only: leave out the image {spec.image}")
    return system.test_image


def require_image_of(system: SystemInContainers, client: Client, tag: str) -> None:
    """Raises `HarnessError` for an image that is not there, or has no members of that system."""
    require_image(client, tag)
    labels = ((inspect(client, tag) or {}).get("Config") or {}).get("Labels") or {}
    for label, expected in system.image_labels.items():
        if labels.get(label) != expected:
            got = labels.get(label, "none")
            raise UsageError(
                f"image {tag}: label {label}: expected {expected}, got {got}: build it FROM {system.image}"
            )
