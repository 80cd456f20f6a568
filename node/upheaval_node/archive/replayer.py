"""The replays of an archive: checks requests, opens publications and runs sessions. Recordings are only read."""

from dataclasses import dataclass

from upheaval_node.archive import channels
from upheaval_node.archive.archive_context import DAMAGE, ArchiveContext
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.checksums import checksum_named
from upheaval_node.archive.codes import ErrorCode, RequestError, unknown_recording
from upheaval_node.archive.recorder import Recorder
from upheaval_node.archive.replay import ReplayLimit, ReplaySession, ReplayState
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segments import SegmentReader
from upheaval_node.bell import Bell
from upheaval_node.counters import Counter
from upheaval_node.errors import NodeError
from upheaval_node.media.api import Publication
from upheaval_node.protocol import channel as uri
from upheaval_node.protocol.frames import position_bits_to_shift, term_id_at
from upheaval_node.types import FRAME_ALIGNMENT, MAX_POSITION, NEVER_NS, NULL_POSITION, NULL_VALUE, Now

FOLLOW: int = -1
REPLAY_ALL_AND_STOP: int = -2


@dataclass(frozen=True, slots=True)
class ReplayParams:
    """The parameters of a replay request. `position` -1 is the start; `length` -1 and int64 max follow a live
    recording.
    """

    recording_id: int
    position: int
    length: int
    channel: str
    stream_id: int
    file_io_max_length: int = NULL_VALUE
    limit_counter_id: int = NULL_VALUE


