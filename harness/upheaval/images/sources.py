"""What goes into an image: the files of its build context, their digest, and the context as a tar file.

The context is made file by file, so that nothing of a working copy gets into an image that does not belong there.
Knows no engine.
"""

import hashlib
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

from upheaval.errors import UsageError
from upheaval.images.catalogue import Image
from upheaval_node.compiled import FOLDER, read_index, why_unfit

ROOT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = "packages"
"""The folder of a context that holds the packages which the host fetched."""
_MADE_HERE: Final = frozenset({"__pycache__", FOLDER.name})
"""Folders of what was made for this machine."""


def source_digest(image: Image) -> str:
    """One value for everything that goes into an image: its files, its locked packages, and its parent's sources."""
    digest = hashlib.sha256()
    if image.parent is not None:
        digest.update(source_digest(image.parent).encode())
    files = context_files(image)
    if image.requirements is not None:
        files.append(ROOT / image.requirements)
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{_mode(path):o}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def context_files(image: Image) -> list[Path]:
    """The repository's files in the image's context. Raises `UsageError` where there is no repository."""
    if not (ROOT / image.dockerfile).is_file():
        raise UsageError(f"{ROOT} has no {image.dockerfile}: images are built from a clone of the repository")
    files = _files_of(ROOT / name for name in image.context)
    if image.takes_compiled:
        files += _compiled_files()
    return files


def _compiled_files() -> list[Path]:
    """None where they are not those of the sources, or of another clone; a Dockerfile drops what it cannot load."""
    index = read_index(FOLDER)
    if index is None or why_unfit(index, FOLDER.parent.name) or not FOLDER.is_relative_to(ROOT):
        return []
    return sorted(path for path in FOLDER.rglob("*") if path.is_file())


def write_context(image: Image, packages: Path | None, file: IO[bytes]) -> None:
    """The build context as a tar file; equal sources give equal bytes. `packages` becomes the folder of that name."""
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in context_files(image):
            _add(archive, path, path.relative_to(ROOT))
        if packages is not None:
            for path in _files_of([packages]):
                _add(archive, path, PACKAGES / path.relative_to(packages))


def _files_of(places: Iterable[Path]) -> list[Path]:
    """Files, and those below folders."""
    return sorted(
        path
        for place in places
        for path in ([place] if place.is_file() else place.rglob("*"))
        if path.is_file() and not _MADE_HERE.intersection(path.parts) and path.suffix != ".pyc"
    )


def _add(archive: tarfile.TarFile, path: Path, name: Path) -> None:
    entry = tarfile.TarInfo(name.as_posix())
    entry.size, entry.mode = path.stat().st_size, _mode(path)
    with path.open("rb") as content:
        archive.addfile(entry, content)


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644
