"""Whether a component of a member is alive: a lock on its mark file that ends with its process.

Aeron recognises a live mark file by an activity time stamp of the last ten seconds, so that a killed node cannot start
again for ten seconds. The lock is exact: the kernel releases it when the process ends, by whatever means. It may do so
a little after the process has left the process table, so a lock that is held is asked for again, for as long as Aeron
would wait at most, unless the time stamp moves: then its holder lives. The lock is on the inode, hence a file that was
renamed keeps it.
"""

import fcntl
import os
import time
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.files.mark_file import LIVENESS_TIMEOUT_MS, OWNER_LENGTH, MarkOwner, owner_of
from upheaval_node.types import NULL_VALUE

RELEASE_TIMEOUT_S: Final = LIVENESS_TIMEOUT_MS / 1000
"""How long a holder without a sign of life may keep a lock before a start is refused, in seconds."""
_POLL_S: Final = 0.01


class AlreadyRunning(UsageError):
    """Another live process runs this component in this folder."""


class MarkLock:
    """Holds the lock of one file until `release` or the end of the process."""

    def __init__(self, path: str, timeout_s: float = RELEASE_TIMEOUT_S) -> None:
        """Take the lock. A missing file is created, empty. Waits for a holder that is ending.

        Raises `AlreadyRunning` when the holder is alive, or has not released the lock after `timeout_s` seconds.
        """
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._take(path, timeout_s)
        except AlreadyRunning:
            self.release()
            raise

    def _take(self, path: str, timeout_s: float) -> None:
        begin = time.monotonic()
        first_activity_ms = self._owner().activity_timestamp_ms
        while not self._try():
            owner, waited_s = self._owner(), time.monotonic() - begin
            is_alive = owner.activity_timestamp_ms not in (NULL_VALUE, first_activity_ms)
            if is_alive or waited_s >= timeout_s:
                holder = f"process {owner.pid}" if owner.pid > 0 else "a process"
                sign = "runs already" if is_alive else "has not ended and gives no sign of life"
                raise AlreadyRunning(f"{path} is held by {holder}, which {sign} (waited {waited_s:.1f} s)")
            time.sleep(_POLL_S)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _owner(self) -> MarkOwner:
        return owner_of(os.pread(self._fd, OWNER_LENGTH, 0))

    def release(self) -> None:
        """Release the lock. Releasing twice does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_locked(path: str) -> bool:
    """Whether a live process holds the lock of this file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return is_descriptor_locked(fd)
    finally:
        os.close(fd)


def is_descriptor_locked(fd: int) -> bool:
    """Like `is_locked`, for an open file: whether exactly this inode has an owner."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
