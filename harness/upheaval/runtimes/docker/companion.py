"""The companions of a cluster of containers: one container and one volume each, in the members' network."""

from collections.abc import Mapping
from typing import Any

from upheaval.errors import UsageError
from upheaval.records import CompanionConfig, CompanionStatus, RunFolder
from upheaval.runtimes.companions import LiveCompanion
from upheaval.runtimes.docker import collect, labels
from upheaval.runtimes.docker.container_state import is_running
from upheaval.runtimes.docker.containers import (
    ALL,
    ContainerPlan,
    Place,
    member_hosts,
    put_copies,
    remove,
    start_container,
)
from upheaval.runtimes.docker.engine import engine_errors
from upheaval.runtimes.docker.engine_run import EngineRun
from upheaval.runtimes.docker.inside import ContainerEnded
from upheaval.runtimes.docker.node import DockerNode
from upheaval.security import policy as security
from upheaval.system import ClusterSpec, SystemInContainers, companions as companion_system, status_from_text


class DockerCompanion(LiveCompanion[DockerNode]):
    """A companion in one container."""

    def __init__(
        self,
        run: RunFolder,
        spec: ClusterSpec,
        config: CompanionConfig,
        engine_run: EngineRun,
        system: SystemInContainers,
    ) -> None:
        names = {ALL: engine_run.container_name(config.name)}
        super().__init__(run, config, DockerNode(config.name, engine_run.client, names, self._make, self._bring_copies))
        self._spec = spec
        self._engine_run = engine_run
        self._system = system

    # --- observer ---

    def status(self) -> CompanionStatus:
        """The answer of a command inside the container; a companion that is down reports nothing."""
        command = [*self._system.companions.health_command, "--json", str(self._system.folder)]
        try:
            _, text = self.node.run_inside(command, stderr=False)
        except ContainerEnded:
            return CompanionStatus(self.name, alive=False)
        return status_from_text(self.name, text)

    # --- injector ---

    def start(self) -> None:
        """Start the companion, in its existing container if that has the wanted configuration."""
        container = self.node.container()
        if container is not None and is_running(container):
            return
        if self._engine_run.is_apart:
            raise UsageError(
                f"{self.name} cannot reach members in containers whose links have proxies: leave these out"
            )
        if container is not None and not self._is_as_wanted(container):
            with engine_errors(f"removing the container of {self.name}"):
                remove(container)
        self.node.start()

    def _bring_copies(self, container: Any) -> None:
        put_copies(container, self._spec.tls, self.name, self.config.credentials, self._system.folder)

    def collect(self) -> None:
        """Copy the companion's folder and output into the run folder."""
        container = self.node.container()
        if container is not None:
            collect.collect_folder(container, str(self._system.folder), self.folder)
            collect.collect_output(container, self.folder / f"{ALL}.log")

    # --- what it is ---

    def _is_as_wanted(self, container: Any) -> bool:
        """Whether the container has the wanted configuration: that of an existing container cannot be changed."""
        wanted = [f"{name}={value}" for name, value in self._environment().items()]
        return set(wanted) <= set(container.attrs["Config"]["Env"])

    def _environment(self) -> Mapping[str, str]:
        return self._system.companions.environment(self._plan())

    def _plan(self) -> companion_system.CompanionPlan:
        cluster = self._spec
        consensus = self._system.ports[1]
        return companion_system.CompanionPlan(
            cluster,
            self.config,
            members=[f"{host}:{consensus}" for host in member_hosts(cluster.members)],
            endpoints=[f"{self.name}:{port}" for port in companion_system.PORTS_IN_CONTAINER],
            metrics=f"0.0.0.0:{companion_system.METRICS_PORT_IN_CONTAINER}",
            folder=str(self._system.folder),
            tls=security.FILES_OF_COPIES if cluster.tls else {},
            credentials_file=str(self._system.folder / security.CREDENTIALS_COPY) if self.config.credentials else "",
        )

    def _make(self, component: str) -> None:
        self._engine_run.make_networks()
        plan = self._plan()
        security.copy_for_container(self._spec.tls, self.name, self.config.credentials, self.folder)
        container_plan = ContainerPlan(
            self.name,
            self._environment(),
            self._system.companions.arguments(plan),
            {labels.MEMBER: self.name, labels.COMPONENT: self.config.kind},
            Place(self.name, self._engine_run.member_network(0)),
            name=self.node.containers[component],
            volume=self.node.containers[component],
            image=self._spec.image,
            labels=self._engine_run.labels,
            volume_labels=self._engine_run.cleaning.labels,
            restore=self.folder if self.folder.is_dir() else None,
        )
        start_container(self._engine_run.client, container_plan, self._system)
