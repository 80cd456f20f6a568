"""Storage in memory that knows what a power cut leaves.

Every file has its contents, which reads see, and the operations since its last sync. `power_cut` forgets those, and
names made or removed since the folder's last sync; with a `Random` it keeps an arbitrary part of them, as a disk may.
"""

from collections.abc import Callable, Sequence
from random import Random

from upheaval_node.errors import StorageError
from upheaval_node.ports import Buffer

SECTOR = 512

# A write at an offset, or (None) a cut or extension to a length.
_Operation = tuple[int, bytes | None]


class _Content:
    """The bytes of one file, before and after the operations that no sync has covered yet."""

    def __init__(self) -> None:
        self.now = bytearray()
        self.durable = bytearray()
        self.operations: list[_Operation] = []
        self.done = 0

    def apply(self, operation: _Operation) -> None:
        _apply(self.now, operation)
        self.operations.append(operation)

    @property
    def sequence(self) -> int:
        """How many operations there were, durable ones included."""
        return self.done + len(self.operations)

    def make_durable(self, sequence: int | None = None) -> None:
        """Carry the operations up to `sequence`, or all, over to what survives."""
        count = len(self.operations) if sequence is None else max(0, sequence - self.done)
        for operation in self.operations[:count]:
            _apply(self.durable, operation)
        del self.operations[:count]
        self.done += count

    def power_cut(self, random: Random | None) -> None:
        for operation in self.operations:
            if random is not None and random.random() < 0.5:
                _apply(self.durable, _torn(operation, random))
        self.done += len(self.operations)
        self.operations.clear()
        self.now = bytearray(self.durable)


def _apply(target: bytearray, operation: _Operation) -> None:
    offset, content = operation
    if content is None:
        del target[offset:]
        target.extend(bytes(offset - len(target)))
    else:
        target.extend(bytes(max(0, offset - len(target))))
        target[offset : offset + len(content)] = content


def _torn(operation: _Operation, random: Random) -> _Operation:
    """The operation, or the first sectors of what it would have written."""
    offset, content = operation
    if content is None or random.random() < 0.5:
        return operation
    kept = random.randrange(0, len(content) // SECTOR + 1) * SECTOR
    return offset, content[:kept]


class MemoryFile:
    """One open handle; `ports.File`."""

    def __init__(self, storage: "MemoryStorage", path: str, content: _Content) -> None:
        self._storage = storage
        self._path = path
        self._content = content
        self._is_open = True
        storage.count_open += 1

    def read(self, offset: int, length: int) -> bytes:
        self._check()
        self._storage.longest_read = max(self._storage.longest_read, length)
        return bytes(self._content.now[offset : offset + length])

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        self._check()
        content = b"".join(parts)
        if offset < 0:
            raise StorageError(f"{self._path}: write at {offset}")
        self._storage.changing()
        self._storage.count_writes += 1
        self._content.apply((offset, content))

    def size(self) -> int:
        self._check()
        return len(self._content.now)

    def truncate(self, length: int) -> None:
        self._check()
        if length < 0:
            raise StorageError(f"{self._path}: length {length}")
        self._storage.changing()
        self._content.apply((length, None))

    def sync(self, level: int) -> None:
        self._check()
        if level > 0:
            self._storage.count_syncs += 1
            self._content.make_durable()

    def sync_later(self, level: int, done: Callable[[Exception | None], None]) -> None:
        """What was written until now becomes durable when `MemoryStorage.run_syncs` is called."""
        self._check()
        self._storage.queue_sync(self._content, level, done)

    def close(self) -> None:
        self._storage.count_open -= self._is_open
        self._is_open = False

    def _check(self) -> None:
        if not self._is_open:
            raise StorageError(f"{self._path} is closed")
        if self._storage.error is not None:
            raise StorageError(f"{self._path}: {self._storage.error}")


class MemoryStorage:
    """The files of one member; `ports.Storage`. Set `error` to make every operation fail with that text."""

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._durable_names: dict[str, _Content] = {}
        self._pending: list[Callable[[], None]] = []
        self.error: str | None = None
        self.sync_error: str | None = None  # of `sync_later` alone
        # Called before every write and truncation; what it raises leaves the file as it is.
        self.before_change: Callable[[], None] | None = None
        self.count_open = 0
        self.longest_read = 0
        self.count_writes = 0
        self.count_syncs = 0

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self._check(path)
        content = self._files.get(path)
        if content is None:
            if not create:
                raise StorageError(f"{path} does not exist")
            content = self._files[path] = _Content()
        return MemoryFile(self, path, content)

    def exists(self, path: str) -> bool:
        self._check(path)
        return path in self._files

    def names(self, directory: str) -> list[str]:
        self._check(directory)
        prefix = f"{directory}/" if directory else ""
        return sorted({path[len(prefix) :].partition("/")[0] for path in self._files if path.startswith(prefix)})

    def remove(self, path: str) -> None:
        self._check(path)
        if self._files.pop(path, None) is None:
            raise StorageError(f"{path} does not exist")

    def rename(self, path: str, new_path: str) -> None:
        self._check(path)
        content = self._files.pop(path, None)
        if content is None:
            raise StorageError(f"{path} does not exist")
        self._files[new_path] = content

    def sync_directory(self, directory: str) -> None:
        self._check(directory)
        for path in [*self._durable_names, *self._files]:
            if path.rpartition("/")[0] == directory:
                if path in self._files:
                    self._durable_names[path] = self._files[path]
                else:
                    self._durable_names.pop(path, None)

    # --- what only a test can do

    def run_syncs(self) -> int:
        """Complete the `sync_later` calls made so far and report them; returns how many there were."""
        pending, self._pending = self._pending, []
        for complete in pending:
            complete()
        return len(pending)

    def changing(self) -> None:
        if self.before_change is not None:
            self.before_change()

    def queue_sync(self, content: _Content, level: int, done: Callable[[Exception | None], None]) -> None:
        covered = content.sequence

        def complete() -> None:
            error = self.error or self.sync_error
            if error is not None:
                done(StorageError(error))
                return
            if level > 0:
                self.count_syncs += 1
                content.make_durable(covered)
            done(None)

        self._pending.append(complete)

    def power_cut(self, random: Random | None = None) -> None:
        """Lose what was not synced, or with `random` an arbitrary part of it. Open handles must not be used again."""
        self._files = dict(self._durable_names)
        self._pending.clear()
        for content in self._files.values():
            content.power_cut(random)

    def content(self, path: str) -> bytes:
        """All bytes of a file, as a reader sees them."""
        return bytes(self._files[path].now)

    def put(self, path: str, content: bytes) -> None:
        """Make a file with these bytes, durable at once."""
        made = self._files[path] = self._durable_names[path] = _Content()
        made.apply((0, content))
        made.make_durable()

    def _check(self, path: str) -> None:
        if self.error is not None:
            raise StorageError(f"{path}: {self.error}")
