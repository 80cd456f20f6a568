"""The client sessions of a cluster: opening, redirecting, timing out, closing, and surviving a change of leader.

The leader decides and writes each decision to the log, from which every other member learns it. A decision that is in
the log but not committed is remembered, so that the start of an election can undo it. Rules and texts: Aeron Cluster,
session life cycle. Knows nothing of how messages arrive.
"""

import struct
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from upheaval_node.cluster.authentication import Authenticator, AuthorisationService
from upheaval_node.cluster.egress import AuthenticationProxy, EgressPublisher
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.cluster.session import ClusterSession, SessionState
from upheaval_node.counters import CLUSTER_SESSION
from upheaval_node.errors import NodeError, UsageError
from upheaval_node.media.api import Image
from upheaval_node.media.shared_publications import SharedPublications
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import client_channel, is_response_channel
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.constants import CLUSTER_PROTOCOL_VERSION, version_text
from upheaval_node.protocol.message import Message
from upheaval_node.types import NULL_VALUE, MemberId, Now, Position, SessionId, TermId

SCANS_PER_TIMEOUT: Final = 50
"""The number of scans of all sessions within one session time-out."""

MAX_WAITING: Final = 64
"""The most redirected or rejected clients that wait for their answer. Further clients get no answer."""


_ADMIN_REQUESTS: Final[dict[int, str]] = {kind.value: kind.name for kind in cm.AdminRequestType}


class Leadership(Protocol):
    """What sessions need to know of their module."""

    @property
    def leadership_term_id(self) -> TermId:
        """The current leadership term of the member, -1 before the first."""

    @property
    def leader_member_id(self) -> MemberId:
        """The leader, as far as this member knows."""

    @property
    def active_log(self) -> LogPublisher | None:
        """The log while this member leads and is ACTIVE, else None."""

    def send_to_leader(self, now: Now, message: Message) -> bool:
        """On a follower: send the message to the leader. Returns whether that was done."""


