"""What a cluster of real members is made of, as kept in `cluster.json`, so that any later command can use it.

This module knows files; it starts nothing.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import (
    MEMBERS_MAX,
    PROFILES,
    SPLIT,
    SYNC_LEVEL_MAX,
    TOGETHER,
    FieldError,
    Json,
    jsonfields,
    write_atomically,
)
from upheaval.runtimes.ports import HOST, LOWEST_PORT, highest_base_port, member_ports, metrics_port
from upheaval.security import policy as security
from upheaval.system import SYSTEM, MemberPlan
from upheaval_node import __version__
from upheaval_node.tls_files import member_name

FORMAT: Final = 1
CLUSTER_FILE: Final = "cluster.json"
DEFAULT_SERVICE: Final = "workbench"


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Everything that `up` was told, and what it chose."""

    run_id: str
    members: int
    components: str
    profile: str
    sync_level: int
    service: str
    base_port: int
    python_path: tuple[str, ...] = ()
    max_sessions: int = 0
    """How many clients a member lets in; 0 for the node's own limit."""
    protocol_trace: int = 0
    """How many bytes the protocol trace of each process may take; 0 for no such trace."""
    tls: str = ""
    """The folder of the certificates of members and clients; empty without TLS."""
    credentials: str = ""
    """The book of those who may connect; empty for everyone."""
    planted: str | None = None
    """The bug of a test build of the node that the members are; None for the node of the product."""
    version: str = __version__

    def ingress_endpoints(self) -> dict[int, str]:
        return {member: f"{HOST}:{member_ports(self.base_port, member)[0]}" for member in range(self.members)}


def absolute(path: Path | None) -> str:
    """As a configuration keeps the path of a file or folder; empty without one."""
    return "" if path is None else str(path.absolute())


def check_config(config: ClusterConfig, *, is_service_here: bool = True) -> None:
    """Raises `UsageError` for anything that could never start: one clear line before any process is made.

    A service that is not here (but in an image) cannot be looked at.
    """
    if not 1 <= config.members <= MEMBERS_MAX:
        raise UsageError(f"--members {config.members}: a cluster has 1 to {MEMBERS_MAX} members")
    if config.components not in (TOGETHER, SPLIT):
        raise UsageError(f"--components {config.components!r}: use {TOGETHER} or {SPLIT}")
    if config.tls:
        security.require_certificates(Path(config.tls), security.names_needed(config.members))
    if config.credentials:
        security.require_book(Path(config.credentials))
    python_path = config.python_path if is_service_here else None
    SYSTEM.check(config.service, config.profile, config.sync_level, config.planted, python_path)


def check_kept(config: ClusterConfig) -> None:
    """The same for the cluster of a folder. A service of one's own that has no path there comes from the image."""
    check_config(config, is_service_here=bool(config.python_path) or ":" not in config.service)


def member_plan(config: ClusterConfig, member_id: int, folder: Path, component: str = "all") -> MemberPlan:
    """A member of a cluster of processes."""
    return MemberPlan(
        member_id=member_id,
        endpoints=[
            [f"{HOST}:{port}" for port in member_ports(config.base_port, member)] for member in range(config.members)
        ],
        metrics=f"{HOST}:{metrics_port(config.base_port, member_id)}",
        folder=str(folder),
        run_id=config.run_id,
        service=config.service,
        profile=config.profile,
        sync_level=config.sync_level,
        python_path=config.python_path,
        component=component,
        max_sessions=config.max_sessions,
        protocol_trace=config.protocol_trace,
        tls=security.fields_of(config.tls, member_name(member_id)),
        credentials=config.credentials,
        planted=config.planted,
    )


def save(config: ClusterConfig, folder: Path) -> None:
    """Write `cluster.json` and each member's configuration."""
    for member_id in range(config.members):
        member_folder = folder / f"member-{member_id}"
        try:
            member_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"cannot make the folder {member_folder}: {error.strerror}") from error
        member = json.dumps(SYSTEM.configuration(member_plan(config, member_id, member_folder)), indent=2)
        write_atomically(member_folder / "config.json", member + "\n")
    write_atomically(folder / CLUSTER_FILE, json.dumps({"format": FORMAT, **asdict(config)}, indent=2) + "\n")


def load(folder: Path) -> ClusterConfig:
    """Read `cluster.json`. Raises `UsageError` when there is none, it is malformed or of another version."""
    path = folder / CLUSTER_FILE
    if not path.is_file():
        raise UsageError(f"{folder} holds no cluster (it has no {CLUSTER_FILE}): start one with `upheaval up --dir`")
    try:
        fields = jsonfields.parse_object(jsonfields.read_text(path))
        _require_version(path, fields)
        members = jsonfields.integer_within(fields, "members", 1, MEMBERS_MAX)
        return ClusterConfig(
            run_id=jsonfields.text(fields, "run_id"),
            members=members,
            components=jsonfields.one_of(fields, "components", (TOGETHER, SPLIT)),
            profile=jsonfields.one_of(fields, "profile", PROFILES),
            sync_level=jsonfields.integer_within(fields, "sync_level", 0, SYNC_LEVEL_MAX),
            service=jsonfields.text(fields, "service"),
            base_port=jsonfields.integer_within(fields, "base_port", LOWEST_PORT, highest_base_port(members)),
            python_path=_texts(fields, "python_path"),
            max_sessions=jsonfields.optional_integer(fields, "max_sessions") or 0,
            protocol_trace=jsonfields.optional_integer(fields, "protocol_trace") or 0,
            tls=jsonfields.optional_text(fields, "tls") or "",
            credentials=jsonfields.optional_text(fields, "credentials") or "",
            planted=jsonfields.optional_text(fields, "planted"),
        )
    except FieldError as error:
        raise UsageError(f"{path}: {error}") from None


def has_cluster(folder: Path) -> bool:
    return (folder / CLUSTER_FILE).is_file()


def require_usable(folder: Path) -> None:
    """Raises when a new cluster cannot be made in this folder: no permission, or something else lies there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in folder.iterdir())
    except NotADirectoryError:
        raise UsageError(f"{folder} is not a folder: give another --dir") from None
    except FileExistsError:
        raise UsageError(f"{folder} is a file: give another --dir") from None
    except OSError as error:
        raise EnvironmentFault(f"cannot use the folder {folder}: {error.strerror}") from error
    if found:
        raise UsageError(f"{folder} holds no cluster and is not empty ({found[0]}): give an empty or a new folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentFault(f"no permission to write in {folder}")


def _require_version(path: Path, fields: Mapping[str, Json]) -> None:
    """A folder is only used by the series (major and minor version) that made it."""
    found = jsonfields.integer(fields, "format")
    version = jsonfields.text(fields, "version")
    if found != FORMAT or version.split(".")[:2] != __version__.split(".")[:2]:
        raise UsageError(
            f"{path.parent} was made by upheaval {version} (format {found}), this is {__version__} (format {FORMAT}): "
            "use that version or a new folder"
        )


def _texts(fields: Mapping[str, Json], name: str) -> tuple[str, ...]:
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FieldError(f"field {name!r} must be a list of strings")
    return tuple(str(item) for item in value)
