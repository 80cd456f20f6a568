"""The docker runtime: a cluster of containers, one a member, behind the same handle as a cluster of processes.

A handle can be opened on a running cluster from any process: the folder says which run it is, and everything of a run
is named and labelled after it. How containers are made is in `containers`, what a member is in `system_under_test`.
"""

import contextlib
import os
import platform
import signal
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from upheaval.cluster import MemberStatus
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.run_folder import Converge, FaultRecord, Manifest, RunFolder
from upheaval.runtimes import cluster_file, ports
from upheaval.runtimes.cluster_file import ClusterConfig
from upheaval.runtimes.docker import collect, files, labels
from upheaval.runtimes.docker.conditions import Conditions
from upheaval.runtimes.docker.containers import (
    ContainerPlan,
    container_name,
    create_network,
    member_hosts,
    network_name,
    start_container,
)
from upheaval.runtimes.docker.engine import Client, connect, engine_errors, require_image
from upheaval.runtimes.docker.files import DockerConfig
from upheaval.runtimes.member_status import with_leaders
from upheaval.system_under_test import MemberPlan, SystemUnderTest, UpheavalNode
from upheaval.waits import wait_until
from upheaval_node.media.resolver import StaticResolver

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 15.0
OUTPUT_FILE: Final = "all.log"
# Ended by us: told to, or killed.
_OUR_DOING: Final = (0, 128 + signal.SIGKILL, 128 + signal.SIGTERM)


