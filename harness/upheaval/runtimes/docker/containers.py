"""Makes what a run needs in the engine: its network, and for each member a volume and a container.

testcontainers creates containers and networks, the docker SDK what it lacks. What removes them is in `labels` and
`reaper`.
"""

import ipaddress
import random
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.engine import Client, engine_errors, engine_host
from upheaval.runtimes.docker.own_source import own_source_filter
from upheaval.runtimes.ports import HOST
from upheaval.security import policy as security
from upheaval.system import SOURCE_FOLDER, SystemInContainers

# Of 4096 small networks one is drawn: the engine's default pools run out after some thirty.
_SUBNETS: Final = "10.213.0.0/16"
_PREFIX_LENGTH: Final = 28
_ATTEMPTS: Final = 50
_PIDS_LIMIT: Final = 256
NO_HEALTH_CHECK: Final[Mapping[str, Sequence[str]]] = {"test": ["NONE"]}
"""The harness does not read the engine's checks of these containers, and each costs a process beside the members."""
ALL: Final = "all"
"""The component of a container that holds a whole member."""
MEMBER_USER: Final = 10001
"""Whom the files of a volume belong to: the user of the node image."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the network a container is. `network` None: nowhere, its member's sockets are another container's.

    `ingress_host_port` None: the member's ingress is not published. `addresses` are those of all hosts, itself among
    them, where they have fixed ones; else the engine gives it one, and tells names.
    """

    host: str
    network: str | None
    ingress_host_port: int | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container of a member, or of a companion; `who` it is for people, `own_labels` beside those of the run.

    `place` is the name of another container where it shares the network of that.

    `volume_labels` are those that testcontainers gives to containers and networks by itself.
    Into a new volume go the folder `source` (a user's own service) and all of `restore` (what the member wrote before).
    """

    who: str
    environment: Mapping[str, str]
    arguments: Sequence[str]
    own_labels: Mapping[str, str]
    place: Place | str
    name: str
    volume: str
    image: str
    labels: Mapping[str, str]
    volume_labels: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    ignored: Sequence[str] = ()
    """What is left out of `source`, see `own_source`."""
    restore: Path | None = None


def network_name(run_id: str) -> str:
    """Of the run's network, and the beginning of every other name of the run."""
    return f"upheaval-{run_id[:12]}"


def free_subnets(client: Client, within: str, count: int) -> list[str]:
    """Small subnets of a large one that no network of the engine has, drawn so that others rarely draw the same.

    Another process may still take one before it is used, and the engine refuses what the host itself uses.
    Raises `EnvironmentFault` when there are not so many.
    """
    with engine_errors("looking for free subnets"):
        networks = client.api.networks()
    configs = [config for network in networks for config in (network["IPAM"] or {}).get("Config") or ()]
    texts = [config["Subnet"] for config in configs if "." in config.get("Subnet", "")]
    whole = ipaddress.IPv4Network(within)
    taken = [subnet for text in texts if (subnet := ipaddress.IPv4Network(text, strict=False)).overlaps(whole)]
    candidates = whole.subnets(new_prefix=_PREFIX_LENGTH)
    free = [str(network) for network in candidates if not any(network.overlaps(other) for other in taken)]
    if len(free) < count:
        raise EnvironmentFault(f"no {count} subnets of {within} are free: remove networks with `docker network prune`")
    return random.SystemRandom().sample(free, count)


def create_network(client: Client, name: str, labels: Mapping[str, str]) -> str:
    """A bridge network in a subnet that no other network has; returns its name."""
    import docker

    for attempt in range(_ATTEMPTS):
        (subnet,) = free_subnets(client, _SUBNETS, 1)
        pool = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=subnet)])
        try:
            with engine_errors("making the network"):
                _testcontainers_network(name, {"driver": "bridge", "ipam": pool, "labels": dict(labels)})
        except EnvironmentFault as fault:
            if "overlaps" not in str(fault) or attempt == _ATTEMPTS - 1:
                raise
        else:
            break
    return name


def _testcontainers_network(name: str, arguments: Mapping[str, Any]) -> None:
    from testcontainers.core.network import Network

    network = Network(docker_network_kw=dict(arguments))
    network.name = name
    try:
        network.create()
    finally:
        network._docker.client.close()


