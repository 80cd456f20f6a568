"""A client of an archive, for the consensus module and replications.

Nothing blocks: a request returns a `PendingCall` at once, which `do_work` completes. The handshake follows Aeron's
archive client (connect request, response, archive id, keep-alive). A client that lost its archive is closed for good;
to connect again, its user makes a new client. The module knows channels and messages only.
"""

from collections import deque
from enum import IntEnum
from typing import Final

from upheaval_node.archive.calls import LateError, PendingCall
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.media.api import Abort, Image, Media, Message as Fragment, Publication, Subscription
from upheaval_node.protocol import archive_messages as am, channel as uri
from upheaval_node.protocol.archive_messages import ControlResponseCode, RecordingSignalEvent, SourceLocation
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import (
    ARCHIVE_CONTROL_STREAM_ID,
    ARCHIVE_LOCAL_CONTROL_CHANNEL,
    ARCHIVE_PROTOCOL_VERSION,
    ARCHIVE_RESPONSE_STREAM_ID,
)
from upheaval_node.protocol.message import Message, with_values
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import NEVER_NS, NULL_POSITION, NULL_VALUE, Now, S

CONTROL_TERM_LENGTH: Final = 64 * 1024
FRAGMENT_LIMIT: Final = 64
# If the caller lets signals or errors pile up, the oldest are dropped.
MAX_SIGNALS: Final = 1024
MAX_OUTGOING: Final = 1024

# Session ids of clients: above the range that Aeron reserves, within a positive int32.
_FIRST_SESSION_ID: Final = 1001
_SESSION_IDS: Final = (1 << 31) - 1 - _FIRST_SESSION_ID


class ClientState(IntEnum):
    """The handshake's steps, with the codes of Aeron's connect steps; DONE is connected."""

    AWAIT_SUBSCRIPTION = 0
    ADD_PUBLICATION = 1
    AWAIT_PUBLICATION_CONNECTED = 2
    SEND_CONNECT_REQUEST = 3
    AWAIT_SUBSCRIPTION_CONNECTED = 4
    AWAIT_CONNECT_RESPONSE = 5
    SEND_ARCHIVE_ID_REQUEST = 6
    AWAIT_ARCHIVE_ID_RESPONSE = 7
    DONE = 10
    CLOSED = 11


LEGAL_MOVES: Final = {
    ClientState.AWAIT_SUBSCRIPTION: frozenset({ClientState.AWAIT_PUBLICATION_CONNECTED, ClientState.CLOSED}),
    ClientState.AWAIT_PUBLICATION_CONNECTED: frozenset({ClientState.AWAIT_CONNECT_RESPONSE, ClientState.CLOSED}),
    ClientState.AWAIT_CONNECT_RESPONSE: frozenset({ClientState.AWAIT_ARCHIVE_ID_RESPONSE, ClientState.CLOSED}),
    ClientState.AWAIT_ARCHIVE_ID_RESPONSE: frozenset({ClientState.DONE, ClientState.CLOSED}),
    ClientState.DONE: frozenset({ClientState.CLOSED}),
    ClientState.CLOSED: frozenset[ClientState](),
}


