"""One replay in progress: blocks of a recording go to a publication that keeps the recording's positions.

Theory of operation. The publication was created at the replay's position with the recording's terms, so a block is
handed over as it was read; the publication puts its own session and stream id into the frames, and padding is made
again where the recording has it. What may be sent is bounded by the end that was asked for, by how far the recording
is safe while it is active, and by a counter when the replay is a bounded one.

A replay ends at its end, when a followed recording has stopped and everything was sent, when its subscriber is gone,
or with an error. The module knows one publication and one recording; limits and requesters come from the replayer.
"""

from enum import IntEnum
from typing import Final

from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.recording import RecordingSession, RecordingSessionState
from upheaval_node.archive.segments import ReadBlock, SegmentReader
from upheaval_node.counters import Counter
from upheaval_node.errors import DamageError, NodeError, PeerError
from upheaval_node.media.api import BACK_PRESSURED, NOT_CONNECTED, Publication
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import NEVER_NS, Now

# The most blocks of one duty cycle: a replay must not keep the other agents of the process waiting.
MAX_BLOCKS_PER_TURN: Final = 8


class ReplayState(IntEnum):
    """The states of a replay: waiting for its subscriber, sending, ending, ended (Aeron archive:
    ReplaySession.State).
    """

    INIT = 0
    REPLAY = 1
    INACTIVE = 2
    DONE = 3


LEGAL_MOVES: Final = {
    ReplayState.INIT: frozenset({ReplayState.REPLAY, ReplayState.INACTIVE}),
    ReplayState.REPLAY: frozenset({ReplayState.INACTIVE}),
    ReplayState.INACTIVE: frozenset({ReplayState.DONE}),
    ReplayState.DONE: frozenset[ReplayState](),
}


class ReplayLimit:
    """The position up to which a replay may send now (`current`), and its final position (`end`)."""

    def __init__(
        self, end: int, entry: RecordingEntry, session: RecordingSession | None, counter: Counter | None
    ) -> None:
        self.end = end if session is not None else min(end, entry.stop_position)
        self._session = session
        self._counter = counter
        self._last = 0 if counter is None else counter.get()

    def current(self) -> int:
        """The position up to which frames may be sent now. Also fixes `end` once the recording or counter has ended."""
        limit = self.end
        session = self._session
        if session is not None:
            limit = min(limit, session.position)
            if session.state == RecordingSessionState.STOPPED:
                self.end = limit
                self._session = None
        counter = self._counter
        if counter is not None:
            if counter.is_closed:
                self.end = min(self.end, self._last)
                self._counter = None
            else:
                self._last = counter.get()
            limit = min(limit, self._last)
        return limit


class ReplaySession:
    """Sends one recording from `position` on. `error` says why it ended early, if it did."""

    def __init__(
        self,
        session_id: int,
        recording_id: int,
        *,
        position: int,
        limit: ReplayLimit,
        reader: SegmentReader,
        publication: Publication,
        io_max_length: int,
        connect_timeout_ns: int,
    ) -> None:
        self.session_id = session_id
        self.recording_id = recording_id
        self.position = position
        self.error: str | None = None
        self.is_damaged = False
        """Whether it ended at something that is not what was recorded."""
        self._states = StateMachine("replay", ReplayState.INIT, LEGAL_MOVES)
        self._limit = limit
        self._reader = reader
        self._publication = publication
        self._io_max_length = io_max_length
        self._timeout_ns = connect_timeout_ns
        self._grace_ns = 0 if publication.channel.startswith("aeron:ipc") else connect_timeout_ns
        self._deadline_ns = NEVER_NS
        self._pending: ReadBlock | None = None

    @property
    def state(self) -> ReplayState:
        """The state of the replay."""
        return self._states.current

    @property
    def deadline_ns(self) -> int:
        """When this session must run even without input."""
        return self._deadline_ns

    def do_work(self, now: Now) -> int:
        """Send as much as limit and subscriber allow; an error ends the replay and is kept in `error`."""
        try:
            if self._states.current == ReplayState.INIT:
                self._await_subscriber(now)
            if self._states.current == ReplayState.REPLAY:
                return self._replay(now)
        except NodeError as error:
            self.error = str(error)
            self.is_damaged = isinstance(error, DamageError)
            self.stop()
        if self._states.current == ReplayState.INACTIVE:
            self._finish()
            return 1
        return 0

    def stop(self) -> None:
        """End the replay; the subscriber sees an end of stream."""
        if self._states.current in (ReplayState.INIT, ReplayState.REPLAY):
            self._states.enter(ReplayState.INACTIVE)

    def close(self) -> None:
        """End at once, with what was sent so far."""
        self.stop()
        if self._states.current == ReplayState.INACTIVE:
            self._finish()

    def _await_subscriber(self, now: Now) -> None:
        publication = self._publication
        if publication.error is not None:
            raise PeerError(f"replay publication failed: {publication.error}")
        if publication.is_connected:
            self._deadline_ns = NEVER_NS
            self._states.enter(ReplayState.REPLAY)
        elif self._deadline_ns == NEVER_NS:
            self._deadline_ns = now.ns + self._timeout_ns
        elif now.ns >= self._deadline_ns:
            raise PeerError(f"no connection established for replay of recording {self.recording_id}")

    def _replay(self, now: Now) -> int:
        work = 0
        while work < MAX_BLOCKS_PER_TURN:
            limit = self._limit.current()
            if self.position >= self._limit.end:
                self._states.enter(ReplayState.INACTIVE)
                return work + 1
            block = self._pending
            if block is None:
                if self.position >= limit:
                    break
                block = self._reader.read_block(self.position, limit, self._io_max_length)
                if not block.data:
                    break
            result = self._publication.offer_frames(block.data)
            if result < 0:
                self._pending = block
                self._refused(now, result)
                return work
            if result != block.end:
                raise PeerError(f"replay publication is at {result} after block {block.start}..{block.end}")
            self._pending = None
            self._deadline_ns = NEVER_NS
            self.position = block.end
            work += 1
        if not self._publication.is_connected:
            self._refused(now, NOT_CONNECTED)
        return work

    def _refused(self, now: Now, result: int) -> None:
        """A lost connection may come back: a remote subscriber gets as much time as it had to connect."""
        if result == BACK_PRESSURED:
            self._deadline_ns = NEVER_NS
            return
        if result != NOT_CONNECTED or self._grace_ns == 0:
            self._states.enter(ReplayState.INACTIVE)
        elif self._deadline_ns == NEVER_NS:
            self._deadline_ns = now.ns + self._grace_ns
        elif now.ns >= self._deadline_ns:
            self._states.enter(ReplayState.INACTIVE)

    def _finish(self) -> None:
        self._pending = None
        self._deadline_ns = NEVER_NS
        self._reader.close()
        self._publication.close()
        self._states.enter(ReplayState.DONE)
