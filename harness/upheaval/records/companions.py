"""The nodes beside the members of a cluster, as values: backups and standbys, what they say, what is kept of them.

They are no members: they have no vote and no part in a quorum. Each has a folder of its own in the run folder, named
after it (`backup-0`), and one entry in `companions.json`, by which any later command finds it. This module knows files;
it starts nothing.
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
"""The one that commands, scenarios and tests mean when they say no name."""
KINDS: Final = (BACKUP, STANDBY)
SOURCES: Final = ("ANY", "LEADER", "FOLLOWER")
"""Which members a companion may copy from."""
REPLAY_STARTS: Final = ("BEGINNING", "LATEST_SNAPSHOT")
"""Where its copy of the log begins."""
BACKING_UP: Final = "BACKING_UP"
"""The state of a backup that has what there was, and follows the log."""

_NAME: Final = re.compile(rf"({'|'.join(KINDS)})-(0|[1-9][0-9]?)")


@dataclass(frozen=True, slots=True)
class CompanionConfig:
    """One node beside the members. `base_port` is the first of its ports on this machine, 0 where it needs none.

    `credentials` is the file with its principal and secret, empty for none. `position` is up to where it said that it
    has the log when it was last looked at, -1 when it never was.
    """

    name: str
    source: str = "ANY"
    replay_start: str = "BEGINNING"
    base_port: Annotated[int, Within(0, 65535)] = 0
    position: int = -1
    credentials: FilePath = ""

    @property
    def kind(self) -> str:
        """`backup` or `standby`, which the name begins with."""
        return self.name.partition("-")[0]


@dataclass(frozen=True, slots=True)
class CompanionStatus:
    """What one of them publishes about itself. Everything but `name` and `alive` is None or -1 when it is down.

    `state` is that of its backup agent, `live_log_position` up to where it has the log, `next_query_deadline_ms` when
    it asks the cluster again (wall clock), `snapshots_retrieved` and `errors` count since its start. Of a standby
    `applied_position` is up to where its services have applied the log, -1 of a backup.
    `snapshot_position` is that of the latest snapshot in its recording log, also when it is down.
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
        """Whether it has what there was when it began, and gets what comes."""
        return self.alive and self.state == BACKING_UP

    def has_reached(self, position: int) -> bool:
        """Whether it follows, and has the log up to a position; of a standby, its services as well."""
        has_applied = not self.name.startswith(STANDBY) or self.applied_position >= position
        return self.follows and self.live_log_position >= position and has_applied


def companion_name(text: str) -> str:
    """Raises `UsageError` for what is no name of a companion."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r} is not a node name: use {BACKUP}-N or {STANDBY}-N")
    return text


def check_companion(config: CompanionConfig) -> None:
    """Raises `UsageError` for what could never start."""
    companion_name(config.name)
    if config.source not in SOURCES:
        hint = did_you_mean(config.source, SOURCES)
        raise UsageError(f"source {config.source!r}: use one of {', '.join(SOURCES)}{hint}")
    if config.replay_start not in REPLAY_STARTS:
        hint = did_you_mean(config.replay_start, REPLAY_STARTS)
        raise UsageError(f"replay start {config.replay_start!r}: use one of {', '.join(REPLAY_STARTS)}{hint}")


def load_companions(folder: Path) -> list[CompanionConfig]:
    """Those of a run folder in order of their names; none when it never had any. Raises `UsageError`."""
    path = folder / COMPANIONS_FILE
    if not path.is_file():
        return []
    found = jsonfields.read_file(_Companions, path).companions
    for config in found:
        try:
            check_companion(config)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    return sorted(found, key=lambda config: config.name)


@dataclass(frozen=True, slots=True)
class _Companions:
    """What the file holds."""

    companions: tuple[CompanionConfig, ...]


def note_companion(folder: Path, config: CompanionConfig) -> None:
    """Keep an entry, in place of the one of the same name. Commands that run side by side lose none of each other's."""
    with locked(folder):
        _keep(folder, config)


def note_position(folder: Path, config: CompanionConfig) -> None:
    """Raise the position of an entry to that of `config`, which is kept if there is none of its name."""
    with locked(folder):
        known = next((each for each in load_companions(folder) if each.name == config.name), config)
        _keep(folder, replace(known, position=max(config.position, known.position)))


def _keep(folder: Path, config: CompanionConfig) -> None:
    known = load_companions(folder)
    if config in known:
        return
    others = [each for each in known if each.name != config.name]
    entries = [asdict(each) for each in sorted([*others, config], key=lambda each: each.name)]
    RunFolder(folder).unseal()
    write_atomically(folder / COMPANIONS_FILE, jsonfields.to_json({"companions": entries}) + "\n")


def companion_folders(run: Path) -> list[Path]:
    """The folders of the companions that a run folder holds, in order of their names."""
    found = (entry for entry in run.iterdir() if entry.is_dir() and _NAME.fullmatch(entry.name))
    return sorted(found, key=lambda entry: entry.name)
