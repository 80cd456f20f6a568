"""Ends the members that a killed harness left running, but no member of a live harness, and frees their shared memory.

The environment of a member in the process runtime names its owner. It is empty for a member that may outlive the
command that started it. This module knows processes, not clusters.
"""

import contextlib
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.errors import UnknownOutcome
from upheaval.records import SHARED_MEMORY, RunFolder
from upheaval.records.folder_lock import locked
from upheaval.runtimes.owner import Owner, process_start
from upheaval.system.aeron_files import PROPERTIES_FILE, driver_directories, driver_life, free_driver
from upheaval.system.process_table import (
    RUN_ID_VARIABLE,
    FoundProcess,
    are_still,
    environments,
    found_process,
    processes_of,
    send_signal,
    wait_until_gone,
)
from upheaval.waits import wait_until

OWNER_VARIABLE: Final = "UPHEAVAL_HARNESS"
FOLDER_VARIABLE: Final = "UPHEAVAL_RUN_FOLDER"
_SEEN_ENDED: Final = "upheaval-ended"
"""The file that keeps when a clean-up first saw that the driver had ended in order."""
_STOP_TIMEOUT_S: Final = 5.0
_SILENT_S: Final = 5.0
_DRIVER_AGE_S: Final = 3600.0
"""A cluster whose members are all down may start them again, so the directories of their drivers stay for a while."""


def owner_variables(folder: Path, *, detached: bool) -> dict[str, str]:
    """The variables of a new member's environment. `detached`: the member may outlive this process."""
    return {OWNER_VARIABLE: "" if detached else str(Owner.me()), FOLDER_VARIABLE: str(folder)}


@dataclass(slots=True)
class AbandonedRun:
    """The live processes of a run whose harness is certainly gone. `folder` is empty when it is unknown."""

    folder: str
    processes: list[FoundProcess] = field(default_factory=list)
    is_whole: bool = True
    """Whether these are all live processes of the run: another command may have started a member, too."""


def abandoned_runs() -> dict[str, AbandonedRun]:
    """All abandoned runs on this machine, by run id."""
    runs: dict[str, AbandonedRun] = {}
    for pid, variables in environments():
        owner = variables.get(OWNER_VARIABLE, "")
        if owner and RUN_ID_VARIABLE in variables and Owner.parse(owner).is_gone:
            run = runs.setdefault(variables[RUN_ID_VARIABLE], AbandonedRun(variables.get(FOLDER_VARIABLE, "")))
            run.processes.append(found_process(pid, variables))
    for run_id, run in runs.items():
        run.is_whole = {process.pid for process in processes_of(run_id)} <= {process.pid for process in run.processes}
    return runs


def end_abandoned(of_run: str = "") -> list[str]:
    """Kill every member whose harness is certainly gone, of all runs or of one, and record that in its run. Returns the
    ids of these runs.

    What another harness has begun to end has ended, too, when this returns.
    """
    with turn():
        runs = {run_id: run for run_id, run in abandoned_runs().items() if of_run in ("", run_id)}
        for run_id, run in runs.items():
            _end(run_id, run)
    return sorted(runs)


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Make all harnesses of this user take turns, whatever their temporary folders are.

    A harness that waits for long says so. Where another user has taken the lock's name, the block runs at once.
    """
    place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    folder = place / f"upheaval.{_user()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
    if not _is_ours(folder):
        yield
        return
    notice = threading.Timer(_SILENT_S, _say_who_holds, (folder,))
    notice.daemon = True
    notice.start()
    try:
        with locked(folder):
            notice.cancel()
            yield
    finally:
        notice.cancel()


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and os.access(folder, os.R_OK)


def _say_who_holds(folder: Path) -> None:
    """As proc_locks(5) shows it: `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`."""
    with contextlib.suppress(OSError):
        inode = str(folder.stat().st_ino)
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        holders = [fields[4] for fields in locks if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode]
        who = f"process {holders[0]}" if holders else "another process"
        print(f"upheaval: waits for {who}, which ends what a killed harness left ({folder})", file=sys.stderr)


def _user() -> int:
    """The id outside of a user name space: `unshare --map-root-user` leaves the same processes to be seen and ended."""
    mine = os.getuid()
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, outside, count = map(int, line.split())
        if inside <= mine < inside + count:
            return outside + mine - inside
    return mine


def _end(run_id: str, run: AbandonedRun) -> None:
    """A harness that is killed here leaves either live processes, which the next one finds, or the record.

    Whatever does not stop, such as a thread that waits for a disk, is recorded and killed all the same.
    """
    begin_ns = time.monotonic_ns()
    send_signal(run.processes, signal.SIGSTOP)
    with contextlib.suppress(UnknownOutcome):
        wait_until(
            lambda: are_still(run.processes, run_id),
            timeout_s=_STOP_TIMEOUT_S,
            describe=lambda: f"members of run {run_id} do not stop",
        )
    if run.folder:
        members = (process.member_id for process in run.processes)
        end_ns = time.monotonic_ns()
        RunFolder(run.folder).add_forced_end(members, begin_ns, end_ns, "the process that had started them was gone")
    send_signal(run.processes, signal.SIGKILL)
    wait_until_gone(run.processes, run_id)
    remove_shared_clocks(process.pid for process in run.processes)
    if processes_of(run_id):
        return
    for properties in Path(run.folder).glob(f"*/{PROPERTIES_FILE}") if run.folder else ():
        free_driver(properties.parent)
    remove_drivers(run_id)


def remove_shared_clocks(pids: Iterable[int]) -> None:
    """Remove the two files in shared memory that libfaketime, if it was loaded, leaves for each ended process."""
    for pid in pids:
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            with contextlib.suppress(OSError):
                (SHARED_MEMORY / name).unlink(missing_ok=True)


def remove_drivers(run_id: str) -> None:
    """Remove the directories of the media drivers of a run that has ended."""
    for directory in driver_directories(run_id):
        shutil.rmtree(directory, ignore_errors=True)


def abandoned_drivers(*, is_dry: bool) -> list[Path]:
    """The directories of media drivers that ended an hour ago or more, in runs without a live process.

    A driver that ended in order does not show when, so its hour begins here, unless `is_dry`. Where no driver can be
    seen in a directory, that is left alone.
    """
    run_ids = {variables[RUN_ID_VARIABLE] for _, variables in environments() if RUN_ID_VARIABLE in variables}
    lives = {directory for run_id in run_ids for directory in driver_directories(run_id)}
    return [
        directory
        for directory in driver_directories()
        if directory not in lives and _has_long_ended(directory, is_dry=is_dry)
    ]


def _has_long_ended(directory: Path, *, is_dry: bool) -> bool:
    """By the heartbeat, which also shows a driver that another container has. A fault may have set its clock back."""
    pid, heartbeat_s = driver_life(directory / "cnc.dat")
    if heartbeat_s is None or process_start(pid) is not None:
        return False
    try:
        if heartbeat_s < 0 and not (directory / _SEEN_ENDED).exists():
            if not is_dry:
                (directory / _SEEN_ENDED).touch()
            return False
        return time.time() - max(heartbeat_s, _changed_s(directory)) >= _DRIVER_AGE_S
    except OSError:
        return False


def _changed_s(directory: Path) -> float:
    """When a file in it was last made, in seconds since the epoch: writes to a mapped file do not count."""
    return max(path.stat().st_mtime for path in (directory, *directory.glob("*")))
