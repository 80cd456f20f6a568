"""The recording log as a file in memory: read once, changed there, and written back by whoever wants to.

The node's own code for recording logs then works for the tool, which must not touch a file before it knows that it can
be read. Implements the parts of `ports.Storage` and `ports.File` for one file.
"""

from collections.abc import Callable, Sequence

from upheaval_node.errors import StorageError
from upheaval_node.ports import Buffer


class MemoryFile:
    """`writes` are all that was written since it was made, in order: place and bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = bytearray(content)
        self.writes: list[tuple[int, bytes]] = []

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content[offset : offset + length])

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        self._content[offset : offset + len(data)] = data
        self.writes.append((offset, data))

    def size(self) -> int:
        return len(self._content)

    def truncate(self, length: int) -> None:
        del self._content[length:]

    def sync(self, level: int) -> None: ...

    def sync_later(self, level: int, done: Callable[[Exception | None], None]) -> None:  # noqa: ARG002
        done(None)

    def close(self) -> None: ...


class OneFile:
    """A storage that holds nothing else."""

    def __init__(self, file: MemoryFile) -> None:
        self._file = file

    def open(self, path: str, *, create: bool = False) -> MemoryFile:  # noqa: ARG002
        return self._file

    def exists(self, path: str) -> bool:  # noqa: ARG002
        return True

    def names(self, directory: str) -> list[str]:
        raise StorageError(f"{directory} has no names here")

    def remove(self, path: str) -> None:
        raise StorageError(f"{path} cannot be removed here")

    def rename(self, path: str, new_path: str) -> None:  # noqa: ARG002
        raise StorageError(f"{path} cannot be renamed here")

    def sync_directory(self, directory: str) -> None: ...
