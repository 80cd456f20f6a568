"""Picks the runtime of a live cluster: by name for a new one, by its folder for one that exists.

The docker runtime is imported only when it is asked for; nothing else needs its packages.
"""

from pathlib import Path
from typing import Any, Final

from upheaval.errors import UsageError
from upheaval.runtimes.docker import files
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.process import ProcessCluster

PROCESS: Final = ProcessCluster.runtime
DOCKER: Final = files.RUNTIME
RUNTIMES: Final = (PROCESS, DOCKER)


def create_cluster(runtime: str, folder: Path, *, kept: bool = False, **options: Any) -> AnyCluster:
    """A new cluster; nothing runs yet. `kept`: it shall outlive this process.

    `options` are those of `ProcessCluster.create` and `DockerCluster.create`.
    """
    if runtime == PROCESS:
        if options.pop("image", None) is not None:
            raise UsageError("an image is for containers: use --runtime docker")
        return ProcessCluster.create(folder, kept=kept, **options)
    if runtime != DOCKER:
        raise UsageError(f"runtime {runtime!r} has no live clusters: use {' or '.join(RUNTIMES)}")
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.create(folder, kept=kept, **options)


def open_cluster(folder: Path) -> AnyCluster:
    """The cluster of a folder, running or not. Raises `UsageError` when there is none or of another version."""
    if not files.is_docker_folder(folder):
        return ProcessCluster.open(folder)
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.open(folder)
