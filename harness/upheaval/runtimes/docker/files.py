"""What `cluster.json` says about a cluster of containers, beside what it says about every cluster.

This module knows files; it starts nothing.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import FieldError, jsonfields, write_atomically
from upheaval.runtimes import cluster_file
from upheaval.runtimes.cluster_file import CLUSTER_FILE, FORMAT, ClusterConfig
from upheaval.system import SYSTEM

RUNTIME: Final = "docker"


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """`source` is the folder of a user's own service, which is copied into the containers; empty without one."""

    cluster: ClusterConfig
    image: str
    source: str = ""


def is_docker_folder(folder: Path) -> bool:
    """Whether the cluster of a folder runs in containers. False when there is none, or its file cannot be read."""
    try:
        fields = jsonfields.parse_object((folder / CLUSTER_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, FieldError):
        return False
    return fields.get("runtime") == RUNTIME


def save(config: DockerConfig, folder: Path) -> None:
    fields = {
        "format": FORMAT,
        **asdict(config.cluster),
        "runtime": RUNTIME,
        "image": config.image,
        "source": config.source,
    }
    write_atomically(folder / CLUSTER_FILE, json.dumps(fields, indent=2) + "\n")


def load(folder: Path) -> DockerConfig:
    """Raises `UsageError` when the folder holds no cluster, one of another runtime or of another version."""
    cluster = cluster_file.load(folder)
    if not is_docker_folder(folder):
        raise UsageError(f"the cluster in {folder} does not run in containers")
    try:
        fields = jsonfields.parse_object(jsonfields.read_text(folder / CLUSTER_FILE))
        return DockerConfig(cluster, jsonfields.text(fields, "image"), jsonfields.optional_text(fields, "source") or "")
    except FieldError as error:
        raise UsageError(f"{folder / CLUSTER_FILE}: {error}") from None


def choose_image(image: str | None, planted: str | None) -> str:
    """The image of the members. A bug can only be planted in the test build: another image would go without it."""
    if planted is None:
        return image or SYSTEM.image
    if image is not None:
        raise UsageError(f"a bug can be planted in {SYSTEM.test_image} only: leave out the image {image}")
    return SYSTEM.test_image


def service_path(service: str, source: Path | None, image: str | None) -> tuple[str, ...]:
    """Where the code of a service of one's own lies on this machine; nowhere when an image brings it."""
    if ":" not in service or (image is not None and source is None):
        return ()
    return (str((source or Path.cwd()).absolute()),)


def require_source(source: Path | None) -> str:
    """Raises `UsageError` when there is no such folder."""
    if source is None:
        return ""
    if not source.is_dir():
        raise EnvironmentFault(f"the service's source {source} is not a folder")
    return str(source.absolute())
