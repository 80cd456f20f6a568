"""Temporary folders that show whether their owner still lives, by a lock that a process loses however it ends.

A process that makes such a folder first removes the folders of the same purpose whose owners are gone.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from upheaval.errors import UnknownOutcome
from upheaval.waits import wait_until

SHARED_MEMORY: Final = Path("/dev/shm")
_LOCK: Final = ".owner"
REMOVAL_S: Final = 5.0


@contextlib.contextmanager
def owned_folder(purpose: str, *, in_memory: bool = False) -> Iterator[Path]:
    """A new folder, empty apart from its lock file; removed at the end of the block. `in_memory`: in shared memory,
    where the machine has it.
    """
    place = SHARED_MEMORY if in_memory and os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    abandoned_folders(purpose, remove=True)
    # It has another name until it is locked, so that no other process takes it for abandoned.
    folder = Path(tempfile.mkdtemp(prefix=f"upheaval.{purpose}.", dir=place))
    owner = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX)
        folder = folder.rename(folder.with_name(folder.name.replace(".", "-")))
        yield folder
    finally:
        _remove(folder)
        os.close(owner)


def _remove(folder: Path) -> None:
    """Remove the folder, and again while processes that were killed in it still write to it before they die."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    with contextlib.suppress(UnknownOutcome):
        wait_until(is_gone, timeout_s=REMOVAL_S, describe=lambda: f"{folder} is still there")


def abandoned_folders(purpose: str = "", *, remove: bool) -> list[Path]:
    """The folders of a purpose, or of all purposes, whose owners are gone. With `remove`, remove them."""
    abandoned = []
    name = f"upheaval-{purpose}-*" if purpose else "upheaval-*-*"
    places = {Path(tempfile.gettempdir()), SHARED_MEMORY}
    for folder in sorted(path for place in places for path in place.glob(name)):
        with contextlib.suppress(OSError):
            owner = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                abandoned.append(folder)
                if remove:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(owner)
    return abandoned
