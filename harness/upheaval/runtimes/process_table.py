"""Finds and ends the processes of a run by the run id in their environment.

A process id alone may belong to somebody else by now; a process that carries the run's id in its environment is ours.
Linux only: it reads /proc. This module knows nothing of clusters.
"""

import contextlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.waits import wait_until

RUN_ID_VARIABLE: Final = "UPHEAVAL_RUN_ID"
MEMBER_VARIABLE: Final = "UPHEAVAL_MEMBER"
COMPONENT_VARIABLE: Final = "UPHEAVAL_COMPONENT"

# Several times what a SIGKILL takes on a busy machine.
KILL_TIMEOUT_S: Final = 10.0

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A live process of a run. `component` is empty for a process that is no part of a member."""

    pid: int
    member_id: int
    component: str


def processes_of(run_id: str) -> list[FoundProcess]:
    """All live processes with this run id in their environment, in order of their ids."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            process = process_of(int(entry.name), run_id)
            if process is not None:
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def process_of(pid: int, run_id: str) -> FoundProcess | None:
    """The process if it lives and belongs to the run. A zombie has no environment any more, so it counts as gone."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    variables = dict(entry.partition(b"=")[::2] for entry in environment.split(b"\0"))
    if variables.get(RUN_ID_VARIABLE.encode()) != run_id.encode():
        return None
    member = variables.get(MEMBER_VARIABLE.encode(), b"")
    component = variables.get(COMPONENT_VARIABLE.encode(), b"").decode("ascii", "replace")
    return FoundProcess(pid, int(member) if member.isdigit() else -1, component)


def send_signal(processes: Iterable[FoundProcess], number: signal.Signals) -> None:
    """Send a signal to each that still lives. Raises `EnvironmentFault` without the permission to."""
    for process in processes:
        try:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        except PermissionError:
            raise EnvironmentFault(f"no permission to signal process {process.pid}: run as its owner") from None


def wait_until_gone(processes: Iterable[FoundProcess], run_id: str, timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Wait until none of these processes lives. Raises `UnknownOutcome` with those that remain."""
    pending = {process.pid for process in processes}

    def all_gone() -> bool:
        pending.intersection_update([pid for pid in pending if process_of(pid, run_id) is not None])
        return not pending

    wait_until(all_gone, timeout_s=timeout_s, describe=lambda: f"processes {sorted(pending)} do not end")


def is_stopped(pid: int) -> bool | None:
    """Whether the kernel holds the process stopped; None when it is gone."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0] == "T"


def context_switches(pid: int) -> int:
    """How often the kernel let the main thread go or took its core away; 0 when it is gone."""
    with contextlib.suppress(OSError):
        lines = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace").splitlines()
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return 0
