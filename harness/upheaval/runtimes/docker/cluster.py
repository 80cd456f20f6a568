"""The docker runtime: a cluster of containers, one a member or one a component, as a live cluster.

A handle can be opened on a running cluster from any process: the folder says which run it is, and everything of a run
is named and labelled after it. How containers are made is in `containers`, what a member is in `system_under_test`.
"""

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.records import SPLIT, CompanionConfig
from upheaval.runtimes import cluster_file, ports
from upheaval.runtimes.docker import collect, labels
from upheaval.runtimes.docker.companion import DockerCompanion
from upheaval.runtimes.docker.container_state import incarnation_of, is_running, raise_own_fault
from upheaval.runtimes.docker.containers import (
    ALL,
    ContainerPlan,
    create_network,
    member_hosts,
    network_name,
    put_copies,
    start_container,
)
from upheaval.runtimes.docker.engine import (
    Client,
    closed_on_failure,
    connect,
    engine_errors,
    engine_host,
    require_image,
)
from upheaval.runtimes.docker.inside import ATTEMPTS, ContainerEnded, run_inside
from upheaval.runtimes.docker.reaper import choose_cleaning
from upheaval.runtimes.live import STOP_TIMEOUT_S, LiveCluster, LiveMember, Result, new_manifest, with_base_port
from upheaval.security import policy as security
from upheaval.system import (
    CLUSTER_OF_THREE,
    COMPONENTS,
    SOURCE_FOLDER,
    SYSTEM,
    ClusterSpec,
    ControlStatus,
    MemberPlan,
    MemberStatus,
)
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.tls_files import member_name

_PAUSE_ATTEMPTS: Final = 5


