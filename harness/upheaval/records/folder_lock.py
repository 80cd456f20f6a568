"""A lock on a folder, for programs that change its files concurrently."""

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
