"""The companions of a cluster of containers: one container and one volume each, in the members' network."""

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from upheaval.errors import UsageError
from upheaval.records import CompanionConfig, CompanionStatus
from upheaval.runtimes.companions import STOP_TIMEOUT_S, LiveCompanion
from upheaval.runtimes.docker import collect, labels
from upheaval.runtimes.docker.container_state import incarnation_of, is_running, raise_own_fault
from upheaval.runtimes.docker.containers import (
    ALL,
    ContainerPlan,
    member_hosts,
    network_name,
    put_copies,
    start_container,
)
from upheaval.runtimes.docker.engine import engine_errors
from upheaval.runtimes.docker.inside import ContainerEnded, run_inside
from upheaval.security import policy as security
from upheaval.system import companions as companion_system
from upheaval.system import status_from_text

if TYPE_CHECKING:
    from upheaval.runtimes.docker.cluster import DockerCluster


class DockerCompanion(LiveCompanion):
    """A companion: one container."""

    def __init__(self, cluster: "DockerCluster", config: CompanionConfig) -> None:
        super().__init__(cluster.run, config)
        self._cluster = cluster

    def container(self) -> Any | None:
        """Its container, running or not; None without one."""
        import docker

        with engine_errors(f"looking for {self.name}"):
            try:
                return self._cluster.client.containers.get(self._container_name)
            except docker.errors.NotFound:
                return None

    # --- eyes ---

    def status(self) -> CompanionStatus:
        command = [*companion_system.HEALTH_COMMAND, "--json", str(self._cluster.system.folder)]
        try:
            _, text = run_inside(self.container(), command, f"asking {self.name}", stderr=False)
        except ContainerEnded:
            return CompanionStatus(self.name, alive=False)
        return status_from_text(self.name, text)

    def incarnation(self) -> frozenset[str]:
        container = self.container()
        return frozenset() if container is None or not is_running(container) else frozenset([incarnation_of(container)])

    def raise_if_ended(self) -> None:
        container = self.container()
        if container is not None:
            raise_own_fault(container, self.name, ())

    # --- hands ---

    def launch(self) -> None:
        container = self.container()
        if container is not None and is_running(container):
            return
        if self._cluster.has_links_apart:
            raise UsageError(
                f"{self.name} cannot reach members in containers whose links have proxies: leave these out"
            )
        if container is not None and self._is_as_wanted(container):
            self._bring_copies(container)
            with engine_errors(f"starting {self.name}"):
                container.start()
            return
        if container is not None:
            with engine_errors(f"removing the container of {self.name}"):
                container.remove()
        self._cluster.make_networks()
        start_container(self._cluster.client, self._container_plan(), self._cluster.system)

    def reload(self) -> None:
        """Its copies are replaced first."""
        container = self.container()
        if container is not None and is_running(container):
            self._bring_copies(container)
            with engine_errors(f"signalling {self.name}"):
                container.kill(signal=signal.SIGHUP.name)

    def _bring_copies(self, container: Any) -> None:
        cluster = self._cluster
        put_copies(container, cluster.config.tls, self.name, self.config.credentials, cluster.system.folder)

    def _end(self) -> None:
        container = self.container()
        if container is not None and is_running(container):
            with engine_errors(f"killing {self.name}"):
                container.kill(signal=signal.SIGKILL.name)
                container.wait(timeout=STOP_TIMEOUT_S)

    def _stop(self, timeout_s: float) -> None:
        container = self.container()
        if container is not None and is_running(container):
            with engine_errors(f"stopping {self.name}"):
                container.stop(timeout=round(timeout_s))

    def collect(self) -> None:
        container = self.container()
        if container is not None:
            collect.collect_folder(container, str(self._cluster.system.folder), self.folder)
            collect.collect_output(container, self.folder / f"{ALL}.log")

    # --- what it is ---

    @property
    def _container_name(self) -> str:
        return f"{network_name(self._cluster.config.run_id)}-{self.name}"

    def _is_as_wanted(self, container: Any) -> bool:
        """Whether it was made with what it shall be now: the configuration of a container cannot be changed."""
        wanted = [f"{name}={value}" for name, value in self._environment().items()]
        return set(wanted) <= set(container.attrs["Config"]["Env"])

    def _environment(self) -> Mapping[str, str]:
        return companion_system.environment(self._plan())

    def _plan(self) -> companion_system.CompanionPlan:
        cluster = self._cluster.config
        consensus = self._cluster.system.ports[1]
        return companion_system.CompanionPlan(
            cluster,
            self.config,
            members=[f"{host}:{consensus}" for host in member_hosts(cluster.members)],
            endpoints=[f"{self.name}:{port}" for port in companion_system.PORTS_IN_CONTAINER],
            metrics=f"0.0.0.0:{companion_system.METRICS_PORT_IN_CONTAINER}",
            folder=str(self._cluster.system.folder),
            tls=security.FILES_OF_COPIES if cluster.tls else {},
            credentials_file=str(self._cluster.system.folder / security.BOOK_COPY) if self.config.credentials else "",
        )

    def _container_plan(self) -> ContainerPlan:
        plan = self._plan()
        if self._cluster.config.tls:
            security.copy_files(self._cluster.config.tls, self.name, self.folder)
        if self.config.credentials:
            security.copy_book(self.config.credentials, self.folder)
        return ContainerPlan(
            self.name,
            self._environment(),
            companion_system.arguments(plan),
            {labels.MEMBER: self.name, labels.COMPONENT: self.config.kind},
            host=self.name,
            name=self._container_name,
            volume=self._container_name,
            image=self._cluster.config.image,
            network=self._cluster.member_network(0),
            ingress_host_port=None,
            labels=self._cluster.labels,
            volume_labels=self._cluster.cleaning.labels,
            restore=self.folder if self.folder.is_dir() else None,
            health_command=companion_system.HEALTH_COMMAND,
        )
