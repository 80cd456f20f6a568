"""Copies a member's files out of its container into the run folder, through the engine: no shared disk is needed.

This module knows tar files and folders, not clusters.
"""

import contextlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.engine import answers_closed, engine_errors
from upheaval.system import DRIVER_IN_VOLUME, SOURCE_FOLDER

_LEFT: Final = (SOURCE_FOLDER, DRIVER_IN_VOLUME)
"""Files that are not collected: a service's code is a copy, and buffers of a media driver are useless without the
driver.
"""


def collect_folder(container: Any, source: str, target: Path) -> None:
    """Replace a folder of the run folder by a copy of a container's folder. The container may be running or not.

    The old content stays until the copy is complete. Raises `EnvironmentFault` when the copy fails.
    """
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        with (
            engine_errors(f"copying {source} of {container.name}"),
            answers_closed(container.client),
            tempfile.TemporaryFile() as spool,
        ):
            chunks, _ = container.get_archive(f"{source}/.")
            for chunk in chunks:
                spool.write(chunk)
            spool.seek(0)
            _unpack(spool, fresh)
        shutil.rmtree(target, ignore_errors=True)
        fresh.replace(target)
    except (OSError, tarfile.TarError) as error:
        raise EnvironmentFault(f"cannot bring what {container.name} wrote into {target}: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_file(container: Any, source: str) -> bytes:
    """The bytes of one file of a container, running or not; empty when the file does not exist."""
    with _archive_of(container, source) as archive:
        entry = next((entry for entry in archive if entry.isreg()), None) if archive is not None else None
        file = archive.extractfile(entry) if archive is not None and entry is not None else None
        return b"" if file is None else file.read()


def size_of(container: Any, source: str) -> int:
    """The length of one file of a container, running or not; 0 when it does not exist."""
    import docker

    with engine_errors(f"looking at {source} of {container.name}"), answers_closed(container.client):
        try:
            _, stat = container.get_archive(source)
        except docker.errors.NotFound:
            return 0
        return int(stat["size"])


def names_in(container: Any, source: str, folder: str) -> list[str]:
    """The paths below `source` of all files in one of its folders; none when that does not exist."""
    with _archive_of(container, f"{source}/{folder}") as archive:
        return [entry.name for entry in archive or () if entry.isreg()]


@contextlib.contextmanager
def _archive_of(container: Any, source: str) -> Iterator[tarfile.TarFile | None]:
    """A file or folder of a container, running or not, as a tar file; None when it does not exist."""
    import docker

    doing = f"reading {source} of {container.name}"
    try:
        with tempfile.TemporaryFile() as spool, engine_errors(doing):
            try:
                chunks, _ = container.get_archive(source)
            except docker.errors.NotFound:
                yield None
                return
            for chunk in chunks:
                spool.write(chunk)
            spool.seek(0)
            with tarfile.open(fileobj=spool) as archive:
                yield archive
    except (OSError, tarfile.TarError) as error:
        raise EnvironmentFault(f"{doing}: {error}") from error


def collect_output(container: Any, target: Path) -> None:
    """Copy the output of the member's processes."""
    with engine_errors(f"reading the output of {container.name}"):
        target.write_bytes(container.logs())


def _unpack(stream: Any, target: Path) -> None:
    """Unpack the files and folders that matter for a run, all inside the target and owned by the current user.

    The filters of `tarfile` need Python 3.11.4. Links are left out, so a name without `..` stays inside.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=stream) as archive:
        for entry in archive:
            path = PurePosixPath(entry.name)
            if path.is_absolute() or ".." in path.parts:
                raise tarfile.ReadError(f"{entry.name!r} leads outside of the folder")
            if path.parts[:1] in [(name,) for name in _LEFT]:
                continue
            if entry.isdir():
                (target / path).mkdir(parents=True, exist_ok=True)
            elif entry.isreg():
                _unpack_file(archive, entry, target / path)


def _unpack_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    content = archive.extractfile(entry)
    assert content is not None, "of a regular file"
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)
    os.utime(target, (entry.mtime, entry.mtime))
