"""Copies a slice of the leader's log recording into the member's archive, for terms that this member missed.

The archives do the work; this module follows it through their signals. Source: Aeron Cluster, log replication. Knows
nothing of the slice's content.
"""

from upheaval_node import counters as counter_types
from upheaval_node.archive.calls import LateError
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.counters import Counter, recording_key_prefix
from upheaval_node.errors import PeerError, TimeoutExpired
from upheaval_node.protocol.archive_messages import RecordingSignal, RecordingSignalEvent
from upheaval_node.protocol.channel import Channel
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import NULL_VALUE, MemberId, Now, Position


class LeaderLogReplication:
    """Implements `log_access.LogTransfer`."""

    def __init__(
        self,
        context: ModuleContext,
        recording: LogRecording,
        *,
        leader_member_id: MemberId,
        leader_recording_id: int,
        start_position: Position,
        stop_position: Position,
        now: Now,
    ) -> None:
        self._context = context
        self._recording = recording
        self._stop_position = stop_position
        self.position = start_position
        self.recording_id = recording.recording_id
        self._timeout_ns = context.settings.timeouts.leader_heartbeat_ns
        self._deadline_ns = now.ns + self._timeout_ns
        self._counter: Counter | None = None
        self._has_extended = False
        self._has_stopped = False
        self._has_ended = False
        self._failure: str | None = None
        self.is_closed = False
        self._refresh: Steps[None] | None = None
        endpoint = context.members[leader_member_id].endpoints.archive
        self._call = context.archive.replicate(
            leader_recording_id,
            src_control_channel=str(Channel("tcp", {"endpoint": endpoint})),
            dst_recording_id=recording.recording_id,
            stop_position=stop_position,
        )

    @property
    def is_done(self) -> bool:
        """Whether both archives are done, and the copy was queried again."""
        return self._refresh is not None and self._refresh.is_done

    def do_work(self, now: Now) -> int:
        """Advance. Raises `PeerError` for a failure of an archive, `TimeoutExpired` when there is no progress
        in time.
        """
        work = self._advance(now)
        if self._recording.recording_id == NULL_VALUE != self.recording_id:
            self._recording.recording_id = self.recording_id
        return work

    def _advance(self, now: Now) -> int:
        if self._call.done and self._call.error is not None:
            raise PeerError(f"log replication refused: {self._call.error}")
        if self._failure is not None:
            raise PeerError(f"log replication failed: {self._failure}")
        before = self.position
        self._read_position()
        if self.position > before:
            self._deadline_ns = now.ns + self._timeout_ns
        if self._has_ended and (self._has_stopped or not self._has_extended):
            if self._refresh is None:
                self._refresh = Steps(self._finish())
            if not self._refresh.is_done:
                return int(self._refresh.poll(now))
            return 0
        if now.ns >= self._deadline_ns:
            raise TimeoutExpired(f"no progress of the log replication at {self.position}")
        return int(self.position > before)

    def close(self) -> None:
        """Stop the replication unless it is over."""
        if not self.is_closed:
            self.is_closed = True
            if not self._has_ended:
                self._stop_when_known()

    def release(self) -> bool:
        """Stop a replication that was abandoned before the archive had answered. Returns False while it has not."""
        if not self._call.done:
            return False
        self._stop_when_known()
        return True

    def on_signal(self, signal: RecordingSignalEvent) -> None:
        """Take a signal of the member's archive. It may be for another replication."""
        if not self._call.done or signal.correlation_id != self._call.relevant_id:
            return
        if signal.recording_id != NULL_VALUE and signal.recording_id >= 0:
            self.recording_id = signal.recording_id
        match signal.signal:
            case RecordingSignal.EXTEND:
                self._has_extended = True
            case RecordingSignal.SYNC:
                self.position = max(self.position, Position(signal.position))
            case RecordingSignal.STOP:
                self._has_stopped = True
                self.position = max(self.position, Position(signal.position))
            case RecordingSignal.REPLICATE_END:
                self._has_ended = True
            case RecordingSignal.DELETE:
                self._failure = "the recording was deleted"
            case _:
                pass

    def on_late_error(self, error: LateError) -> None:
        """Take an error of the member's archive. It may be for another request."""
        if self._call.done and error.correlation_id == self._call.relevant_id:
            self._failure = error.text

    def _finish(self) -> StepGenerator[None]:
        """Use the copy as the log's recording, and get its actual stop position from the archive."""
        if self.recording_id == NULL_VALUE:
            raise PeerError("log replication ended without a recording")
        self._recording.recording_id = self.recording_id
        yield from self._recording.refresh()
        self.position = self._recording.stop_position
        if self.position < self._stop_position:
            raise PeerError(f"log replication ended at {self.position}, before {self._stop_position}")

    def _read_position(self) -> None:
        if self._counter is None and self._has_extended and not self._has_stopped:
            prefix = recording_key_prefix(self.recording_id)
            self._counter = self._context.counters.find(counter_types.RECORDING_POSITION, prefix)
        if self._counter is not None:
            if self._counter.is_closed:
                self._counter = None
            else:
                self.position = max(self.position, Position(self._counter.get()))

    def _stop_when_known(self) -> None:
        if self._call.done and self._call.error is None and not self._has_ended:
            self._context.archive.stop_replication(self._call.relevant_id)
