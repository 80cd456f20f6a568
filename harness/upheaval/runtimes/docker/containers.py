"""Creates what a run needs in the engine: its network, and a volume and a container for each member.

testcontainers creates containers and networks; the docker SDK does the rest. `labels` and `reaper` remove them.
"""

import contextlib
import ipaddress
import random
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.records import owned_folder
from upheaval.runtimes.docker.engine import Client, engine_errors, engine_host
from upheaval.runtimes.docker.own_source import own_source_filter
from upheaval.runtimes.ports import HOST
from upheaval.security import policy as security
from upheaval.system import SOURCE_FOLDER, SystemInContainers

# The network is one of 4096 small ones, drawn at random: the engine's default pools run out after about thirty.
_SUBNETS: Final = "10.213.0.0/16"
_PREFIX_LENGTH: Final = 28
_ATTEMPTS: Final = 50
_PIDS_LIMIT: Final = 256
NO_HEALTH_CHECK: Final[Mapping[str, Sequence[str]]] = {"test": ["NONE"]}
"""Switches off the engine's health checks: the harness does not read them, and each costs a process beside the
members.
"""
ALL: Final = "all"
"""The component of a container that holds a whole member."""
MEMBER_USER: Final = 10001
"""The owner of a volume's files: the user id of the node image."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a container in the network. `network` None: none, since another container holds the member's
    sockets.

    `ingress_host_port` None: the member's ingress is not published. `addresses` are the fixed addresses of all hosts,
    including this one; empty when the engine chooses addresses and resolves names.
    """

    host: str
    network: str | None
    ingress_host_port: int | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container of a member or a companion. `who` names it for people; `own_labels` go on top of the run's labels.

    `place` is the name of another container when this one shares its network.

    `volume_labels` are the labels that testcontainers itself puts on containers and networks. A new volume gets the
    folder `source` (a user's own service) and all of `restore` (the member's earlier files).
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
    """Patterns of files to leave out of `source`, see `own_source`."""
    restore: Path | None = None


def network_name(run_id: str) -> str:
    """The name of the run's network, and the prefix of all other names of the run."""
    return f"upheaval-{run_id[:12]}"


def free_subnets(client: Client, within: str, count: int) -> list[str]:
    """Small subnets of `within` that no network of the engine uses, drawn at random so that processes rarely collide.

    Another process may still take one before its use, and the engine refuses subnets of the host. Raises
    `EnvironmentFault` when fewer than `count` are free.
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
    """Create a bridge network in a separate subnet. Returns its name."""
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
    """Create and start a container, and its volume if that does not exist yet."""
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
    """The member's volume. A new one is filled through a container that never runs, since no disk is shared with the
    engine.

    The engine creates the volume with that carrier, which goes once all files are there. So after a harness was killed,
    the next start sees that a part of them is missing, and fills the volume again.
    """
    import docker

    name = f"{plan.volume}-filling"
    is_filled = bool(plan.source) or plan.restore is not None
    try:
        carrier = client.containers.get(name) if is_filled else None
    except docker.errors.NotFound:
        carrier = None
    if carrier is None:
        with contextlib.suppress(docker.errors.NotFound):
            client.volumes.get(plan.volume)
            return
        labels_of_volume = {**labels, **plan.volume_labels}
        if not is_filled:
            client.volumes.create(name=plan.volume, labels=labels_of_volume)
            return
        mount = docker.types.Mount(str(system.folder), plan.volume, labels=labels_of_volume)
        settings = {"mounts": [mount], "labels": dict(plan.labels), "network_mode": "none"}
        carrier = client.containers.create(plan.image, name=name, **settings)
    with tempfile.TemporaryFile() as packed:
        _pack(plan, packed)
        carrier.put_archive(str(system.folder), packed)
    remove(carrier)


def remove(container: Any) -> None:
    """Remove a container, and with it the volumes without a name that its image asks for."""
    container.remove(force=True, v=True)


def _pack(plan: ContainerPlan, packed: IO[bytes]) -> None:
    """The content of a new volume as a tar file, positioned at its beginning."""
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
    with owned_folder("certificates") as scratch, tempfile.TemporaryFile() as packed:
        files = scratch / "files"
        files.mkdir()
        security.copy_for_container(certificates, name, credentials, files)
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for entry in sorted(files.iterdir()):
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
    """Limits to the rights of a plain process: it can write only to its volume and tmpfs."""
    return {
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": _PIDS_LIMIT,
        **({"shm_size": system.shared_memory} if system.shared_memory else {}),
    }


def place_settings(client: Client, place: Place | str, system: SystemInContainers) -> dict[str, Any]:
    """The arguments that put a container into its place."""
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
    """The arguments that connect a container to a network, with a name and, where wanted, a fixed address."""
    import docker

    if network is None:
        return {"network_mode": "none"}
    endpoint = docker.types.EndpointConfig(
        docker.constants.DEFAULT_DOCKER_API_VERSION, aliases=[alias], ipv4_address=address
    )
    return {"network": network, "networking_config": {network: endpoint}}


def member_hosts(members: int) -> Sequence[str]:
    """The host names that members use for each other inside their network."""
    return [f"member-{member_id}" for member_id in range(members)]
