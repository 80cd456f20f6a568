"""The archive's side of one client: its handshake, its queue of responses, its listing and its end.

States and timers are those of Aeron's archive control session. Clients are not authenticated, so every connect is
accepted. The handlers of requests are in `requests`.
"""

from collections import deque
from enum import IntEnum
from typing import Final

from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.listing import Listing
from upheaval_node.archive.recorder import RecordingSubscription
from upheaval_node.media.api import Image, Publication
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.archive_messages import ControlResponseCode, RecordingSignal
from upheaval_node.protocol.constants import ARCHIVE_PROTOCOL_VERSION
from upheaval_node.settings import ArchiveSettings
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import LONG_AGO_NS, MS, NEVER_NS, Now, S

RESEND_INTERVAL_NS: Final = 200 * MS
PING_INTERVAL_NS: Final = S
# A client that does not read its responses is dropped when this many are queued.
MAX_QUEUED_RESPONSES: Final = 1024


class SessionState(IntEnum):
    """Codes of Aeron's control session. Sessions never stay in INIT and the challenge states."""

    INIT = 0
    CONNECTING = 1
    CONNECTED = 2
    CHALLENGED = 3
    AUTHENTICATED = 4
    ACTIVE = 5
    REJECTED = 6
    DONE = 7


LEGAL_MOVES: Final = {
    SessionState.CONNECTING: frozenset({SessionState.CONNECTED, SessionState.DONE}),
    SessionState.CONNECTED: frozenset({SessionState.AUTHENTICATED, SessionState.REJECTED, SessionState.DONE}),
    SessionState.AUTHENTICATED: frozenset({SessionState.ACTIVE, SessionState.DONE}),
    SessionState.ACTIVE: frozenset({SessionState.DONE}),
    SessionState.REJECTED: frozenset({SessionState.DONE}),
    SessionState.DONE: frozenset[SessionState](),
}


