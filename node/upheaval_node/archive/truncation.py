"""Truncates a stopped recording: first the catalog, then the files, then the answer.

The stop position is durable before any byte is cleared. Whatever a crash leaves after it does not count, and the next
extension clears it. The recording cannot be extended until the files are done.
"""

from upheaval_node.archive.archive_context import ArchiveContext
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.codes import ErrorCode, RequestError
from upheaval_node.archive.recorder import Recorder
from upheaval_node.archive.replayer import Replayer
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segments import entry_segment_base, is_frame_boundary, remove_segments, zero_tail
from upheaval_node.errors import StorageError
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.types import FRAME_ALIGNMENT, NULL_POSITION, NULL_VALUE


def truncate(
    context: ArchiveContext,
    recorder: Recorder,
    replayer: Replayer,
    requester: Requester,
    entry: RecordingEntry,
    position: int,
) -> None:
    """Truncate a stopped recording. Answers the number of deleted segment files; a DELETE signal follows.

    Raises `RequestError`, `StorageError`.
    """
    storage, directory, recording_id = context.storage, context.directory, entry.recording_id
    recorder.check_inactive(recording_id, "truncate")
    if not entry.start_position <= position <= entry.stop_position or position % FRAME_ALIGNMENT:
        raise RequestError(
            f"invalid position {position}: start={entry.start_position} stop={entry.stop_position}"
            f" alignment={FRAME_ALIGNMENT}",
            ErrorCode.INVALID_POSITION,
        )
    base = entry_segment_base(entry, position)
    if position != base and not is_frame_boundary(storage, directory, entry, position):
        raise RequestError(f"position {position} is not a frame boundary", ErrorCode.INVALID_POSITION)
    replayer.stop_all(recording_id)
    recorder.busy.add(recording_id)

    def clear(error: Exception | None) -> None:
        try:
            if error is not None:
                raise StorageError(f"truncate of recording {recording_id}: {error}")
            keeps_segment = position > max(base, entry.start_position)
            if keeps_segment:
                zero_tail(storage, directory, entry, position)
            first = base + entry.segment_length if keeps_segment else base
            count = remove_segments(storage, directory, recording_id, from_base=first)
            if context.sync_level > 0 and count:
                storage.sync_directory(directory)
        except StorageError as failure:
            requester.error(str(failure), ErrorCode.STORAGE_SPACE)
            return
        finally:
            recorder.busy.discard(recording_id)
        requester.ok(count)
        requester.signal(RecordingSignal.DELETE, recording_id, NULL_VALUE, NULL_POSITION)

    try:
        context.catalog.record_end(entry, position, entry.stop_timestamp)
        context.catalog.force(clear)
    except StorageError:
        recorder.busy.discard(recording_id)
        raise
