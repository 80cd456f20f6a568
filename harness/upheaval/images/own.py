"""An image of a custom service: its folder and the packages of its `requirements.txt`, on the node's image.

What goes in of the folder is what containers would get of it; no step of the build uses a network.
"""

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from upheaval.errors import UsageError
from upheaval.images import packages
from upheaval.images.bases import Say
from upheaval.images.building import build, build_context, machine_of
from upheaval.images.catalogue import NODE
from upheaval.records import owned_folder
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.docker.own_source import own_source_filter
from upheaval.system import SOURCE_FOLDER

REQUIREMENTS: Final = "requirements.txt"
_PACKAGES: Final = "packages"
_DOCKERFILE: Final = f"""\
FROM {NODE.tag}
COPY {_PACKAGES} /opt/packages
COPY {SOURCE_FOLDER} /opt/own
ENV PYTHONPATH=/opt/upheaval:/opt/own:/opt/packages
"""


def build_own(
    client: Client, source: Path, tag: str, *, ignored: Sequence[str] = (), offline: bool, say: Say
) -> tuple[int, float]:
    """Build it; how many files of the folder it holds, and its size in MB. The node's image is built when it is not.

    Raises `UsageError` for what is no folder, `EnvironmentFault` for packages that cannot be had and a failed build.
    """
    if not source.is_dir():
        raise UsageError(f"{source} is not a folder: give the one that holds the service's package")
    build(client, NODE, base=None, offline=offline, say=say)
    with owned_folder("image") as folder:
        requirements = source / REQUIREMENTS
        if requirements.is_file():
            say(f"fetching the packages of {requirements}")
            fetched = packages.fetch_own(requirements, machine_of(client), folder)
        else:
            fetched = folder / _PACKAGES
            fetched.mkdir()
        with (folder / "context.tar").open("w+b") as context:
            count = write_own_context(source, fetched, ignored, context)
            context.seek(0)
            say(f"building {tag} on {NODE.tag}")
            size_mb = build_context(client, context, tag)
    return count, size_mb


def write_own_context(source: Path, fetched: Path, ignored: Sequence[str], file: IO[bytes]) -> int:
    """The build context as a tar file; how many files of the folder are in it."""
    with tarfile.open(fileobj=file, mode="w") as archive:
        dockerfile = tarfile.TarInfo("Dockerfile")
        dockerfile.size = len(_DOCKERFILE)
        archive.addfile(dockerfile, io.BytesIO(_DOCKERFILE.encode()))
        archive.add(fetched, _PACKAGES, filter=_readable)
        archive.add(source, SOURCE_FOLDER, filter=own_source_filter(source, ignored))
        return sum(entry.isreg() and entry.name.startswith(f"{SOURCE_FOLDER}/") for entry in archive.getmembers())


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry
