"""Turns the end of a simulated run into the result of a real one: files in a run folder, and one digest over all of it.

This module does not interpret the files.
"""

import hashlib
from pathlib import Path
from typing import Final

from upheaval.runtimes.simulated.disk import Disk
from upheaval.runtimes.simulated.trace import Journal, ProtocolTraces
from upheaval_node.protocol_trace import FILE_NAME

_ZEROS: Final = bytes(1 << 14)


def _without_zeros(data: bytes | bytearray) -> bytes:
    """The content without the zeros at its end, which many files have."""
    end = len(data)
    while end and data[max(end - len(_ZEROS), 0) : end] == _ZEROS[: min(end, len(_ZEROS))]:
        end = max(end - len(_ZEROS), 0)
    return bytes(data[:end]).rstrip(b"\0")


def write_files(disk: Disk, target: Path) -> None:
    """Write all visible files of a disk to `target`, as sparse files."""
    for path in disk.paths:
        inode = disk.find(path)
        destination = target / path
        destination.parent.mkdir(parents=True, exist_ok=True)
        with destination.open("wb") as stream:
            for offset in range(0, len(inode.data), len(_ZEROS)):
                part = inode.data[offset : offset + len(_ZEROS)]
                if part != _ZEROS[: len(part)]:
                    stream.seek(offset)
                    stream.write(part)
            stream.truncate(inode.size)


def write_trace(journal: Journal, member_id: int, target: Path) -> None:
    """Write the member's trace in the format of the process runtime."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(line + "\n" for line in journal.lines.get(member_id, [])), encoding="utf-8")


def write_protocol(traces: ProtocolTraces, member_id: int, folder: Path) -> None:
    """Write the member's protocol trace in the format of the process runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE_NAME).open("w", encoding="utf-8") as stream:
        stream.writelines(line + "\n" for line in traces.lines(member_id))


def digest(journal: Journal, history: list[str], disks: dict[str, Disk]) -> str:
    """The SHA-256 over the ordered trace, the history's lines and every file on every disk."""
    whole = journal.digest()
    for line in history:
        whole.update(line.encode())
        whole.update(b"\n")
    for name in sorted(disks):
        for path in disks[name].paths:
            inode = disks[name].find(path)
            # A digest per file separates its end from the beginning of the next file.
            content = hashlib.sha256(_without_zeros(inode.data)).hexdigest()
            whole.update(f"{name}/{path} {inode.size} {content}\n".encode())
    return whole.hexdigest()
