"""The recording log as a file in memory: read once, changed there, and written back by the caller.

So the tool can use the node's own code for recording logs, without touching a file before it knows that it can be read.
Implements the parts of `ports.Storage` and `ports.File` for one file.
"""

from collections.abc import Callable, Sequence

from upheaval_node.errors import StorageError
from upheaval_node.ports import Buffer


class MemoryFile:
    """`writes` are all writes so far, in order: offset and bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = bytearray(content)
        self.writes: list[tuple[int, bytes]] = []

    @property
    def content(self) -> bytes:
        """The present content."""
        return bytes(self._content)

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end."""
        return bytes(self._content[offset : offset + length])

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Change the content, and add to `writes`."""
        data = b"".join(parts)
        self._content[offset : offset + len(data)] = data
        self.writes.append((offset, data))

    def size(self) -> int:
        """Length of the content."""
        return len(self._content)

    def truncate(self, length: int) -> None:
        """Only cuts: the recording log never extends a file this way."""
        del self._content[length:]

    def sync(self, level: int) -> None:
        """Nothing to do in memory."""

    def sync_later(self, level: int, done: Callable[[Exception | None], None]) -> None:  # noqa: ARG002
        """Done at once."""
        done(None)

    def close(self) -> None:
        """Nothing to do: the content stays for the caller to write back."""


class OneFile:
    """A storage that holds only this file."""

    def __init__(self, file: MemoryFile) -> None:
        self._file = file

    def open(self, path: str, *, create: bool = False) -> MemoryFile:  # noqa: ARG002
        """The one file, whatever the path."""
        return self._file

    def exists(self, path: str) -> bool:  # noqa: ARG002
        """Always."""
        return True

    def names(self, directory: str) -> list[str]:
        """Raises `StorageError`: there is no folder."""
        raise StorageError(f"{directory} has no names here")

    def remove(self, path: str) -> None:
        """Raises `StorageError`: the file stays."""
        raise StorageError(f"{path} cannot be removed here")

    def rename(self, path: str, new_path: str) -> None:  # noqa: ARG002
        """Raises `StorageError`: the file stays."""
        raise StorageError(f"{path} cannot be renamed here")

    def sync_directory(self, directory: str) -> None:
        """Nothing to do in memory."""
