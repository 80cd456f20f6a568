"""What the members of a cluster are to be after an upgrade, and how a cluster notes what they are."""

from dataclasses import dataclass, replace

from upheaval.runtimes import cluster_file
from upheaval.runtimes.live import AnyCluster
from upheaval.system import system_named


@dataclass(frozen=True, slots=True)
class Renewal:
    """What is None or empty stays as it is."""

    app_version: int | None = None
    """See `upheaval.operations.maintenance.parse_app_version`."""
    image: str = ""
    """Of containers."""
    system: str = ""
    """As `--system` takes it."""


def note_system(cluster: AnyCluster, text: str) -> None:
    """Members are of this system from their next start on: in the cluster's file, and in the manifest of the run."""
    before = cluster.config.system
    if text == before:
        return
    cluster.config = replace(cluster.config, system=text)
    cluster_file.save(cluster.config, cluster.runtime, cluster.folder)
    manifest = cluster.run.read_manifest()
    digest = system_named(text).digest
    systems = (*manifest.systems_before, before)
    cluster.run.write_manifest(replace(manifest, system=text, system_sha256=digest, systems_before=systems))