class ControlSession:
    """Implements `responses.ResponseSink` for one connected client."""

    def __init__(
        self,
        control_session_id: int,
        connect: am.AuthConnectRequest,
        *,
        image: Image,
        publication: Publication,
        settings: ArchiveSettings,
    ) -> None:
        self.id = control_session_id
        self.image = image
        self.client_info = connect.client_info
        self.close_reason = ""
        self.listing: Listing[RecordingEntry] | Listing[RecordingSubscription] | None = None
        self._states = StateMachine("control session", SessionState.CONNECTING, LEGAL_MOVES)
        self._connect_correlation_id = connect.correlation_id
        self._version = connect.version
        self._publication = publication
        self._settings = settings
        self._responses: deque[bytes] = deque()
        self._resend_ns: int = LONG_AGO_NS
        self._deadline_ns = NEVER_NS
        self._ping = am.SCHEMA.encode(am.Ping(control_session_id=control_session_id))

    @property
    def control_session_id(self) -> int:
        """The id that the client's requests carry."""
        return self.id

    @property
    def state(self) -> SessionState:
        """How far its handshake is, or DONE."""
        return self._states.current

    def next_deadline_ns(self) -> int:
        """When the connect times out, or the next ping or retry is due."""
        if self._states.current == SessionState.CONNECTING:
            return self._deadline_ns
        return min(self._deadline_ns, self._resend_ns)

    # --- responses ---

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        """Queue a ControlResponse OK."""
        self._respond(correlation_id, relevant_id, ControlResponseCode.OK)

    def send_error(self, correlation_id: int, text: str, code: int = ErrorCode.GENERIC) -> None:
        """Queue a ControlResponse ERROR, whose relevant id is the error code."""
        self._respond(correlation_id, code, ControlResponseCode.ERROR, text)

    def send_unknown(self, correlation_id: int, code: ControlResponseCode, relevant_id: int) -> None:
        """Queue RECORDING_UNKNOWN or SUBSCRIPTION_UNKNOWN: the end of a listing."""
        self._respond(correlation_id, relevant_id, code)

    def send_signal(
        self, correlation_id: int, recording_id: int, subscription_id: int, position: int, signal: RecordingSignal
    ) -> None:
        """Queue a RecordingSignalEvent; the recording or subscription id is -1 where none applies."""
        self.send(
            am.SCHEMA.encode(
                am.RecordingSignalEvent(
                    control_session_id=self.id,
                    correlation_id=correlation_id,
                    recording_id=recording_id,
                    subscription_id=subscription_id,
                    position=position,
                    signal=signal,
                )
            )
        )

    def send(self, message: bytes) -> bool:
        """Queue an encoded message. If the client lags too far behind, abort the session and return False."""
        if self._states.current == SessionState.DONE:
            return True
        if len(self._responses) >= MAX_QUEUED_RESPONSES:
            self.abort("responses pile up")
            return False
        self._responses.append(message)
        return True

    @property
    def has_room(self) -> bool:
        """Whether a listing may add descriptors. Listings never fill the queue."""
        return len(self._responses) < MAX_QUEUED_RESPONSES // 2

    def _respond(self, correlation_id: int, relevant_id: int, code: ControlResponseCode, text: str = "") -> None:
        self.send(am.SCHEMA.encode(self._response(correlation_id, relevant_id, code, text)))

    def _response(
        self, correlation_id: int, relevant_id: int, code: ControlResponseCode, text: str = ""
    ) -> am.ControlResponse:
        return am.ControlResponse(
            control_session_id=self.id,
            correlation_id=correlation_id,
            relevant_id=relevant_id,
            code=code,
            version=ARCHIVE_PROTOCOL_VERSION,
            error_message=text.encode("ascii", "replace").decode("ascii"),
        )

    # --- life ---

    def activate(self) -> None:
        """Activate the session: the client's first request of any kind shows that it knows its session id."""
        if self._states.current == SessionState.AUTHENTICATED:
            self._states.enter(SessionState.ACTIVE)
            self._resend_ns = LONG_AGO_NS

    def abort(self, reason: str) -> None:
        """End at once. Queued responses and the listing are dropped."""
        if self._states.current != SessionState.DONE:
            self.close_reason = reason
            self._states.enter(SessionState.DONE)
            self._responses.clear()
            self.listing = None
            self._publication.close()

    def do_work(self, now: Now) -> int:
        """Take the next step of the handshake. Once active: send responses and the listing, and check liveness."""
        if self._states.current == SessionState.DONE:
            return 0
        if self.image.is_closed:
            self.abort("request stream ended")
            return 1
        if self._states.current == SessionState.CONNECTING:
            return self._connecting(now)
        if self._states.current == SessionState.CONNECTED:
            is_ours = self._version >> 16 == ARCHIVE_PROTOCOL_VERSION >> 16
            self._states.enter(SessionState.AUTHENTICATED if is_ours else SessionState.REJECTED)
        if self._states.current in (SessionState.AUTHENTICATED, SessionState.REJECTED):
            return self._announce(now)
        return self._active(now)

    def _connecting(self, now: Now) -> int:
        if self._publication.is_connected:
            self._deadline_ns = now.ns + self._settings.connect_timeout_ns
            self._states.enter(SessionState.CONNECTED)
            return 1
        if self._publication.error is not None:
            self.abort(self._publication.error)
        elif self._deadline_ns == NEVER_NS:
            self._deadline_ns = now.ns + self._settings.connect_timeout_ns
        elif now.ns >= self._deadline_ns:
            self.abort("failed to establish the response connection")
        return 0

    def _announce(self, now: Now) -> int:
        """Repeat the outcome of the connect until the first request arrives."""
        if now.ns >= self._deadline_ns:
            self.abort("no request after connect")
            return 1
        if now.ns < self._resend_ns:
            return 0
        self._resend_ns = now.ns + RESEND_INTERVAL_NS
        if self._states.current == SessionState.AUTHENTICATED:
            response = self._response(self._connect_correlation_id, self.id, ControlResponseCode.OK)
        else:
            text = f"invalid client version {self._version >> 16}.{self._version >> 8 & 255}.{self._version & 255}"
            response = self._response(self._connect_correlation_id, self.id, ControlResponseCode.ERROR, text)
        self._publication.offer(am.SCHEMA.encode(response))
        return 1

    def _active(self, now: Now) -> int:
        if not self._publication.is_connected:
            self.abort("response stream is not connected")
            return 1
        work = 0
        if self.listing is not None:
            work, is_complete = self.listing.do_work()
            if is_complete:
                self.listing = None
        responses = self._responses
        while responses and self._publication.offer(responses[0]) > 0:
            responses.popleft()
            work += 1
        if self._states.current != SessionState.ACTIVE:
            return work
        if now.ns >= self._resend_ns:
            self._resend_ns = now.ns + PING_INTERVAL_NS
            self._publication.offer(self._ping)
            work += 1
        self._check_blocked(now, progress=work > 0)
        return work

    def _check_blocked(self, now: Now, *, progress: bool) -> None:
        """End the session of a client that took no response during the connect time-out."""
        if progress or not self._responses:
            self._deadline_ns = NEVER_NS
        elif self._deadline_ns == NEVER_NS:
            self._deadline_ns = now.ns + self._settings.connect_timeout_ns
        elif now.ns >= self._deadline_ns:
            self.abort("responses cannot be sent")
