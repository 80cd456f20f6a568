"""All edits, in the order in which they are tried and shown."""

from typing import Final

from upheaval.tamper.edit import Edit
from upheaval.tamper.fault_edits import FAULT_EDITS
from upheaval.tamper.file_edits import FILE_EDITS
from upheaval.tamper.history_edits import HISTORY_EDITS
from upheaval.tamper.log_edits import LOG_EDITS
from upheaval.tamper.manifest_edits import MANIFEST_EDITS
from upheaval.tamper.process_edits import PROCESS_EDITS
from upheaval.tamper.snapshot_edits import SNAPSHOT_EDITS
from upheaval.tamper.trace_edits import TRACE_EDITS

KINDS: Final[dict[str, tuple[Edit, ...]]] = {
    "history": HISTORY_EDITS,
    "log": LOG_EDITS,
    "traces: messages and elections": TRACE_EDITS,
    "traces: processes and time": PROCESS_EDITS,
    "manifest and configurations": MANIFEST_EDITS,
    "faults, commands, sessions": FAULT_EDITS,
    "recordings and other files of members": FILE_EDITS,
    "snapshots, backups, standbys": SNAPSHOT_EDITS,
}
"""By what they change."""
EDITS: Final = tuple(edit for edits in KINDS.values() for edit in edits)
