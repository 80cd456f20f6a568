"""Locks of folders and files, for programs that change files concurrently."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault

_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)
"""The answers of file systems without locks, or without locks on folders, such as NFS."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the folder's lock, then hold it for the block, or until the process
    ends. It is not reentrant.

    On a file system without such locks, the block runs at once. Raises `EnvironmentFault` for a folder that cannot be
    opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise EnvironmentFault(f"cannot lock {folder}: {error.strerror}") from error
    with _flocked(descriptor, folder, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def held(file: Path) -> Iterator[None]:
    """Hold the lock of a file, which stays, for the block or until the process ends. Raises `BlockingIOError` while
    another one holds it. On a file system without locks, the block runs at once.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o644)
    with _flocked(descriptor, file, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextlib.contextmanager
def _flocked(descriptor: int, path: Path, operation: int) -> Iterator[None]:
    """Closes the descriptor at the end."""
    try:
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise EnvironmentFault(f"cannot lock {path}: {error.strerror}") from error
        yield
    finally:
        # A process that was forked meanwhile has the descriptor, too.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
