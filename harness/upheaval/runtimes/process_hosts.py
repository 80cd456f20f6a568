"""What an operator does to the hosts of a cluster of processes: another version, an empty disk.

A host is the member's folder here, and the software is what is installed, or what a system of several versions has in
its cache. Implements `upheaval.operations.maintenance.Hosts`.
"""

import json
from dataclasses import replace

from upheaval.errors import UsageError
from upheaval.records import write_atomically
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.renewal import Renewal, note_system
from upheaval.system import system_named


class ProcessHosts:
    """The hosts of one cluster: the members' folders."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._cluster = cluster

    def prepare(self, renewal: Renewal) -> Renewal:
        """With the canonical text of the system. Raises `UsageError` for an image: processes have none."""
        if renewal.image:
            raise UsageError(f"--image {renewal.image}: these members are processes and run what is installed")
        system = self._cluster.system
        if renewal.app_version is not None:
            system.require_app_version()
        return replace(renewal, system=system.upgraded_to(renewal.system)) if renewal.system else renewal

    def renew(self, member_id: int, renewal: Renewal) -> None:
        """Write the versions into the member's configuration and the cluster's."""
        if renewal.system:
            self._renew_system(member_id, renewal.system)
        if renewal.app_version is None:
            return
        path = self._cluster.member(member_id).folder / "config.json"
        fields = json.loads(path.read_text(encoding="utf-8"))
        settings = fields.setdefault("settings", {})
        settings.setdefault("cluster", {})["app_version"] = renewal.app_version
        write_atomically(path, json.dumps(fields, indent=2) + "\n")

    def _renew_system(self, member_id: int, system: str) -> None:
        cluster = self._cluster
        note_system(cluster, cluster.system.with_member(member_id, system, cluster.config.members))
        cluster.system = system_named(cluster.config.system)

    def fetch(self, member_id: int) -> None:
        """Members write into the run folder themselves."""

    def discard(self, member_id: int) -> None:
        """The folder is all that there is of a host."""
