"""Archives of Aeron's classes that Java maps into a process instead of loading and checking each class again.

Class data sharing takes more than half of what the start of a member costs. An archive is of one jar and one Java, both
of which its name identifies, so that another one of either makes another archive. The names of the classes are in
`images/aeron/shared-classes.txt`, which `tools/shared_classes.py` writes; those that a version lacks are passed over.
"""

import contextlib
import hashlib
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

from upheaval.repository import REPOSITORY
from upheaval.user_folders import cache_folder

CLASS_LIST: Final = "images/aeron/shared-classes.txt"
SUFFIX: Final = ".jsa"
_DUMP_LIMIT_S: Final = 120
_AGE_MAX_S: Final = 30 * 24 * 3600


def sharing_options(java: Path, library: Path) -> list[str]:
    """The options by which that Java takes the classes of a jar from an archive; none where it has no archive.

    The archive of a jar in the cache is made unless it is there. An image has it beside the jar.
    """
    archive = library.with_suffix(SUFFIX)
    if not archive.exists():
        made = _cached(java, library) if library.parent == cache_folder() else None
        if made is None:
            return []
        archive = made
    # Java runs without an archive that does not fit, and would say so on standard output.
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off"]


@cache
def _cached(java: Path, library: Path) -> Path | None:
    names = REPOSITORY.find(CLASS_LIST)
    if names is None:
        return None
    program = java.resolve()
    digest = hashlib.sha256(names.read_bytes())
    for path in (program, library):
        digest.update(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}\n".encode())
    archive = library.with_name(f"{library.stem}-{digest.hexdigest()[:16]}{SUFFIX}")
    if archive.exists():
        return archive
    _remove_old(library.parent)
    return archive if _is_made(program, library, names, archive) else None


def _remove_old(cache: Path) -> None:
    """Remove the archives that were made long ago. What still runs with one keeps it; another start makes it anew."""
    oldest = time.time() - _AGE_MAX_S
    for archive in cache.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if archive.stat().st_mtime < oldest:
                archive.unlink()


def _is_made(java: Path, library: Path, names: Path, archive: Path) -> bool:
    """Whether Java could write it: under its name when it is whole; that of another process is as good."""
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            made = Path(folder) / archive.name
            subprocess.run(
                dump_command(str(java), str(library), str(names), str(made)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_DUMP_LIMIT_S,
                check=True,
            )
            made.replace(archive)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def dump_command(java: str, library: str, names: str, archive: str) -> list[str]:
    """What makes an archive; members use the same collector, whose objects it holds."""
    files = [f"-XX:SharedClassListFile={names}", f"-XX:SharedArchiveFile={archive}"]
    return [java, "-Xshare:dump", "-XX:+UseSerialGC", *files, "-cp", library]
