"""One recording in progress: writes the blocks of an image, and reports the position up to which they are safe.

Theory of operation. A block goes to the segment file with one write and then counts as consumed. At sync level 0 the
recording position moves right after the write. At levels 1 and 2 it moves only when a sync that began after the write
has completed. At most one sync is in flight; the next covers everything written meanwhile.

The position also waits until the catalog entry is durable, because a recording that no search finds is not recorded.
Until then there is no counter either, so that no client keeps the id of a recording that a power cut may take.

A session ends when its image ends or when it is stopped. First the written bytes become durable, then the stop position
in the catalog; then the block journal is cut off and the counter freed. The journal stays until then: without it and
the stop position, recovery would drop a last frame that looks torn. After an error nothing more is synced, and the
recording ends at the reported position.

The module knows one image and one recording; requesters are the recorder's business.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from upheaval_node.archive.catalog import Catalog, RecordingEntry
from upheaval_node.archive.segments import SegmentWriter
from upheaval_node.counters import Counter
from upheaval_node.errors import NodeError, StorageError
from upheaval_node.media.api import Image
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import MAX_POSITION, Now

# The most blocks of one duty cycle: a fast stream must not keep the other agents of the process waiting.
MAX_BLOCKS_PER_TURN: Final = 16


class RecordingSessionState(IntEnum):
    """A recording takes frames, makes them durable, or has its stop position in the catalog."""

    RECORDING = 1
    INACTIVE = 2
    STOPPED = 3


LEGAL_MOVES: Final = {
    RecordingSessionState.RECORDING: frozenset({RecordingSessionState.INACTIVE}),
    RecordingSessionState.INACTIVE: frozenset({RecordingSessionState.STOPPED}),
    RecordingSessionState.STOPPED: frozenset[RecordingSessionState](),
}


class RecordingSession:
    """Records `image` from the writer's position on. `error` says why it ended early, if it did."""

    def __init__(
        self,
        entry: RecordingEntry,
        image: Image,
        *,
        catalog: Catalog,
        writer: SegmentWriter,
        make_counter: Callable[[], Counter],
        sync_level: int,
        io_max_length: int,
    ) -> None:
        self.entry = entry
        self.image = image
        self.join_position = writer.position
        self.error: str | None = None
        self._states = StateMachine("recording", RecordingSessionState.RECORDING, LEGAL_MOVES)
        self._catalog = catalog
        self._writer = writer
        self._make_counter = make_counter
        self._counter: Counter | None = None
        self._sync_level = sync_level
        self._io_max_length = io_max_length
        self._durable = writer.position
        self._is_syncing = False
        self._is_entry_durable = False
        self._is_stop_written = False
        self._is_stop_safe = False
        self._has_taken_all = False
        self._reported = writer.position
        catalog.force(self._entry_forced)

    @property
    def state(self) -> RecordingSessionState:
        """How far the end of the recording is."""
        return self._states.current

    @property
    def recording_id(self) -> int:
        """The id of the recording in the catalog."""
        return self.entry.recording_id

    @property
    def position(self) -> int:
        """The recorded position as reported by the counter; the stop position once the session has stopped."""
        return self._reported

    @property
    def is_settled(self) -> bool:
        """Whether another duty cycle would do nothing: it has taken all that was received, and is not ending."""
        is_ending = self.image.is_closed or self.image.is_end_of_stream or self.error is not None
        return self._has_taken_all and not is_ending and self._states.current == RecordingSessionState.RECORDING

    def do_work(self, now: Now) -> int:
        """Take a few blocks, or continue the end."""
        if self._states.current == RecordingSessionState.RECORDING:
            work = self._record(MAX_BLOCKS_PER_TURN)
            self._has_taken_all = work < MAX_BLOCKS_PER_TURN
            if work == 0 and (self.image.is_closed or self.image.is_end_of_stream):
                self._states.enter(RecordingSessionState.INACTIVE)
                work = 1
            self._report_written()
            return work
        if self._states.current == RecordingSessionState.INACTIVE:
            return self._finish(now)
        return 0

    def stop(self) -> None:
        """Take what has been received, then end. The caller closes the subscription."""
        if self._states.current == RecordingSessionState.RECORDING:
            self._record(MAX_POSITION)
            self._enter_inactive()
            self._report_written()

    def stop_now(self, now: Now) -> None:
        """End at once and block until it is durable: for the orderly end of the process."""
        self.stop()
        if self._states.current == RecordingSessionState.INACTIVE:
            if self._sync_level > 0 and self.error is None:
                try:
                    self._writer.sync()
                    self._durable = self._writer.position
                except StorageError as error:
                    self._fail(error)
            self._is_syncing = False
            self._is_entry_durable = True
            self._publish()
            self._write_stop(now)
            try:
                self._catalog.sync()
            except StorageError as error:
                self.error = self.error or str(error)
            self._end()

    def _record(self, max_blocks: int) -> int:
        image, writer, limit = self.image, self._writer, self._io_max_length
        count = 0
        try:
            while (
                count < max_blocks and writer.has_room and (block := image.next_block(MAX_POSITION, limit)) is not None
            ):
                writer.write(block.data, block.end)
                image.consume(block.end)
                count += 1
        except StorageError as error:
            self._fail(error)
        return count

    def _report_written(self) -> None:
        if self._sync_level == 0:
            self._durable = self._writer.position
            self._publish()
        elif not self._is_syncing and self._durable < self._writer.position and self.error is None:
            self._start_sync()

    def _start_sync(self) -> None:
        covered = self._writer.position
        self._is_syncing = True

        def synced(error: Exception | None) -> None:
            self._is_syncing = False
            if self._states.current == RecordingSessionState.STOPPED:
                return
            if error is not None:
                self._fail(error)
                return
            self._durable = covered
            self._publish()
            self._report_written()

        try:
            self._writer.sync_later(synced)
        except StorageError as error:
            self._is_syncing = False
            self._fail(error)

    def _entry_forced(self, error: Exception | None) -> None:
        if self._states.current == RecordingSessionState.STOPPED:
            return
        if error is not None:
            self._fail(error)
            return
        self._is_entry_durable = True
        try:
            self._counter = self._make_counter()
        except NodeError as no_room:
            self._fail(no_room)
            return
        self._publish()

    def _publish(self) -> None:
        if self._is_entry_durable and self._durable > self._reported:
            self._reported = self._durable
            if self._counter is not None:
                self._counter.set(self._durable)

    def _fail(self, error: Exception) -> None:
        if self.error is None:
            self.error = str(error) if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
        self._enter_inactive()

    def _finish(self, now: Now) -> int:
        if not self._is_stop_written:
            if self.error is None:
                self._report_written()
                if self._is_syncing or not self._is_entry_durable:
                    return 0
            self._write_stop(now)
            self._force_stop()
            # The journal stays after an error, so that nothing depends on the catalog.
            self._is_stop_safe = self._is_stop_safe or self.error is not None
        if not self._is_stop_safe:
            return 0
        self._end()
        return 1

    def _write_stop(self, now: Now) -> None:
        if self._is_stop_written:
            return
        self._is_stop_written = True
        try:
            self._catalog.record_stopped(self.entry, self._reported, now.epoch_ms)
        except StorageError as error:
            # The entry is still "active" on disk, so the next start finds the stop position as after a crash.
            self.error = self.error or str(error)

    def _force_stop(self) -> None:
        def forced(error: Exception | None) -> None:
            if error is not None:
                self.error = self.error or str(error)
            self._is_stop_safe = True

        self._catalog.force(forced)

    def _end(self) -> None:
        try:
            self._writer.close(is_whole=self.error is None)
        except StorageError as error:
            self.error = self.error or str(error)
        if self._counter is not None:
            self._counter.close()
        self._states.enter(RecordingSessionState.STOPPED)

    def _enter_inactive(self) -> None:
        if self._states.current == RecordingSessionState.RECORDING:
            self._states.enter(RecordingSessionState.INACTIVE)
