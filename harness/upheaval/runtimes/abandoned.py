"""Ends the members that a killed harness left running, and nothing of a harness that lives.

Members of the process runtime have their owner in their environment; those of a cluster that shall outlive the command
that made it have none. This module knows processes, nothing of clusters.
"""

import signal
import time
from collections import defaultdict
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


def owner_variables(folder: Path, *, kept: bool) -> dict[str, str]:
    """What a new member of the run in a folder has in its environment. `kept`: it shall outlive this process."""
    return {OWNER_VARIABLE: "" if kept else str(Owner.me()), FOLDER_VARIABLE: str(folder)}


def end_abandoned() -> list[str]:
    """SIGKILL to every member whose harness is certainly gone, and a word of it in its run; returns the runs' ids."""
    found: dict[str, list[FoundProcess]] = defaultdict(list)
    folders: dict[str, str] = {}
    for pid, variables in environments():
        owner = variables.get(OWNER_VARIABLE, "")
        if owner and RUN_ID_VARIABLE in variables and Owner.parse(owner).is_gone:
            found[variables[RUN_ID_VARIABLE]].append(found_process(pid, variables))
            folders[variables[RUN_ID_VARIABLE]] = variables.get(FOLDER_VARIABLE, "")
    for run_id, processes in found.items():
        begin_ns = time.monotonic_ns()
        send_signal(processes, signal.SIGKILL)
        wait_until_gone(processes, run_id)
        if folders[run_id]:
            members = (each.member_id for each in processes)
            end_ns = time.monotonic_ns()
            RunFolder(folders[run_id]).add_forced_end(members, begin_ns, end_ns, "whoever had started them was gone")
    return sorted(found)
