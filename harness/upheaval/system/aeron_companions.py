"""Backups of Aeron clusters: Aeron's own ClusterBackup, run by `upheaval.Backup` (`images/aeron`). Starts nothing.

Their folders have the same layout as members' folders. Aeron's standbys are not open source.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from upheaval.aeron_programs import CONFIGURATION_VARIABLE, INSIDE, java_command
from upheaval.errors import UsageError
from upheaval.records import BACKUP, CompanionConfig, CompanionStatus
from upheaval.system.aeron_files import (
    DIRECTORY,
    PROPERTIES_FILE,
    counters_file,
    directory_in_container,
    properties_text,
    shared_directory,
)
from upheaval.system.companion_status import status_in_folder
from upheaval.system.companions import CompanionPlan
from upheaval.system.process_table import RUN_ID_VARIABLE
from upheaval_node.settings import MIB, backup_profile_settings, profile_settings
from upheaval_node.types import MS

_SEGMENT_LENGTH: Final = 16 * MIB


class AeronCompanions:
    """The companions for one version. Implements `upheaval.system.companions.Companions`."""

    configuration_file = PROPERTIES_FILE
    health_command: Sequence[str] = (*INSIDE, BACKUP)

    def __init__(self, version: str) -> None:
        self._version = version

    def check(self, config: CompanionConfig, runtime: str) -> None:  # noqa: ARG002 - the same everywhere
        """Raises `UsageError` for a standby and for credentials."""
        if config.kind != BACKUP:
            raise UsageError(f"system aeron has no {config.kind}: that of Aeron is not open source")
        if config.credentials:
            raise UsageError("system aeron has no credentials")

    def configuration_text(self, plan: CompanionPlan) -> str:
        """A Java properties file."""
        return properties_text(_properties(plan))

    def command(self, config: CompanionConfig, configuration: Path) -> Sequence[str]:  # noqa: ARG002 - of one kind
        """The program that runs ClusterBackup."""
        return java_command(self._version, "upheaval.Backup", str(configuration))

    def environment(self, plan: CompanionPlan) -> Mapping[str, str]:
        """The properties and their owner."""
        driver = {DIRECTORY: str(directory_in_container(plan.spec.run_id, plan.config.name))}
        return {
            CONFIGURATION_VARIABLE: properties_text({**_properties(plan), **driver}),
            RUN_ID_VARIABLE: plan.spec.run_id,
        }

    def arguments(self, plan: CompanionPlan) -> Sequence[str]:
        """The companion's kind."""
        return (plan.config.kind,)

    def status_in_folder(self, name: str, folder: Path, pid: int | None) -> CompanionStatus:
        """Read the status from the counters in the driver's directory."""
        return status_in_folder(name, folder, pid, counters_file(folder))


def _properties(plan: CompanionPlan) -> Mapping[str, str]:
    settings = backup_profile_settings(plan.spec.profile, sync_level=plan.spec.sync_level).backup
    log_term_length = profile_settings(plan.spec.profile).cluster.log_term_length
    consensus, catchup, archive = plan.endpoints
    intervals = {
        "query.interval": settings.query_interval_ns,
        "response.timeout": settings.response_timeout_ns,
        "progress.timeout": settings.progress_timeout_ns,
        "cool.down.interval": settings.cool_down_interval_ns,
        "replication.progress.timeout": settings.replication_progress_timeout_ns,
    }
    return {
        "folder": plan.folder,
        DIRECTORY: str(shared_directory(plan.spec.run_id, plan.config.name)),
        "consensus.endpoints": ",".join(plan.members),
        "consensus.endpoint": consensus,
        "catchup.endpoint": catchup,
        "archive.endpoint": archive,
        "source": plan.config.source,
        "replay.start": plan.config.replay_start,
        "sync.level": str(plan.spec.sync_level),
        "segment.length": str(max(_SEGMENT_LENGTH, log_term_length)),
        "run.id": plan.spec.run_id,
        **{f"{name}.ms": str(ns // MS) for name, ns in intervals.items()},
    }
