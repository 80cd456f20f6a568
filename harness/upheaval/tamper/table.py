"""All edits, in the order in which they are tried."""

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

EDITS: Final[tuple[Edit, ...]] = (
    *HISTORY_EDITS,
    *LOG_EDITS,
    *TRACE_EDITS,
    *PROCESS_EDITS,
    *MANIFEST_EDITS,
    *FAULT_EDITS,
    *FILE_EDITS,
    *SNAPSHOT_EDITS,
)
