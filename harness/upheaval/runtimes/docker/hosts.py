"""An operator's work on the hosts of a cluster of containers: another image, or a new container with an empty volume.

The engine chooses the address of a new container; other members find it by name. Implements
`upheaval.operations.maintenance.Hosts`.
"""

from dataclasses import replace

from upheaval.errors import UsageError
from upheaval.runtimes import cluster_file
from upheaval.runtimes.docker.cluster import DockerCluster, require_image_of
from upheaval.runtimes.docker.engine import engine_errors
from upheaval.runtimes.renewal import Renewal, note_system
from upheaval.system import in_containers


class DockerHosts:
    """The hosts of one cluster: containers, and the volumes that outlive them."""

    def __init__(self, cluster: DockerCluster) -> None:
        self._cluster = cluster

    def prepare(self, renewal: Renewal) -> Renewal:
        """Use the image for every container created from now on, also by later commands.

        Raises `HarnessError` when the image is missing or holds members of another system.
        """
        if renewal.app_version is not None:
            raise UsageError("--app-version is for members in processes: containers get theirs with an --image")
        cluster, system = self._cluster, self._cluster.system
        if renewal.system:
            system = in_containers(system.upgraded_to(renewal.system))
        image = renewal.image or (system.image if renewal.system else "")
        if image:
            require_image_of(system, cluster.client, image)
            cluster.config = replace(cluster.config, image=image)
            cluster_file.save(cluster.config, cluster.runtime, cluster.folder)
            note_system(cluster, system.text)
            cluster.system = system
        return renewal

    def renew(self, member_id: int, renewal: Renewal) -> None:  # noqa: ARG002 - all containers have one image
        """Remove the containers; the next start creates new ones on the existing volume."""
        self._remove_containers(member_id)

    def fetch(self, member_id: int) -> None:
        """Copy the member's files into the run folder."""
        if self._cluster.member(member_id).node.container() is not None:
            self._cluster.member(member_id).collect()

    def discard(self, member_id: int) -> None:
        """Remove the containers and the volume. The next volume gets the run folder's files."""
        import docker

        self._remove_containers(member_id)
        cluster = self._cluster
        with engine_errors(f"removing the volume of member {member_id}"):
            try:
                cluster.client.volumes.get(cluster.engine_run.container_name(f"member-{member_id}")).remove(force=True)
            except docker.errors.NotFound:
                return

    def _remove_containers(self, member_id: int) -> None:
        """Remove the member's containers. This process creates the new ones, so the clean-up has to begin first."""
        self._cluster.engine_run.cleaning.begin()
        member = self._cluster.member(member_id)
        for component in member.node.containers:
            container = member.node.container(component)
            if container is not None:
                with engine_errors(f"removing a container of member {member_id}"):
                    container.remove(force=True)
