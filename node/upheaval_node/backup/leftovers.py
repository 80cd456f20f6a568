"""Recordings of the local archive that no entry of the recording log names: copies that were given up.

They are deleted, so that a backup of a cluster that it cannot copy does not fill its disk. Only recordings that the
agent made itself are deleted, and recordings of the log's and the snapshots' streams from before its start.
"""

from typing import Final

from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol.archive_messages import RecordingSignal, RecordingSignalEvent
from upheaval_node.protocol.constants import LOG_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID
from upheaval_node.steps import StepGenerator
from upheaval_node.types import NULL_POSITION

LISTED_AT_ONCE: Final = 100
MAX_KEPT: Final = 1000
"""The most recordings that are remembered as made. There are more than a few only while the archive does not answer."""

_MADE_BY: Final = frozenset({RecordingSignal.START, RecordingSignal.REPLICATE})
_OURS: Final = frozenset({LOG_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID})


class Leftovers:
    """With `is_alone`, no other process records these streams, so recordings of earlier processes are included."""

    def __init__(self, archive: ArchiveClient, recording_log: RecordingLog, *, is_alone: bool) -> None:
        self._archive = archive
        self._recording_log = recording_log
        self._looks_for_old = is_alone
        self._made: set[int] = set()

    def on_signal(self, signal: RecordingSignalEvent) -> None:
        """Take a signal of the local archive: a recording that it began for the agent is the agent's."""
        if signal.signal in _MADE_BY and len(self._made) < MAX_KEPT:
            self._made.add(signal.recording_id)

    def delete(self) -> StepGenerator[None]:
        """Delete the recordings that are not named. The next call retries those that cannot be deleted yet."""
        if self._looks_for_old:
            yield from self._find_old()
            self._looks_for_old = False
        named = {entry.recording_id for entry in self._recording_log.entries}
        self._made -= named
        for recording_id in sorted(self._made):
            call = self._archive.purge_recording(recording_id)
            while not call.done:
                yield
            if call.error is None or call.error_code == ErrorCode.UNKNOWN_RECORDING:
                self._made.discard(recording_id)

    def _find_old(self) -> StepGenerator[None]:
        first = 0
        while True:
            call = self._archive.list_recordings(first, LISTED_AT_ONCE)
            while not call.done:
                yield
            for descriptor in call.descriptors:
                is_stopped = descriptor.stop_position != NULL_POSITION
                if is_stopped and descriptor.stream_id in _OURS and len(self._made) < MAX_KEPT:
                    self._made.add(descriptor.recording_id)
            if len(call.descriptors) < LISTED_AT_ONCE:
                return
            first = call.descriptors[-1].recording_id + 1
