"""What an operator does to the hosts of a cluster of processes: another version, an empty disk.

A host is the member's folder here, and the software is what is installed: only its version of the application can be
set. Implements `upheaval.operations.maintenance.Hosts`.
"""

import json

from upheaval.errors import UsageError
from upheaval.records import write_atomically
from upheaval.runtimes.process import ProcessCluster


class ProcessHosts:
    """The hosts of one cluster: the members' folders."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._cluster = cluster

    def require_image(self, image: str) -> None:
        """Raises `UsageError`: processes have no image."""
        raise UsageError(f"--image {image}: these members are processes and run what is installed")

    def renew(self, member_id: int, app_version: int | None) -> None:
        """Write the version into the member's configuration."""
        if app_version is None:
            return
        path = self._cluster.member(member_id).folder / "config.json"
        fields = json.loads(path.read_text(encoding="utf-8"))
        settings = fields.setdefault("settings", {})
        settings.setdefault("cluster", {})["app_version"] = app_version
        write_atomically(path, json.dumps(fields, indent=2) + "\n")

    def fetch(self, member_id: int) -> None:
        """Members write into the run folder themselves."""

    def discard(self, member_id: int) -> None:
        """The folder is all that there is of a host."""
