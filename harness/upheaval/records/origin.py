"""The origin of a restored run: what its members began with, so that the run can be judged without the backup.

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

    `folder` is where the backup was, `run_id` the run that it came from (empty if unknown). Its log reached from
    `start_position` to `position`; `log_digest` is the SHA-256 of that log without session ids and the bodies of
    padding. `snapshots` are the log positions of its snapshots. `operations` is the number of operations, acknowledged
    up to `position`, with which the history of the restored run begins.
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
        """The backup's name in messages: the last part of its folder."""
        return Path(self.folder).name


def write_origin(run: Path, origin: Origin) -> None:
    """Write `origin.json` in one step. Raises `EnvironmentFault` when that is not possible."""
    write_atomically(run / ORIGIN_FILE, jsonfields.to_json(asdict(origin)) + "\n")


def read_origin(run: Path) -> Origin | None:
    """The origin of a run; None if it was not restored. Raises `UsageError` for a malformed file."""
    path = run / ORIGIN_FILE
    if not path.is_file():
        return None
    return jsonfields.read_file(Origin, path)
