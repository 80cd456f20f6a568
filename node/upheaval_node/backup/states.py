"""The states of a backup agent, with Aeron's codes, and the moves between them.

Source: Aeron Cluster, backup agent. Knows nothing of what is done in a state.
"""

from enum import IntEnum
from typing import Final


class BackupState(IntEnum):
    """What the state counter (208) shows."""

    BACKUP_QUERY = 0
    """Asks one member after the other what there is to copy."""

    SNAPSHOT_RETRIEVE = 1
    """The newest snapshots are being copied."""

    LIVE_LOG_RECORD = 2
    """The own archive is asked to record the log."""

    LIVE_LOG_REPLAY = 3
    """The member's archive is asked for the log, from where the own copy ends."""

    UPDATE_RECORDING_LOG = 4
    """What was copied is named in the recording log, from which a member can start."""

    BACKING_UP = 5
    """The log is followed until the next query is due."""

    RESET_BACKUP = 6
    """Everything is given up; after a pause it begins anew."""

    CLOSED = 7


_GIVEN_UP: Final = frozenset({BackupState.RESET_BACKUP, BackupState.CLOSED})

LEGAL_MOVES: Final = {
    BackupState.BACKUP_QUERY: _GIVEN_UP | {BackupState.SNAPSHOT_RETRIEVE, BackupState.LIVE_LOG_RECORD},
    BackupState.SNAPSHOT_RETRIEVE: _GIVEN_UP | {BackupState.LIVE_LOG_RECORD},
    BackupState.LIVE_LOG_RECORD: _GIVEN_UP | {BackupState.LIVE_LOG_REPLAY},
    BackupState.LIVE_LOG_REPLAY: _GIVEN_UP | {BackupState.UPDATE_RECORDING_LOG},
    BackupState.UPDATE_RECORDING_LOG: _GIVEN_UP | {BackupState.BACKING_UP},
    BackupState.BACKING_UP: _GIVEN_UP | {BackupState.BACKUP_QUERY},
    BackupState.RESET_BACKUP: frozenset({BackupState.BACKUP_QUERY, BackupState.CLOSED}),
    BackupState.CLOSED: frozenset[BackupState](),
}
