"""Locks of folders and files, for programs that change files concurrently."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder's lock, then hold it for the block, or until the process ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held(file: Path) -> Iterator[None]:
    """Hold the lock of a file, which stays, for the block or until the process ends. Raises `BlockingIOError` while
    another one holds it.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
