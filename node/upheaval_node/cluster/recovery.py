"""The start of a member: connect to the archive, find the recorded log and a usable snapshot, start the services.

A member starts from the newest snapshot that can be read completely. A snapshot that cannot is invalidated, and the
previous one is tried. The log is not replayed here: that is part of the first election. Source: Aeron Cluster, start
and recovery. Knows nothing of elections.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval_node import counters as counter_types
from upheaval_node.archive.whole_recordings import read_recording
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, check_service_snapshot, decode_module_snapshot
from upheaval_node.cluster.pending_messages import PendingMessages
from upheaval_node.cluster.rules import Rules
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.counters import recovery_state_key
from upheaval_node.errors import PeerError, TerminationError
from upheaval_node.files.recording_log import Entry, RecordingExtent, RecordingLog, RecoveryPlan
from upheaval_node.protocol.constants import REPLAY_STREAM_ID
from upheaval_node.steps import StepGenerator
from upheaval_node.types import LOG_START, MAX_POSITION, NULL_VALUE, Position

UNREADABLE_STATE: Final = -2
"""In the first ack of a service: its state in the snapshot is unreadable. Aeron has only -1, for any failure."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery. `snapshot` is None when the services start empty."""

    plan: RecoveryPlan
    appended_position: Position
    snapshot: ModuleSnapshot | None


def recover(context: ModuleContext, recording: LogRecording, acks: ServiceAcks) -> StepGenerator[Recovered]:
    """Recover the member. The steps end when the services are ready to read the log from its start or the snapshot.

    Raises `TerminationError` when there is no archive or the services cannot start.
    """
    while not context.archive.is_connected:
        if context.archive.is_closed:
            raise TerminationError(f"no archive: {context.archive.error}", expected=False)
        yield
    recording_log = context.recording_log
    extent = yield from _extent(recording_log, recording, context.rules)
    log_end = MAX_POSITION if extent is None else extent.stop_position
    snapshot = yield from newest_snapshot(context, log_end)
    plan = recording_log.create_recovery_plan(context.settings.service_count, extent)
    yield from start_services(context, acks, plan.snapshots)
    return Recovered(plan, plan.appended_log_position, snapshot)


def _extent(
    recording_log: RecordingLog, recording: LogRecording, rules: Rules
) -> StepGenerator[RecordingExtent | None]:
    """The extent of the log's recording in the archive. An active recording is stopped first."""
    recording.recording_id = recording_log.find_last_term_recording_id()
    if recording.recording_id == NULL_VALUE:
        return None
    stop_position = yield from recording.stop()
    if rules.lost_terms_go:
        _forget_lost_terms(recording_log, stop_position)
    log_format = recording.format
    return RecordingExtent(
        recording_id=recording.recording_id,
        start_position=recording.start_position,
        stop_position=stop_position,
        initial_term_id=log_format.initial_term_id,
        term_length=log_format.term_length,
        mtu=log_format.mtu,
        session_id=0,
    )


def _forget_lost_terms(recording_log: RecordingLog, stop_position: Position) -> None:
    """Drop the terms beyond the end of the log.

    Without syncs, a power cut may lose the end of the log but not its terms.
    """
    # Differs from Aeron (docs/protocol.md, E13): Aeron keeps these terms.
    last = recording_log.find_last_term()
    if last is not None and max(last.term_base_log_position, last.log_position) > stop_position:
        recording_log.cut_terms(stop_position)


# --- snapshots ---


def newest_snapshot(context: ModuleContext, log_end: int) -> StepGenerator[ModuleSnapshot | None]:
    """The newest complete snapshot. Newer snapshots that are incomplete are invalidated."""
    recording_log = context.recording_log
    while entries := recording_log.latest_snapshot_set():
        try:
            return (yield from _read_set(context, entries, log_end))
        except PeerError as error:
            now = yield
            context.report(now, "snapshot", f"snapshot at {entries[0].log_position} is not used: {error}")
            recording_log.invalidate_snapshot(entries)
    return None


