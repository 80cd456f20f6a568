"""Picks the runtime of a cluster: by name for a new one, by its folder for one that exists.

The docker runtime is imported only when it is asked for; nothing else needs its packages.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from upheaval.errors import UsageError
from upheaval.runtimes import cluster_file
from upheaval.runtimes.docker import files
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_table import processes_of
from upheaval_node.media.resolver import Resolver

if TYPE_CHECKING:
    from upheaval.runtimes.docker.cluster import DockerCluster

PROCESS: Final = "process"
RUNTIMES: Final = (PROCESS, files.RUNTIME)


def create_cluster(runtime: str, folder: Path, *, kept: bool, **options: Any) -> "ProcessCluster | DockerCluster":
    """A new cluster; nothing runs yet. `kept`: it shall outlive this process, as clusters of processes always do."""
    if runtime == PROCESS:
        return ProcessCluster.create(folder, **options)
    from upheaval.runtimes.docker.cluster import DockerCluster

    if options.pop("components", cluster_file.TOGETHER) != cluster_file.TOGETHER:
        raise UsageError("--components split: a container holds a whole member, leave it out with --runtime docker")
    return DockerCluster.create(folder, kept=kept, **options)


def open_cluster(folder: Path) -> "ProcessCluster | DockerCluster":
    """The cluster of a folder, running or not. Raises `UsageError` when there is none or of another version."""
    if not files.is_docker_folder(folder):
        return ProcessCluster.open(folder)
    from upheaval.runtimes.docker.cluster import DockerCluster

    return DockerCluster.open(folder)


def runtime_of(cluster: "ProcessCluster | DockerCluster") -> str:
    return PROCESS if isinstance(cluster, ProcessCluster) else files.RUNTIME


def is_running(cluster: "ProcessCluster | DockerCluster") -> bool:
    """Whether anything of the cluster runs."""
    if isinstance(cluster, ProcessCluster):
        return bool(processes_of(cluster.config.run_id))
    return cluster.is_running()


def way_in(cluster: "ProcessCluster | DockerCluster") -> tuple[dict[int, str], Resolver | None]:
    """The ingress endpoints for clients on this machine, and how they are to be dialled."""
    if isinstance(cluster, ProcessCluster):
        return cluster.config.ingress_endpoints(), None
    return cluster.ingress_endpoints(), cluster.resolver()
