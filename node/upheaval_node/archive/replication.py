"""One replication: copies a recording of another archive into this one.

Theory of operation. This archive is a client of the other one: it asks for the descriptor, makes or picks the local
recording, extends it with the stream of a replay and waits until it is recorded as far as was asked for. By default
the replay comes back on the connection that this archive dialled (`control-mode=response`), so that no further port
is needed. States and codes are those of Aeron's replication session; what serves merging with a live stream and
tags is left out. Every step has the message time-out.

News go to the requester under the replication id; REPLICATE_END is always the last of this module's. The STOP of the
local recording comes from the recorder and may come later.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node.archive import channels
from upheaval_node.archive.archive_context import ArchiveContext
from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.codes import ErrorCode, RequestError
from upheaval_node.archive.recorder import Recorder, RecordingSubscription
from upheaval_node.archive.recording import RecordingSession, RecordingSessionState
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segments import remove_segments
from upheaval_node.errors import NodeError
from upheaval_node.media.api import Media
from upheaval_node.protocol import archive_messages as am, channel as uri
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.protocol.channel import REJOIN, Channel
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import NEVER_NS, NULL_POSITION, NULL_VALUE, Now


class ReplicationState(IntEnum):
    """The steps of a replication, with the codes of Aeron's ReplicationSession.State."""

    CONNECT = 0
    REPLICATE_DESCRIPTOR = 1
    EXTEND = 3
    REPLAY = 6
    AWAIT_IMAGE = 7
    REPLICATE = 8
    DONE = 11


_TO_DONE: Final = frozenset({ReplicationState.DONE})
LEGAL_MOVES: Final = {
    ReplicationState.CONNECT: _TO_DONE | {ReplicationState.REPLICATE_DESCRIPTOR},
    ReplicationState.REPLICATE_DESCRIPTOR: _TO_DONE | {ReplicationState.EXTEND},
    ReplicationState.EXTEND: _TO_DONE | {ReplicationState.REPLAY},
    ReplicationState.REPLAY: _TO_DONE | {ReplicationState.AWAIT_IMAGE},
    ReplicationState.AWAIT_IMAGE: _TO_DONE | {ReplicationState.REPLICATE},
    ReplicationState.REPLICATE: _TO_DONE,
    ReplicationState.DONE: frozenset[ReplicationState](),
}


@dataclass(frozen=True, slots=True)
class ReplicationParams:
    """The parameters of a replicate request; -1 and empty texts are the neutral values."""

    src_recording_id: int
    dst_recording_id: int
    stop_position: int
    src_control_channel: str
    src_control_stream_id: int
    src_response_channel: str = ""
    replication_channel: str = ""
    replication_session_id: int = NULL_VALUE