def _read_set(context: ModuleContext, entries: Sequence[Entry], log_end: int) -> StepGenerator[ModuleSnapshot]:
    """Read a snapshot with all its services.

    Raises `PeerError` when a part is missing, `TerminationError` when the snapshot's application version or time unit
    does not fit.
    """
    head = entries[0]
    if len(entries) != context.settings.service_count + 1:
        raise PeerError(f"it has {len(entries) - 1} snapshots of services")
    if head.log_position > log_end:
        raise PeerError(f"the log ends at {log_end}")
    messages = yield from _read(context, head)
    snapshot = decode_module_snapshot(messages)
    taken_at = snapshot.log_position
    if head.log_position == 0:
        # Aeron's tool has seeded the recording log from a snapshot: the snapshot has the state, and a new log begins at
        # 0.
        snapshot = replace(snapshot, log_position=LOG_START)
    if (snapshot.log_position, snapshot.leadership_term_id) != (head.log_position, head.leadership_term_id):
        raise PeerError(f"its recording is of term {snapshot.leadership_term_id} at {snapshot.log_position}")
    for tracker in snapshot.trackers:
        PendingMessages(tracker.record.service_id).load(tracker.record, tracker.messages)
    for entry in entries[1:]:
        messages = yield from _read(context, entry)
        check_service_snapshot(messages, taken_at, entry.leadership_term_id)
    app_version = context.settings.app_version
    if snapshot.app_version >> 16 != app_version >> 16:
        text = f"incompatible app version {snapshot.app_version} in the snapshot, ours is {app_version}"
        raise TerminationError(text, expected=False)
    difference = context.time.difference(snapshot.time_unit)
    if difference is not None:
        raise TerminationError(f"the snapshot has {difference}", expected=False)
    return snapshot


def _read(context: ModuleContext, entry: Entry) -> StepGenerator[list[bytes]]:
    messages, length = yield from read_recording(context.media, context.archive, entry.recording_id, REPLAY_STREAM_ID)
    if entry.recorded_length not in (NULL_VALUE, length):
        raise PeerError(f"recording {entry.recording_id} has {length} bytes instead of {entry.recorded_length}")
    return messages


# --- services ---


def start_services(context: ModuleContext, acks: ServiceAcks, snapshots: tuple[Entry, ...]) -> StepGenerator[None]:
    """Publish the recovery state that the services start from, until all of them have acknowledged it.

    Raises `TerminationError` when a service could not start.
    """
    if context.settings.service_count == 0:
        return
    cluster_id = context.settings.cluster_id
    term_id, position, timestamp = NULL_VALUE, 0, 0
    if snapshots:
        head = snapshots[0]
        term_id, position, timestamp = head.leadership_term_id, head.log_position, head.timestamp
    key = recovery_state_key(
        term_id, position, timestamp, cluster_id, [snapshot.recording_id for snapshot in snapshots[1:]]
    )
    label = f"Cluster recovery: leadershipTermId={term_id} logPosition={position} clusterId={cluster_id}"
    state = context.counters.allocate(counter_types.RECOVERY_STATE, key, label)
    try:
        while not acks.has_reached(position):
            yield
    finally:
        state.close()
    taken = acks.take()
    if any(ack.relevant_id == UNREADABLE_STATE for ack in taken):
        now = yield
        context.report(now, "snapshot", f"snapshot at {position} is not used: a service cannot read it")
        context.recording_log.invalidate_snapshot(snapshots)
        text = (
            f"failed to start clustered service(s): the snapshot at {position} is damaged, the next start goes without"
        )
        raise TerminationError(text, expected=False)
    if any(ack.relevant_id == NULL_VALUE for ack in taken):
        raise TerminationError("failed to start clustered service(s)", expected=False)
    acks.client_ids = [ack.relevant_id for ack in taken]
