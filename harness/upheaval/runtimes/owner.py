"""Identifies the harness that created something. The thing carries that identity, so a later harness can tell whether
its owner is gone.

Process ids are reused, but not together with the start time. An owner on another host, in another boot or in another
process name space cannot be checked and counts as alive. Linux only.
"""

import contextlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

# Fields of /proc/PID/stat, counted after the name (proc(5): state is the 3rd field, starttime the 22nd).
_STATE_FIELD: Final = 0
_START_TIME_FIELD: Final = 19


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its id, its start in ticks since the boot, and the place where both are valid."""

    pid: str
    start: str
    place: str

    @classmethod
    def me(cls) -> Self:
        """This process."""
        return cls(str(os.getpid()), process_start(os.getpid()) or "", _place())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The owner from its `str`. Any other text gives an owner that counts as alive."""
        pid, _, rest = text.partition(" ")
        start, _, place = rest.partition(" ")
        return cls(pid, start, place)

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended."""
        if self.place != _place():
            return False
        return not self.pid.isdigit() or process_start(int(self.pid)) != self.start

    @property
    def listens_here(self) -> bool:
        """Whether it may still listen on this machine's loopback."""
        return not self.is_gone and self.place.split(" ")[:2] == _place().split(" ")[:2]

    def __str__(self) -> str:
        return f"{self.pid} {self.start} {self.place}"


def process_start(pid: int) -> str | None:
    """The start time of a process in ticks since the boot; None when there is no such process, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE_FIELD] in ("Z", "X") else fields[_START_TIME_FIELD]


def _place() -> str:
    """The scope of process ids: one boot of one host, one process name space."""
    boot_id, name_space = "", ""
    with contextlib.suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        name_space = str(Path("/proc/self/ns/pid").readlink())
    return f"{platform.node()} {boot_id} {name_space}"
