"""Files that only their owner may read, from their first byte on: keys, secrets, books."""

import os
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600


def write_private(path: Path, content: str, *, mode: int = PRIVATE) -> None:
    """Write a file, or replace it, in one step. Raises `OSError`."""
    fresh = path.with_name(path.name + ".new")
    _write(fresh, content.encode(), mode)
    fresh.replace(path)


def copy_private(source: Path, target: Path) -> None:
    """Copy a file so that only its owner may read the copy, whatever the mode of the source. Raises `OSError`."""
    _write(target, source.read_bytes(), PRIVATE)


def mode_of(path: Path) -> int:
    """The mode of an existing file; `PRIVATE` for a file that does not exist yet."""
    return path.stat().st_mode & 0o777 if path.exists() else PRIVATE


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file; remove an existing one first, because its mode may differ."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