class ReplicationSession:
    """Runs one replication; `state` DONE is its end."""

    def __init__(
        self,
        replication_id: int,
        requester: Requester,
        params: ReplicationParams,
        context: ArchiveContext,
        recorder: Recorder,
    ) -> None:
        """Raises `UsageError` for unusable channels."""
        self.id = replication_id
        self._requester = Requester(requester.sink, replication_id)
        self._params = params
        self._context = context
        self._recorder = recorder
        self._states = StateMachine("replication", ReplicationState.CONNECT, LEGAL_MOVES)
        self._deadline_ns = NEVER_NS
        self._timeout_ns = context.settings.message_timeout_ns
        self._channel = _replication_channel(params, context.media)
        self._client = ArchiveClient(
            context.media,
            control_channel=params.src_control_channel,
            control_stream_id=params.src_control_stream_id,
            response_channel=params.src_response_channel,
            timeout_ns=context.settings.message_timeout_ns,
            name=f"replication-{replication_id}",
        )
        self._call: PendingCall | None = None
        self._source: am.RecordingDescriptor | None = None
        self._entry: RecordingEntry | None = None
        self._session: RecordingSession | None = None
        self._recording: RecordingSubscription | None = None
        self._replay_session_id = NULL_VALUE

    @property
    def state(self) -> ReplicationState:
        """The present state."""
        return self._states.current

    def next_deadline_ns(self) -> int:
        """The time-out of the present step or of the client's calls."""
        return min(self._deadline_ns, self._client.next_deadline_ns())

    def do_work(self, now: Now) -> int:
        """Continue. A failure is reported, answered to the requester, and ends the replication."""
        if self._states.current == ReplicationState.DONE:
            return 0
        before = self._states.current
        work = self._client.do_work(now)
        if self._deadline_ns == NEVER_NS and before != ReplicationState.REPLICATE:
            self._deadline_ns = now.ns + self._timeout_ns
        try:
            self._step(now)
        except NodeError as error:
            code = error.code if isinstance(error, RequestError) else ErrorCode.GENERIC
            self._context.errors.report(now, "replication", f"replication {self.id}: {error}")
            self._requester.error(str(error), code)
            self.stop()
        if self._states.current != before:
            self._deadline_ns = NEVER_NS
            return work + 1
        return work

    def stop(self) -> None:
        """End the replication in any state."""
        if self._states.current == ReplicationState.DONE:
            return
        self._states.enter(ReplicationState.DONE)
        if self._recording is not None and self._recorder.subscription(self._recording.id) is self._recording:
            self._recorder.stop_subscription(self._recording.id)
        if self._replay_session_id != NULL_VALUE:
            self._client.stop_replay(self._replay_session_id)
        self._client.close()
        self._requester.signal(RecordingSignal.REPLICATE_END, self._recording_id(), NULL_VALUE, NULL_POSITION)

    def _recording_id(self) -> int:
        return self._params.dst_recording_id if self._entry is None else self._entry.recording_id

    # --- states ---

    def _step(self, now: Now) -> None:
        if self._client.is_closed and self._states.current != ReplicationState.REPLICATE:
            raise RequestError(
                f"failed to connect to the source archive: {self._client.error}",
                ErrorCode.REPLICATION_CONNECTION_FAILURE,
            )
        if now.ns >= self._deadline_ns:
            raise RequestError(f"replication timed out in {self._states.current.name}")
        match self._states.current:
            case ReplicationState.CONNECT:
                if self._client.is_connected:
                    self._states.enter(ReplicationState.REPLICATE_DESCRIPTOR)
            case ReplicationState.REPLICATE_DESCRIPTOR:
                self._replicate_descriptor()
            case ReplicationState.EXTEND:
                self._extend()
            case ReplicationState.REPLAY:
                self._replay()
            case ReplicationState.AWAIT_IMAGE:
                self._await_image()
            case ReplicationState.REPLICATE:
                self._replicate()
            case ReplicationState.DONE:
                pass

    def _replicate_descriptor(self) -> None:
        if self._call is None:
            self._call = self._client.list_recording(self._params.src_recording_id)
            return
        if not self._call.done:
            return
        call, self._call = self._call, None
        if call.error is not None:
            raise RequestError(f"cannot read the source recording: {call.error}", _code(call))
        if not call.descriptors:
            raise RequestError(f"unknown src recording id {self._params.src_recording_id}", ErrorCode.UNKNOWN_RECORDING)
        self._source = source = call.descriptors[0]
        self._entry = entry = self._destination(source)
        if source.stop_position != NULL_POSITION and entry.stop_position == source.stop_position:
            self._signal_sync(entry.stop_position)
            self.stop()
            return
        target = self._params.stop_position
        if target != NULL_POSITION and entry.stop_position >= target:
            self.stop()
            return
        self._states.enter(ReplicationState.EXTEND)

    def _destination(self, source: am.RecordingDescriptor) -> RecordingEntry:
        """The local recording to extend: a new one, an empty one made like the source, or one that holds a
        part of it.
        """
        copy = RecordingEntry(
            recording_id=NULL_VALUE,
            start_timestamp=source.start_timestamp,
            stop_timestamp=source.start_timestamp,
            start_position=source.start_position,
            stop_position=source.start_position,
            initial_term_id=source.initial_term_id,
            segment_length=max(self._context.settings.segment_length, source.term_buffer_length),
            term_length=source.term_buffer_length,
            mtu=source.mtu_length,
            session_id=source.session_id,
            stream_id=source.stream_id,
            stripped_channel=source.stripped_channel,
            original_channel=source.original_channel,
            source_identity=source.source_identity,
        )
        dst_id = self._params.dst_recording_id
        if dst_id == NULL_VALUE:
            remove_segments(self._context.storage, self._context.directory, self._context.catalog.next_recording_id)
            copy.recording_id = self._context.catalog.next_recording_id
            copy.validate()
            entry = self._context.catalog.add(copy)
            self._requester.signal(RecordingSignal.REPLICATE, entry.recording_id, NULL_VALUE, entry.start_position)
            return entry
        existing = self._context.catalog.get(dst_id)
        if existing is None:
            raise RequestError(f"unknown destination recording id {dst_id}", ErrorCode.UNKNOWN_RECORDING)
        self._recorder.check_inactive(dst_id, "replicate to")
        if existing.start_position == existing.stop_position:
            copy.recording_id = dst_id
            copy.validate()
            remove_segments(self._context.storage, self._context.directory, dst_id)
            copy.control_session_id, copy.correlation_id = existing.control_session_id, existing.correlation_id
            self._context.catalog.replace(existing, copy)
        return existing

    def _extend(self) -> None:
        assert self._entry is not None
        assert self._source is not None
        session_id = self._params.replication_session_id
        if session_id == NULL_VALUE:
            session_id = self._source.session_id
        self._channel = self._channel.with_({uri.SESSION_ID: session_id})
        self._recording = self._recorder.extend(
            self._requester,
            self._entry.recording_id,
            str(self._channel.with_({REJOIN: "false"})),
            self._entry.stream_id,
            is_local=False,
            auto_stop=True,
        )
        self._requester.ok(self._recording.id)
        self._states.enter(ReplicationState.REPLAY)

    def _replay(self) -> None:
        assert self._entry is not None
        if self._call is None:
            channel = self._resolved_channel()
            if channel is not None:
                position = self._entry.stop_position
                target = self._params.stop_position
                length = NULL_VALUE if target == NULL_POSITION else target - position
                self._call = self._client.replay(
                    self._params.src_recording_id, position, length, str(channel), self._entry.stream_id
                )
            return
        if not self._call.done:
            return
        call, self._call = self._call, None
        if call.error is not None:
            raise RequestError(f"the source cannot replay: {call.error}", _code(call))
        self._replay_session_id = call.relevant_id
        self._states.enter(ReplicationState.AWAIT_IMAGE)

    def _resolved_channel(self) -> Channel | None:
        """The channel of the replay, with the actual port in place of port 0; None until the port is known."""
        channel = self._channel
        if channel.endpoint is None or not channel.endpoint.endswith(":0"):
            return channel
        subscription = None if self._recording is None else self._recording.subscription
        resolved = None if subscription is None else subscription.resolved_endpoint
        return None if resolved is None else channel.with_(endpoint=resolved)

    def _await_image(self) -> None:
        assert self._entry is not None
        self._check_late_errors()
        self._session = self._recorder.session(self._entry.recording_id)
        if self._session is not None:
            self._states.enter(ReplicationState.REPLICATE)
        elif self._recording is not None and self._recorder.subscription(self._recording.id) is None:
            raise RequestError("the replay could not be recorded", ErrorCode.INVALID_EXTENSION)

    def _replicate(self) -> None:
        assert self._session is not None
        assert self._source is not None
        position = self._session.position
        source_stop = self._source.stop_position
        target = self._params.stop_position
        if source_stop != NULL_POSITION and position >= source_stop:
            self._signal_sync(position)
            self.stop()
        elif self._session.state == RecordingSessionState.STOPPED or (target != NULL_POSITION and position >= target):
            self.stop()
        else:
            self._check_late_errors()

    def _signal_sync(self, position: int) -> None:
        subscription_id = NULL_VALUE if self._recording is None else self._recording.id
        self._requester.signal(RecordingSignal.SYNC, self._recording_id(), subscription_id, position)

    def _check_late_errors(self) -> None:
        """The source reports the end of a replay under the correlation id of the replay request."""
        if self._client.late_errors:
            error = self._client.late_errors.popleft()
            raise RequestError(f"the source failed: {error.text}")


def _code(call: PendingCall) -> ErrorCode:
    try:
        return ErrorCode(call.error_code)
    except ValueError:
        return ErrorCode.GENERIC


def _replication_channel(params: ReplicationParams, media: Media) -> Channel:
    """The channel from which the replay is recorded; in response mode with its own token."""
    text = params.replication_channel
    if not text:
        is_local = Channel.parse(params.src_control_channel).media == "ipc"
        text = "aeron:ipc" if is_local else "aeron:tcp?control-mode=response"
    channel = channels.parse(text)
    if channel.get(uri.CONTROL_MODE) == uri.CONTROL_MODE_RESPONSE:
        return channel.with_({uri.RESPONSE_CORRELATION_ID: media.next_correlation_id()})
    return channel
