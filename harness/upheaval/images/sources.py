"""What goes into an image: the files of its build context, their digest, and the context as a tar file.

The context is made file by file, so that nothing of a working copy gets into an image that does not belong there.
Knows no engine.
"""

import hashlib
import os
import tarfile
from pathlib import Path
from typing import IO, Final

from upheaval.images.catalogue import Image
from upheaval.repository import INSTALLED, REPOSITORY, Repository
from upheaval_node.compiled import FOLDER, read_index, why_unfit

PACKAGES: Final = "packages"
"""The folder of a context that holds the packages which the host fetched."""
_LEFT_OUT: Final = frozenset({"__pycache__", FOLDER.name, INSTALLED})
"""Folders of what was made for this machine, and of what a wheel adds to a package."""
_NODE: Final = "node/upheaval_node"
NamedFile = tuple[str, Path]
"""A file's name in the repository and in the context, and where it is."""


def source_digest(image: Image, repository: Repository = REPOSITORY) -> str:
    """One value for everything that goes into an image: its files, its locked packages, and its parent's sources."""
    digest = hashlib.sha256()
    if image.parent is not None:
        digest.update(source_digest(image.parent, repository).encode())
    files = context_files(image, repository)
    if image.requirements is not None:
        files.append((image.requirements, repository.path(image.requirements)))
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name}\0{_mode(path):o}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def context_files(image: Image, repository: Repository = REPOSITORY) -> list[NamedFile]:
    """The files of the image's context. Raises `EnvironmentFault` where one of its places is missing."""
    files = sorted(
        (name, path)
        for name, path in repository.files(image.context)
        if not _LEFT_OUT.intersection(name.split("/")) and path.suffix != ".pyc"
    )
    if image.takes_compiled:
        files += _compiled_files(repository)
    return files


def _compiled_files(repository: Repository) -> list[NamedFile]:
    """None where they are not those of the sources, or of another clone; a Dockerfile drops what it cannot load."""
    index = read_index(FOLDER)
    if index is None or why_unfit(index, FOLDER.parent.name) or FOLDER.parent != repository.path(_NODE):
        return []
    return sorted(repository.files([f"{_NODE}/{FOLDER.name}"]))


def write_context(image: Image, packages: Path | None, file: IO[bytes]) -> None:
    """The build context as a tar file; equal sources give equal bytes. `packages` becomes the folder of that name."""
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, path in context_files(image):
            _add(archive, path, name)
        if packages is not None:
            for path in sorted(path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"):
                _add(archive, path, f"{PACKAGES}/{path.relative_to(packages).as_posix()}")


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = path.stat().st_size, _mode(path)
    with path.open("rb") as content:
        archive.addfile(entry, content)


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644
