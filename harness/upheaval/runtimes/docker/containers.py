"""Makes what a run needs in the engine: its network, and for each member a volume and a container.

testcontainers creates containers and the network. Its own clean-up container (Ryuk) is switched off: its image is often
absent, it would end a cluster with the command that started it, and labels do the job (see `labels`).
"""

import io
import random
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.labels import MEMBER
from upheaval.runtimes.ports import HOST
from upheaval.system_under_test import SOURCE_FOLDER, MemberPlan, SystemUnderTest

# Of 4096 small networks one is drawn: the engine's default pools run out after some thirty.
_SUBNET_PREFIX: Final = "10.213"
_SUBNET_ATTEMPTS: Final = 50
_PIDS_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One member's container."""

    member: MemberPlan
    image: str
    network: str
    ingress_host_port: int
    labels: Mapping[str, str]
    source: str = ""

    @property
    def name(self) -> str:
        return container_name(self.member.run_id, self.member.member_id)


def container_name(run_id: str, member_id: int) -> str:
    return f"upheaval-{run_id[:12]}-member-{member_id}"


def network_name(run_id: str) -> str:
    return f"upheaval-{run_id[:12]}"


def create_network(run_id: str, labels: Mapping[str, str]) -> str:
    """A bridge network of the run's own, in a subnet that no other network has; returns its name."""
    import docker

    draw = random.SystemRandom()
    name = network_name(run_id)
    with engine_errors("making the network"):
        for attempt in range(_SUBNET_ATTEMPTS):
            subnet = f"{_SUBNET_PREFIX}.{draw.randrange(256)}.{draw.randrange(16) * 16}/28"
            pool = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=subnet)])
            try:
                _testcontainers_network(name, {"driver": "bridge", "ipam": pool, "labels": dict(labels)})
            except docker.errors.APIError as error:
                if "overlaps" not in str(error) or attempt == _SUBNET_ATTEMPTS - 1:
                    raise
            else:
                return name
    raise EnvironmentFault("found no free subnet for the network: remove networks with `docker network prune`")


def _testcontainers_network(name: str, arguments: Mapping[str, Any]) -> None:
    from testcontainers.core.network import Network

    network = Network(docker_network_kw=dict(arguments))
    network.name = name
    try:
        network.create()
    finally:
        network._docker.client.close()


def start_container(client: Client, plan: ContainerPlan, system: SystemUnderTest) -> None:
    """Make a member's volume and container, and start it."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    testcontainers_config.ryuk_disabled = True
    host = plan.member.hosts[plan.member.member_id]
    labels = {**plan.labels, MEMBER: str(plan.member.member_id)}
    with engine_errors(f"starting member {plan.member.member_id}"):
        client.volumes.create(name=plan.name, labels=labels)
        container = (
            DockerContainer(plan.image)
            .with_name(plan.name)
            .with_envs(**system.environment(plan.member))
            .with_kwargs(**_limits(), **_network_of(plan.network, host), hostname=host, labels=labels)
            .with_volume_mapping(plan.name, str(system.folder), "rw")
            .with_tmpfs_mount("/tmp", "size=16m")
        )
        container.ports = {f"{system.ingress_port}/tcp": (HOST, plan.ingress_host_port)}
        if plan.source:
            _copy_source(client, plan, system)
        try:
            container.start()
        finally:
            container.get_docker_client().client.close()


def _copy_source(client: Client, plan: ContainerPlan, system: SystemUnderTest) -> None:
    """Put a user's own service into the volume, through a container that never runs: no disk is shared with us."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(plan.source, arcname=SOURCE_FOLDER, filter=_readable)
    mounts = {plan.name: {"bind": str(system.folder), "mode": "rw"}}
    carrier = client.containers.create(plan.image, volumes=mounts, labels=dict(plan.labels), network_mode="none")
    try:
        carrier.put_archive(str(system.folder), packed.getvalue())
    finally:
        carrier.remove(force=True)


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """What a service consists of, readable for the member's user."""
    if not (entry.isreg() or entry.isdir()) or "__pycache__" in entry.name or "/." in entry.name:
        return None
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def _limits() -> dict[str, Any]:
    """No rights beyond those of a plain process, nothing written outside of volume and tmpfs."""
    return {
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": _PIDS_LIMIT,
    }


def _network_of(network: str, alias: str) -> dict[str, Any]:
    import docker

    endpoint = docker.types.EndpointConfig(docker.constants.DEFAULT_DOCKER_API_VERSION, aliases=[alias])
    return {"network": network, "networking_config": {network: endpoint}}


def member_hosts(members: int) -> Sequence[str]:
    """The names by which members know each other inside of their network."""
    return [f"member-{member_id}" for member_id in range(members)]
