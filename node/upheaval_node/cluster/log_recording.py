"""The recording of the log in the member's own archive: started or extended for each term, stopped at each election.

Its position, the recording-position counter (type 100), is the append position of this member: the archive raises it
only after the write, or after the sync where that is configured. Knows nothing of roles.
"""

import struct
from dataclasses import dataclass
from typing import Final

from upheaval_node import counters as counter_types
from upheaval_node.archive.calls import LateError, PendingCall
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.counters import Counter, recording_key_prefix
from upheaval_node.errors import PeerError, TimeoutExpired
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.protocol.frames import position_bits_to_shift, term_id_at, term_offset_at
from upheaval_node.steps import StepGenerator
from upheaval_node.types import MS, NULL_POSITION, NULL_VALUE, Position

ASK_INTERVAL_NS: Final = 10 * MS
"""The pause in nanoseconds before the archive is asked again whether the recording has stopped."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The properties of a log that stay the same when it is extended."""

    initial_term_id: int
    term_length: int
    mtu: int

    def position_parameters(self, position: int) -> dict[str, int]:
        """Channel parameters that put a publication or an image at `position`."""
        shift = position_bits_to_shift(self.term_length)
        return {
            "init-term-id": self.initial_term_id,
            "term-id": term_id_at(position, shift, self.initial_term_id),
            "term-offset": term_offset_at(position, shift),
            "term-length": self.term_length,
        }


def publication_channel(log_format: LogFormat, position: int) -> Channel:
    """The channel of a log publication from `position` on, without a destination yet."""
    return Channel(
        "tcp",
        {
            "control-mode": "manual",
            **{key: str(value) for key, value in log_format.position_parameters(position).items()},
            "mtu": str(log_format.mtu),
            "alias": "log",
        },
    )


def log_channel(session_id: int) -> Channel:
    """The log stream as a member's archive and services name it. As a spy, they share the member's image."""
    return Channel("tcp", {"session-id": str(session_id), "alias": "log"})


def find_recording_counter(context: ModuleContext, session_id: int, recording_id: int) -> tuple[int, Counter] | None:
    """The recording id and position counter of a stream's recording. A `recording_id` of -1 matches any."""
    matches: list[tuple[int, Counter]] = []

    def visit(counter: Counter, type_id: int, key: bytes, _label: str) -> None:
        if type_id == counter_types.RECORDING_POSITION:
            recording, session = struct.unpack_from("<qi", key)
            if session == session_id and recording_id in (NULL_VALUE, recording):
                matches.append((recording, counter))

    context.counters.for_each(visit)
    return matches[0] if matches else None


