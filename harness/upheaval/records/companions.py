"""The nodes beside the members of a cluster, backups and standbys: their configuration, status and records.

Companions are not members: they have no vote and no part in a quorum. Each has its own folder in the run folder, with
its name (`backup-0`), and an entry in `companions.json`, where later commands find it. This module knows files; it
starts nothing.
"""

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from upheaval.errors import UsageError
from upheaval.records import jsonfields
from upheaval.records.folder_lock import locked
from upheaval.records.jsonfields import FilePath, Within
from upheaval.records.run_folder import RunFolder, write_atomically
from upheaval_node.suggestions import did_you_mean

COMPANIONS_FILE: Final = "companions.json"
BACKUP: Final = "backup"
STANDBY: Final = "standby"
BACKUP_NAME: Final = f"{BACKUP}-0"
"""The default for commands, scenarios and tests that give no name."""
KINDS: Final = (BACKUP, STANDBY)
SOURCES: Final = ("ANY", "LEADER", "FOLLOWER")
"""The members that a companion may copy from."""
REPLAY_STARTS: Final = ("BEGINNING", "LATEST_SNAPSHOT")
"""Where a companion's copy of the log may begin."""
BACKING_UP: Final = "BACKING_UP"
"""The state of a backup that has caught up and follows the log."""

_NAME: Final = re.compile(rf"({'|'.join(KINDS)})-(0|[1-9][0-9]?)")


@dataclass(frozen=True, slots=True)
class CompanionConfig:
    """One node beside the members. `base_port` is the first of its ports on this machine, 0 if it needs none.

    `credentials` is the file with its principal and secret; empty for none. `position` is the log position that it
    reported when it was last observed; -1 if it never was.
    """

    name: str
    source: str = "ANY"
    replay_start: str = "BEGINNING"
    base_port: Annotated[int, Within(0, 65535)] = 0
    position: int = -1
    credentials: FilePath = ""

    @property
    def kind(self) -> str:
        """`backup` or `standby`, the first part of the name."""
        return self.name.partition("-")[0]


@dataclass(frozen=True, slots=True)
class CompanionStatus:
    """What a companion publishes about itself. While it is down, most fields are None or -1.

    `name`, `alive` and `snapshot_position` are always known. `state` is the state of its backup agent,
    `live_log_position` how far it has the log, and `next_query_deadline_ms` when it queries the cluster again (wall
    clock). `snapshots_retrieved` and `errors` count since its start. `applied_position` is how far a standby's services
    have applied the log; -1 for a backup. `snapshot_position` is the position of the latest snapshot in its recording
    log.
    """

    name: str
    alive: bool
    state: str | None = None
    live_log_position: int = -1
    applied_position: int = -1
    next_query_deadline_ms: int = -1
    snapshots_retrieved: int = -1
    errors: int = -1
    snapshot_position: int = -1
    pid: int = -1

    @property
    def follows(self) -> bool:
        """Whether it is alive, has caught up and follows the log."""
        return self.alive and self.state == BACKING_UP

    def has_reached(self, position: int) -> bool:
        """Whether it follows and has the log up to `position`; a standby must also have applied it."""
        has_applied = not self.name.startswith(STANDBY) or self.applied_position >= position
        return self.follows and self.live_log_position >= position and has_applied


def companion_name(text: str) -> str:
    """The text itself if it is the name of a companion. Raises `UsageError` otherwise."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r} is not a node name: use {BACKUP}-N or {STANDBY}-N")
    return text


def check_companion(config: CompanionConfig) -> None:
    """Raises `UsageError` for a configuration that could never start."""
    companion_name(config.name)
    if config.source not in SOURCES:
        hint = did_you_mean(config.source, SOURCES)
        raise UsageError(f"source {config.source!r}: use one of {', '.join(SOURCES)}{hint}")
    if config.replay_start not in REPLAY_STARTS:
        hint = did_you_mean(config.replay_start, REPLAY_STARTS)
        raise UsageError(f"replay start {config.replay_start!r}: use one of {', '.join(REPLAY_STARTS)}{hint}")


def load_companions(folder: Path) -> list[CompanionConfig]:
    """The companions of a run folder, sorted by name; empty if it never had any. Raises `UsageError`."""
    path = folder / COMPANIONS_FILE
    if not path.is_file():
        return []
    configs = jsonfields.read_file(_Companions, path).companions
    for config in configs:
        try:
            check_companion(config)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    return sorted(configs, key=lambda config: config.name)


@dataclass(frozen=True, slots=True)
class _Companions:
    """The contents of `companions.json`."""

    companions: tuple[CompanionConfig, ...]


def note_companion(folder: Path, config: CompanionConfig) -> None:
    """Write an entry; it replaces the one with the same name. Concurrent commands do not lose each other's entries."""
    with locked(folder):
        _keep(folder, config)


def note_position(folder: Path, config: CompanionConfig) -> None:
    """Raise an entry's position to that of `config`; write `config` itself if no entry has its name."""
    with locked(folder):
        known = next((entry for entry in load_companions(folder) if entry.name == config.name), config)
        _keep(folder, replace(known, position=max(config.position, known.position)))


def _keep(folder: Path, config: CompanionConfig) -> None:
    known = load_companions(folder)
    if config in known:
        return
    others = [entry for entry in known if entry.name != config.name]
    entries = [asdict(entry) for entry in sorted([*others, config], key=lambda entry: entry.name)]
    RunFolder(folder).remove_seal()
    write_atomically(folder / COMPANIONS_FILE, jsonfields.to_json({"companions": entries}) + "\n")


def companion_folders(run: Path) -> list[Path]:
    """The folders of the companions in a run folder, sorted by name."""
    folders = (entry for entry in run.iterdir() if entry.is_dir() and _NAME.fullmatch(entry.name))
    return sorted(folders, key=lambda entry: entry.name)
