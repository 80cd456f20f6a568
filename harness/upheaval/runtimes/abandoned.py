"""Ends the members that a killed harness left running, but no member of a live harness.

The environment of a member in the process runtime names its owner. It is empty for a member that may outlive the
command that started it. This module knows processes, not clusters.
"""

import contextlib
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.records import RunFolder
from upheaval.runtimes.owner import Owner
from upheaval.system.process_table import (
    RUN_ID_VARIABLE,
    FoundProcess,
    environments,
    found_process,
    send_signal,
    wait_until_gone,
)

OWNER_VARIABLE: Final = "UPHEAVAL_HARNESS"
FOLDER_VARIABLE: Final = "UPHEAVAL_RUN_FOLDER"
_SHARED_MEMORY: Final = Path("/dev/shm")


def owner_variables(folder: Path, *, detached: bool) -> dict[str, str]:
    """The variables of a new member's environment. `detached`: the member may outlive this process."""
    return {OWNER_VARIABLE: "" if detached else str(Owner.me()), FOLDER_VARIABLE: str(folder)}


@dataclass(slots=True)
class AbandonedRun:
    """The live processes of a run whose harness is certainly gone. `folder` is empty when it is unknown."""

    folder: str
    processes: list[FoundProcess] = field(default_factory=list)


def abandoned_runs() -> dict[str, AbandonedRun]:
    """All abandoned runs on this machine, by run id."""
    runs: dict[str, AbandonedRun] = {}
    for pid, variables in environments():
        owner = variables.get(OWNER_VARIABLE, "")
        if owner and RUN_ID_VARIABLE in variables and Owner.parse(owner).is_gone:
            run = runs.setdefault(variables[RUN_ID_VARIABLE], AbandonedRun(variables.get(FOLDER_VARIABLE, "")))
            run.processes.append(found_process(pid, variables))
    return runs


def end_abandoned() -> list[str]:
    """Kill every member whose harness is certainly gone, and record that in its run. Returns the ids of these runs."""
    runs = abandoned_runs()
    for run_id, run in runs.items():
        begin_ns = time.monotonic_ns()
        send_signal(run.processes, signal.SIGKILL)
        wait_until_gone(run.processes, run_id)
        remove_shared_clocks(process.pid for process in run.processes)
        if run.folder:
            members = (process.member_id for process in run.processes)
            end_ns = time.monotonic_ns()
            RunFolder(run.folder).add_forced_end(
                members, begin_ns, end_ns, "the process that had started them was gone"
            )
    return sorted(runs)


def remove_shared_clocks(pids: Iterable[int]) -> None:
    """Remove the two files in shared memory that libfaketime, if it was loaded, leaves for each ended process."""
    for pid in pids:
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            with contextlib.suppress(OSError):
                (_SHARED_MEMORY / name).unlink(missing_ok=True)
