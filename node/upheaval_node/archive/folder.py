"""Read access to an archive's folder for tools: a `Storage` with its directory, or a path on this machine.

Only this module of the package touches real files, and it only reads them. The archive itself never uses it; `reader`
does, for the harness, the pipeline and people.
"""

from pathlib import Path
from typing import Protocol

from upheaval_node.errors import StorageError
from upheaval_node.ports import Storage


class Folder(Protocol):
    """Raises `StorageError` when something cannot be read."""

    def names(self) -> list[str]:
        """The files of the folder, sorted."""

    def size(self, name: str) -> int:
        """Bytes of a file."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""


class StorageFolder:
    """The archive folder of a member's storage."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    def names(self) -> list[str]:
        """Empty where the folder is missing."""
        return self._storage.names(self._directory)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        file = self._storage.open(f"{self._directory}/{name}")
        try:
            return file.size()
        finally:
            file.close()

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        file = self._storage.open(f"{self._directory}/{name}")
        try:
            return file.read(offset, length)
        finally:
            file.close()


class PathFolder:
    """An archive folder on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """Raises `StorageError` where the folder is missing."""
        try:
            return sorted(entry.name for entry in self._path.iterdir())
        except OSError as error:
            raise StorageError(f"{self._path}: {error}") from error

    def size(self, name: str) -> int:
        """Bytes of a file."""
        try:
            return (self._path / name).stat().st_size
        except OSError as error:
            raise StorageError(f"{self._path / name}: {error}") from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        try:
            with (self._path / name).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise StorageError(f"{self._path / name}: {error}") from error


def folder_of(source: Storage | Path | str, directory: str) -> Folder:
    """The folder of a storage's `directory`, or of a path to an archive's folder."""
    if isinstance(source, str | Path):
        return PathFolder(Path(source))
    return StorageFolder(source, directory)