class SessionManager:
    """All sessions of one member, whatever its role."""

    def __init__(
        self,
        context: ModuleContext,
        leadership: Leadership,
        authenticator: Authenticator,
        authorisation: AuthorisationService,
    ) -> None:
        self._context = context
        self._leadership = leadership
        self._authenticator = authenticator
        self._authorisation = authorisation
        self._egress = EgressPublisher(context)
        # Only response channels are shared, because they carry a client's token. An endpoint may meanwhile belong to
        # another client, which would receive messages for its own session.
        self._publications = SharedPublications(context.media, is_response_channel)
        self._timeout_ns = context.settings.timeouts.session_ns
        self.sessions: dict[int, ClusterSession] = {}
        # The sessions that are OPEN, which the ingress looks up for every message.
        self.open: dict[int, ClusterSession] = {}
        self.pending: list[ClusterSession] = []
        self.answering: list[ClusterSession] = []
        self.next_session_id = 1
        self.next_committed_session_id = 1
        # Sessions that are owed an event, and sessions whose close the log did not take yet.
        self._owed: dict[int, ClusterSession] = {}
        self._closing: dict[int, ClusterSession] = {}
        self._next_scan_ns = 0
        self._uncommitted_closes: deque[tuple[int, ClusterSession]] = deque()
        self._uncommitted_ids: deque[tuple[int, int]] = deque()

    @property
    def needs_ticks(self) -> bool:
        """Whether a session waits for a client's connection or for the log, which are not signalled."""
        has_work = self._leadership.active_log is not None and (self._owed or self._closing)
        return bool(self.pending or self.answering or has_work)

    # --- ingress ---

    def on_connect_request(self, now: Now, request: cm.SessionConnectRequest, image: Image) -> None:
        """On an active leader add a pending session, or refuse the client when there are too many. Elsewhere redirect
        it.
        """
        if self._leadership.active_log is None:
            self._redirect(now, request)
            return
        session = self._new_session(now, SessionId(self.next_session_id), request)
        self.next_session_id += 1
        if request.version >> 16 != CLUSTER_PROTOCOL_VERSION >> 16:
            ours = version_text(CLUSTER_PROTOCOL_VERSION)
            text = f"invalid client version {version_text(request.version)}, cluster is {ours}"
            self._reject(session, text)
        elif self._is_full(image):
            self._reject(session, "concurrent session limit")
        else:
            session.ingress_image = image
            self._authenticator.on_connect_request(now, session.id, request.encoded_credentials)
            self._add_counter(session, request.client_info, image)
            self.pending.append(session)

    def _is_full(self, image: Image) -> bool:
        """Whether the limit of sessions, of pending sessions, or of pending sessions of this peer is reached."""
        settings = self._context.settings
        waiting = len(self.pending)
        if waiting + len(self.sessions) >= settings.max_sessions or 0 < settings.max_pending_sessions <= waiting:
            return True
        limit = settings.max_pending_sessions_of_peer
        return 0 < limit <= sum(session.is_spoken_for_by(image) for session in self.pending)

    def is_of(self, session_id: int, image: Image) -> bool:
        """Whether the sender of an image may speak for a session, if there is such a session."""
        session = self.open.get(session_id) or next((new for new in self.pending if new.id == session_id), None)
        return session is None or session.is_spoken_for_by(image)

    def on_session_message(self, now: Now, term_id: TermId, session_id: int, payload: Buffer) -> bool:
        """Append one message that is not part of a run. Returns False when the log takes nothing now."""
        log = self._leadership.active_log
        session = self.open.get(session_id)
        if log is None or session is None or term_id != self._leadership.leadership_term_id:
            return True
        if not log.append_session_message(term_id, session_id, self._context.cluster_time(now), payload):
            return False
        session.time_of_last_activity_ns = now.ns
        return True

    def on_keep_alive(self, now: Now, message: cm.SessionKeepAlive, image: Image) -> None:
        """Restart the session's time-out."""
        session = self._addressed(message.leadership_term_id, message.cluster_session_id)
        if session is not None:
            if session.ingress_image is None:
                session.ingress_image = image
            session.time_of_last_activity_ns = now.ns

    def on_close_request(self, now: Now, message: cm.SessionCloseRequest) -> None:
        """Close the session in the log. The client gets no further message."""
        session = self._addressed(message.leadership_term_id, message.cluster_session_id)
        if session is not None:
            self._mark_closing(session, cm.CloseReason.CLIENT_ACTION)
            session.disconnect()
            self._close_in_log(now, session)

    def on_admin_request(self, now: Now, request: cm.AdminRequest) -> None:  # noqa: ARG002 - of every handler
        """Answer with an AdminResponse. Requests of other terms, or without an open session, get no answer."""
        session = self._addressed(request.leadership_term_id, request.cluster_session_id)
        if session is None:
            return
        code, text = self._serve_admin(session, request)
        session.send(
            cm.AdminResponse(
                cluster_session_id=session.id,
                correlation_id=request.correlation_id,
                request_type=request.request_type,
                response_code=code,
                message=text,
                payload=b"",
            )
        )

    def _serve_admin(self, session: ClusterSession, request: cm.AdminRequest) -> tuple[cm.AdminResponseCode, str]:
        """The code and text of the answer. OK means that the snapshot was requested, not that it is complete."""
        kind = request.request_type
        name = _ADMIN_REQUESTS.get(kind, str(kind))
        if not self._authorisation.is_authorised(
            cm.SCHEMA.table.schema_id, cm.AdminRequest.TEMPLATE_ID, kind, session.principal
        ):
            code = cm.AdminResponseCode.UNAUTHORISED_ACCESS
            return code, f"Execution of the {name} request was not authorised"
        if kind != cm.AdminRequestType.SNAPSHOT:
            return cm.AdminResponseCode.ERROR, f"Unknown request type: {name}"
        toggle = self._context.published.control_toggle
        if toggle.get() != ControlToggle.NEUTRAL:
            return cm.AdminResponseCode.ERROR, "Failed to switch ClusterControl to the ToggleState.SNAPSHOT state"
        toggle.set(ControlToggle.SNAPSHOT)
        return cm.AdminResponseCode.OK, ""

    def on_challenge_response(self, now: Now, message: cm.ChallengeResponse) -> None:
        """Take the answer of a challenged client. A follower passes it on: only the leader knows the challenges."""
        if self._leadership.send_to_leader(now, message):
            return
        for session in self.pending:
            if session.id == message.cluster_session_id and session.state is SessionState.CHALLENGED:
                session.time_of_last_activity_ns = now.ns
                session.correlation_id = message.correlation_id
                self._authenticator.on_challenge_response(now, session.id, message.encoded_credentials)

    def on_image_lost(self, image: Image) -> None:
        """Close the sessions of a lost image: their clients may believe in messages that never arrived."""
        lost = [session for session in self.open.values() if session.ingress_image is image]
        for session in lost:
            session.ingress_image = None
            if self._leadership.active_log is not None:
                self._mark_closing(session, cm.CloseReason.TIMEOUT)

    # --- slow tick ---

    def answer_waiting(self, now: Now) -> int:
        """Send redirects, rejections and close events to the clients that can be reached by now."""
        work = 0
        for session in reversed(self.answering):
            is_over = session.state is SessionState.INVALID
            if session.event_code is cm.EventCode.CLOSED:
                is_over |= not session.is_connected
            else:
                is_over |= now.ns > session.time_of_last_activity_ns + self._timeout_ns
            if not is_over:
                is_over = self._send_event(session, session.event_code, session.event_detail)
            if is_over:
                self.answering.remove(session)
                session.close()
                work += 1
        return work

    def process_pending(self, now: Now) -> int:
        """Advance new sessions towards OPEN, newest first. Only on an active leader."""
        work = 0
        for session in reversed(self.pending):
            before = session.state
            if before is SessionState.INVALID:
                self._drop_pending(session)
            elif now.ns > session.time_of_last_activity_ns + self._timeout_ns:
                self._drop_pending(session)
                self._context.published.timed_out_clients.increment()
            else:
                self._advance(now, session)
            work += session.state is not before
        return work

    def check(self, now: Now) -> int:
        """Close sessions that timed out, and send owed events. Only on an active leader."""
        work = 0
        if now.ns >= self._next_scan_ns:
            self._next_scan_ns = now.ns + self._timeout_ns // SCANS_PER_TIMEOUT
            for session in [s for s in self.open.values() if now.ns > s.time_of_last_activity_ns + self._timeout_ns]:
                self._mark_closing(session, cm.CloseReason.TIMEOUT)
        for session in reversed(list(self._closing.values())):
            work += self._close_in_log(now, session)
        for session in reversed(list(self._owed.values())):
            if self._send_owed(session):
                del self._owed[session.id]
                work += 1
        return work

    def _send_owed(self, session: ClusterSession) -> bool:
        """Send an owed event. Returns whether nothing more is owed to the session."""
        if session.state is not SessionState.OPEN:
            return True
        if session.owes_open_event:
            session.owes_open_event = not self._send_event(session, cm.EventCode.OK, "")
        elif session.owes_new_leader_event:
            leadership = self._leadership
            session.owes_new_leader_event = not self._egress.send_new_leader(
                session, leadership.leadership_term_id, leadership.leader_member_id
            )
        return not (session.owes_open_event or session.owes_new_leader_event)

    # --- from a service ---

    def close_by_service(self, now: Now, session_id: int) -> None:
        """Mark the session as closing. The service of every member asks for it; the leader's log entry closes the
        session.
        """
        session = self.sessions.get(session_id)
        if session is not None and session.state is SessionState.OPEN:
            self._mark_closing(session, cm.CloseReason.SERVICE_ACTION)
            if self._leadership.active_log is not None:
                self._close_in_log(now, session)

    # --- from the log ---

    def on_log_open(self, now: Now, event: cm.SessionOpenEvent, end_position: int) -> None:
        """Open a session from the log. `end_position` is the end of its open event."""
        session = ClusterSession(
            event.cluster_session_id,
            event.correlation_id,
            event.response_stream_id,
            event.response_channel,
            now.ns,
            SessionState.OPEN,
            principal=event.encoded_principal,
            opened_log_position=Position(end_position),
        )
        self._add(session)
        self.next_session_id = max(self.next_session_id, session.id + 1)
        self.next_committed_session_id = max(self.next_committed_session_id, session.id + 1)

    def on_log_close(self, event: cm.SessionCloseEvent) -> None:
        """Close a session from the log."""
        session = self.sessions.get(event.cluster_session_id)
        if session is not None:
            self._remove(session)
            session.close()

    # --- snapshots ---

    def records(self) -> list[cm.ClusterSession]:
        """The sessions as a snapshot contains them."""
        return [
            cm.ClusterSession(
                cluster_session_id=session.id,
                correlation_id=session.correlation_id,
                opened_log_position=session.opened_log_position,
                time_of_last_activity=NULL_VALUE,
                close_reason=NULL_INT32 if session.close_reason is None else session.close_reason,
                response_stream_id=session.response_stream_id,
                response_channel=session.response_channel,
            )
            for session in sorted(self.sessions.values(), key=lambda session: session.id)
        ]

    def load(self, now: Now, next_session_id: int, records: Iterable[cm.ClusterSession]) -> None:
        """Restore the sessions of a snapshot. It does not contain the clients' principals."""
        self.next_session_id = self.next_committed_session_id = next_session_id
        for record in records:
            is_open = record.close_reason == NULL_INT32
            session = ClusterSession(
                record.cluster_session_id,
                record.correlation_id,
                record.response_stream_id,
                record.response_channel,
                now.ns,
                SessionState.OPEN if is_open else SessionState.CLOSING,
                opened_log_position=record.opened_log_position,
                close_reason=None if is_open else cm.CloseReason(record.close_reason),
            )
            self.sessions[session.id] = session
            (self.open if is_open else self._closing)[session.id] = session
            self.next_session_id = max(self.next_session_id, session.id + 1)
            self.next_committed_session_id = self.next_session_id
        self._publish_count()

    def touch(self, now: Now) -> None:
        """Restart the time-out of all open sessions. The member has read nothing from clients for a while."""
        for session in self.open.values():
            session.time_of_last_activity_ns = now.ns

    # --- change of leader ---

    def on_committed(self, position: Position) -> None:
        """Drop the undo information of committed decisions."""
        while self._uncommitted_closes and self._uncommitted_closes[0][0] <= position:
            self._uncommitted_closes.popleft()
        while self._uncommitted_ids and self._uncommitted_ids[0][0] <= position:
            self.next_committed_session_id = max(self.next_committed_session_id, self._uncommitted_ids.popleft()[1])

    def leave_term(self, position: Position) -> None:
        """Undo uncommitted decisions at the start of an election, and disconnect the remaining sessions."""
        for session in self.pending:
            self._send_event(session, cm.EventCode.CLOSED, "election")
            session.close()
        self.pending.clear()
        # These clients learn of the close from the end of their stream.
        for session in [session for session in self.answering if session.event_code is cm.EventCode.CLOSED]:
            self.answering.remove(session)
            session.close()
        for session in list(self.sessions.values()):
            if session.opened_log_position > position:
                self._send_event(session, cm.EventCode.CLOSED, "election")
                self._remove(session)
                session.close()
            else:
                session.disconnect()
                session.ingress_image = None
        self._owed.clear()
        self.on_committed(position)
        for _, session in self._uncommitted_closes:
            if session.opened_log_position <= position:
                session.enter(SessionState.CLOSING)
                self.sessions[session.id] = self._closing[session.id] = session
        self._uncommitted_closes.clear()
        self._uncommitted_ids.clear()
        self._publish_count()

    def become_leader(self, now: Now, *, is_startup: bool) -> None:
        """Owe each open session an event that names the new leader. After a start no client is left, and all are
        closed.
        """
        for session in list(self.open.values()):
            if is_startup:
                self._mark_closing(session, cm.CloseReason.TIMEOUT)
                continue
            session.time_of_last_activity_ns = now.ns
            session.owes_new_leader_event = True
            self._owed[session.id] = session
            try:
                session.connect(self._publications)
            except NodeError as error:
                self._context.report(now, "session", f"session {session.id}: {error}")

    def close(self) -> None:
        """Close the egress of every session."""
        for session in [*self.sessions.values(), *self.pending, *self.answering]:
            session.disconnect()

    # --- steps ---

    def _new_session(self, now: Now, session_id: SessionId, request: cm.SessionConnectRequest) -> ClusterSession:
        session = ClusterSession(
            session_id, request.correlation_id, request.response_stream_id, request.response_channel, now.ns
        )
        try:
            session.response_channel = client_channel(request.response_channel)
            session.connect(self._publications)
        except NodeError as error:
            self._context.report(now, "session", f"session {session_id}: {error}")
            session.enter(SessionState.INVALID)
        else:
            session.enter(SessionState.CONNECTING)
        return session

    def _redirect(self, now: Now, request: cm.SessionConnectRequest) -> None:
        if len(self.answering) < MAX_WAITING:
            session = self._new_session(now, SessionId(NULL_VALUE), request)
            session.event_code = cm.EventCode.REDIRECT
            session.event_detail = self._egress.ingress_endpoints
            self.answering.append(session)

    def _reject(self, session: ClusterSession, text: str) -> None:
        if session.state is not SessionState.INVALID and len(self.answering) < MAX_WAITING:
            session.reject(cm.EventCode.ERROR, text)
            self.answering.append(session)
        else:
            session.close()

    def _advance(self, now: Now, session: ClusterSession) -> None:
        proxy = AuthenticationProxy(session, self._egress)
        if not session.is_connected:
            return
        if session.state is SessionState.CONNECTING:
            session.enter(SessionState.CONNECTED)
        if session.state is SessionState.CONNECTED:
            self._authenticator.on_connected_session(now, proxy)
        elif session.state is SessionState.CHALLENGED:
            self._authenticator.on_challenged_session(now, proxy)
        if session.state is SessionState.AUTHENTICATED:
            self._open_in_log(now, session)
        elif session.state is SessionState.REJECTED:
            self.pending.remove(session)
            self.answering.append(session)

    def _open_in_log(self, now: Now, session: ClusterSession) -> None:
        log = self._leadership.active_log
        if log is None:
            return
        position = log.append(
            cm.SessionOpenEvent(
                leadership_term_id=self._leadership.leadership_term_id,
                correlation_id=session.correlation_id,
                cluster_session_id=session.id,
                timestamp=self._context.cluster_time(now),
                response_stream_id=session.response_stream_id,
                response_channel=session.response_channel,
                encoded_principal=session.principal,
            )
        )
        if position > 0:
            session.opened_log_position = Position(position)
            session.time_of_last_activity_ns = now.ns
            session.enter(SessionState.OPEN)
            self.pending.remove(session)
            self._add(session)
            self._uncommitted_ids.append((position, session.id + 1))
            session.owes_open_event = not self._send_event(session, cm.EventCode.OK, "")
            if session.owes_open_event:
                self._owed[session.id] = session

    def _close_in_log(self, now: Now, session: ClusterSession) -> bool:
        log = self._leadership.active_log
        reason = cm.CloseReason.TIMEOUT if session.close_reason is None else session.close_reason
        if log is None:
            return False
        position = log.append(
            cm.SessionCloseEvent(
                leadership_term_id=self._leadership.leadership_term_id,
                cluster_session_id=session.id,
                timestamp=self._context.cluster_time(now),
                close_reason=reason,
            )
        )
        if position <= 0:
            return False
        if reason is not cm.CloseReason.CLIENT_ACTION:
            self._say_farewell(now, session, reason.name)
        if reason is cm.CloseReason.TIMEOUT:
            self._context.published.timed_out_clients.increment()
        self._uncommitted_closes.append((position, session))
        self._remove(session)
        session.close()
        return True

    def _say_farewell(self, now: Now, session: ClusterSession, reason: str) -> None:
        """Send the close event, if necessary again later.

        A retry is needed for a client that is busy now and whose stream does not end, because other sessions share it.
        """
        may_hear = session.is_connected and is_response_channel(session.response_channel)
        is_sent = self._send_event(session, cm.EventCode.CLOSED, reason)
        if is_sent or not may_hear or len(self.answering) >= MAX_WAITING + self._context.settings.max_sessions:
            return
        farewell = ClusterSession(
            session.id, session.correlation_id, session.response_stream_id, session.response_channel, now.ns
        )
        farewell.event_code, farewell.event_detail = cm.EventCode.CLOSED, reason
        farewell.connect(self._publications)
        self.answering.append(farewell)

    def _mark_closing(self, session: ClusterSession, reason: cm.CloseReason) -> None:
        self.open.pop(session.id, None)
        self._closing[session.id] = session
        session.closing(reason)

    def _add(self, session: ClusterSession) -> None:
        self.sessions[session.id] = self.open[session.id] = session
        self._publish_count()

    def _remove(self, session: ClusterSession) -> None:
        for table in (self.sessions, self.open, self._closing, self._owed):
            table.pop(session.id, None)
        self._publish_count()

    def _publish_count(self) -> None:
        self._context.published.open_sessions.set(len(self.sessions))

    def _drop_pending(self, session: ClusterSession) -> None:
        self.pending.remove(session)
        session.close()

    def _addressed(self, term_id: TermId, session_id: int) -> ClusterSession | None:
        """The open session that a message of the current term addresses, None except on an active leader."""
        if self._leadership.active_log is None or term_id != self._leadership.leadership_term_id:
            return None
        return self.open.get(session_id)

    def _send_event(self, session: ClusterSession, code: cm.EventCode, detail: str) -> bool:
        leadership = self._leadership
        return self._egress.send_event(
            session, leadership.leadership_term_id, leadership.leader_member_id, code, detail
        )

    def _add_counter(self, session: ClusterSession, client_info: str, image: Image) -> None:
        cluster_id = self._context.settings.cluster_id
        label = (
            f"cluster-session: {client_info} sourceIdentity={image.source_identity} sessionId={image.session_id}"
            f" - clusterId={cluster_id}"
        )
        key = struct.pack("<iq", cluster_id, session.id)
        try:
            session.counter = self._context.counters.allocate(CLUSTER_SESSION, key, label, session.id)
        except UsageError:
            # The counter is for observers only: a member without a free counter still serves its clients.
            session.counter = None