class ArchiveClient:
    """A connection to an archive. Requests need `is_connected`; after `is_closed`, nothing more comes.

    `error` says why the client closed. The caller empties `signals` and `late_errors`.
    """

    def __init__(
        self,
        media: Media,
        *,
        control_channel: str = ARCHIVE_LOCAL_CONTROL_CHANNEL,
        control_stream_id: int = ARCHIVE_CONTROL_STREAM_ID,
        response_channel: str = "",
        response_stream_id: int = ARCHIVE_RESPONSE_STREAM_ID,
        timeout_ns: int = 10 * S,
        name: str = "",
    ) -> None:
        """Raises `UsageError` for unusable channels.

        Without a response channel, responses come over `aeron:ipc`; if the request channel is a network channel, they
        come back on its connection (`control-mode=response`).
        """
        self.archive_id = NULL_VALUE
        self.control_session_id = NULL_VALUE
        self.error: str | None = None
        self.signals: deque[RecordingSignalEvent] = deque(maxlen=MAX_SIGNALS)
        self.late_errors: deque[LateError] = deque(maxlen=MAX_SIGNALS)
        self._media = media
        self._name = name
        self.timeout_ns: Final = timeout_ns
        self._states = StateMachine("archive client", ClientState.AWAIT_SUBSCRIPTION, LEGAL_MOVES)
        self._now_ns = 0
        self._deadline_ns = NEVER_NS
        self._calls: dict[int, PendingCall] = {}
        self._outgoing: deque[bytes] = deque()
        self._image: Image | None = None
        self._connect_id = media.next_correlation_id()
        request, response = _channels(media, control_channel, response_channel)
        self._response_stream_id = response_stream_id
        self._subscription: Subscription = media.add_subscription(str(response), response_stream_id)
        self._response_channel = response
        try:
            self._publication: Publication = media.add_publication(str(request), control_stream_id)
        except UsageError:
            self._subscription.close()
            raise
        self._states.enter(ClientState.AWAIT_PUBLICATION_CONNECTED)

    # --- state ---

    @property
    def state(self) -> ClientState:
        """How far the handshake is, or CLOSED."""
        return self._states.current

    @property
    def is_connected(self) -> bool:
        """Whether the handshake is done, so that requests are served."""
        return self._states.current == ClientState.DONE

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed, by `close` or by the loss of its archive."""
        return self._states.current == ClientState.CLOSED

    @property
    def has_unsent(self) -> bool:
        """Whether a request waits to be sent in the next duty cycle."""
        return bool(self._outgoing)

    def next_deadline_ns(self) -> int:
        """The earliest time-out of a call or of the connect."""
        if self.is_closed:
            return NEVER_NS
        return min(call.deadline_ns for call in self._calls.values()) if self._calls else self._deadline_ns

    def close(self) -> None:
        """Send a close request if that does not block, and close the client."""
        if self.is_connected:
            goodbye = am.CloseSessionRequest(control_session_id=self.control_session_id)
            self._publication.offer(am.SCHEMA.encode(goodbye))
        self._close("closed")

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Receive responses, continue the handshake, send requests, and check the time-outs."""
        if self.is_closed:
            return 0
        self._now_ns = now.ns
        if self._deadline_ns == NEVER_NS and not self.is_connected:
            self._deadline_ns = now.ns + self.timeout_ns
        work = self._subscription.poll(self._on_fragment, FRAGMENT_LIMIT)
        if self._states.current == ClientState.CLOSED:
            return work
        work += self._advance()
        while self._outgoing and self._publication.offer(self._outgoing[0]) > 0:
            self._outgoing.popleft()
            work += 1
        self._check(now)
        return work

    def _advance(self) -> int:
        if self._states.current != ClientState.AWAIT_PUBLICATION_CONNECTED or not self._publication.is_connected:
            return 0
        response = self._resolved_response()
        if response is not None:
            self._outgoing.append(
                am.SCHEMA.encode(
                    am.AuthConnectRequest(
                        correlation_id=self._connect_id,
                        response_stream_id=self._response_stream_id,
                        version=ARCHIVE_PROTOCOL_VERSION,
                        response_channel=str(response),
                        client_info=f"name={self._name}",
                    )
                )
            )
            self._states.enter(ClientState.AWAIT_CONNECT_RESPONSE)
            return 1
        return 0

    def _resolved_response(self) -> Channel | None:
        """The response channel with its actual port in place of port 0; None until the port is known."""
        endpoint = self._response_channel.endpoint
        if endpoint is None or not endpoint.endswith(":0"):
            return self._response_channel
        resolved = self._subscription.resolved_endpoint
        return None if resolved is None else self._response_channel.with_(endpoint=resolved)

    def _check(self, now: Now) -> None:
        problem = self._publication.error or self._subscription.error
        if problem is not None and not self.is_connected:
            self._close(problem)
        elif not self.is_connected and now.ns >= self._deadline_ns:
            self._close(f"no connection to the archive: {self._states.current.name} timed out")
        elif self.is_connected and (self._image is None or self._image.is_closed):
            self._close("the archive is gone")
        elif self.is_connected and self._publication.is_closed:
            self._close("the request stream ended")
        for call in [call for call in self._calls.values() if now.ns >= call.deadline_ns]:
            del self._calls[call.correlation_id]
            call.fail("the archive did not answer in time")

    def _close(self, reason: str) -> None:
        if self.is_closed:
            return
        self.error = reason
        self._states.enter(ClientState.CLOSED)
        self._publication.close()
        self._subscription.close()
        for call in self._calls.values():
            call.fail(f"the connection to the archive ended: {reason}")
        self._calls.clear()
        self._outgoing.clear()

    # --- messages from the archive ---

    def _on_fragment(self, fragment: Fragment) -> None:
        if self.is_closed:
            raise Abort
        try:
            message = am.SCHEMA.decode(fragment.payload)
        except DecodeError as error:
            self._close(f"unreadable answer of the archive: {error}")
            return
        if isinstance(message, am.ControlResponse):
            self._on_response(fragment.image, message)
        elif isinstance(message, am.RecordingDescriptor | am.RecordingSubscriptionDescriptor):
            self._on_descriptor(message)
        elif isinstance(message, RecordingSignalEvent) and message.control_session_id == self.control_session_id:
            self.signals.append(message)

    def _on_response(self, image: Image, response: am.ControlResponse) -> None:
        if response.correlation_id == self._connect_id:
            self._on_connect_response(image, response)
            return
        if response.control_session_id != self.control_session_id:
            return
        call = self._calls.pop(response.correlation_id, None)
        if call is None:
            if response.code == ControlResponseCode.ERROR:
                late = LateError(response.correlation_id, response.relevant_id, response.error_message)
                self.late_errors.append(late)
            return
        call.relevant_id = response.relevant_id
        if response.code == ControlResponseCode.ERROR:
            call.fail(response.error_message or "error", response.relevant_id)
        elif response.code != ControlResponseCode.OK and call.wanted_descriptors == 0:
            call.fail("unknown", ErrorCode.UNKNOWN_RECORDING)
        call.done = True
        if self._states.current == ClientState.AWAIT_ARCHIVE_ID_RESPONSE:
            self._on_archive_id(call)

    def _on_connect_response(self, image: Image, response: am.ControlResponse) -> None:
        if self._states.current != ClientState.AWAIT_CONNECT_RESPONSE:
            return
        if response.code != ControlResponseCode.OK:
            self._close(f"the archive refused the connection: {response.error_message}")
            return
        self._image = image
        self.control_session_id = response.control_session_id
        self._states.enter(ClientState.AWAIT_ARCHIVE_ID_RESPONSE)
        self._request(am.ArchiveIdRequest())

    def _on_archive_id(self, call: PendingCall) -> None:
        if call.error is not None:
            self._close(f"the archive has no id: {call.error}")
            return
        self.archive_id = call.relevant_id
        self._deadline_ns = NEVER_NS
        self._states.enter(ClientState.DONE)
        keep_alive = am.KeepAliveRequest(control_session_id=self.control_session_id, correlation_id=NULL_VALUE)
        self._outgoing.append(am.SCHEMA.encode(keep_alive))

    def _on_descriptor(self, descriptor: am.RecordingDescriptor | am.RecordingSubscriptionDescriptor) -> None:
        call = self._calls.get(descriptor.correlation_id)
        if call is None or descriptor.control_session_id != self.control_session_id:
            return
        if isinstance(descriptor, am.RecordingDescriptor):
            call.descriptors.append(descriptor)
        else:
            call.subscriptions.append(descriptor)
        call.deadline_ns = self._now_ns + self.timeout_ns
        if len(call.descriptors) + len(call.subscriptions) >= call.wanted_descriptors:
            del self._calls[call.correlation_id]
            call.done = True

    # --- requests ---

    def _request(self, message: Message, *, descriptors: int = 0) -> PendingCall:
        """Send `message` under a new correlation id."""
        call = PendingCall(self._media.next_correlation_id(), wanted_descriptors=descriptors)
        if self.is_closed or self.control_session_id == NULL_VALUE or len(self._outgoing) >= MAX_OUTGOING:
            return self._refused(call)
        addressed = with_values(message, control_session_id=self.control_session_id, correlation_id=call.correlation_id)
        call.deadline_ns = self._now_ns + self.timeout_ns
        self._calls[call.correlation_id] = call
        encoded = am.SCHEMA.encode(addressed)
        if self._outgoing or self._publication.offer(encoded) <= 0:
            self._outgoing.append(encoded)
        return call

    def request(self, message: Message, *, descriptors: int = 0) -> PendingCall:
        """Send any request of the schema; session and correlation ids are filled in."""
        if not self.is_connected:
            return self._refused(PendingCall(NULL_VALUE))
        return self._request(message, descriptors=descriptors)

    def _refused(self, call: PendingCall) -> PendingCall:
        call.fail(f"not connected to the archive: {self.error or self._states.current.name}")
        return call

    def start_recording(
        self, channel: str, stream_id: int, *, local: bool = True, auto_stop: bool = False
    ) -> PendingCall:
        """Record every stream that appears on the channel. The answer is the subscription id."""
        return self.request(
            am.StartRecordingRequest2(
                channel=channel, stream_id=stream_id, source_location=_location(local), auto_stop=auto_stop
            )
        )

    def extend_recording(
        self, recording_id: int, channel: str, stream_id: int, *, local: bool = True, auto_stop: bool = False
    ) -> PendingCall:
        """Extend a stopped recording when a stream appears at its stop position. The answer is the subscription id."""
        return self.request(
            am.ExtendRecordingRequest2(
                recording_id=recording_id,
                channel=channel,
                stream_id=stream_id,
                source_location=_location(local),
                auto_stop=auto_stop,
            )
        )

    def stop_recording(self, subscription_id: int) -> PendingCall:
        """End a recording subscription by its id; an unknown id is an error."""
        return self.request(am.StopRecordingSubscriptionRequest(subscription_id=subscription_id))

    def stop_recording_channel(self, channel: str, stream_id: int) -> PendingCall:
        """End the recording subscription of the channel and stream."""
        return self.request(am.StopRecordingRequest(channel=channel, stream_id=stream_id))

    def stop_recording_by_identity(self, recording_id: int) -> PendingCall:
        """Stop a recording by its id. The answer is 1 if it was active, else 0."""
        return self.request(am.StopRecordingByIdentityRequest(recording_id=recording_id))

    def replay(
        self, recording_id: int, position: int, length: int, replay_channel: str, replay_stream_id: int
    ) -> PendingCall:
        """Replay a recording. The answer is the replay session id, whose low 32 bits are the stream's session id.

        Position -1 is the start. Length -1 follows an active recording; -2 ends at its present end.
        """
        return self.request(
            am.ReplayRequest(
                recording_id=recording_id,
                position=position,
                length=length,
                replay_channel=replay_channel,
                replay_stream_id=replay_stream_id,
                file_io_max_length=NULL_VALUE,
                replay_token=NULL_VALUE,
            )
        )

    def bounded_replay(
        self,
        recording_id: int,
        position: int,
        length: int,
        replay_channel: str,
        replay_stream_id: int,
        limit_counter_id: int,
    ) -> PendingCall:
        """Like `replay`, but never beyond the value of a counter of the archive's member."""
        return self.request(
            am.BoundedReplayRequest(
                recording_id=recording_id,
                position=position,
                length=length,
                replay_channel=replay_channel,
                replay_stream_id=replay_stream_id,
                limit_counter_id=limit_counter_id,
                file_io_max_length=NULL_VALUE,
                replay_token=NULL_VALUE,
            )
        )

    def stop_replay(self, replay_session_id: int) -> PendingCall:
        """End a replay by its session id. A replay that has already ended is not an error."""
        return self.request(am.StopReplayRequest(replay_session_id=replay_session_id))

    def truncate(self, recording_id: int, position: int) -> PendingCall:
        """Truncate a stopped recording. The answer is the number of deleted segment files."""
        return self.request(am.TruncateRecordingRequest(recording_id=recording_id, position=position))

    def purge_recording(self, recording_id: int) -> PendingCall:
        """Remove a recording and delete its files. The answer is their number; a DELETE signal follows."""
        return self.request(am.PurgeRecordingRequest(recording_id=recording_id))

    def start_position(self, recording_id: int) -> PendingCall:
        """Query the start position of a recording; an unknown id is an error."""
        return self.request(am.StartPositionRequest(recording_id=recording_id))

    def list_recording(self, recording_id: int) -> PendingCall:
        """List the descriptor of a recording: none for an unknown id."""
        return self.request(am.ListRecordingRequest(recording_id=recording_id), descriptors=1)

    def list_recordings(self, from_recording_id: int, count: int) -> PendingCall:
        """List up to `count` descriptors of valid recordings, from that id on."""
        return self.request(
            am.ListRecordingsRequest(from_recording_id=from_recording_id, record_count=count), descriptors=count
        )

    def replicate(
        self,
        src_recording_id: int,
        *,
        src_control_stream_id: int = ARCHIVE_CONTROL_STREAM_ID,
        src_control_channel: str,
        dst_recording_id: int = NULL_VALUE,
        stop_position: int = NULL_POSITION,
        replication_channel: str = "",
        replication_session_id: int = NULL_VALUE,
        src_response_channel: str = "",
    ) -> PendingCall:
        """Copy a recording of another archive into this one. The answer is the replication id.

        Its progress comes as `signals` (and `late_errors`) whose correlation id is the replication id. REPLICATE_END is
        the last signal of the replication itself.
        """
        return self.request(
            am.ReplicateRequest2(
                src_recording_id=src_recording_id,
                dst_recording_id=dst_recording_id,
                stop_position=stop_position,
                channel_tag_id=NULL_VALUE,
                subscription_tag_id=NULL_VALUE,
                src_control_stream_id=src_control_stream_id,
                file_io_max_length=NULL_VALUE,
                replication_session_id=replication_session_id,
                src_control_channel=src_control_channel,
                replication_channel=replication_channel,
                src_response_channel=src_response_channel,
            )
        )

    def stop_replication(self, replication_id: int) -> PendingCall:
        """End a replication by its id; an unknown id is an error."""
        return self.request(am.StopReplicationRequest(replication_id=replication_id))

    def take_signals(self) -> list[RecordingSignalEvent]:
        """Remove and return the signals received so far."""
        taken = list(self.signals)
        self.signals.clear()
        return taken


