"""Where a restored run comes from: what its members were given, so that it can be judged without the backup.

This module knows one file of the run folder, `origin.json`; it starts and copies nothing.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import FilePath
from upheaval.records.run_folder import write_atomically

ORIGIN_FILE: Final = "origin.json"


@dataclass(frozen=True, slots=True)
class Origin:
    """The backup that the members of a run began with.

    `folder` is where it was, `run_id` of which run it was (empty when that is unknown). Its log reached from
    `start_position` to `position`; `log_digest` is the SHA-256 of it, session ids and the bodies of padding left out.
    `snapshots` are the log positions of its snapshots. `operations` is how many of those that were acknowledged up to
    `position` the history of the restored run begins with.
    """

    folder: FilePath
    run_id: str
    start_position: int
    position: int
    log_digest: str
    snapshots: tuple[int, ...]
    operations: int

    @property
    def name(self) -> str:
        """How the backup is called in messages: the last part of its folder."""
        return Path(self.folder).name


def write_origin(run: Path, origin: Origin) -> None:
    """Write `origin.json` in one step. Raises `EnvironmentFault` when that is not possible."""
    write_atomically(run / ORIGIN_FILE, jsonfields.to_json(asdict(origin)) + "\n")


def read_origin(run: Path) -> Origin | None:
    """None for a run that began with nothing. Raises `UsageError` for a malformed file."""
    path = run / ORIGIN_FILE
    if not path.is_file():
        return None
    return jsonfields.read_file(Origin, path)
