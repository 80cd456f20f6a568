"""Deletes segment files, a few per duty cycle because a large file takes time, and signals when all are deleted.

The caller decides which files to delete, and makes that durable in the catalog first. A crash in the middle leaves
unused files: the next start removes those of a purged recording; those of others stay detached.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from upheaval_node.archive.archive_context import ArchiveContext
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.recorder import Recorder
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segments import segment_file_name
from upheaval_node.errors import StorageError
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now

FILES_PER_TURN: Final = 4


@dataclass(slots=True)
class _Deletion:
    requester: Requester
    bases: deque[int]
    is_changed: bool = False


class Deletions:
    """Runs the deletions of an archive, at most one per recording. Recordings with a deletion are `busy`."""

    def __init__(self, context: ArchiveContext, recorder: Recorder) -> None:
        self._context = context
        self._recorder = recorder
        self._running: dict[int, _Deletion] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being deleted."""
        return not self._running

    def start(self, requester: Requester, recording_id: int, bases: list[int]) -> None:
        """Delete the segments with these bases. The requester gets a DELETE signal at the end, or an error."""
        self._recorder.busy.add(recording_id)
        self._running[recording_id] = _Deletion(requester, deque(bases))

    def do_work(self, now: Now) -> int:
        """Delete a few files of each deletion. A failure of the disk ends that deletion with an error."""
        work = 0
        for recording_id, deletion in list(self._running.items()):
            work += 1
            try:
                is_done = self._advance(recording_id, deletion)
            except StorageError as error:
                self._context.errors.report(now, "delete", f"recording {recording_id}: {error}")
                deletion.requester.error(str(error), ErrorCode.STORAGE_SPACE)
                self._finish(recording_id)
                continue
            if is_done:
                self._finish(recording_id)
                deletion.requester.signal(RecordingSignal.DELETE, recording_id, NULL_VALUE, NULL_POSITION)
        return work

    def _advance(self, recording_id: int, deletion: _Deletion) -> bool:
        for _ in range(min(FILES_PER_TURN, len(deletion.bases))):
            path = f"{self._context.directory}/{segment_file_name(recording_id, deletion.bases.popleft())}"
            if self._context.storage.exists(path):
                self._context.storage.remove(path)
                deletion.is_changed = True
        if deletion.bases:
            return False
        if deletion.is_changed and self._context.sync_level > 0:
            self._context.storage.sync_directory(self._context.directory)
        return True

    def _finish(self, recording_id: int) -> None:
        del self._running[recording_id]
        self._recorder.busy.discard(recording_id)
