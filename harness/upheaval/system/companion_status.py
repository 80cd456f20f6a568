"""Reads a companion's status from its counters and its recording log, for every runtime.

Works on a companion that is alive, dead or starting. It only reads.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from upheaval.records import CompanionStatus, FieldError, jsonfields
from upheaval.system.member_status import read_counters
from upheaval_node.counters import Counters
from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.runtime.backup_health import backup_health_of, read_backup_health


def status_in_folder(name: str, folder: Path, pid: int | None, cnc: Path | None = None) -> CompanionStatus:
    """The status of a companion whose files are on this machine. `pid` None: it does not run. `cnc`: the counters file,
    if that is elsewhere.
    """
    if pid is None:
        return status_from_fields(name, {**read_backup_health(str(folder)), "alive": False})
    try:
        counters = read_counters(cnc or folder / layout.CNC, pid)
        recording_log = (folder / layout.RECORDING_LOG).read_bytes()
    except (OSError, NodeError):
        return CompanionStatus(name, alive=True, pid=pid)
    if counters is None:
        # The driver is just creating the file.
        return CompanionStatus(name, alive=True, pid=pid)
    return companion_from_counters(name, counters, pid, recording_log)


def companion_from_counters(name: str, counters: Counters, pid: int, recording_log: bytes) -> CompanionStatus:
    """The status of a live companion."""
    return status_from_fields(name, backup_health_of(counters, pid, recording_log))


def status_from_text(name: str, text: str) -> CompanionStatus:
    """Parse the output of `upheaval_node.runtime.backup_health --json`. Unreadable output means a dead companion."""
    try:
        return status_from_fields(name, jsonfields.parse_object(text))
    except FieldError:
        return CompanionStatus(name, alive=False)


def status_from_fields(name: str, fields: Mapping[str, object]) -> CompanionStatus:
    """The status from the node's health object. A field that is missing or of another type counts as unknown."""
    state = fields.get("state")
    if fields.get("alive") is not True:
        return CompanionStatus(name, alive=False, snapshot_position=_number(fields, "snapshot_position"))
    numbers = {
        field.name: _number(fields, field.name) for field in dataclasses.fields(CompanionStatus) if field.type is int
    }
    return CompanionStatus(name, alive=True, state=state if isinstance(state, str) else None, **numbers)


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
