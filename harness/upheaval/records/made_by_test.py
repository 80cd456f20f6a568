"""The pytest test that made a run: the command that makes it again, and where to start that command."""

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import FilePath
from upheaval.records.run_folder import write_atomically

TEST_FILE: Final = "test.json"


@dataclass(frozen=True, slots=True)
class MadeByTest:
    """`command` runs the same test with the same seed; `folder` is where pytest was started."""

    folder: FilePath
    command: tuple[FilePath, ...]

    def __str__(self) -> str:
        """The command line for a shell."""
        return f"cd {shlex.quote(self.folder)} && {shlex.join(self.command)}"


def write_made_by_test(run: Path, made: MadeByTest) -> None:
    """Write `test.json` in one step. Raises `EnvironmentFault` when that is not possible."""
    write_atomically(run / TEST_FILE, jsonfields.to_json(asdict(made)) + "\n")


def read_made_by_test(run: Path) -> MadeByTest | None:
    """The test that made the run; None if no test made it. Raises `UsageError` for a malformed file."""
    path = run / TEST_FILE
    return jsonfields.read_file(MadeByTest, path) if path.is_file() else None
