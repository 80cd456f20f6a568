"""Picks the runtime of a live cluster: by name for a new one, by its folder for one that exists.

The docker runtime is imported only when it is asked for; nothing else needs its packages.
"""

from pathlib import Path

from upheaval.errors import UsageError
from upheaval.runtime_names import DOCKER, LIVE_RUNTIMES, PROCESS
from upheaval.runtimes import cluster_file
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec


def create_cluster(
    runtime: str, folder: Path, spec: ClusterSpec = CLUSTER_OF_THREE, *, kept: bool = False
) -> AnyCluster:
    """A new cluster; nothing runs yet. `kept`: it shall outlive this process."""
    if runtime == PROCESS:
        return ProcessCluster.create(folder, spec, kept=kept)
    if runtime != DOCKER:
        raise UsageError(f"runtime {runtime!r} has no live clusters: use {' or '.join(LIVE_RUNTIMES)}")
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.create(folder, spec, kept=kept)


def open_cluster(folder: Path) -> AnyCluster:
    """The cluster of a folder, running or not. Raises `UsageError` when there is none or of another version."""
    if cluster_file.runtime_of(folder) != DOCKER:
        return ProcessCluster.open(folder)
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.open(folder)
