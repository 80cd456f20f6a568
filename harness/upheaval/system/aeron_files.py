"""The places of the files of Aeron's nodes that the harness reads, and their configuration. This module starts
nothing.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from upheaval_node.errors import NodeError
from upheaval_node.files import cnc

PROPERTIES_FILE: Final = "member.properties"
"""The configuration of a node, in its folder."""
DIRECTORY: Final = "aeron.dir"
"""The property with the directory of the media driver."""
DRIVER_IN_VOLUME: Final = "driver"
"""The driver's directory in the folder of a member whose components are in separate containers."""
RUN_ID: Final = "run.id"
MEMBER_ID: Final = "member.id"
_SHARED_MEMORY: Final = Path("/dev/shm")
_SHARED_LEAST: Final = 256 * 1024 * 1024
"""The bytes that the drivers of three members and of their clients need."""
_ESCAPED: Final = "\\:=#! "


def properties_text(properties: Mapping[str, str]) -> str:
    """The properties as the text of a Java properties file."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in _ESCAPED else character for character in text)


def shared_directory(run_id: str, whose: str) -> Path:
    """The directory of a media driver of a run, in shared memory if that is large enough."""
    size = shutil.disk_usage(_SHARED_MEMORY).total if _SHARED_MEMORY.is_dir() else 0
    return place_of_drivers(size) / _name(run_id, whose)


def directory_in_container(run_id: str, whose: str) -> Path:
    """The directory in a container, which always has enough shared memory."""
    return _SHARED_MEMORY / _name(run_id, whose)


def _name(run_id: str, whose: str) -> str:
    return f"upheaval-{os.getuid()}-{run_id}-{whose}"


def place_of_drivers(shared_memory_size: int) -> Path:
    """The folder for the directories of media drivers, given the total bytes of shared memory, used or not.

    A container has 64 MB by default. A JVM that writes past the end of that dies in the middle of an access.
    """
    if shared_memory_size >= _SHARED_LEAST:
        return _SHARED_MEMORY
    return Path(tempfile.gettempdir()) / f"aeron-{os.getuid()}"


def property_of(folder: Path, name: str) -> str | None:
    """A property of the node's configuration; None when the folder has no configuration."""
    try:
        lines = (folder / PROPERTIES_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    property_line = next((line for line in lines if line.startswith(f"{name}=")), None)
    return None if property_line is None else property_line.partition("=")[2].replace("\\", "")


def driver_directory(folder: Path) -> Path | None:
    """The media driver's directory, if the folder has a configuration."""
    directory = property_of(folder, DIRECTORY)
    return None if directory is None else Path(directory)


def is_running(folder: Path, component: str) -> bool:
    """Whether a component of a split member runs: it holds the lock of a file, whichever container it is in."""
    try:
        with (folder / f"{component}.lock").open("rb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def counters_file(folder: Path) -> Path | None:
    """The counters file of a node that runs or was killed."""
    directory = driver_directory(folder)
    return None if directory is None else directory / "cnc.dat"


def driver_pid(path: Path | None) -> int:
    """The process that created the file; -1 without one."""
    if path is None:
        return -1
    try:
        with path.open("rb") as stream:
            header = cnc.read_header(stream.read(cnc.HEADER_LENGTH))
    except (OSError, NodeError):
        return -1
    return -1 if header is None else header.pid
