"""The versions that the members of a cluster have after an upgrade, and how a cluster records them."""

from dataclasses import dataclass, replace

from upheaval.checkers.evidence.aeron_versions import starts_of, strange_version
from upheaval.errors import EnvironmentFault
from upheaval.records import Manifest, MemberFolder
from upheaval.runtimes import cluster_file
from upheaval.runtimes.live import AnyCluster
from upheaval.system import system_named


@dataclass(frozen=True, slots=True)
class Renewal:
    """New versions of members. A field that is None or empty does not change."""

    app_version: int | None = None
    """See `upheaval.system.parse_app_version`."""
    image: str = ""
    """The image of containers."""
    system: str = ""
    """The system as `--system` takes it."""


def note_system(cluster: AnyCluster, text: str) -> None:
    """Record the members' system from their next start on, in the cluster's file and in the manifest of the run."""
    before = cluster.config.system
    if text == before:
        return
    cluster.config = replace(cluster.config, system=text)
    cluster_file.save(cluster.config, cluster.runtime, cluster.folder)
    digest = system_named(text).digest

    def renewed(manifest: Manifest) -> Manifest:
        systems = (*manifest.systems_before, before)
        return replace(manifest, system=text, system_sha256=digest, systems_before=systems)

    cluster.run.change_manifest(renewed)


def require_version(folder: MemberFolder, system: str) -> None:
    """Raises `EnvironmentFault` if the last process in the member's trace is of another version than the system."""
    strange = strange_version(starts_of(folder)[-1:], [system], folder.member_id)
    if strange is not None:
        raise EnvironmentFault(
            f"member {folder.member_id} runs Aeron {strange.version} and not {strange.expected}: its launcher brings "
            "its own jar: use {aeron}, or build it with that version. The remaining members were not touched"
        )
