"""`python -m upheaval_node.runtime.backup_health [--json] [--repeat] [FOLDER]`: what a backup's own counters say.

The health check of a container that runs a backup, and the eye of every runtime that cannot read the backup's files
itself. Reads only. Exit status 0: a live backup that publishes a state; 1: anything else.
"""

import os
import sys

from upheaval_node import counters as types
from upheaval_node.backup.states import BackupState
from upheaval_node.cluster.admin_commands import latest_snapshot_position
from upheaval_node.counters import Counters
from upheaval_node.files import layout
from upheaval_node.runtime.health import say_health
from upheaval_node.runtime.shared_counters import attach_cnc


def read_backup_health(folder: str) -> dict[str, object]:
    """State, positions and counts; of a backup that is down only `alive` and `snapshot_position`."""
    recording_log = _content(os.path.join(folder, layout.RECORDING_LOG))
    cnc = attach_cnc(os.path.join(folder, layout.CNC))
    if cnc is None:
        return {"alive": False, "snapshot_position": latest_snapshot_position(recording_log)}
    fields = backup_health_of(cnc.counters(), cnc.header.pid, recording_log)
    cnc.close()
    return fields


def backup_health_of(counters: Counters, pid: int, recording_log: bytes) -> dict[str, object]:
    """The health of a live backup, from its counters and recording log."""
    state = _value(counters, types.BACKUP_STATE)
    return {
        "alive": True,
        "pid": pid,
        "state": BackupState(state).name if state in {known.value for known in BackupState} else None,
        "live_log_position": _value(counters, types.BACKUP_LIVE_LOG_POSITION),
        "next_query_deadline_ms": _value(counters, types.BACKUP_QUERY_DEADLINE),
        "applied_position": _value(counters, types.COMMIT_POSITION),
        "snapshots_retrieved": _value(counters, types.BACKUP_SNAPSHOTS_RETRIEVED),
        "errors": _value(counters, types.BACKUP_ERRORS),
        "snapshot_position": latest_snapshot_position(recording_log),
    }


def _value(counters: Counters, type_id: int) -> int:
    counter = counters.find(type_id)
    return -1 if counter is None else counter.get()


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(say_health("upheaval-backup-health", "backup", read_backup_health, "state"))
