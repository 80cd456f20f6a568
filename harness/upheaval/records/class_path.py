"""The name of a user's service in Java: `CLASSPATH:Class`, such as `target/auction.jar:auction.AuctionService`.

The class path is in Java's notation and relative to the folder with the user's code. This module looks at names and
files only.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath


def class_name(service: str) -> str:
    """The class, or the name of a shipped service."""
    return service.rpartition(":")[2]


def class_path_of(service: str, folders: Sequence[str]) -> list[str]:
    """The entries of the class path in each of the folders; empty for a shipped service."""
    entries = [entry for entry in service.split(":")[:-1] if entry]
    return [str(PurePath(folder, entry)) for folder in folders for entry in entries]


def class_path_digest(source: str, service: str) -> str:
    """SHA-256 over names and contents of all files of the class path in the folder `source`; empty without any file."""
    whole, count = hashlib.sha256(), 0
    for number, entry in enumerate(class_path_of(service, [source])):
        for name, path in sorted(_files(Path(entry)), key=lambda file: os.fsencode(file[0])):
            content = path.read_bytes()
            whole.update(b"%d %d %d " % (number, len(name), len(content)) + os.fsencode(name) + content)
            count += 1
    return whole.hexdigest() if count else ""


def _files(entry: Path) -> Iterator[tuple[str, Path]]:
    if entry.name == "*":
        paths = [path for path in entry.parent.glob("*") if path.suffix.lower() == ".jar"]
    elif entry.is_dir():
        paths = [path for path in entry.rglob("*") if path.is_file()]
    else:
        paths = [entry] if entry.is_file() else []
    folder = entry.parent if entry.name == "*" or entry.is_file() else entry
    yield from ((path.relative_to(folder).as_posix(), path) for path in paths)