class Replayer:
    """Raises `RequestError` for requests that cannot be served."""

    def __init__(self, context: ArchiveContext, recorder: Recorder) -> None:
        self._context = context
        self._recorder = recorder
        self._checksum = checksum_named(context.settings.replay_checksum)
        self._sessions: dict[int, tuple[ReplaySession, Requester]] = {}
        self._limit_counters: dict[int, int] = {}
        self._count = 0
        self.bell: Bell | None = None
        """Rung by counters that bound replays: what is recorded already may go when they move."""

    @property
    def active_count(self) -> int:
        """How many replays are in progress."""
        return len(self._sessions)

    def start(self, requester: Requester, params: ReplayParams) -> int:
        """Open a replay and return its session id, whose low 32 bits are the session id of the stream."""
        settings = self._context.settings
        if len(self._sessions) >= settings.max_replays:
            raise RequestError(f"max concurrent replays reached {settings.max_replays}", ErrorCode.MAX_REPLAYS)
        entry = self._context.catalog.get(params.recording_id)
        if entry is None:
            raise unknown_recording(params.recording_id)
        position = self._position(entry, params)
        if 0 < params.file_io_max_length < entry.mtu:
            raise RequestError(f"fileIoMaxLength={params.file_io_max_length} < mtuLength={entry.mtu}")
        limit = self._limit(entry, position, params)
        wanted = params.file_io_max_length
        io_max_length = min(wanted, settings.io_max_length) if wanted > 0 else settings.io_max_length
        reader = SegmentReader(self._context.storage, self._context.directory, entry, checksum=self._checksum)
        try:
            if entry.start_position < position < limit.current() and not reader.check_first_frame(position):
                raise RequestError(
                    f"position {position} is not the beginning of a frame of recording {entry.recording_id}",
                    ErrorCode.INVALID_POSITION,
                )
            publication = self._publication(entry, position, params)
        except NodeError:
            reader.close()
            raise
        self._count += 1
        session = ReplaySession(
            self._count << 32 | publication.session_id & 0xFFFFFFFF,
            entry.recording_id,
            position=position,
            limit=limit,
            reader=reader,
            publication=publication,
            io_max_length=io_max_length,
            connect_timeout_ns=settings.connect_timeout_ns,
        )
        self._sessions[session.session_id] = (session, requester)
        if params.limit_counter_id != NULL_VALUE and self.bell is not None:
            self._limit_counters[session.session_id] = params.limit_counter_id
            self._context.counters.watch(params.limit_counter_id, self.bell)
        return session.session_id

    def stop(self, replay_session_id: int) -> None:
        """End a replay. An unknown id is that of a replay that has already ended."""
        replay = self._sessions.get(replay_session_id)
        if replay is not None:
            replay[0].stop()

    def stop_all(self, recording_id: int = NULL_VALUE) -> None:
        """End the replays of one recording, or of all with -1."""
        for session, _ in self._sessions.values():
            if recording_id in (NULL_VALUE, session.recording_id):
                session.stop()

    def lowest_position(self, recording_id: int) -> int | None:
        """The position of the slowest replay of a recording, or None."""
        positions = (session.position for session, _ in self._sessions.values() if session.recording_id == recording_id)
        return min(positions, default=None)

    def do_work(self, now: Now) -> int:
        """Run every replay. An error goes to the client that requested the replay."""
        if not self._sessions:
            return 0
        work = 0
        for session, requester in list(self._sessions.values()):
            work += session.do_work(now)
            if session.state == ReplayState.DONE:
                del self._sessions[session.session_id]
                self._leave_limit(session.session_id)
                if session.error is not None:
                    kind = DAMAGE if session.is_damaged else "replay"
                    self._context.errors.report(now, kind, f"recording {session.recording_id}: {session.error}")
                    requester.error(session.error)
        return work

    def next_deadline_ns(self) -> int:
        """The earliest time at which a replay must run without input."""
        earliest_ns = NEVER_NS
        for session, _ in self._sessions.values():
            earliest_ns = min(earliest_ns, session.deadline_ns)
        return earliest_ns

    def close(self) -> None:
        """End all replays at once."""
        for session, _ in self._sessions.values():
            session.close()
            self._leave_limit(session.session_id)
        self._sessions.clear()

    def _leave_limit(self, session_id: int) -> None:
        counter_id = self._limit_counters.pop(session_id, None)
        if counter_id is not None and self.bell is not None:
            self._context.counters.unwatch(counter_id, self.bell)

    @staticmethod
    def _position(entry: RecordingEntry, params: ReplayParams) -> int:
        position = entry.start_position if params.position == NULL_POSITION else params.position
        if position % FRAME_ALIGNMENT:
            raise RequestError(f"requested replay start position={position} is not aligned to {FRAME_ALIGNMENT}")
        if position < entry.start_position:
            raise RequestError(
                f"requested replay start position={position} is before start position={entry.start_position}"
                f" of recording {entry.recording_id}",
                ErrorCode.INVALID_POSITION,
            )
        if entry.stop_position not in (NULL_POSITION,) and position >= entry.stop_position:
            raise RequestError(
                f"requested replay start position={position} must be less than the stop position="
                f"{entry.stop_position} of recording {entry.recording_id}",
                ErrorCode.INVALID_POSITION,
            )
        return position

    def _limit(self, entry: RecordingEntry, position: int, params: ReplayParams) -> ReplayLimit:
        session = self._recorder.session(entry.recording_id)
        counter: Counter | None = None
        if params.limit_counter_id != NULL_VALUE:
            counter = self._context.counters.get(params.limit_counter_id)
            if counter is None:
                raise RequestError(f"unknown limit counter {params.limit_counter_id}")
        everything = ReplayLimit(MAX_POSITION, entry, session, counter)
        now_available = everything.current()
        bound = counter.get() if counter is not None else now_available
        if position > bound:
            raise RequestError(
                f"requested replay start position={position} must not exceed limit position={bound}",
                ErrorCode.INVALID_POSITION,
            )
        length = params.length
        if length == REPLAY_ALL_AND_STOP:
            length = now_available - position
            if length == 0:
                raise RequestError(f"recording {entry.recording_id} is empty", ErrorCode.EMPTY_RECORDING)
        if length == FOLLOW:
            return everything
        if length < 0:
            raise RequestError(f"replay length {length} of recording {entry.recording_id}")
        return ReplayLimit(min(position + length, MAX_POSITION), entry, session, counter)

    def _publication(self, entry: RecordingEntry, position: int, params: ReplayParams) -> Publication:
        channel = channels.parse(params.channel)
        shift = position_bits_to_shift(entry.term_length)
        replay = channels.strip(channel).with_(
            {
                uri.INITIAL_TERM_ID: entry.initial_term_id,
                uri.TERM_ID: term_id_at(position, shift, entry.initial_term_id),
                uri.TERM_OFFSET: position & (entry.term_length - 1),
                uri.TERM_LENGTH: entry.term_length,
                uri.MTU: entry.mtu,
                uri.EOS: channel.get(uri.EOS),
                uri.LINGER: channel.get(uri.LINGER),
            }
        )
        return self._context.media.add_publication(str(replay), params.stream_id)
