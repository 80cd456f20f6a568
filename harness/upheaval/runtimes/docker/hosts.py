"""What an operator does to the hosts of a cluster of containers: another image, a new container with an empty volume.

A new container gets whatever address the engine gives it; the others find it by its name. Implements
`upheaval.operations.maintenance.Hosts`.
"""

from dataclasses import replace

from upheaval.errors import UsageError
from upheaval.runtimes import cluster_file
from upheaval.runtimes.docker.cluster import DockerCluster, require_image_of
from upheaval.runtimes.docker.engine import engine_errors


class DockerHosts:
    """The hosts of one cluster: containers, and the volumes that outlive them."""

    def __init__(self, cluster: DockerCluster) -> None:
        self._cluster = cluster

    def require_image(self, image: str) -> None:
        """Have every container that is made from now on, by later commands too, made of this image."""
        cluster = self._cluster
        require_image_of(cluster.system, cluster.client, image)
        cluster.config = replace(cluster.config, image=image)
        cluster_file.save(cluster.config, cluster.runtime, cluster.folder)

    def renew(self, member_id: int, app_version: int | None) -> None:
        """The next start makes new containers on the volume that is there."""
        if app_version is not None:
            raise UsageError("--app-version is for members in processes: containers get theirs with an --image")
        self._remove_containers(member_id)

    def fetch(self, member_id: int) -> None:
        """Copy what the member has written into the run folder."""
        if self._cluster.member(member_id).node.container() is not None:
            self._cluster.member(member_id).collect()

    def discard(self, member_id: int) -> None:
        """Remove containers and volume; the run folder's files go into the next volume."""
        import docker

        self._remove_containers(member_id)
        cluster = self._cluster
        with engine_errors(f"removing the volume of member {member_id}"):
            try:
                cluster.client.volumes.get(cluster.engine_run.container_name(f"member-{member_id}")).remove(force=True)
            except docker.errors.NotFound:
                return

    def _remove_containers(self, member_id: int) -> None:
        """A new one is made by this process then, which has to know who cleans up."""
        self._cluster.engine_run.cleaning.begin()
        member = self._cluster.member(member_id)
        for component in member.node.containers:
            container = member.node.container(component)
            if container is not None:
                with engine_errors(f"removing a container of member {member_id}"):
                    container.remove(force=True)