def start_container(client: Client, plan: ContainerPlan, system: SystemInContainers) -> None:
    """Make a container, with its volume if there is none yet, and start it."""
    from testcontainers.core.container import DockerContainer

    labels = {**plan.labels, **plan.own_labels}
    with engine_errors(f"starting {plan.who}"):
        _require_volume(client, plan, system, labels)
        settings = place_settings(client, plan.place, system)
        published = settings.pop("ports", {})
        container = (
            DockerContainer(plan.image)
            .with_name(plan.name)
            .with_envs(**plan.environment)
            .with_command(list(plan.arguments))
            .with_kwargs(**_limits(system), healthcheck=NO_HEALTH_CHECK, **settings, labels=labels)
            .with_volume_mapping(plan.volume, str(system.folder), "rw")
            .with_tmpfs_mount("/tmp", "size=16m")
        )
        container.ports = published
        try:
            container.start()
        finally:
            container.get_docker_client().client.close()


def _require_volume(client: Client, plan: ContainerPlan, system: SystemInContainers, labels: Mapping[str, str]) -> None:
    """The volume of the member. A new one is filled through a container that never runs: no disk is shared with us."""
    import docker

    try:
        client.volumes.get(plan.volume)
    except docker.errors.NotFound:
        client.volumes.create(name=plan.volume, labels={**labels, **plan.volume_labels})
    else:
        return
    if not plan.source and plan.restore is None:
        return
    mounts = {plan.volume: {"bind": str(system.folder), "mode": "rw"}}
    carrier = client.containers.create(plan.image, volumes=mounts, labels=dict(plan.labels), network_mode="none")
    try:
        with tempfile.TemporaryFile() as packed:
            _pack(plan, packed)
            carrier.put_archive(str(system.folder), packed)
    finally:
        carrier.remove(force=True)


def _pack(plan: ContainerPlan, packed: IO[bytes]) -> None:
    """What a new volume shall hold, as a tar file, read from its beginning."""
    with tarfile.open(fileobj=packed, mode="w") as archive:
        if plan.source:
            try:
                archive.add(plan.source, SOURCE_FOLDER, filter=own_source_filter(Path(plan.source), plan.ignored))
            except OSError as error:
                raise EnvironmentFault(f"cannot copy the service's source {plan.source}: {error}") from error
        for entry in sorted(plan.restore.iterdir()) if plan.restore is not None else ():
            if entry.name != SOURCE_FOLDER:
                archive.add(entry, arcname=entry.name, filter=_owned_by_the_member)
    packed.seek(0)


def put_copies(container: Any, certificates: str, name: str, credentials: str, folder: PurePosixPath) -> None:
    """Copy the certificates of `name` and the credentials file, if any, into a container's folder, running or not."""
    if not certificates and not credentials:
        return
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as packed:
        security.copy_for_container(certificates, name, credentials, Path(scratch))
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for entry in sorted(Path(scratch).iterdir()):
                archive.add(entry, arcname=entry.name, filter=_owned_by_the_member)
        packed.seek(0)
        with engine_errors(f"copying files into {container.name}"):
            container.put_archive(str(folder), packed)


def _owned_by_the_member(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (entry.isreg() or entry.isdir()):
        return None
    entry.uid = entry.gid = MEMBER_USER
    return entry


def _limits(system: SystemInContainers) -> dict[str, Any]:
    """No rights beyond those of a plain process, nothing written outside of volume and tmpfs."""
    return {
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": _PIDS_LIMIT,
        **({"shm_size": system.shared_memory} if system.shared_memory else {}),
    }


def place_settings(client: Client, place: Place | str, system: SystemInContainers) -> dict[str, Any]:
    """Arguments that put a container into its place."""
    if isinstance(place, str):
        return {"network_mode": f"container:{place}"}
    settings = {"hostname": place.host, **network_of(place.network, place.host, place.addresses.get(place.host))}
    if place.addresses:
        settings["extra_hosts"] = dict(place.addresses)
    if place.network is not None and place.ingress_host_port is not None:
        bind = HOST if engine_host(client) == HOST else "0.0.0.0"
        settings["ports"] = {f"{system.ports[0]}/tcp": (bind, place.ingress_host_port)}
    return settings


def network_of(network: str | None, alias: str, address: str | None = None) -> dict[str, Any]:
    """Arguments that put a container into a network, under a name of its own and at a fixed address where wanted."""
    import docker

    if network is None:
        return {"network_mode": "none"}
    endpoint = docker.types.EndpointConfig(
        docker.constants.DEFAULT_DOCKER_API_VERSION, aliases=[alias], ipv4_address=address
    )
    return {"network": network, "networking_config": {network: endpoint}}


def member_hosts(members: int) -> Sequence[str]:
    """The names by which members know each other inside of their network."""
    return [f"member-{member_id}" for member_id in range(members)]
