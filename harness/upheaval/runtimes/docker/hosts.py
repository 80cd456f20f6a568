"""An operator's work on the hosts of a cluster of containers: another image, or a new container with an empty volume.

The engine chooses the address of a new container; other members find it by name. Implements
`upheaval.operations.maintenance.Hosts`.
"""

from dataclasses import replace

from upheaval.errors import UsageError
from upheaval.records import RunFolder, owned_folder
from upheaval.runtimes import cluster_file
from upheaval.runtimes.docker import collect, containers
from upheaval.runtimes.docker.cluster import DockerCluster, require_image_of
from upheaval.runtimes.docker.engine import engine_errors
from upheaval.runtimes.renewal import Renewal, note_system, require_version
from upheaval.system import in_containers


class DockerHosts:
    """The hosts of one cluster: containers, and the volumes that outlive them."""

    def __init__(self, cluster: DockerCluster) -> None:
        self._cluster = cluster

    def prepare(self, renewal: Renewal) -> Renewal:
        """Returns the renewal with its image and the system's canonical text. Raises `HarnessError` when the image is
        missing or holds members of another system.
        """
        if renewal.app_version is not None:
            raise UsageError("--app-version is for members in processes: containers get theirs from --image")
        system = self._cluster.system
        if renewal.system:
            system = in_containers(system.upgraded_to(renewal.system))
        image = renewal.image or (system.image if renewal.system else "")
        if image:
            require_image_of(system, self._cluster.client, image)
        return replace(renewal, image=image, system=system.text if renewal.system else "")

    def renew(self, member_id: int, renewal: Renewal) -> None:
        """Use the image for every container created from now on, also by later commands: all have one image. Remove
        those of the member; the next start creates new ones on the existing volume.
        """
        cluster = self._cluster
        if renewal.image:
            cluster.config = replace(cluster.config, image=renewal.image)
            cluster_file.save(cluster.config, cluster.runtime, cluster.folder)
        if renewal.system:
            note_system(cluster, renewal.system)
            cluster.system = in_containers(renewal.system)
        self._remove_containers(member_id)

    def require_renewed(self, member_id: int) -> None:
        """By the trace in its container."""
        container = self._cluster.member(member_id).node.container()
        with owned_folder("collected") as place:
            copy = RunFolder(place).member(member_id)
            copy.path.mkdir()
            path = str(self._cluster.system.folder / copy.trace.name)
            copy.trace.write_bytes(b"" if container is None else collect.read_file(container, path))
            require_version(copy, self._cluster.config.system)

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
        first = member.node.container()
        if first is not None:
            member.note_trace(first)
        for component in member.node.containers:
            container = member.node.container(component)
            if container is not None:
                with engine_errors(f"removing a container of member {member_id}"):
                    containers.remove(container)
