"""Finds and ends the processes of a run by the run id in their environment.

A process id alone may have been reused; a process with the run's id in its environment belongs to the run. Linux only:
it reads /proc. This module knows nothing of clusters.
"""

import contextlib
import os
import signal
import time
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
"""The exit status of a JVM that does not handle SIGTERM itself, even if its program closed everything before."""

# A process that is killed within a sync ends with that, and its pages are released first.
KILL_TIMEOUT_S: Final = 60.0

# Within execve(2) a process reads its new program's first pages, perhaps from a disk.
_EXEC_TIMEOUT_S: Final = 5.0
_EXEC_POLL_S: Final = 0.0005

_PROC: Final = Path("/proc")
_FIRST_FIELD: Final = 3
_PREFIX: Final = b"UPHEAVAL_"
_SCHEDULED: Final = 2
"""The clock of a process that counts what the scheduler gave it."""


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A live process of a run. `component` is empty for a process outside members."""

    pid: int
    member_id: int
    component: str


def processes_of(run_id: str) -> list[FoundProcess]:
    """All live processes with this run id in their environment, ordered by id."""
    processes = [
        found_process(pid, variables) for pid, variables in environments() if variables.get(RUN_ID_VARIABLE) == run_id
    ]
    return sorted(processes, key=lambda process: process.pid)


def process_of(pid: int, run_id: str) -> FoundProcess | None:
    """The process if it lives and belongs to the run."""
    variables = _environment(pid)
    return found_process(pid, variables) if variables.get(RUN_ID_VARIABLE) == run_id else None


def environments() -> Iterator[tuple[int, Mapping[str, str]]]:
    """The id of every live process with harness variables in its environment, and these variables."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            variables = _environment(int(entry.name))
            if variables:
                yield int(entry.name), variables


def _environment(pid: int) -> Mapping[str, str]:
    """The harness variables. A zombie has no environment any more, so it counts as gone."""
    deadline = time.monotonic() + _EXEC_TIMEOUT_S
    try:
        while not (content := (_PROC / str(pid) / "environ").read_bytes()):
            if not _is_in_exec(pid) or time.monotonic() > deadline:
                return {}
            time.sleep(_EXEC_POLL_S)
    except OSError:
        return {}
    if _PREFIX not in content:
        return {}
    texts = [entry.decode("utf-8", "replace") for entry in content.split(b"\0") if entry.startswith(_PREFIX)]
    return dict(text.partition("=")[::2] for text in texts)


def _is_in_exec(pid: int) -> bool:
    """Whether a process whose environment was read as empty is about to have one.

    execve(2) gives the process its new memory, which lets posix_spawn(3) return in the parent, before it lays out the
    environment there. The start of the code, field 26 of proc_pid_stat(5), is 0 until it has. A zombie and a thread of
    the kernel have no memory: their size, field 23, is 0.
    """
    fields = _stat(_PROC / str(pid))
    if not fields:
        return False
    size, code, start, end = (int(fields[number - _FIRST_FIELD]) for number in (23, 26, 50, 51))
    # An end beyond the start: the layout was finished after the environment was read.
    return size > 0 and (code == 0 or end > start)


def found_process(pid: int, variables: Mapping[str, str]) -> FoundProcess:
    """The process described by its harness variables."""
    member = variables.get(MEMBER_VARIABLE, "")
    is_number = member.isascii() and member.isdigit()
    return FoundProcess(pid, int(member) if is_number else -1, variables.get(COMPONENT_VARIABLE, ""))


def send_signal(processes: Iterable[FoundProcess], number: signal.Signals) -> None:
    """Send a signal to each process that still lives. Raises `EnvironmentFault` without the permission to do so."""
    for process in processes:
        try:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        except PermissionError:
            raise EnvironmentFault(f"no permission to signal process {process.pid}: run as its owner") from None


def wait_until_gone(processes: Iterable[FoundProcess], run_id: str, timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Wait until all these processes have ended and released their files: locks and sockets are free then.

    Raises `UnknownOutcome` with the processes that remain.
    """
    pending = {process.pid for process in processes}

    def all_gone() -> bool:
        pending.intersection_update([pid for pid in pending if process_of(pid, run_id) is not None or _is_ending(pid)])
        return not pending

    wait_until(all_gone, timeout_s=timeout_s, describe=lambda: f"processes {sorted(pending)} do not end")


def are_still(processes: Iterable[FoundProcess], run_id: str) -> bool:
    """Whether all these processes are stopped or have ended."""
    return all(is_stopped(process.pid) or process_of(process.pid, run_id) is None for process in processes)


def _is_ending(pid: int) -> bool:
    """Whether the process has released its memory, and thereby its environment, but not all its threads are zombies
    yet. It releases its files and gets its exit status only after that.
    """
    try:
        has_memory = bool((_PROC / str(pid) / "environ").read_bytes())
    except ProcessLookupError:
        has_memory = False
    except OSError:
        return False
    state = _state_in(_PROC / str(pid))
    return not has_memory and state is not None and (state not in ("Z", "X") or len(_threads(pid)) > 1)


def _threads(pid: int) -> list[Path]:
    """The /proc entries of a process's threads; empty when the process is gone."""
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def is_stopped(pid: int) -> bool | None:
    """Whether all threads of the process are stopped, by a signal or by a tracer; None when it is gone.

    A tracer that is stopped itself keeps a signal from its tracee, which stays in the tracer's stop.
    """
    states = [state for state in map(_state_in, _threads(pid)) if state is not None]
    return all(state in ("T", "t") for state in states) if states else None


def _state_in(folder: Path) -> str | None:
    """The state of a thread, as in proc(5), that of a process for its main thread; None when it is gone."""
    fields = _stat(folder)
    return fields[0] if fields else None


def _stat(folder: Path) -> list[str]:
    """The fields of proc_pid_stat(5) from the state on, its field 3; empty when the process is gone."""
    try:
        stat = (folder / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def context_switches(pid: int) -> int:
    """The number of context switches of its threads, voluntary or not; 0 when the process is gone."""
    count = 0
    for thread in _threads(pid):
        with contextlib.suppress(OSError):
            lines = (thread / "status").read_text(encoding="ascii", errors="replace").splitlines()
            count += sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return count


def processor_time_ns(pid: int) -> int:
    """The processor time that its threads have used, by the clock of clock_getcpuclockid(3); 0 when it is gone."""
    try:
        return time.clock_gettime_ns(~pid << 3 | _SCHEDULED)
    except OSError:
        return 0


def boot_id() -> str:
    """An id of the current boot. It distinguishes monotonic clocks that started at different times."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""
