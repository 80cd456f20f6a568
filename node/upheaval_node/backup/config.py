"""The configuration of a backup, and its form as a JSON object.

Values only: this module reads no files and no environment. Paths are relative to the backup's folder, except the
folder itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from upheaval_node.errors import UsageError
from upheaval_node.member_config import Fields, ProcessConfig, apply_overrides, process_fields
from upheaval_node.protocol.channel import split_endpoint
from upheaval_node.settings import BackupNodeSettings, backup_profile_settings

Choice = TypeVar("Choice", bound=Enum)


class SourceType(Enum):
    """The members that a backup copies from."""

    ANY = "ANY"
    LEADER = "LEADER"
    FOLLOWER = "FOLLOWER"


class ReplayStart(Enum):
    """The first position of a new copy of the log."""

    BEGINNING = "BEGINNING"
    LATEST_SNAPSHOT = "LATEST_SNAPSHOT"


@dataclass(frozen=True, slots=True)
class BackupEndpoints:
    """The endpoints of a backup, each `host:port`: for members' answers, for incoming copies, and of its archive.

    Port 0 of `consensus` and `catchup` means any free port.
    """

    consensus: str
    catchup: str
    archive: str


@dataclass(frozen=True, slots=True)
class BackupConfig(ProcessConfig):
    """One backup of a cluster. `consensus_endpoints` are the members', `host:port`; `cluster_id` must be theirs.

    `credentials_file` holds its principal and secret; empty for none.
    """

    name: str
    consensus_endpoints: tuple[str, ...]
    endpoints: BackupEndpoints
    cluster_id: int = 0
    source: SourceType = SourceType.ANY
    replay_start: ReplayStart = ReplayStart.BEGINNING
    settings: BackupNodeSettings = field(default_factory=BackupNodeSettings)
    credentials_file: str = ""

    def __post_init__(self) -> None:
        if not self.name or not self.name.isascii() or not self.name.isprintable() or "/" in self.name:
            raise UsageError(f"{self.name!r} is not the name of a backup")
        if not self.consensus_endpoints:
            raise UsageError("consensus_endpoints names no member")
        if len(set(self.consensus_endpoints)) != len(self.consensus_endpoints):
            raise UsageError("duplicate member in consensus_endpoints")
        for endpoint in (*self.consensus_endpoints, self.endpoints.archive):
            if split_endpoint(endpoint)[1] == 0:
                raise UsageError(f"{endpoint} needs a port")
        own = (self.endpoints.consensus, self.endpoints.catchup, self.endpoints.archive)
        self._check_process("backup", [str(split_endpoint(address)[1]) for address in own])


def backup_config_from_fields(values: Mapping[str, object]) -> BackupConfig:
    """Read the configuration from a JSON object. Raises `UsageError` naming the bad field."""
    reader = Fields(values)
    config = read_backup_config(reader)
    reader.refuse_unread()
    return config


def read_backup_config(reader: Fields) -> BackupConfig:
    """The fields of a backup among those of an object that may have more of them."""
    settings = backup_profile_settings(reader.text("profile", "aeron"), sync_level=reader.integer("sync_level", 0))
    endpoints = Fields(reader.table("endpoints"))
    own = BackupEndpoints(endpoints.text("consensus"), endpoints.text("catchup"), endpoints.text("archive"))
    endpoints.refuse_unread()
    return BackupConfig(
        name=reader.text("name", "backup-0"),
        consensus_endpoints=tuple(reader.texts("consensus_endpoints", ())),
        endpoints=own,
        cluster_id=reader.integer("cluster_id", 0),
        source=_one_of(SourceType, "source", reader.text("source", SourceType.ANY.value)),
        replay_start=_one_of(ReplayStart, "replay_start", reader.text("replay_start", ReplayStart.BEGINNING.value)),
        settings=apply_overrides(settings, reader.table("settings")),
        credentials_file=reader.text("credentials_file", ""),
        **process_fields(reader),
    )


def _one_of(kind: type[Choice], name: str, value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(choice.value) for choice in kind)
        raise UsageError(f"{name} must be one of {known}, not {value!r}") from None