def _location(local: bool) -> SourceLocation:
    return SourceLocation.LOCAL if local else SourceLocation.REMOTE


def _channels(media: Media, control_channel: str, response_channel: str) -> tuple[Channel, Channel]:
    """Request and response channel with a new session id, or with a new token in response mode."""
    request = Channel.parse(control_channel)
    if not response_channel:
        response_channel = "aeron:ipc" if request.media == "ipc" else "aeron:tcp?control-mode=response"
    response = Channel.parse(response_channel)
    # An IPC response stream cannot carry the responses of an archive on another host.
    if response.media == "ipc" and request.media != "ipc":
        response = Channel.parse("aeron:tcp?control-mode=response")
    if request.get(uri.TERM_LENGTH) is None:
        request = request.with_({uri.TERM_LENGTH: CONTROL_TERM_LENGTH})
    session_id = media.next_correlation_id() % _SESSION_IDS + _FIRST_SESSION_ID
    if response.get(uri.CONTROL_MODE) == uri.CONTROL_MODE_RESPONSE:
        token = response.get(uri.RESPONSE_CORRELATION_ID) or media.next_correlation_id()
        return request, response.with_({uri.RESPONSE_CORRELATION_ID: token})
    if request.get(uri.SESSION_ID) is None:
        request = request.with_({uri.SESSION_ID: session_id})
    return request, response.with_({uri.SESSION_ID: request.get(uri.SESSION_ID)})
