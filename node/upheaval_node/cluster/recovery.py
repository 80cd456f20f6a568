"""The start of a member: connect to the archive, find out what is there, start the services from it.

The log is not replayed here, that is part of the first election. Source: Aeron Cluster, start and recovery.
"""

from dataclasses import dataclass

from upheaval_node import counters as counter_types
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.cluster.steps import StepGenerator
from upheaval_node.counters import recovery_state_key
from upheaval_node.errors import TerminationError
from upheaval_node.files.recording_log import RecordingExtent, RecordingLog, RecoveryPlan
from upheaval_node.types import NULL_VALUE


@dataclass(frozen=True, slots=True)
class Recovered:
    plan: RecoveryPlan
    appended_position: int


def recover(
    context: ModuleContext, recording_log: RecordingLog, recording: LogRecording, acks: ServiceAcks
) -> StepGenerator[Recovered]:
    """Ends when the services stand where the log is to be read from. Raises `TerminationError` when they cannot."""
    while not context.archive.is_connected:
        if context.archive.is_closed:
            raise TerminationError(f"no archive: {context.archive.error}", expected=False)
        yield
    plan = yield from _plan(context, recording_log, recording)
    if plan.snapshots:
        raise TerminationError("this member cannot load the snapshot that its recording log names", expected=False)
    yield from _start_services(context, acks)
    return Recovered(plan, plan.appended_log_position)


def _plan(context: ModuleContext, recording_log: RecordingLog, recording: LogRecording) -> StepGenerator[RecoveryPlan]:
    """What the recording log and the archive say together. A recording that is still active is stopped first."""
    service_count = context.settings.service_count
    recording.recording_id = recording_log.find_last_term_recording_id()
    if recording.recording_id == NULL_VALUE:
        return recording_log.create_recovery_plan(service_count)
    stop_position = yield from recording.stop()
    log_format = recording.format
    extent = RecordingExtent(
        recording_id=recording.recording_id,
        start_position=recording.start_position,
        stop_position=stop_position,
        initial_term_id=log_format.initial_term_id,
        term_length=log_format.term_length,
        mtu=log_format.mtu,
        session_id=0,
    )
    return recording_log.create_recovery_plan(service_count, extent)


def _start_services(context: ModuleContext, acks: ServiceAcks) -> StepGenerator[None]:
    """Publish the recovery state, from which the services start, until all of them have acknowledged it."""
    if context.settings.service_count == 0:
        return
    cluster_id = context.settings.cluster_id
    key = recovery_state_key(NULL_VALUE, 0, 0, cluster_id, [])
    label = f"Cluster recovery: leadershipTermId={NULL_VALUE} logPosition=0 clusterId={cluster_id}"
    state = context.counters.allocate(counter_types.RECOVERY_STATE, key, label)
    try:
        while not acks.has_reached(0):
            yield
    finally:
        state.close()
    for service_id, ack in enumerate(acks.take()):
        if ack.relevant_id == NULL_VALUE:
            raise TerminationError("failed to start clustered service(s)", expected=False)
        acks.client_ids[service_id] = ack.relevant_id
