"""`DiskStorage`: the storage port over a real folder.

It knows file descriptors and errors of the operating system, but not what the files mean. A file whose sync failed once
stays failed: the kernel reports a lost write only once, so a later successful sync proves nothing.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from upheaval_node.errors import StorageError, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.sync_thread import SyncRequest, SyncThread

MAX_PARTS: Final = 1024  # IOV_MAX of Linux
NO_SYNC: Final = 0
SYNC_DATA: Final = 1


@contextmanager
def storage_errors(path: str, action: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StorageError` with the path and the reason."""
    try:
        yield
    except OSError as error:
        raise _storage_error(path, action, error) from error


def _storage_error(path: str, action: str, error: OSError) -> StorageError:
    name = errno.errorcode.get(error.errno or 0, "?")
    return StorageError(f"cannot {action} {path}: {(error.strerror or str(error)).lower()} ({name})")


class DiskStorage:
    """Implements `ports.Storage`. `root` is the member's folder, which is created if it is missing."""

    def __init__(self, root: str, loop: Loop) -> None:
        self._root = root
        self._loop = loop
        self._sync_thread = SyncThread(loop)
        with storage_errors(root, "create"):
            os.makedirs(root, exist_ok=True)

    def open(self, path: str, *, create: bool = False) -> "DiskFile":
        """Raises `StorageError` for a missing file without `create`, and for any refusal of the system."""
        full_path = self._full(path)
        with storage_errors(path, "open"):
            if create:
                os.makedirs(os.path.dirname(full_path), exist_ok=True)
            fd = os.open(full_path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        return DiskFile(fd, path, self._loop, self._sync_thread)

    def exists(self, path: str) -> bool:
        """Also true for a folder and for a broken link."""
        return os.path.lexists(self._full(path))

    def names(self, directory: str) -> list[str]:
        """The sorted names; empty if the folder is missing."""
        try:
            return sorted(os.listdir(self._full(directory)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _storage_error(directory, "list", error) from error

    def remove(self, path: str) -> None:
        """Raises `StorageError` if the file does not exist."""
        with storage_errors(path, "remove"):
            os.unlink(self._full(path))

    def rename(self, path: str, new_path: str) -> None:
        """Atomically replaces a file with the new name."""
        with storage_errors(path, "rename"):
            os.rename(self._full(path), self._full(new_path))

    def sync_directory(self, directory: str) -> None:
        """One `fsync` of the folder, in the calling thread."""
        with storage_errors(directory, "sync"):
            fd = os.open(self._full(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Finish the syncs in flight and end the thread."""
        self._sync_thread.close()

    def _full(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts:
            raise UsageError(f"{path!r} is not in the member's folder")
        return os.path.join(self._root, path) if path else self._root


class DiskFile:
    """Implements `ports.File`."""

    def __init__(self, fd: int, path: str, loop: Loop, sync_thread: SyncThread) -> None:
        self._fd = fd
        self._path = path
        self._loop = loop
        self._sync_thread = sync_thread
        self._pending_syncs = 0
        self._sync_failure: Exception | None = None
        self._is_closed = False

    def read(self, offset: int, length: int) -> bytes:
        """A short read of the system is not the end of the file, so reading continues."""
        with storage_errors(self._path, "read"):
            data = os.pread(self._open_fd(), length, offset)
            if len(data) == length or not data:
                return data
            pieces = [data]
            missing = length - len(data)
            while missing > 0 and (data := os.pread(self._fd, missing, offset + length - missing)):
                pieces.append(data)
                missing -= len(data)
            return b"".join(pieces)

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Write with as few system calls as possible. A short write is continued."""
        fd = self._open_fd()
        with storage_errors(self._path, "write"):
            for first in range(0, len(parts), MAX_PARTS):
                chunk = parts[first : first + MAX_PARTS] if len(parts) > MAX_PARTS else parts
                length = sum(map(len, chunk))
                written = os.pwritev(fd, chunk, offset)
                if written < length:
                    self._write_rest(chunk, written, offset + written)
                offset += length

    def size(self) -> int:
        """As the system has it."""
        with storage_errors(self._path, "stat"):
            return os.fstat(self._open_fd()).st_size

    def truncate(self, length: int) -> None:
        """Cut or extend, in the calling thread."""
        with storage_errors(self._path, "truncate"):
            os.ftruncate(self._open_fd(), length)

    def sync(self, level: int) -> None:
        """Sync in the calling thread. Also raises the failure of an earlier sync of the file."""
        fd = self._open_fd()
        if level == NO_SYNC:
            return
        self._raise_earlier_failure()
        try:
            with storage_errors(self._path, "sync"):
                _sync(fd, level)
        except StorageError as error:
            self._sync_failure = error
            raise

    def sync_later(self, level: int, done: Callable[[Exception | None], None]) -> None:
        """Sync in the sync thread. The file keeps a failure."""
        fd = self._open_fd()
        if level == NO_SYNC:
            self._loop.call_soon(lambda: done(None))
            return
        self._pending_syncs += 1
        request = SyncRequest((fd, level), lambda: _sync(fd, level), lambda error: self._on_synced(error, done))
        self._sync_thread.submit(request)

    def close(self) -> None:
        """Close once no sync of the file is in flight."""
        if not self._is_closed:
            self._is_closed = True
            self._close_when_idle()

    def _on_synced(self, error: Exception | None, done: Callable[[Exception | None], None]) -> None:
        self._pending_syncs -= 1
        if isinstance(error, OSError):
            error = _storage_error(self._path, "sync", error)
        if error is not None and self._sync_failure is None:
            self._sync_failure = error
        if self._is_closed:
            self._close_when_idle()
        done(self._sync_failure)

    def _close_when_idle(self) -> None:
        """The sync thread holds the descriptor's number, which must not be reused for another file meanwhile."""
        if self._pending_syncs == 0 and self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _open_fd(self) -> int:
        if self._is_closed:
            raise StorageError(f"{self._path} is closed")
        return self._fd

    def _raise_earlier_failure(self) -> None:
        if self._sync_failure is not None:
            raise self._sync_failure

    def _write_rest(self, parts: Sequence[Buffer], written: int, offset: int) -> None:
        """The kernel took only a part: out of space, or interrupted by a signal."""
        rest = memoryview(b"".join(parts))[written:]
        while rest:
            count = os.pwrite(self._fd, rest, offset)
            rest = rest[count:]
            offset += count


def _sync(fd: int, level: int) -> None:
    if level == SYNC_DATA:
        os.fdatasync(fd)
    else:
        os.fsync(fd)
