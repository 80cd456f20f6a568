"""The places of the files of Aeron's nodes that the harness reads, and their configuration. This module starts
nothing.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from upheaval.records import SHARED_MEMORY
from upheaval_node.errors import NodeError
from upheaval_node.files import cnc, layout

PROPERTIES_FILE: Final = "member.properties"
"""The configuration of a node, in its folder."""
DIRECTORY: Final = "aeron.dir"
"""The property with the directory of the media driver."""
DRIVER_IN_VOLUME: Final = "driver"
"""The driver's directory in the folder of a member whose components are in separate containers."""
RUN_ID: Final = "run.id"
MEMBER_ID: Final = "member.id"
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
    size = shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else 0
    return place_of_drivers(size) / _name(run_id, whose)


def directory_in_container(run_id: str, whose: str) -> Path:
    """The directory in a container, which always has enough shared memory."""
    return SHARED_MEMORY / _name(run_id, whose)


def _name(run_id: str, whose: str) -> str:
    return f"upheaval-{os.getuid()}-{run_id}-{whose}"


def place_of_drivers(shared_memory_size: int) -> Path:
    """The folder for the directories of media drivers, given the total bytes of shared memory, used or not.

    A container has 64 MB by default. A JVM that writes past the end of that dies in the middle of an access.
    """
    if shared_memory_size >= _SHARED_LEAST:
        return SHARED_MEMORY
    return Path(tempfile.gettempdir()) / f"aeron-{os.getuid()}"


def driver_directories(run_id: str | None = None) -> list[Path]:
    """The directories of media drivers of a run on this machine; without an id, of all runs of this user."""
    prefix = _name("", "").removesuffix("-") if run_id is None else _name(run_id, "")
    places = (place for place in (SHARED_MEMORY, place_of_drivers(0)) if place.is_dir())
    paths = (path for place in places for path in sorted(place.iterdir()) if path.name.startswith(prefix))
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def free_driver(folder: Path) -> None:
    """Keep the counters of a node that has ended, and remove its driver's directory if the harness made it."""
    directory = driver_directory(folder)
    if directory is None or not directory.is_dir() or not _is_ours(directory, folder):
        return
    copy = folder / layout.CNC
    with contextlib.suppress(OSError):
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(directory / copy.name, copy)
    shutil.rmtree(directory, ignore_errors=True)


def _is_ours(directory: Path, folder: Path) -> bool:
    """Whether the harness names the directory of that node's driver so: any text may be in the node's configuration."""
    # In a container the user is another one than where the name was made.
    name = rf"upheaval-\d+-{re.escape(property_of(folder, RUN_ID) or '')}-[\w-]+"
    # The process that named it may have had another folder for temporary files.
    is_place = directory.parent == SHARED_MEMORY or directory.parent.name == place_of_drivers(0).name
    is_named = is_place and re.fullmatch(name, directory.name) is not None
    return is_named or directory == folder / DRIVER_IN_VOLUME


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
    pid, _ = (-1, None) if path is None else driver_life(path)
    return pid


def driver_life(path: Path) -> tuple[int, float | None]:
    """The process that created the counters file, -1 without one, and when its driver last went through a cycle, in
    seconds since the epoch: None if that cannot be read, below 0 if it ended in order.
    """
    try:
        with path.open("rb") as stream:
            header = cnc.read_header(stream.read(cnc.HEADER_LENGTH))
            if header is None:
                return -1, None
            stream.seek(header.heartbeat_offset)
            content = stream.read(8)
    except (OSError, NodeError):
        return -1, None
    return header.pid, int.from_bytes(content, "little", signed=True) / 1000 if len(content) == 8 else None
