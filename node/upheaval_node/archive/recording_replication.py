"""Follows the replication of one recording of another archive into the local archive.

The archives do the work; this module requests it, receives the signals and checks that the local recording grows. The
owner polls it and passes on what its archive client received (`on_signal`, `on_late_error`). Source: Aeron Cluster,
recording replication. The module knows nothing of the recording's content.
"""

from dataclasses import dataclass

from upheaval_node.archive.calls import LateError
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.counters import RECORDING_POSITION, Counter, Counters, recording_key_prefix
from upheaval_node.errors import PeerError, TimeoutExpired
from upheaval_node.protocol.archive_messages import RecordingSignal, RecordingSignalEvent
from upheaval_node.protocol.constants import ARCHIVE_CONTROL_STREAM_ID
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now, S

PROGRESS_TIMEOUT_NS = 10 * S


@dataclass(frozen=True, slots=True)
class ReplicationSource:
    """The archive and the channels that recordings come from; empty texts and -1 leave the choice to the archives.

    Without a `replication_channel` the copy comes back on the connection that the local archive opened.
    """

    control_channel: str
    control_stream_id: int = ARCHIVE_CONTROL_STREAM_ID
    replication_channel: str = ""
    replication_session_id: int = NULL_VALUE
    response_channel: str = ""


class RecordingReplication:
    """One replication. `has_ended` once both archives have finished it; `has_synced` if everything was copied.

    `recording_id` is the local recording, -1 while there is none. `position` is how far it is known to be recorded.
    """

    def __init__(
        self,
        archive: ArchiveClient,
        counters: Counters,
        source: ReplicationSource,
        src_recording_id: int,
        *,
        now: Now,
        dst_recording_id: int = NULL_VALUE,
        stop_position: int = NULL_POSITION,
        progress_timeout_ns: int = PROGRESS_TIMEOUT_NS,
        progress_interval_ns: int = 0,
    ) -> None:
        """Request the copy up to `stop_position` (-1: all of it), into a new recording unless `dst_recording_id` is
        given.

        The local position is checked every `progress_interval_ns`; 0 means a tenth of the time-out.
        """
        self._archive = archive
        self._counters = counters
        self._stop_position = stop_position
        self._timeout_ns = progress_timeout_ns
        self._interval_ns = progress_interval_ns or progress_timeout_ns // 10
        self._deadline_ns = now.ns + progress_timeout_ns
        self._next_look_ns = now.ns + self._interval_ns
        self._counter: Counter | None = None
        self._is_closed = False
        self._has_extended = False
        self._has_stopped = False
        self._has_replication_ended = False
        self._failure: str | None = None
        self.has_synced = False
        self.src_recording_id = src_recording_id
        self.recording_id = dst_recording_id
        self.position: int = NULL_POSITION
        self._call = archive.replicate(
            src_recording_id,
            src_control_stream_id=source.control_stream_id,
            src_control_channel=source.control_channel,
            dst_recording_id=dst_recording_id,
            stop_position=stop_position,
            replication_channel=source.replication_channel,
            replication_session_id=source.replication_session_id,
            src_response_channel=source.response_channel,
        )

    @property
    def has_ended(self) -> bool:
        """Whether the replication has ended, and the local recording too if it was extended."""
        return self._has_replication_ended and (self._has_stopped or not self._has_extended)

    def next_deadline_ns(self) -> int:
        """When the local position is checked next, or the time-out without progress."""
        return min(self._next_look_ns, self._deadline_ns)

    def poll(self, now: Now) -> int:
        """Check for progress. Raises `PeerError` if an archive fails, `TimeoutExpired` if nothing grows."""
        if self._call.done and self._call.error is not None:
            raise PeerError(f"replication of recording {self.src_recording_id} is refused: {self._call.error}")
        if self._failure is not None:
            raise PeerError(f"replication of recording {self.src_recording_id} failed: {self._failure}")
        if self.has_ended:
            return 0
        if now.ns >= self._next_look_ns:
            self._next_look_ns = now.ns + self._interval_ns
            position = self._recorded_position()
            if position is not None and position > self.position:
                self.position = position
                self._deadline_ns = now.ns + self._timeout_ns
        if now.ns >= self._deadline_ns:
            self.close()
            is_there = self._stop_position != NULL_POSITION and self.position >= self._stop_position
            text = "log replication failed to stop" if is_there else "log replication has not progressed"
            raise TimeoutExpired(f"{text}: recording {self.src_recording_id} at {self.position}")
        return 0

    def on_signal(self, signal: RecordingSignalEvent) -> None:
        """Take a signal of the local archive; signals of other replications are ignored."""
        if not self._call.done or self._call.error is not None or signal.correlation_id != self._call.relevant_id:
            return
        if signal.recording_id >= 0:
            self.recording_id = signal.recording_id
        if signal.position >= 0:
            self.position = max(self.position, signal.position)
        match signal.signal:
            case RecordingSignal.EXTEND:
                self._has_extended = True
            case RecordingSignal.SYNC:
                self.has_synced = True
            case RecordingSignal.REPLICATE_END:
                self._has_replication_ended = True
            case RecordingSignal.STOP:
                self._has_stopped = True
            case RecordingSignal.DELETE:
                self._failure = "the recording was deleted"
            case _:
                pass

    def on_late_error(self, error: LateError) -> None:
        """Take an error of the local archive; errors of other replications are ignored."""
        if self._call.done and self._call.error is None and error.correlation_id == self._call.relevant_id:
            self._failure = error.text

    def close(self) -> None:
        """Stop the replication. Until the archive has answered the request, call `release` until it is true."""
        if not self._is_closed:
            self._is_closed = True
            self._stop_if_known()

    def release(self) -> bool:
        """After `close`: whether nothing is left to send to the archive."""
        if not self._call.done:
            return False
        self._stop_if_known()
        return True

    # --- steps ---

    def _recorded_position(self) -> int | None:
        if self._counter is None and self._has_extended and not self._has_stopped:
            self._counter = self._counters.find(RECORDING_POSITION, recording_key_prefix(self.recording_id))
        if self._counter is not None and self._counter.is_closed:
            self._counter = None
        return None if self._counter is None else self._counter.get()

    def _stop_if_known(self) -> None:
        if self._call.done and self._call.error is None and not self._has_replication_ended:
            self._has_replication_ended = True
            self._archive.stop_replication(self._call.relevant_id)
