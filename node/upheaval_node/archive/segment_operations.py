"""Requests about whole segments and whole recordings: detach, delete, attach, migrate, purge (Aeron archive: segments).

The rule for all: the catalog no longer refers to a file, durably, before the file is deleted, and a file exists before
the catalog refers to it. So a crash can leave too many files but never too few. The exception is an interrupted
migration: it can leave segments under the id of one recording while the catalog has them with the other.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.archive.archive_context import ArchiveContext
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.codes import ErrorCode, RequestError
from upheaval_node.archive.deletions import Deletions
from upheaval_node.archive.recorder import Recorder
from upheaval_node.archive.replayer import Replayer
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segments import SegmentReader, entry_segment_base, segment_bases, segment_file_name
from upheaval_node.types import FRAME_ALIGNMENT

READ_LENGTH: Final = 1024 * 1024

_SAME: Final = (
    ("segment length", "segment_length"),
    ("term length", "term_length"),
    ("initial term id", "initial_term_id"),
    ("stream id", "stream_id"),
    ("MTU", "mtu"),
)


class SegmentOperations:
    """Checks a request, changes the catalog, and answers the requester once the change is durable.

    Raises `RequestError` for a request that cannot be served and `StorageError` when the disk fails.
    """

    def __init__(self, context: ArchiveContext, recorder: Recorder, replayer: Replayer, deletions: Deletions) -> None:
        self._context = context
        self._recorder = recorder
        self._replayer = replayer
        self._deletions = deletions

    def detach(self, requester: Requester, entry: RecordingEntry, position: int) -> None:
        """Let the recording begin at a later segment; the files before it stay. Answers 0."""
        self._check_detach(entry, position)
        self._context.catalog.record_start(entry, position)
        self._when_durable(requester, entry, requester.ok)

    def delete_detached(self, requester: Requester, entry: RecordingEntry) -> None:
        """Delete the files before the first segment. Answers how many; a DELETE signal follows."""
        self._recorder.check_not_deleting(entry.recording_id)
        self._delete(requester, entry, self._detached(entry))

    def purge_segments(self, requester: Requester, entry: RecordingEntry, position: int) -> None:
        """Detach segments and delete them."""
        self._check_detach(entry, position)
        self._recorder.check_not_deleting(entry.recording_id)
        self._context.catalog.record_start(entry, position)
        self._delete(requester, entry, self._detached(entry))

    def purge_recording(self, requester: Requester, entry: RecordingEntry) -> None:
        """Remove a recording that is not in use and delete its files. Answers how many; a DELETE signal follows."""
        recording_id = entry.recording_id
        self._recorder.check_inactive(recording_id, "purge")
        if self._replayer.lowest_position(recording_id) is not None:
            raise RequestError(f"cannot purge recording {recording_id} with active replay", ErrorCode.ACTIVE_RECORDING)
        self._context.catalog.record_deleted(entry)
        self._delete(requester, entry, self._bases(entry))

    def attach(self, requester: Requester, entry: RecordingEntry) -> None:
        """Let the recording begin at the first of the segment files that precede it without a gap. Answers how many."""
        self._recorder.check_not_deleting(entry.recording_id)
        bases = set(self._bases(entry))
        start = entry_segment_base(entry, entry.start_position)
        count = 0
        # A recording that begins within a segment has no predecessors, whatever files exist.
        while entry.start_position % entry.term_length == 0 and start - entry.segment_length in bases:
            base = start - entry.segment_length
            start = self._first_frame(entry, base)
            count += 1
            if start != base:
                break
        if count:
            self._context.catalog.record_start(entry, start)
        self._when_durable(requester, entry, lambda: requester.ok(count))

    def migrate(self, requester: Requester, source: RecordingEntry, target: RecordingEntry) -> None:
        """Move the segments of a stopped recording before or after those of another. Answers how many.

        The source is empty afterwards: it ends where it begins. A DELETE signal follows.
        """
        self._check_migration(source, target)
        bases = self._bases(source)
        wanted = self._files_to_move(source, target, bases)
        for base in wanted:
            self._context.storage.rename(self._path(source, base), self._path(target, base))
        if wanted and self._context.sync_level > 0:
            self._context.storage.sync_directory(self._context.directory)
        if source.stop_position == target.start_position:
            self._context.catalog.record_start(target, source.start_position)
        else:
            self._context.catalog.record_end(target, source.stop_position, source.stop_timestamp)
        rest = [base for base in bases if base >= source.stop_position]
        self._context.catalog.record_end(source, source.start_position, source.stop_timestamp)
        self._delete(requester, source, rest, answer=len(wanted))

    # --- checks ---

    def _check_detach(self, entry: RecordingEntry, position: int) -> None:
        first = entry_segment_base(entry, entry.start_position)
        if position != entry_segment_base(entry, position):
            raise RequestError(f"invalid segment start: newStartPosition={position}")
        if position < first + entry.segment_length:
            raise RequestError(
                f"invalid detach: newStartPosition={position} is not past first segment:"
                f" lowerBound={first + entry.segment_length}"
            )
        session = self._recorder.session(entry.recording_id)
        last = entry_segment_base(entry, entry.stop_position if session is None else session.position)
        if position > last:
            raise RequestError(f"invalid detach: in use by recording, newStartPosition={position} upperBound={last}")
        replayed = self._replayer.lowest_position(entry.recording_id)
        if replayed is not None and position > entry_segment_base(entry, replayed):
            raise RequestError(
                f"invalid detach: replay in progress, newStartPosition={position}"
                f" upperBound={entry_segment_base(entry, replayed)}"
            )

    def _check_migration(self, source: RecordingEntry, target: RecordingEntry) -> None:
        if source is target:
            raise RequestError(f"recording {source.recording_id} cannot be migrated to itself")
        self._recorder.check_inactive(source.recording_id, "migrate from")
        self._recorder.check_not_deleting(target.recording_id)
        for text, name in _SAME:
            ours, theirs = getattr(source, name), getattr(target, name)
            if ours != theirs:
                raise RequestError(f"invalid migrate: source and destination differ in {text}: {ours}, {theirs}")
        if source.stop_position == target.start_position:
            join = source.stop_position
        elif source.start_position == target.stop_position:
            join = source.start_position
        else:
            raise RequestError(
                f"invalid migrate: recordings are not contiguous: source {source.start_position} to"
                f" {source.stop_position}, destination {target.start_position} to {target.stop_position}"
            )
        for text, entry in (("source", source), ("destination", target)):
            if entry_segment_base(entry, join) != join:
                raise RequestError(f"invalid migrate: {join} is not a segment boundary of the {text}")

    def _files_to_move(self, source: RecordingEntry, target: RecordingEntry, bases: list[int]) -> list[int]:
        """The bases of the source's segments. Raises `RequestError` if one is missing, or its target name is taken."""
        first = entry_segment_base(source, source.start_position)
        wanted = range(first, source.stop_position, source.segment_length)
        missing = next((base for base in wanted if base not in bases), None)
        if missing is not None:
            raise RequestError(f"invalid migrate: {segment_file_name(source.recording_id, missing)} is missing")
        present = self._bases(target)
        # A recording that ends with a full segment has an empty file after it, which the first segment may replace.
        taken = [base for base in wanted if base in present and base != target.stop_position]
        if taken:
            raise RequestError(f"invalid migrate: {segment_file_name(target.recording_id, taken[0])} is in the way")
        return list(wanted)

    def _first_frame(self, entry: RecordingEntry, base: int) -> int:
        """The position of the first frame in a segment file. Raises `RequestError` if its first term has none."""
        file = self._context.storage.open(self._path(entry, base))
        try:
            length = file.size()
            if length < entry.segment_length:
                raise RequestError(f"fileLength={length} not equal to segmentFileLength={entry.segment_length}")
            offset = 0
            while offset < entry.term_length:
                data = file.read(offset, min(READ_LENGTH, entry.term_length - offset))
                zeros = len(data) - len(data.lstrip(b"\0"))
                offset += zeros
                if zeros < len(data) or not data:
                    break
        finally:
            file.close()
        position = base + offset - offset % FRAME_ALIGNMENT
        reader = SegmentReader(self._context.storage, self._context.directory, entry)
        try:
            is_ours = offset < entry.term_length and reader.check_first_frame(position)
        finally:
            reader.close()
        if not is_ours:
            raise RequestError(f"{segment_file_name(entry.recording_id, base)} holds no frame of this recording")
        return position

    # --- parts ---

    def _path(self, entry: RecordingEntry, base: int) -> str:
        return f"{self._context.directory}/{segment_file_name(entry.recording_id, base)}"

    def _bases(self, entry: RecordingEntry) -> list[int]:
        return segment_bases(self._context.storage, self._context.directory, entry.recording_id)

    def _detached(self, entry: RecordingEntry) -> list[int]:
        first = entry_segment_base(entry, entry.start_position)
        return [base for base in self._bases(entry) if base < first]

    def _delete(
        self, requester: Requester, entry: RecordingEntry, bases: list[int], *, answer: int | None = None
    ) -> None:
        recording_id = entry.recording_id
        self._recorder.busy.add(recording_id)

        def begin() -> None:
            requester.ok(len(bases) if answer is None else answer)
            self._deletions.start(requester, recording_id, bases)

        self._when_durable(requester, entry, begin, lambda: self._recorder.busy.discard(recording_id))

    def _when_durable(
        self,
        requester: Requester,
        entry: RecordingEntry,
        then: Callable[[], None],
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        def forced(error: Exception | None) -> None:
            if error is None:
                then()
                return
            give_up()
            requester.error(f"recording {entry.recording_id}: {error}", ErrorCode.STORAGE_SPACE)

        self._context.catalog.force(forced)
