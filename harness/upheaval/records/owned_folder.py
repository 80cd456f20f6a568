"""Temporary folders that say whether their owner still lives: by a lock, which a process loses however it ends.

A process that makes one first removes those of the same purpose that have no owner any more.
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

_LOCK: Final = ".owner"
REMOVAL_S: Final = 5.0


@contextlib.contextmanager
def owned_folder(purpose: str) -> Iterator[Path]:
    """An empty folder, apart from its lock file, until the end of the block."""
    place = Path(tempfile.gettempdir())
    abandoned_folders(purpose, remove=True)
    # Under another name until it is locked, so that no other process takes it for abandoned.
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
    """Programs that were ended in it may take a moment to die: what they still make goes, too."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    with contextlib.suppress(UnknownOutcome):
        wait_until(is_gone, timeout_s=REMOVAL_S, describe=lambda: f"{folder} is still there")


def abandoned_folders(purpose: str = "", *, remove: bool) -> list[Path]:
    """Those of a purpose, or of any, that have no owner any more; removed if asked for."""
    found = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"upheaval-{purpose}-*" if purpose else "upheaval-*-*")):
        with contextlib.suppress(OSError):
            owner = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(folder)
                if remove:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(owner)
    return found
