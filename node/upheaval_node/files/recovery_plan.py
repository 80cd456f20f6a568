"""The recovery plan of a member: the newest snapshot and the log after it (Aeron Cluster: recovery plan).

Pure computation from recording log entries and the archive's description of the log's recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from upheaval_node.errors import UsageError
from upheaval_node.files.recording_log_entry import Entry
from upheaval_node.types import LOG_START, NULL_POSITION, NULL_TERM_ID, Position, TermId


@dataclass(frozen=True, slots=True)
class RecordingExtent:
    """The extent of a recording by the archive's descriptor. Positions and lengths in bytes."""

    recording_id: int
    start_position: int
    stop_position: int
    initial_term_id: int
    term_length: int
    mtu: int
    session_id: int


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The log to replay: from `start_position` to `stop_position` of its recording.

    `log_position` is the end of the last term, -1 while it is open. The other fields are those of the last TERM entry
    and of the recording.
    """

    recording_id: int
    leadership_term_id: TermId
    term_base_log_position: Position
    log_position: Position
    start_position: Position
    stop_position: Position
    initial_term_id: int
    term_length: int
    mtu: int
    session_id: int


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """`snapshots` begins with the consensus module's, followed by the services' by id."""

    last_leadership_term_id: TermId
    last_term_base_log_position: Position
    appended_log_position: Position
    committed_log_position: Position
    snapshots: tuple[Entry, ...]
    log: LogPlan | None


def make_recovery_plan(
    entries: Sequence[Entry], last_term: Entry | None, service_count: int, extent: RecordingExtent | None
) -> RecoveryPlan:
    """The plan for sorted `entries`. See `RecordingLog.create_recovery_plan`."""
    snapshots = _snapshots(entries, service_count)
    log: LogPlan | None = None
    if last_term is not None:
        if extent is None or extent.recording_id != last_term.recording_id:
            raise UsageError(f"the extent of recording {last_term.recording_id} is needed, got {extent}")
        start = snapshots[0].log_position if snapshots else Position(extent.start_position)
        log = _log(
            extent, last_term.leadership_term_id, last_term.term_base_log_position, last_term.log_position, start
        )
    elif not entries and extent is not None:
        log = _log(extent, NULL_TERM_ID, LOG_START, LOG_START, Position(extent.start_position))
    return _plan(snapshots, log)


def _plan(snapshots: tuple[Entry, ...], log: LogPlan | None) -> RecoveryPlan:
    term, base, position = NULL_TERM_ID, LOG_START, LOG_START
    if snapshots:
        head = snapshots[0]
        term, base, position = head.leadership_term_id, head.term_base_log_position, head.log_position
    if log is None:
        return RecoveryPlan(term, base, position, position, snapshots, None)
    committed = position if log.log_position == NULL_POSITION else log.log_position
    return RecoveryPlan(
        log.leadership_term_id, log.term_base_log_position, log.stop_position, committed, snapshots, log
    )


def _log(extent: RecordingExtent, term: TermId, base: Position, end: Position, start: Position) -> LogPlan:
    return LogPlan(
        recording_id=extent.recording_id,
        leadership_term_id=term,
        term_base_log_position=base,
        log_position=end,
        start_position=start,
        stop_position=Position(extent.stop_position),
        initial_term_id=extent.initial_term_id,
        term_length=extent.term_length,
        mtu=extent.mtu,
        session_id=extent.session_id,
    )


def _snapshots(entries: Sequence[Entry], service_count: int) -> tuple[Entry, ...]:
    """The newest valid snapshot of the module with the services' snapshots before it."""
    index = next((at for at in range(len(entries) - 1, -1, -1) if entries[at].is_module_snapshot), None)
    if index is None:
        return ()
    if index < service_count:
        raise UsageError(f"{service_count} services, but only {index} entries before the snapshot of the module")
    module = entries[index]
    services = [
        entry
        for entry in reversed(entries[index - service_count : index])
        if entry.is_valid_snapshot and entry.is_same_set(module)
    ]
    return (module, *services)