class DockerMember(LiveMember):
    """One member: a container, or one for each of its components."""

    def __init__(self, cluster: "DockerCluster", member_id: int) -> None:
        super().__init__(cluster, member_id)
        self._cluster = cluster

    @property
    def components(self) -> tuple[str, ...]:
        """What each container of the member runs."""
        return COMPONENTS if self._cluster.config.components == SPLIT else (ALL,)

    @property
    def ingress_address(self) -> str:
        """Where this machine reaches the member's ingress."""
        port = ports.member_ports(self._cluster.config.base_port, self.member_id)[0]
        return f"{engine_host(self._cluster.client)}:{port}"

    def container(self, component: str | None = None) -> Any | None:
        """A container, running or not, by default the one that holds the member's sockets; None without one."""
        import docker

        name = self._cluster.container_name(self.member_id, component or self.components[0])
        with engine_errors(f"looking for member {self.member_id}"):
            try:
                return self._cluster.client.containers.get(name)
            except docker.errors.NotFound:
                return None

    # --- eyes ---

    def status(self) -> MemberStatus:
        """What the member says about itself. One that is down, paused or about to end says nothing."""
        system = self._cluster.system
        try:
            _, text = self.run_inside(system.status_command, stderr=False)
        except ContainerEnded:
            return MemberStatus(self.member_id, alive=False)
        return system.parse_status(self.member_id, text)

    def run_inside(self, command: Sequence[str], *, attempts: int = ATTEMPTS, stderr: bool = True) -> tuple[int, str]:
        """Exit status and output of a command in the container that holds the member's sockets; see `inside`."""
        doing = f"asking member {self.member_id}"
        return run_inside(self.container(), command, doing, attempts=attempts, stderr=stderr)

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        return frozenset(incarnation_of(container) for container in self._running(component))

    def turns(self, component: str | None = None) -> int:
        """Nanoseconds of processor time."""
        found = self._running(component)
        with engine_errors(f"measuring member {self.member_id}"):
            usages = [self._cluster.client.api.stats(each.id, stream=False, one_shot=True) for each in found]
        return sum(usage["cpu_stats"]["cpu_usage"]["total_usage"] for usage in usages)

    def control_status(self) -> ControlStatus:
        return self._ask(None)[1]

    def exit_status(self, incarnation: str) -> int | None:
        for component in self.components:
            container = self.container(component)
            if container is not None and incarnation_of(container) == incarnation:
                state = container.attrs["State"]
                return int(state["ExitCode"]) if state["Status"] == "exited" else None
        return None

    def _ask(self, order: str | None) -> tuple[str, ControlStatus]:
        """Let the member take an order, or none, and say how it is; of one that is down its files say what they can."""
        system = self._cluster.system
        try:
            attempts = ATTEMPTS if order is None else 1
            _, text = self.run_inside(system.order_command(order), attempts=attempts, stderr=False)
            return system.parse_control(text)
        except ContainerEnded:
            container = self.container()
            content = b"" if container is None else collect.read_file(container, str(system.recording_log))
            return "the member is not running", system.control_of_files(content)

    # --- hands ---

    def order(self, order: str) -> str:
        return self._ask(order)[0]

    def launch(self) -> None:
        """Each container anew, or a first one. A member that has lost a component is left to end first."""
        self.wait_until_whole_or_gone(lambda: len(self._running()))
        for component in self.components:
            container = self.container(component)
            if container is None:
                self._cluster.create_container(self.member_id, component)
            elif not is_running(container):
                self._bring_copies(container)
                with engine_errors(f"starting member {self.member_id}"):
                    container.start()

    def reload(self) -> None:
        """Its copies are replaced first."""
        container = self.container()
        if container is not None:
            self._bring_copies(container)
            self.send_signal(signal.SIGHUP)

    def _bring_copies(self, container: Any) -> None:
        """Certificates and book as they are now; a member that was down when they changed has those of before."""
        cluster = self._cluster
        put_copies(
            container,
            cluster.config.tls,
            member_name(self.member_id),
            cluster.config.credentials,
            cluster.system.folder,
        )

    def end_now(self, component: str | None = None) -> None:
        self._kill_and_wait(self._running(component))

    def end_all_but(self, incarnations: frozenset[str]) -> None:
        """SIGKILL to what runs now and is none of these."""
        self._kill_and_wait([each for each in self._running() if incarnation_of(each) not in incarnations])

    def stop_now(self, component: str | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, and SIGKILL when it takes too long."""
        self.thaw(component)
        with engine_errors(f"stopping member {self.member_id}"):
            for container in self._running(component):
                container.stop(timeout=round(timeout_s))

    def freeze(self, component: str | None = None) -> None:
        with engine_errors(f"pausing member {self.member_id}"):
            for container in self._running(component):
                _pause(container)

    def thaw(self, component: str | None = None) -> None:
        with engine_errors(f"resuming member {self.member_id}"):
            for container in self._running(component):
                if container.status == "paused":
                    container.unpause()

    def send_signal(self, number: signal.Signals, component: str | None = None) -> None:
        """Send any signal to the member's process (through the init of its container)."""
        with engine_errors(f"signalling member {self.member_id}"):
            for container in self._running(component):
                container.kill(signal=number.name)

    def collect(self) -> None:
        """Copy what the member has written and printed into the run folder."""
        folder = self._cluster.run.member(self.member_id).path
        container = self.container()
        if container is not None:
            collect.collect_folder(container, str(self._cluster.system.folder), folder)
        for component in self.components:
            container = self.container(component)
            if container is not None:
                collect.collect_output(container, folder / f"{component}.log")

    def raise_if_ended(self) -> None:
        """Raises `EnvironmentFault` when the member has ended by its own fault."""
        for component in self.components:
            container = self.container(component)
            if container is None:
                continue
            raise_own_fault(container, f"member {self.member_id}", self._cluster.system.expected_exit_statuses)

    def _kill_and_wait(self, victims: Sequence[Any]) -> None:
        with engine_errors(f"killing member {self.member_id}"):
            for container in victims:
                container.kill(signal=signal.SIGKILL.name)
            for container in victims:
                container.wait(timeout=STOP_TIMEOUT_S)

    def _running(self, component: str | None = None) -> list[Any]:
        wanted = self.components if component is None else (component,)
        found = [container for each in wanted if (container := self.container(each)) is not None]
        return [container for container in found if is_running(container)]


class DockerCluster(LiveCluster[DockerMember]):
    """A cluster of containers."""

    runtime = "docker"
    # To look at a member costs a process in its container.
    poll_interval_s = 0.05

    def __init__(self, folder: Path, config: ClusterSpec, client: Client, *, kept: bool = False) -> None:
        members: list[DockerMember] = []
        super().__init__(folder, config, members)
        members.extend(DockerMember(self, member_id) for member_id in range(self.config.members))
        self.client = client
        self.system = SYSTEM
        self._is_kept = kept
        self.cleaning = choose_cleaning(client, kept=kept)
        self.labels = labels.labels_of_run(self.config.run_id, kept=kept)
        self._names: dict[int, Mapping[str, str]] = {}
        self._is_apart = False

    # --- making and opening ---

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], spec: ClusterSpec = CLUSTER_OF_THREE, *, kept: bool = False
    ) -> "DockerCluster":
        """Make a new cluster in a new or empty folder; nothing runs yet. `kept`: it shall outlive this process.

        A service of one's own is copied in from its source, or is in the image already. What killed harnesses have left
        in the engine is removed first. With a planted bug the members are a test build of the node. Raises
        `HarnessError` with one clear line.
        """
        path = Path(folder).absolute()
        spec = spec.made(uuid.uuid4().hex)
        cluster_file.check(spec)
        spec = replace(spec, image=_image_of(spec))
        if spec.source and not Path(spec.source).is_dir():
            raise EnvironmentFault(f"the service's source {spec.source} is not a folder")
        client = connect()
        with closed_on_failure(client):
            require_image(client, spec.image)
            labels.remove_abandoned(client)
            spec = with_base_port(spec)
            cluster_file.require_usable(path)
            cluster = cls(path, spec, client, kept=kept)
            cluster.run.create(new_manifest(spec, cls.runtime))
            cluster_file.save(spec, cls.runtime, path)
        return cluster

    @property
    def note(self) -> str:
        return self.cleaning.text

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
        """Published ports."""
        endpoints = self.ingress_endpoints()
        return StaticResolver({endpoints[member.member_id]: member.ingress_address for member in self.members})

    def dial_through(self, source: int, names: Mapping[str, str]) -> None:
        self._names[source] = dict(names)

    def container_name(self, member_id: int, component: str) -> str:
        suffix = "" if component == ALL else f"-{component}"
        return f"{network_name(self.config.run_id)}-member-{member_id}{suffix}"

    def for_all(self, action: Callable[[DockerMember], Result]) -> list[Result]:
        """Do it for all members at once; the engine takes its time for each."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            return list(pool.map(action, self.members))

    # --- life ---

    def _prepare(self) -> None:
        """The networks. After `down`, members get back what they had written."""
        self.make_networks()

    def make_networks(self) -> None:
        """Those that are not there yet."""
        self.cleaning.begin()
        wanted = dict.fromkeys(self.member_network(member.member_id) for member in self.members)
        with engine_errors("looking for the network"):
            known = {network.name for network in self.client.networks.list(names=list(wanted))}
        for name in wanted:
            if name not in known:
                create_network(self.client, name, self.labels)

    def set_apart(self) -> None:
        """From the next start on, each member has a network of its own and publishes nothing: proxies lead to it."""
        self._is_apart = True

    def member_network(self, member_id: int) -> str:
        name = network_name(self.config.run_id)
        return f"{name}-{member_id}" if self._is_apart else name

    def create_container(self, member_id: int, component: str) -> None:
        """Make and start a container of a member."""
        config = self.config
        hosts = member_hosts(config.members)
        member = MemberPlan(
            config,
            member_id,
            endpoints=[[f"{host}:{port}" for port in self.system.ports] for host in hosts],
            metrics=f"0.0.0.0:{self.system.metrics_port}",
            folder=str(self.system.folder),
            component=component,
            python_path=(SOURCE_FOLDER,),
            names=self._names.get(member_id, {}),
            tls=security.FILES_OF_COPIES if config.tls else {},
            credentials=security.BOOK_COPY if config.credentials else "",
        )
        holds_sockets = component == self.members[member_id].components[0]
        earlier = self.run.member(member_id).path
        if config.tls:
            security.copy_files(config.tls, member_name(member_id), earlier)
        if config.credentials:
            security.copy_book(config.credentials, earlier)
        plan = ContainerPlan(
            f"member {member_id}",
            self.system.environment(member),
            self.system.arguments(member),
            {labels.MEMBER: str(member_id), labels.COMPONENT: component},
            host=hosts[member_id],
            name=self.container_name(member_id, component),
            volume=self.container_name(member_id, ALL),
            image=config.image,
            network=self.member_network(member_id) if holds_sockets else None,
            ingress_host_port=None if self._is_apart else ports.member_ports(config.base_port, member_id)[0],
            labels=self.labels,
            volume_labels=self.cleaning.labels,
            source=config.source if holds_sockets else "",
            restore=earlier if holds_sockets and earlier.is_dir() else None,
        )
        start_container(self.client, plan, self.system)

    def make_companion(self, config: CompanionConfig) -> DockerCompanion:
        return DockerCompanion(self, config)

    @property
    def has_links_apart(self) -> bool:
        """Whether each member has a network of its own."""
        return self._is_apart

    def raise_if_ended(self, member_id: int | None = None) -> None:
        members = self.members if member_id is None else [self.member(member_id)]
        for member in members:
            member.raise_if_ended()
        for companion in self.companions() if member_id is None else ():
            companion.raise_if_ended()

    def collect(self) -> None:
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
                companion.stop_now(timeout_s)
            self.for_all(lambda member: member.stop_now(None, timeout_s))
            self.collect()
            if self._is_kept:
                self._remove()

    def close(self) -> None:
        """The connections to the engine."""
        super().close()
        self.client.close()

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """On the way out of a failure, remove everything if nothing ran before; else end what was started inside."""
        running = [*self.for_all(DockerMember.incarnation), *(each.incarnation() for each in self.companions())]
        before = frozenset[str]().union(*running)
        try:
            yield
        except BaseException:
            if before:
                self.for_all(lambda member: member.end_all_but(before))
                for companion in self.companions():
                    companion.end_all_but(before)
            else:
                with contextlib.suppress(HarnessError):
                    self.collect()
                self._remove()
            raise

    def _remove(self) -> None:
        labels.remove_run(self.client, self.config.run_id)


def _image_of(spec: ClusterSpec) -> str:
    """The image of the members. A bug can only be planted in the test build: another image would go without it."""
    if spec.planted is None:
        return spec.image or SYSTEM.image
    if spec.image:
        raise UsageError(f"a bug can be planted in {SYSTEM.test_image} only: leave out the image {spec.image}")
    return SYSTEM.test_image


def _pause(container: Any) -> None:
    """Freeze a container. That fails now and then while processes come and go in it, such as its health check."""
    import docker

    for attempt in range(_PAUSE_ATTEMPTS):
        if container.status == "paused":
            return
        try:
            container.pause()
        except docker.errors.APIError as error:
            if "runtime pause failed" not in str(error) or attempt == _PAUSE_ATTEMPTS - 1:
                raise
            container.reload()
        else:
            return
