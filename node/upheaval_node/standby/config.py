"""The configuration of a standby: a backup's fields, its services, and the fields of a consensus module.

Values only: this module reads no files and no environment. Paths are relative to the standby's folder, except the
folder itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upheaval_node.backup.config import BackupConfig, read_backup_config
from upheaval_node.errors import UsageError
from upheaval_node.member_config import Fields, apply_overrides
from upheaval_node.settings import ClusterSettings, MemberSettings, profile_settings


@dataclass(frozen=True, slots=True)
class StandbyConfig:
    """One standby of a cluster. `backup` configures how it follows the log.

    `services` are names for the service loader, those of the members, in order of their service ids. `cluster` must
    equal the members' in everything that the log depends on: versions and the time unit.
    """

    backup: BackupConfig
    services: tuple[str, ...]
    cluster: ClusterSettings
    python_path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.services or len(self.services) != self.cluster.service_count:
            raise UsageError(f"{len(self.services)} services named, {self.cluster.service_count} set")
        if self.cluster.cluster_id != self.backup.cluster_id:
            raise UsageError(f"cluster id {self.backup.cluster_id}, but {self.cluster.cluster_id} in the settings")

    @property
    def member_settings(self) -> MemberSettings:
        """The cluster settings in the form that a consensus module takes."""
        node = self.backup.settings
        return MemberSettings(profile=node.profile, media=node.media, archive=node.archive, cluster=self.cluster)


def standby_config_from_fields(values: Mapping[str, object]) -> StandbyConfig:
    """Read the configuration from a JSON object. Raises `UsageError` naming the bad field.

    `settings` are those of a backup, and `cluster` beside them, as for members.
    """
    own = Fields(values)
    settings = own.table("settings")
    of_backup = {name: value for name, value in settings.items() if name != "cluster"}
    reader = Fields({"name": "standby-0", **values, "settings": of_backup})
    backup = read_backup_config(reader)
    services = tuple(reader.texts("service", ("echo",)))
    chosen = profile_settings(reader.text("profile", "aeron"), sync_level=reader.integer("sync_level", 0))
    cluster = replace(chosen.cluster, cluster_id=backup.cluster_id, service_count=len(services))
    if "cluster" in settings:
        cluster = apply_overrides(cluster, Fields(settings).table("cluster"), "settings.cluster")
    config = StandbyConfig(backup, services, cluster, tuple(reader.texts("python_path", ())))
    reader.refuse_unread()
    return config