class DockerMember:
    """One member in its container. Implements `upheaval.cluster.Member`."""

    def __init__(self, cluster: "DockerCluster", member_id: int) -> None:
        self.member_id = member_id
        self.name = container_name(cluster.config.run_id, member_id)
        self._cluster = cluster

    @property
    def ingress_address(self) -> str:
        """Where this machine reaches the member's ingress."""
        return f"{ports.HOST}:{ports.member_ports(self._cluster.config.base_port, self.member_id)[0]}"

    def container(self) -> Any | None:
        """The container, running or not; None when there is none."""
        import docker

        with engine_errors(f"looking for member {self.member_id}"):
            try:
                return self._cluster.client.containers.get(self.name)
            except docker.errors.NotFound:
                return None

    def is_running(self) -> bool:
        container = self.container()
        return container is not None and bool(container.attrs["State"]["Running"])

    def status(self) -> MemberStatus:
        """What the member says about itself. One that is down, paused or about to end says nothing."""
        import docker

        container = self.container()
        if container is None or container.status != "running":
            return MemberStatus(self.member_id, alive=False)
        system = self._cluster.system
        try:
            with engine_errors(f"asking member {self.member_id}"):
                _, output = container.exec_run(list(system.status_command), stderr=False)
        except EnvironmentFault as fault:
            # It may have ended or been paused since we looked; what the engine says then is no news.
            if isinstance(fault.__cause__, docker.errors.APIError):
                return MemberStatus(self.member_id, alive=False)
            raise
        return system.parse_status(self.member_id, (output or b"").decode("utf-8", "replace"))

    def kill(self, component: str | None = None) -> None:
        """SIGKILL. Returns when the container is gone down."""
        if component is not None:
            raise UsageError(f"member {self.member_id} has all its components in one container: kill it as a whole")
        container = self._running()
        begin_ns = time.monotonic_ns()
        with engine_errors(f"killing member {self.member_id}"):
            container.kill(signal="SIGKILL")
            exit_status = container.wait(timeout=STOP_TIMEOUT_S)["StatusCode"]
        proof = f"container {container.short_id} ended with status {exit_status}"
        fault = FaultRecord("kill", f"member-{self.member_id}", begin_ns, time.monotonic_ns(), proof=proof)
        self._cluster.note_fault(self.member_id, fault)

    def pause(self) -> None:
        """Freeze every process of the member."""
        container = self._running()
        begin_ns = time.monotonic_ns()
        with engine_errors(f"pausing member {self.member_id}"):
            container.pause()
            container.reload()
        proof = f"container {container.short_id} is {container.status}"
        fault = FaultRecord("pause", f"member-{self.member_id}", begin_ns, time.monotonic_ns(), proof=proof)
        self._cluster.note_fault(self.member_id, fault)

    def resume(self) -> None:
        """Let a paused member go on."""
        container = self._running()
        begin_ns = time.monotonic_ns()
        with engine_errors(f"resuming member {self.member_id}"):
            container.unpause()
        self._cluster.note_heal(self.member_id, begin_ns)

    def send_signal(self, number: signal.Signals) -> None:
        """Send any signal to the member's process (through the init of its container)."""
        container = self._running()
        with engine_errors(f"signalling member {self.member_id}"):
            container.kill(signal=number.name)

    def start(self) -> None:
        """Start the member if it does not run: its container anew, or a first one."""
        container = self.container()
        if container is None:
            self._cluster.create_member(self.member_id)
            return
        if not container.attrs["State"]["Running"]:
            begin_ns = time.monotonic_ns()
            with engine_errors(f"starting member {self.member_id}"):
                container.start()
            self._cluster.note_heal(self.member_id, begin_ns)

    def wait_until_alive(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the member has shown itself. Raises at once when it ends instead."""

        def is_alive() -> bool:
            self._cluster.raise_if_ended()
            return self.status().role is not None

        wait_until(is_alive, timeout_s=timeout_s, describe=lambda: f"member {self.member_id} does not start")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, and wait for the orderly end; SIGKILL when it takes too long."""
        container = self.container()
        if container is None or not container.attrs["State"]["Running"]:
            return
        with engine_errors(f"stopping member {self.member_id}"):
            if container.status == "paused":
                container.unpause()
            container.stop(timeout=round(timeout_s))

    def collect(self) -> None:
        """Copy what the member has written and printed into the run folder."""
        container = self.container()
        if container is not None:
            folder = self._cluster.run.member(self.member_id).path
            collect.collect_folder(container, str(self._cluster.system.folder), folder)
            collect.collect_output(container, folder / OUTPUT_FILE)

    def raise_if_ended(self) -> None:
        """Raises `EnvironmentFault` when the member has ended by its own fault."""
        container = self.container()
        if container is None or container.status != "exited":
            return
        exit_status = container.attrs["State"]["ExitCode"]
        if exit_status not in _OUR_DOING:
            with engine_errors(f"reading the output of member {self.member_id}"):
                lines = container.logs(tail=5).decode("utf-8", "replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
            raise EnvironmentFault(f"member {self.member_id} ended with status {exit_status}: {last}")

    def _running(self) -> Any:
        container = self.container()
        if container is None or not container.attrs["State"]["Running"]:
            raise UsageError(f"member {self.member_id} is not running")
        return container


class DockerCluster:
    """A cluster of containers. Implements `upheaval.cluster.Cluster`."""

    def __init__(self, folder: Path, config: DockerConfig, client: Client, *, kept: bool = False) -> None:
        self.docker_config = config
        self.config = config.cluster
        self.folder = folder
        self.client = client
        self.system: SystemUnderTest = UpheavalNode()
        self.run = RunFolder(folder)
        self.members = [DockerMember(self, member_id) for member_id in range(self.config.members)]
        self._labels = labels.labels_of_run(self.config.run_id, kept=kept)
        self._conditions = Conditions(self.status, self.raise_if_ended)
        self._faults: dict[int, FaultRecord] = {}

    # --- making and opening ---

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        *,
        members: int = 3,
        profile: str = "test",
        sync_level: int = 0,
        service: str = cluster_file.DEFAULT_SERVICE,
        source: Path | None = None,
        base_port: int | None = None,
        image: str | None = None,
        kept: bool = False,
    ) -> "DockerCluster":
        """Make a new cluster in a new or empty folder; nothing runs yet. `kept`: it shall outlive this process.

        What killed harnesses have left in the engine is removed first. Raises `HarnessError` with one clear line.
        """
        path = Path(folder).absolute()
        config = ClusterConfig(
            run_id=uuid.uuid4().hex,
            members=members,
            components=cluster_file.TOGETHER,
            profile=profile,
            sync_level=sync_level,
            service=service,
            base_port=0 if base_port is None else base_port,
            python_path=() if ":" not in service else (str((source or Path.cwd()).absolute()),),
        )
        cluster_file.check_config(config)
        docker_config = DockerConfig(config, image or UpheavalNode.image, files.require_source(source))
        client = connect()
        require_image(client, docker_config.image)
        labels.remove_abandoned(client)
        if base_port is None:
            docker_config = replace(docker_config, cluster=replace(config, base_port=ports.choose_base_port(members)))
        else:
            ports.require_free(base_port, members)
        cluster_file.require_usable(path)
        cluster = cls(path, docker_config, client, kept=kept)
        cluster.run.create(_manifest(docker_config.cluster))
        files.save(docker_config, path)
        return cluster

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "DockerCluster":
        """The cluster of a folder, running or not. Raises `UsageError` when there is none or of another version."""
        path = Path(folder).absolute()
        return cls(path, files.load(path), connect(), kept=True)

    # --- handles ---

    def member(self, member_id: int) -> DockerMember:
        """Raises `UsageError` for a member that does not exist."""
        if not 0 <= member_id < len(self.members):
            raise UsageError(f"unknown member {member_id}: this cluster has members 0 to {len(self.members) - 1}")
        return self.members[member_id]

    def ingress_endpoints(self) -> dict[int, str]:
        """The members' ingress under the names that they know each other by; dial them through `resolver`."""
        hosts = member_hosts(self.config.members)
        return {member_id: f"{host}:{self.system.ingress_port}" for member_id, host in enumerate(hosts)}

    def resolver(self) -> StaticResolver:
        """Where clients on this machine find the members: their published ports."""
        endpoints = self.ingress_endpoints()
        return StaticResolver({endpoints[member.member_id]: member.ingress_address for member in self.members})

    def is_running(self) -> bool:
        """Whether any member runs."""
        return any(member.is_running() for member in self.members)

    def status(self) -> list[MemberStatus]:
        return with_leaders(self._for_all(DockerMember.status))

    def leader(self) -> int | None:
        return self._conditions.leader()

    # --- life ---

    def up(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Start what is not running and wait for a leader that serves; returns its member id.

        When that fails, everything that was started here is removed again.
        """
        with self.all_or_nothing():
            if not self.client.networks.list(names=[network_name(self.config.run_id)]):
                if self.run.member(0).path.exists():
                    raise UsageError(f"the containers of the cluster in {self.folder} are gone: use a new folder")
                create_network(self.config.run_id, self._labels)
            self._for_all(DockerMember.start)
            return self.wait_until_leader(timeout_s)

    def create_member(self, member_id: int) -> None:
        """Make and start a member's container."""
        config = self.config
        hosts = member_hosts(config.members)
        plan = ContainerPlan(
            MemberPlan(member_id, hosts, config.run_id, config.service, config.profile, config.sync_level),
            self.docker_config.image,
            network_name(config.run_id),
            ports.member_ports(config.base_port, member_id)[0],
            self._labels,
            self.docker_config.source,
        )
        start_container(self.client, plan, self.system)

    def wait_until_leader(self, timeout_s: float = START_TIMEOUT_S, *, other_than: int | None = None) -> int:
        return self._conditions.wait_until_leader(timeout_s, other_than=other_than)

    def wait_until_caught_up(self, member_id: int, timeout_s: float = START_TIMEOUT_S) -> MemberStatus:
        return self._conditions.wait_until_caught_up(member_id, timeout_s)

    def converge(self, timeout_s: float = START_TIMEOUT_S) -> Converge:
        """Wait until all members stand at one committed position, and write it to the manifest."""
        return self._conditions.converge(self.run, timeout_s)

    def raise_if_ended(self) -> None:
        """Raises `EnvironmentFault` when a member has ended by its own fault."""
        self._for_all(DockerMember.raise_if_ended)

    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything, collect what it wrote, and remove it from the engine; the folder stays."""
        try:
            self._for_all(lambda member: member.stop(timeout_s))
            self._for_all(DockerMember.collect)
        finally:
            self.flush_faults()
            labels.remove_run(self.client, self.config.run_id)
            self.client.close()

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """On the way out of a failure, remove what was started inside, if nothing ran before."""
        ran_before = self.is_running()
        try:
            yield
        except BaseException:
            if not ran_before:
                with contextlib.suppress(HarnessError):
                    self._for_all(DockerMember.collect)
                labels.remove_run(self.client, self.config.run_id)
            raise

    def _for_all(self, action: Any) -> list[Any]:
        """Do it for all members at once; the engine takes its time for each."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            return list(pool.map(action, self.members))

    # --- faults ---

    def note_fault(self, member_id: int, fault: FaultRecord) -> None:
        self._write_fault(member_id)
        self._faults[member_id] = fault

    def note_heal(self, member_id: int, begin_ns: int) -> None:
        fault = self._faults.get(member_id)
        if fault is not None:
            self._faults[member_id] = replace(fault, heal_begin_ns=begin_ns, heal_end_ns=time.monotonic_ns())
            self._write_fault(member_id)

    def flush_faults(self) -> None:
        """Write down the faults that were not healed."""
        for member_id in list(self._faults):
            self._write_fault(member_id)

    def _write_fault(self, member_id: int) -> None:
        fault = self._faults.pop(member_id, None)
        if fault is not None:
            self.run.add_fault(fault)


def _manifest(config: ClusterConfig) -> Manifest:
    boot_id = ""
    with contextlib.suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Manifest(
        run_id=config.run_id,
        runtime=files.RUNTIME,
        members=config.members,
        profile=config.profile,
        sync_level=config.sync_level,
        components=config.components,
        service=config.service,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        boot_id=boot_id,
        version=config.version,
    )
