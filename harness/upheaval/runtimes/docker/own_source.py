"""Selects the files of a custom service's folder that go into containers.

Runs, environments, caches, packages and hidden files never do, nor does what the user excludes.

This module knows files and tar entries.
"""

import tarfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from upheaval.records import CLUSTER_FILE
from upheaval.system import SOURCE_FOLDER

NEVER: Final = (".*", "__pycache__", "node_modules", "*.whl", "*.egg-info", "*.pyc")
"""Patterns of names to leave out in every folder."""
NEVER_ON_TOP: Final = ("runs",)
"""Names to leave out of the top folder only."""
MARKS: Final = ("pyvenv.cfg", CLUSTER_FILE, "seal.json")
"""Files that mark a folder as an environment or a run."""

Filter = Callable[[tarfile.TarInfo], tarfile.TarInfo | None]


def own_source_filter(source: Path, ignored: Sequence[str]) -> Filter:
    """A filter for `TarFile.add` of `source` as `SOURCE_FOLDER`. `ignored` has patterns of names, and of paths below
    `source`.
    """

    def filtered(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (entry.isreg() or entry.isdir()):
            return None
        path = Path(entry.name).relative_to(SOURCE_FOLDER)
        if path.parts and _is_left_out(source, path, ignored):
            return None
        # The member's user has to read the files.
        entry.mode = 0o755 if entry.isdir() else 0o644
        return entry

    return filtered


def _is_left_out(source: Path, path: Path, ignored: Sequence[str]) -> bool:
    if any(fnmatch(path.name, pattern) for pattern in (*NEVER, *ignored)):
        return True
    if any(fnmatch(path.as_posix(), pattern.rstrip("/")) for pattern in ignored):
        return True
    return path.as_posix() in NEVER_ON_TOP or any((source / path / mark).is_file() for mark in MARKS)
