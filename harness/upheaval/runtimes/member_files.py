"""The files of one member in a folder of this machine. Implements `upheaval_chaos.target.Files`."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval_node.files import layout

FOLDERS: Final = (layout.ARCHIVE_DIRECTORY, layout.CLUSTER_DIRECTORY)
"""The folders with a member's recordings, catalog, recording log, votes and marks."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files below the folder of a member that does not run."""

    folder: Path

    def overwrite(self, name: str, offset: int, content: bytes) -> None:
        """Replace bytes of a file, whose length stays."""
        with (self.folder / name).open("r+b") as stream:
            stream.seek(offset)
            stream.write(content)

    def rewrite(self, name: str, content: bytes) -> None:
        """Replace the content of a file."""
        (self.folder / name).write_bytes(content)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files."""
        for name in names:
            (self.folder / name).unlink()

    def remove_all(self) -> None:
        """Remove every file; a volume that is mounted there stays."""
        for path in (path for name in FOLDERS for path in (self.folder / name).glob("*")):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def names(self) -> Sequence[str]:
        """The paths of all files in the member's folder."""
        files = (path for name in FOLDERS for path in (self.folder / name).rglob("*") if path.is_file())
        return sorted(path.relative_to(self.folder).as_posix() for path in files)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return (self.folder / name).read_bytes()
