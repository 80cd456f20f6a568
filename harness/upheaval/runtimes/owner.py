"""Which harness made something, noted with the thing, so that a later one can tell whether the first one is gone.

A process id alone may belong to another process by now; together with its start time it does not. An owner that cannot
be judged from here (another host, another boot, another process name space) is taken for alive. Linux only.
"""

import contextlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

# Of /proc/PID/stat, counted after the name (proc(5): state is the 3rd field, starttime the 22nd).
_STATE_FIELD: Final = 0
_START_TIME_FIELD: Final = 19


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its id, its start in ticks since the boot, and the place where both mean something."""

    pid: str
    start: str
    place: str

    @classmethod
    def me(cls) -> Self:
        """This process."""
        return cls(str(os.getpid()), process_start(os.getpid()) or "", _place())

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `str` made; of anything else an owner that is taken for alive."""
        pid, _, rest = text.partition(" ")
        start, _, place = rest.partition(" ")
        return cls(pid, start, place)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended for certain."""
        if self.place != _place():
            return False
        return not self.pid.isdigit() or process_start(int(self.pid)) != self.start

    def __str__(self) -> str:
        return f"{self.pid} {self.start} {self.place}"


def process_start(pid: int) -> str | None:
    """When a process started, in ticks since the boot; None when there is no such process, or only its exit status."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE_FIELD] in ("Z", "X") else fields[_START_TIME_FIELD]


def _place() -> str:
    """Where process ids mean the same: one boot of one host, one process name space."""
    boot_id, name_space = "", ""
    with contextlib.suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        name_space = str(Path("/proc/self/ns/pid").readlink())
    return f"{platform.node()} {boot_id} {name_space}"
