"""What is kept on the host between builds: downloaded packages, and the locks by which builds wait for each other.

All of it may be removed when no build runs. Knows no engine.
"""

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

from upheaval.errors import EnvironmentFault
from upheaval.images import programs
from upheaval.user_folders import cache_folder


def folder(name: str) -> Path:
    """A folder of the cache, which is made when it is not there. Raises `EnvironmentFault`."""
    path = cache_folder() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"no cache for images: {programs.explain(error)}") from error
    return path


@contextlib.contextmanager
def alone(tag: str, say: Callable[[str], None]) -> Iterator[None]:
    """While this process makes what the tag names, no other one does: they would remove each other's stages."""
    path = folder("locks") / tag.replace("/", "-").replace(":", "-")
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that makes {tag}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
