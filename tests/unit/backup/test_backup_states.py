"""The states of a backup agent and the moves between them."""

from itertools import pairwise

from upheaval_node.backup.states import LEGAL_MOVES, BackupState

ROUND = [
    BackupState.BACKUP_QUERY,
    BackupState.SNAPSHOT_RETRIEVE,
    BackupState.LIVE_LOG_RECORD,
    BackupState.LIVE_LOG_REPLAY,
    BackupState.UPDATE_RECORDING_LOG,
    BackupState.BACKING_UP,
    BackupState.BACKUP_QUERY,
]


def test_codes_and_names_are_those_that_counters_show() -> None:
    assert [(int(state), state.name) for state in BackupState] == [
        (0, "BACKUP_QUERY"),
        (1, "SNAPSHOT_RETRIEVE"),
        (2, "LIVE_LOG_RECORD"),
        (3, "LIVE_LOG_REPLAY"),
        (4, "UPDATE_RECORDING_LOG"),
        (5, "BACKING_UP"),
        (6, "RESET_BACKUP"),
        (7, "CLOSED"),
    ]


def test_a_round_goes_through_all_states_with_or_without_snapshots() -> None:
    assert all(after in LEGAL_MOVES[before] for before, after in pairwise(ROUND))
    assert BackupState.LIVE_LOG_RECORD in LEGAL_MOVES[BackupState.BACKUP_QUERY]


def test_every_state_can_be_given_up_and_a_new_round_begins_with_a_query() -> None:
    for state in set(BackupState) - {BackupState.RESET_BACKUP, BackupState.CLOSED}:
        assert {BackupState.RESET_BACKUP, BackupState.CLOSED} <= LEGAL_MOVES[state]
    assert LEGAL_MOVES[BackupState.RESET_BACKUP] == {BackupState.BACKUP_QUERY, BackupState.CLOSED}
    assert not LEGAL_MOVES[BackupState.CLOSED]
