"""Takes the snapshots of a consensus module and its services.

Theory of operation. The log entry that requests a snapshot brings every member into SNAPSHOT at the same position. A
member reads or appends nothing after it until its services have acknowledged their snapshots. With the last of these
acks the module's own state is captured, and recorded over the next duty cycles. Only when all parts are complete are
they entered in the recording log, which makes them count. A failure costs the member this snapshot and nothing else.
Source: Aeron Cluster, snapshots. Knows nothing of elections.
"""

from collections.abc import Callable, Sequence
from typing import Final

from upheaval_node.archive.whole_recordings import WholeRecording, describe_recording, write_recording
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, encode_module_snapshot
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.cluster.replicated_state import ReplicatedState
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError
from upheaval_node.files.recording_log import Entry
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import MODULE_SNAPSHOT_STREAM_ID
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now, Position, TermId

MODULE_ID: Final = -1


class Snapshots:
    """Takes one snapshot at a time.

    `base_of_term` returns the base position of a term, by default from the recording log. `on_recorded` gets the
    recordings of a snapshot and their entries. `on_end` is called when the log continues, whether or not the snapshot
    succeeded.
    """

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        state: ReplicatedState,
        acks: ServiceAcks,
        *,
        base_of_term: Callable[[TermId], Position] | None = None,
        on_recorded: Callable[[Sequence[tuple[WholeRecording, Entry]]], None] = lambda _: None,
        on_end: Callable[[Now], None] = lambda _: None,
    ) -> None:
        self._context = context
        self._standing = standing
        self._state = state
        self._acks = acks
        self._base_of_term = base_of_term or context.recording_log.base_of_term
        self._on_recorded = on_recorded
        self._on_end = on_end
        self._recording: Steps[None] | None = None
        self.position = NULL_POSITION
        """The end of the entry that requested the last snapshot."""

    @property
    def is_recording(self) -> bool:
        """Whether the module's own part is being recorded."""
        return self._recording is not None

    def awaits_entry(self, commit_position: Position) -> bool:
        """Whether the entry that requests the snapshot is not committed yet, so that no service has seen it."""
        # Differs from Aeron (docs/protocol.md, E24): Aeron checks its quorum only while it is ACTIVE.
        is_pending = self._standing.is_taking_snapshot and commit_position < self.position
        return is_pending and self._context.rules.snapshots_give_way

    def begin(self, now: Now, position: Position, *, is_timed: bool = False) -> None:
        """Begin the snapshot requested by the entry that ends at `position`. `is_timed`: measure its duration from
        here.
        """
        if is_timed:
            self._context.durations.begin(now)
        self.position = position
        self._standing.enter(now, ModuleState.SNAPSHOT)

    def on_service_ack(self, now: Now, message: cm.ServiceAck) -> None:
        """Take the acks of a snapshot. Other parts take the acks that they wait for."""
        is_awaited = self._standing.is_taking_snapshot and self._recording is None
        if is_awaited and self._acks.has_reached(self.position):
            self._take(now, self._acks.take(), message.timestamp)

    def poll(self, now: Now, commit_position: Position) -> int:
        """Advance the snapshot. Without services, it begins as soon as its entry is committed."""
        if self._recording is None:
            has_services = self._context.settings.service_count > 0
            if has_services or not self._standing.is_taking_snapshot or commit_position < self.position:
                return 0
            self._take(now, (), self._context.cluster_time(now))
            return 1
        try:
            if not self._recording.poll(now):
                return 0
        except (TerminationError, StorageError):
            raise
        except NodeError as error:
            self._context.report(now, "snapshot", f"failed to take snapshot at {self.position}: {error}")
        self._recording = None
        self._end(now)
        return 1

    def close(self) -> None:
        """Abandon the snapshot."""
        if self._recording is not None:
            self._recording.close()
            self._recording = None

    def _take(self, now: Now, acks: Sequence[cm.ServiceAck], timestamp: int) -> None:
        failed = [ack.service_id for ack in acks if ack.relevant_id == NULL_VALUE]
        if failed:
            text = f"failed to take snapshot at {self.position}: service(s) {failed}"
            self._context.report(now, "snapshot", text)
            self._end(now)
            return
        state = self._state.snapshot(now, self.position)
        self._recording = Steps(self._record(state, [ack.relevant_id for ack in acks], timestamp))

    def _record(self, state: ModuleSnapshot, recording_ids: Sequence[int], timestamp: int) -> StepGenerator[None]:
        """Record the module's part, then enter all parts in the recording log."""
        context = self._context
        term_base = self._base_of_term(state.leadership_term_id)
        channel = Channel("ipc", {"alias": "snapshot", "term-length": str(context.settings.snapshot_term_length)})
        own = yield from write_recording(
            context.media,
            context.counters,
            context.archive,
            str(channel),
            MODULE_SNAPSHOT_STREAM_ID,
            encode_module_snapshot(state),
        )
        recordings: list[tuple[int, WholeRecording]] = [(MODULE_ID, own)]
        for service_id, recording_id in enumerate(recording_ids):
            descriptor = yield from describe_recording(context.archive, recording_id)
            if descriptor.stop_position == NULL_POSITION:
                raise PeerError(f"recording {recording_id} of service {service_id} has no end")
            length = descriptor.stop_position - descriptor.start_position
            recordings.append((service_id, WholeRecording(recording_id, length)))
        named = [
            (
                recording,
                self._context.recording_log.append_snapshot(
                    recording.recording_id,
                    state.leadership_term_id,
                    term_base,
                    state.log_position,
                    timestamp,
                    service_id,
                    recorded_length=recording.length,
                ),
            )
            for service_id, recording in [*reversed(recordings[1:]), recordings[0]]
        ]
        context.published.snapshot_count.increment()
        self._on_recorded(named)

    def _end(self, now: Now) -> None:
        self._context.durations.end(now)
        self._state.sessions.touch(now)
        self._standing.enter(now, ModuleState.ACTIVE)
        if self._standing.is_leader:
            self._context.published.control_toggle.set(ControlToggle.NEUTRAL)
        self._on_end(now)