class LogRecording:
    """The recording of the log, active or stopped.

    `stop_position` and `has_stopped` follow the archive's signals.
    """

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._recording_id = NULL_VALUE
        self.stop_position = NULL_POSITION
        """The position of the last stop."""
        self.has_stopped = False
        """Whether the archive has signalled a stop since the last start."""
        self.start_position = NULL_POSITION
        self._format: LogFormat | None = None
        self._counter: Counter | None = None
        self._start_call: PendingCall | None = None
        self._channel = ""
        self._start_error: str | None = None

    @property
    def recording_id(self) -> int:
        """The recording that holds the log, -1 without one."""
        return self._recording_id

    @recording_id.setter
    def recording_id(self, recording_id: int) -> None:
        self._recording_id = recording_id
        self._context.published.log_recording_id.set(recording_id)

    @property
    def format(self) -> LogFormat:
        """The format of the recorded log, or the configured one while there is no recording."""
        if self._format is not None:
            return self._format
        settings = self._context.settings
        return LogFormat(0, settings.log_term_length, settings.log_mtu)

    @property
    def position(self) -> Position | None:
        """The recorded position of the log, None while no recording is active."""
        counter = self._counter
        if counter is None:
            return None
        if counter.is_closed:
            self._counter = None
            return None
        return Position(counter.get())

    def adopt(self, descriptor: am.RecordingDescriptor) -> None:
        """Use this recording as the log's from now on."""
        self.recording_id = descriptor.recording_id
        self.start_position = Position(descriptor.start_position)
        self.stop_position = Position(descriptor.stop_position)
        self._format = LogFormat(descriptor.initial_term_id, descriptor.term_buffer_length, descriptor.mtu_length)

    def start(self, session_id: int, log_format: LogFormat) -> StepGenerator[None]:
        """Record the stream of that session, as an extension of the log or as its beginning.

        The steps end when the recording is active. Raises `PeerError` when the archive refuses.
        """
        archive = self._context.archive
        channel = str(log_channel(session_id))
        if self.recording_id == NULL_VALUE:
            call = archive.start_recording(channel, LOG_STREAM_ID, local=True)
        else:
            call = archive.extend_recording(self.recording_id, channel, LOG_STREAM_ID, local=True)
        self._request_start(call, channel)
        while not call.done:
            yield
        while True:
            error = call.error or self._start_error
            if error is not None:
                raise PeerError(f"the log is not recorded: {error}")
            match = find_recording_counter(self._context, session_id, self.recording_id)
            if match is not None:
                self.recording_id, self._counter = match
                self._format = log_format
                self.has_stopped = False
                return
            yield

    def _request_start(self, call: PendingCall, channel: str) -> None:
        self._start_call, self._channel, self._start_error = call, channel, None

    def on_late_error(self, error: LateError) -> None:
        """Note an error of the archive. If it concerns the start of the recording, `start` raises it."""
        if self._start_call is not None and error.correlation_id == self._start_call.correlation_id:
            self._start_error = error.text

    def on_signal(self, signal: am.RecordingSignalEvent) -> None:
        """Note the stop position of the log's recording from a STOP signal."""
        if signal.signal == am.RecordingSignal.STOP and signal.recording_id == self.recording_id:
            self.stop_position = Position(signal.position)
            self.has_stopped = True
            self._counter = None

    def stop(self) -> StepGenerator[Position]:
        """Stop recording. Returns the stop position, -1 when there never was a recording."""
        yield from self._end_start()
        if self.recording_id != NULL_VALUE:
            call = self._context.archive.stop_recording_by_identity(self.recording_id)
            while not call.done:
                yield
        self._counter = None
        if self.recording_id == NULL_VALUE:
            return NULL_POSITION
        yield from self.refresh()
        return self.stop_position

    def _end_start(self) -> StepGenerator[None]:
        """Undo the last start request, even if it may have had no effect.

        A request that timed out may still be served later, and would record for ever; in the archive's queue it comes
        before the stop request. Raises `PeerError` when the stop request gets no answer either: it must be retried.
        """
        archive = self._context.archive
        start = self._start_call
        if start is None:
            return
        while not start.done:
            yield
        if start.error is None:
            call = archive.stop_recording(start.relevant_id)
        else:
            call = archive.stop_recording_channel(self._channel, LOG_STREAM_ID)
        while not call.done:
            yield
        # An error from the archive means that nothing is active any more, which is just as good.
        if call.error is not None and call.error_code == NULL_VALUE:
            raise PeerError(f"the recording of the log is not stopped: {call.error}")
        self._start_call = None

    def refresh(self) -> StepGenerator[None]:
        """Query the archive until the recording has stopped and its position counter is gone.

        Raises `TimeoutExpired` when the archive answers, but the recording does not stop in time, and `PeerError` when
        the archive cannot describe the recording.
        """
        archive = self._context.archive
        prefix = recording_key_prefix(self.recording_id)
        deadline_ns = NULL_VALUE
        while True:
            call = archive.list_recording(self.recording_id)
            now = yield
            while not call.done:
                now = yield
            if call.error is not None:
                raise PeerError(f"the archive does not tell of the log's recording {self.recording_id}: {call.error}")
            if not call.descriptors:
                raise PeerError(
                    f"the recording log names recording {self.recording_id}, which the archive does not have"
                )
            descriptor = call.descriptors[0]
            if descriptor.stop_position != NULL_POSITION:
                self.adopt(descriptor)
                if self._context.counters.find(counter_types.RECORDING_POSITION, prefix) is None:
                    return
            if deadline_ns == NULL_VALUE:
                deadline_ns = now.ns + archive.timeout_ns
            elif now.ns >= deadline_ns:
                raise TimeoutExpired(f"the archive does not stop the log's recording {self.recording_id}")
            ask_again_ns = now.ns + ASK_INTERVAL_NS
            while now.ns < ask_again_ns:
                now = yield

    def truncate(self, position: Position) -> StepGenerator[None]:
        """Cut the stopped recording at `position`. Raises `PeerError` when the archive refuses."""
        call = self._context.archive.truncate(self.recording_id, position)
        while not call.done:
            yield
        if call.error is not None:
            raise PeerError(f"the log cannot be cut at {position}: {call.error}")
        self.stop_position = position
