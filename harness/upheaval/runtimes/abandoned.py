"""Ends the members that a killed harness left running, and nothing of a harness that lives.

Members of the process runtime have their owner in their environment; those of a cluster that shall outlive the command
that made it have none. This module knows processes, nothing of clusters.
"""

import signal
from collections import defaultdict
from typing import Final

from upheaval.runtimes.owner import Owner
from upheaval.system.process_table import RUN_ID_VARIABLE, FoundProcess, environments, send_signal, wait_until_gone

OWNER_VARIABLE: Final = "UPHEAVAL_HARNESS"


def owner_variables(*, kept: bool) -> dict[str, str]:
    """What a new member has in its environment. `kept`: it shall outlive this process."""
    return {OWNER_VARIABLE: "" if kept else str(Owner.me())}


def end_abandoned() -> list[str]:
    """SIGKILL to every member whose harness is certainly gone; returns the ids of their runs."""
    found: dict[str, list[FoundProcess]] = defaultdict(list)
    for pid, variables in environments():
        owner = variables.get(OWNER_VARIABLE, "")
        if owner and RUN_ID_VARIABLE in variables and Owner.parse(owner).is_gone:
            found[variables[RUN_ID_VARIABLE]].append(FoundProcess(pid, -1, ""))
    for run_id, processes in found.items():
        send_signal(processes, signal.SIGKILL)
        wait_until_gone(processes, run_id)
    return sorted(found)
