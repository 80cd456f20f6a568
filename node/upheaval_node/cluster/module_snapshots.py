"""How a consensus module takes a snapshot with its services, and how it begins with one.

Theory of operation. The entry that asks for a snapshot brings every member into SNAPSHOT at the same place of the log;
nothing behind it is read or appended until the services of that member have acknowledged theirs. At the last of these
acks the module's own state is taken, and recorded over the next duty cycles. Only then do all of them get into the
recording log, by which they count. A failure leaves the member without this snapshot and nothing else. Source: Aeron
Cluster, snapshots. Knows nothing of elections.
"""

from collections.abc import Sequence
from typing import Final

from upheaval_node.archive.whole_recordings import WholeRecording, describe_recording, write_recording
from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.module_base import ModuleBase
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, TrackerState, encode_module_snapshot
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError
from upheaval_node.files.recording_log import Entry
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import MODULE_SNAPSHOT_STREAM_ID
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now

MODULE_ID: Final = -1


class SnapshotSide(ModuleBase):
    _snapshot_position = NULL_POSITION
    _snapshot: Steps[None] | None = None

    # --- taking ---

    def _begin_snapshot(self, now: Now, position: int) -> None:
        """The log asks for a snapshot in the entry that ends at `position`."""
        self._snapshot_position = position
        self._enter(now, ModuleState.SNAPSHOT)

    def on_service_ack(self, now: Now, message: cm.ServiceAck) -> None:
        """The acks of a snapshot are taken here; others are counted by whoever waits for them."""
        is_awaited = self._state is ModuleState.SNAPSHOT and self._snapshot is None
        if is_awaited and self._acks.has_reached(self._snapshot_position):
            acks = self._acks.take()
            self._take_snapshot(now, acks, message.timestamp)

    def _take_snapshot(self, now: Now, acks: Sequence[cm.ServiceAck], timestamp: int) -> None:
        failed = [ack.service_id for ack in acks if ack.relevant_id == NULL_VALUE]
        if failed:
            text = f"failed to take snapshot at {self._snapshot_position}: service(s) {failed}"
            self._context.report(now, "snapshot", text)
            self._end_snapshot(now)
            return
        state = self._state_for_snapshot(now)
        recording_ids = [ack.relevant_id for ack in acks]
        self._snapshot = Steps(self._record_snapshot(state, recording_ids, timestamp))

    def _state_for_snapshot(self, now: Now) -> ModuleSnapshot:
        for pending in self._pending_messages:
            if pending.lags:
                text = f"service {pending.service_id} offered fewer messages than the log has of it"
                self._context.report(now, "snapshot", text)
        return ModuleSnapshot(
            log_position=self._snapshot_position,
            leadership_term_id=self._term_id,
            app_version=self.app_version,
            time_unit=self._time.unit,
            next_session_id=self._sessions.next_committed_session_id,
            sessions=self._sessions.records(),
            timers=[cm.Timer(correlation_id=key, deadline=deadline) for key, deadline in self._timers],
            trackers=[TrackerState(each.record(), each.encoded_messages()) for each in self._pending_messages],
        )

    def _record_snapshot(
        self, state: ModuleSnapshot, recording_ids: Sequence[int], timestamp: int
    ) -> StepGenerator[None]:
        """Record the module's part and, when everything is complete, say so in the recording log."""
        context = self._context
        term_base = self._base_of_term(state.leadership_term_id)
        channel = Channel("ipc", {"alias": "snapshot", "term-length": str(self._settings.snapshot_term_length)})
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
            found = yield from describe_recording(context.archive, recording_id)
            if found.stop_position == NULL_POSITION:
                raise PeerError(f"recording {recording_id} of service {service_id} has no end")
            length = found.stop_position - found.start_position
            recordings.append((service_id, WholeRecording(recording_id, length)))
        for service_id, recording in reversed(recordings[1:]):
            self._append_snapshot(service_id, recording, state, term_base, timestamp)
        self._append_snapshot(MODULE_ID, own, state, term_base, timestamp)
        self.counters.snapshot_count.increment()

    def _base_of_term(self, leadership_term_id: int) -> int:
        return self.recording_log.get_term_entry(leadership_term_id).term_base_log_position

    def _append_snapshot(
        self, service_id: int, recording: WholeRecording, state: ModuleSnapshot, term_base: int, timestamp: int
    ) -> Entry:
        return self.recording_log.append_snapshot(
            recording.recording_id,
            state.leadership_term_id,
            term_base,
            state.log_position,
            timestamp,
            service_id,
            recorded_length=recording.length,
        )

    def _poll_snapshot(self, now: Now) -> int:
        if self._snapshot is None:
            return self._begin_without_services(now)
        try:
            if not self._snapshot.poll(now):
                return 0
        except (TerminationError, StorageError):
            raise
        except NodeError as error:
            text = f"failed to take snapshot at {self._snapshot_position}: {error}"
            self._context.report(now, "snapshot", text)
        self._snapshot = None
        self._end_snapshot(now)
        return 1

    def _begin_without_services(self, now: Now) -> int:
        """Where nobody has to acknowledge it, the snapshot begins as soon as its entry is committed."""
        is_due = self._state is ModuleState.SNAPSHOT and self._settings.service_count == 0
        if not is_due or self.commit_position < self._snapshot_position:
            return 0
        self._take_snapshot(now, (), self.cluster_time(now))
        return 1

    def _end_snapshot(self, now: Now) -> None:
        """The log goes on, whatever came of the snapshot."""
        self._durations.end(now)
        self._sessions.touch(now)
        self._enter(now, ModuleState.ACTIVE)
        if self._role is Role.LEADER and self._election is None:
            self.counters.control_toggle.set(ControlToggle.NEUTRAL)

    # --- beginning with one ---

    def _load_snapshot(self, now: Now, snapshot: ModuleSnapshot) -> None:
        self._sessions.load(now, snapshot.next_session_id, snapshot.sessions)
        for timer in snapshot.timers:
            self._timers.schedule(timer.correlation_id, timer.deadline)
        for tracker in snapshot.trackers:
            service_id = tracker.record.service_id
            if not 0 <= service_id < len(self._pending_messages):
                raise TerminationError(f"the snapshot has messages of service {service_id}", expected=False)
            self._pending_messages[service_id].load(tracker.record, tracker.messages)
        self.counters.commit_position.set(snapshot.log_position)
        self._notified_commit_position = max(self._notified_commit_position, snapshot.log_position)
