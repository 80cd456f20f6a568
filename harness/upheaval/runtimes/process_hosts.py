"""An operator's work on the hosts of a cluster of processes: another version, or an empty disk.

A host is the member's folder. Its software is the installed version, or a cached version of a system with several.
Implements `upheaval.operations.maintenance.Hosts`.
"""

import json
from dataclasses import replace

from upheaval.errors import UsageError
from upheaval.records import write_atomically
from upheaval.runtimes import cluster_file
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.renewal import Renewal, note_system, require_version
from upheaval.system import system_named


class ProcessHosts:
    """The hosts of one cluster: the members' folders."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._cluster = cluster

    def prepare(self, renewal: Renewal) -> Renewal:
        """Returns the renewal with the system's canonical text. Raises `UsageError` for an image, which processes do
        not have.
        """
        if renewal.image:
            raise UsageError(f"--image {renewal.image}: these members are processes and run what is installed")
        system = self._cluster.system
        if renewal.app_version is not None:
            system.require_app_version()
        return replace(renewal, system=system.upgraded_to(renewal.system)) if renewal.system else renewal

    def renew(self, member_id: int, renewal: Renewal) -> None:
        """Write the versions to the configuration of the member and the file of the cluster."""
        if renewal.system:
            self._renew_system(member_id, renewal.system)
        if renewal.app_version is None:
            return
        cluster = self._cluster
        cluster.config = replace(cluster.config, app_version=renewal.app_version)
        cluster_file.save(cluster.config, cluster.runtime, cluster.folder)
        # In place: the member keeps the addresses of its proxies.
        path = cluster.member(member_id).folder / "config.json"
        fields = json.loads(path.read_text(encoding="utf-8"))
        settings = fields.setdefault("settings", {})
        settings.setdefault("cluster", {})["app_version"] = renewal.app_version
        write_atomically(path, json.dumps(fields, indent=2) + "\n")

    def _renew_system(self, member_id: int, system: str) -> None:
        cluster = self._cluster
        note_system(cluster, cluster.system.with_member(member_id, system, cluster.config.members))
        cluster.system = system_named(cluster.config.system)

    def require_renewed(self, member_id: int) -> None:
        """By its trace in the run folder."""
        require_version(self._cluster.run.member(member_id), self._cluster.config.system)

    def fetch(self, member_id: int) -> None:
        """Does nothing: members write into the run folder themselves."""

    def discard(self, member_id: int) -> None:
        """Does nothing: a host has nothing but its folder."""
