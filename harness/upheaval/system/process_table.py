"""Finds and ends the processes of a run by the run id in their environment.

A process id alone may belong to another process by now; a process that carries the run's id in its environment is ours.
Linux only: it reads /proc. This module knows nothing of clusters.
"""

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.waits import wait_until

RUN_ID_VARIABLE: Final = "UPHEAVAL_RUN_ID"
MEMBER_VARIABLE: Final = "UPHEAVAL_MEMBER"
COMPONENT_VARIABLE: Final = "UPHEAVAL_COMPONENT"

ENDED_BY_SIGTERM: Final = 128 + signal.SIGTERM
"""The status of a virtual machine of Java's that leaves signals to its default, whatever its program closes before."""

# Several times what a SIGKILL takes on a busy machine.
KILL_TIMEOUT_S: Final = 10.0

_PROC: Final = Path("/proc")
_PREFIX: Final = b"UPHEAVAL_"


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A live process of a run. `component` is empty for a process that is no part of a member."""

    pid: int
    member_id: int
    component: str


def processes_of(run_id: str) -> list[FoundProcess]:
    """All live processes with this run id in their environment, in order of their ids."""
    processes = [
        found_process(pid, variables) for pid, variables in environments() if variables.get(RUN_ID_VARIABLE) == run_id
    ]
    return sorted(processes, key=lambda process: process.pid)


def process_of(pid: int, run_id: str) -> FoundProcess | None:
    """The process if it lives and belongs to the run."""
    variables = _environment(pid)
    return found_process(pid, variables) if variables.get(RUN_ID_VARIABLE) == run_id else None


def environments() -> Iterator[tuple[int, Mapping[str, str]]]:
    """The id of every live process, and of its environment the variables of ours; without any it is left out."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            variables = _environment(int(entry.name))
            if variables:
                yield int(entry.name), variables


def _environment(pid: int) -> Mapping[str, str]:
    """The variables of ours. A zombie has no environment any more, so it counts as gone."""
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    if _PREFIX not in content:
        return {}
    texts = [entry.decode("utf-8", "replace") for entry in content.split(b"\0") if entry.startswith(_PREFIX)]
    return dict(text.partition("=")[::2] for text in texts)


def found_process(pid: int, variables: Mapping[str, str]) -> FoundProcess:
    """What the variables of ours say of a process."""
    member = variables.get(MEMBER_VARIABLE, "")
    is_number = member.isascii() and member.isdigit()
    return FoundProcess(pid, int(member) if is_number else -1, variables.get(COMPONENT_VARIABLE, ""))


def send_signal(processes: Iterable[FoundProcess], number: signal.Signals) -> None:
    """Send a signal to each that still lives. Raises `EnvironmentFault` without the permission to."""
    for process in processes:
        try:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        except PermissionError:
            raise EnvironmentFault(f"no permission to signal process {process.pid}: run as its owner") from None


def wait_until_gone(processes: Iterable[FoundProcess], run_id: str, timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Wait until none of these processes lives, and none still has its files: locks and sockets are free.

    Raises `UnknownOutcome` with those that remain.
    """
    pending = {process.pid for process in processes}

    def all_gone() -> bool:
        pending.intersection_update([pid for pid in pending if process_of(pid, run_id) is not None or _is_ending(pid)])
        return not pending

    wait_until(all_gone, timeout_s=timeout_s, describe=lambda: f"processes {sorted(pending)} do not end")


def _is_ending(pid: int) -> bool:
    """Whether it has given up its memory, and with it its environment, but is no zombie yet with all its threads: its
    files come last, and its exit status.
    """
    try:
        has_memory = bool((_PROC / str(pid) / "environ").read_bytes())
    except ProcessLookupError:
        has_memory = False
    except OSError:
        return False
    state = _state(pid)
    return not has_memory and state is not None and (state not in ("Z", "X") or len(_threads(pid)) > 1)


def _threads(pid: int) -> list[Path]:
    """What the kernel tells of each thread of a process; nothing when it is gone."""
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def is_stopped(pid: int) -> bool | None:
    """Whether the kernel holds every thread of the process stopped; None when it is gone."""
    states = [state for state in map(_state_in, _threads(pid)) if state is not None]
    return all(state == "T" for state in states) if states else None


def _state(pid: int) -> str | None:
    """The state of the main thread, as proc(5) has it; None when it is gone."""
    return _state_in(_PROC / str(pid))


def _state_in(folder: Path) -> str | None:
    try:
        stat = (folder / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0]


def context_switches(pid: int) -> int:
    """How often the kernel let a thread of it go or took its core away; 0 when it is gone."""
    count = 0
    for thread in _threads(pid):
        with contextlib.suppress(OSError):
            lines = (thread / "status").read_text(encoding="ascii", errors="replace").splitlines()
            count += sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return count


def boot_id() -> str:
    """Tells apart monotonic clocks that started at different times."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""
