"""Copies several recordings of another archive into the local archive, one after the other.

A recording is complete when its replication has ended with everything copied. A replication that ends earlier is
resumed where it stopped, unless no progress is made before the time-out. Source: Aeron Cluster, multiple recording
replication. The module knows nothing of the recordings' content.
"""

from collections.abc import Callable, Iterable

from upheaval_node.archive.calls import LateError
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.recording_replication import (
    PROGRESS_TIMEOUT_NS,
    RecordingReplication,
    ReplicationSource,
)
from upheaval_node.counters import Counters
from upheaval_node.errors import TimeoutExpired
from upheaval_node.protocol.archive_messages import RecordingSignalEvent
from upheaval_node.types import NEVER_NS, NULL_POSITION, NULL_VALUE, Now

OnEnded = Callable[[Now, int, int, int, bool], None]


def _ignored(now: Now, src_recording_id: int, recording_id: int, position: int, has_synced: bool) -> None:
    """Ignore the end of an attempt."""


class SnapshotReplication:
    """Copies a list of recordings. `is_complete` once `recordings` maps each of them to its local recording.

    `on_ended(now, source recording, local recording, position, has_synced)` is called at the end of each attempt.
    """

    def __init__(
        self,
        archive: ArchiveClient,
        counters: Counters,
        source: ReplicationSource,
        src_recording_ids: Iterable[int],
        *,
        progress_timeout_ns: int = PROGRESS_TIMEOUT_NS,
        progress_interval_ns: int = 0,
        on_ended: OnEnded = _ignored,
    ) -> None:
        self._archive = archive
        self._counters = counters
        self._source = source
        self._wanted = list(dict.fromkeys(src_recording_ids))
        self._timeout_ns = progress_timeout_ns
        self._interval_ns = progress_interval_ns or progress_timeout_ns // 10
        self._on_ended = on_ended
        self._current: RecordingReplication | None = None
        self._is_closed = False
        self._recording_id = NULL_VALUE
        self._position: int = NULL_POSITION
        self._next_attempt_ns = 0
        self._give_up_ns: int | None = None
        self.recordings: dict[int, int] = {}

    @property
    def is_complete(self) -> bool:
        """Whether every recording is copied."""
        return len(self.recordings) == len(self._wanted)

    @property
    def local_recordings(self) -> list[int]:
        """The local recordings begun so far, complete or not."""
        known = self._recording_id if self._current is None else self._current.recording_id
        return [*self.recordings.values(), *([known] if known != NULL_VALUE else [])]

    def next_deadline_ns(self) -> int:
        """When the present replication is checked next, or the next attempt begins."""
        if self.is_complete:
            return NEVER_NS
        return self._next_attempt_ns if self._current is None else self._current.next_deadline_ns()

    def poll(self, now: Now) -> int:
        """Continue; returns the amount of work done. Raises the `PeerError` or `TimeoutExpired` of a failed
        replication.
        """
        if self.is_complete or self._is_closed:
            return 0
        if self._current is None:
            return self._begin(now)
        self._current.poll(now)
        if not self._current.has_ended:
            return 0
        return self._end(now, self._current)

    def on_signal(self, signal: RecordingSignalEvent) -> None:
        """Pass a signal of the local archive to the present attempt."""
        if self._current is not None:
            self._current.on_signal(signal)

    def on_late_error(self, error: LateError) -> None:
        """Pass an error of the local archive to the present attempt."""
        if self._current is not None:
            self._current.on_late_error(error)

    def close(self) -> None:
        """Stop the present attempt and begin no other; see `RecordingReplication.close`."""
        self._is_closed = True
        if self._current is not None:
            self._current.close()

    def release(self) -> bool:
        """After `close`: whether nothing is left to send to the archive."""
        return self._current is None or self._current.release()

    # --- steps ---

    def _begin(self, now: Now) -> int:
        if now.ns < self._next_attempt_ns:
            return 0
        src_recording_id = self._wanted[len(self.recordings)]
        if self._give_up_ns is None:
            self._give_up_ns = now.ns + self._timeout_ns
        elif now.ns >= self._give_up_ns:
            text = f"log replication has not progressed: recording {src_recording_id} at {self._position}"
            raise TimeoutExpired(text)
        self._current = RecordingReplication(
            self._archive,
            self._counters,
            self._source,
            src_recording_id,
            now=now,
            dst_recording_id=self._recording_id,
            progress_timeout_ns=self._timeout_ns,
            progress_interval_ns=self._interval_ns,
        )
        return 1

    def _end(self, now: Now, ended: RecordingReplication) -> int:
        self._current = None
        self._on_ended(now, ended.src_recording_id, ended.recording_id, ended.position, ended.has_synced)
        if ended.has_synced:
            self.recordings[ended.src_recording_id] = ended.recording_id
            self._recording_id, self._position = NULL_VALUE, NULL_POSITION
            self._give_up_ns = None
            return 1
        if ended.position > self._position:
            self._give_up_ns = now.ns + self._timeout_ns
        self._recording_id = ended.recording_id
        self._position = max(self._position, ended.position)
        self._next_attempt_ns = now.ns + self._interval_ns
        return 1
