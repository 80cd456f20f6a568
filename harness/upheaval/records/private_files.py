"""Files that only their owner may read, from their first byte on: keys, secrets, books. Knows not what they say."""

import os
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600


def write_private(path: Path, content: str, *, mode: int = PRIVATE) -> None:
    """Put a file in place in one step. Raises `OSError`."""
    fresh = path.with_name(path.name + ".new")
    _write(fresh, content.encode(), mode)
    fresh.replace(path)


def copy_private(source: Path, target: Path) -> None:
    """A copy for its owner alone, whatever the source allows. Raises `OSError`."""
    _write(target, source.read_bytes(), PRIVATE)


def mode_of(path: Path) -> int:
    """Who may read a file that is there; its owner alone, one that is still to be made."""
    return path.stat().st_mode & 0o777 if path.exists() else PRIVATE


def _write(path: Path, content: bytes, mode: int) -> None:
    """Removes a file that has this name already: its mode was another one."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
