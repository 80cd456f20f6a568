"""Whether a component of a member is alive: a lock on its mark file that ends with its process.

Aeron tells a live mark file by an activity time stamp of the last ten seconds, so that a killed node cannot start
again for ten seconds. The lock is exact: the kernel releases it when the process ends, by whatever means. The time
stamp is still written for Aeron's own tools. The lock is on the inode, hence a file that was renamed keeps it.
"""

import fcntl
import os

from upheaval_node.errors import UsageError


class AlreadyRunning(UsageError):
    """Another live process runs this component in this folder."""


class MarkLock:
    """Holds the lock of one file until `release` or the end of the process."""

    def __init__(self, path: str) -> None:
        """Take the lock; a missing file is made, empty. Raises `AlreadyRunning` when another process holds it."""
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise AlreadyRunning(f"{path} is held by a process that is alive: this member runs already") from None

    def release(self) -> None:
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
    """The same for a file that is open already: the owner of exactly this inode."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
