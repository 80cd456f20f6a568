"""Picks the runtime of a live cluster: by name for a new cluster, by its folder for an existing one.

The docker runtime is imported only on demand, since only it needs its packages.
"""

import platform
from pathlib import Path

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.runtime_names import DOCKER, LIVE_RUNTIMES, LIVE_SYSTEM, PROCESS
from upheaval.runtimes import cluster_file
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec


def create_cluster(
    runtime: str, folder: Path, spec: ClusterSpec = CLUSTER_OF_THREE, *, detached: bool = False
) -> AnyCluster:
    """Create a new cluster; nothing runs yet. `detached`: it may outlive this process. Raises `HarnessError`."""
    if platform.system() != LIVE_SYSTEM:
        raise EnvironmentFault(f"live clusters need {LIVE_SYSTEM}, and this is {platform.system()}")
    if runtime == PROCESS:
        return ProcessCluster.create(folder, spec, detached=detached)
    if runtime != DOCKER:
        raise UsageError(f"runtime {runtime!r} has no live clusters: use {' or '.join(LIVE_RUNTIMES)}")
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.create(folder, spec, detached=detached)


def open_cluster(folder: Path) -> AnyCluster:
    """The cluster in a folder, running or not. Raises `UsageError` when the folder has no cluster, or one of another
    version.
    """
    if cluster_file.runtime_of(folder) != DOCKER:
        return ProcessCluster.open(folder)
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.open(folder)
