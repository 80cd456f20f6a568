"""Requests of backups and standbys on the consensus stream: queries, heartbeats, notices of snapshots.

Theory of operation. Each request is a session of its own that never opens. Once the authenticator and the authorisation
have accepted the request, the answer goes to the response channel that the request names, and the session ends. Leader
and followers serve requests alike while ACTIVE. The number of waiting requests is limited, in total and per peer; a
request beyond the limit gets no answer. Source: Aeron Cluster, backup-type sessions. Knows nothing of elections, nor
how messages arrive.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from upheaval_node.cluster.authentication import Authenticator, AuthorisationService
from upheaval_node.cluster.egress import AuthenticationProxy, EgressPublisher
from upheaval_node.cluster.members import encode_members
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.session import ClusterSession, SessionState
from upheaval_node.cluster.sessions import Leadership
from upheaval_node.errors import NodeError
from upheaval_node.media.shared_publications import SharedPublications
from upheaval_node.peer_faults import host_of
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import client_channel, is_response_channel
from upheaval_node.protocol.constants import CLUSTER_PROTOCOL_VERSION, version_text
from upheaval_node.types import MAX_POSITION, Now, Position, SessionId

MAX_WAITING: Final = 32
"""The most requests that may wait on one member; each may hold a connection."""

MAX_WAITING_OF_PEER: Final = 8
"""The most requests that may wait per host, or per certificate name. Ports change with each connection."""

Request = cm.BackupQuery | cm.HeartbeatRequest | cm.StandbySnapshot
StandbyNotice = tuple[cm.StandbySnapshotSnapshot, ...]

ACTIONS: Final[dict[type[Request], str]] = {
    cm.BackupQuery: "BackupQuery",
    cm.HeartbeatRequest: "Heartbeat",
    cm.StandbySnapshot: "StandbySnapshot",
}
"""The name of each request in answers."""


@dataclass(slots=True, eq=False)
class _Waiting:
    session: ClusterSession
    request: Request
    peer: str


class BackupSessions:
    """The waiting requests of one member. `on_standby_notice` gets each accepted notice of a standby.

    A session takes the first free id of -1, -2, ...; its challenge and the challenge response carry that id. Aeron
    gives all of them the id -1, so its authenticator cannot tell concurrent requests apart.
    """

    def __init__(
        self,
        context: ModuleContext,
        leadership: Leadership,
        authenticator: Authenticator,
        authorisation: AuthorisationService,
        on_standby_notice: Callable[[Now, str, StandbyNotice], None],
    ) -> None:
        self._context = context
        self._leadership = leadership
        self._authenticator = authenticator
        self._authorisation = authorisation
        self._on_standby_notice = on_standby_notice
        self._egress = EgressPublisher(context)
        self._publications = SharedPublications(context.media, is_response_channel)
        self._timeout_ns = context.settings.timeouts.session_ns
        self._waiting: list[_Waiting] = []

    @property
    def needs_ticks(self) -> bool:
        """Whether a request waits for a connection. Nothing signals that a connection is up, so it must be polled."""
        return bool(self._waiting)

    def on_request(self, now: Now, peer: str, request: Request) -> str:
        """Take a request of `peer`. Returns why it is not taken, or an empty string if it is."""
        of_peer = sum(host_of(waiting.peer) == host_of(peer) for waiting in self._waiting)
        if len(self._waiting) >= MAX_WAITING or of_peer >= MAX_WAITING_OF_PEER:
            return "too many requests"
        session = ClusterSession(
            self._free_id(), request.correlation_id, request.response_stream_id, request.response_channel, now.ns
        )
        try:
            session.response_channel = client_channel(request.response_channel)
            session.connect(self._publications)
        except NodeError:
            session.close()
            return f"{ACTIONS[type(request)]} with a response channel of no use"
        session.enter(SessionState.CONNECTING)
        if not isinstance(request, cm.HeartbeatRequest) and request.version >> 16 != CLUSTER_PROTOCOL_VERSION >> 16:
            ours = version_text(CLUSTER_PROTOCOL_VERSION)
            text = f"invalid client version {version_text(request.version)}, cluster={ours}"
            session.reject(cm.EventCode.ERROR, text)
        else:
            self._authenticator.on_connect_request(now, session.id, request.encoded_credentials)
        self._waiting.append(_Waiting(session, request, peer))
        return ""

    def on_challenge_response(self, now: Now, peer: str, message: cm.ChallengeResponse) -> bool:
        """Take a challenge response. Returns whether a request of the same host waits for it.

        A host cannot answer for another host: a wrong answer would end that host's request.
        """
        for waiting in self._waiting:
            session = waiting.session
            is_asked = session.id == message.cluster_session_id and session.state is SessionState.CHALLENGED
            if is_asked and host_of(waiting.peer) == host_of(peer):
                session.time_of_last_activity_ns = now.ns
                session.correlation_id = message.correlation_id
                self._authenticator.on_challenge_response(now, session.id, message.encoded_credentials)
                return True
        return False

    def process(self, now: Now, *, is_active: bool) -> int:
        """Advance all waiting requests. While the member is not active or is in an election, only refusals are sent."""
        work = 0
        for waiting in list(self._waiting):
            session = waiting.session
            before = session.state
            is_over = now.ns > session.time_of_last_activity_ns + self._timeout_ns
            if not is_over and session.is_connected:
                is_over = self._try_to_advance(now, waiting, is_active=is_active)
            if is_over:
                self._waiting.remove(waiting)
                session.close()
            work += session.state is not before
        return work

    def close(self) -> None:
        """Drop the waiting requests without an answer."""
        for waiting in self._waiting:
            waiting.session.close()
        self._waiting.clear()

    # --- steps ---

    def _free_id(self) -> SessionId:
        taken = {waiting.session.id for waiting in self._waiting}
        return next(SessionId(-number) for number in range(1, MAX_WAITING + 1) if -number not in taken)

    def _try_to_advance(self, now: Now, waiting: _Waiting, *, is_active: bool) -> bool:
        try:
            return self._advance(now, waiting, is_active=is_active)
        except NodeError as error:
            self._context.report(now, "backup", f"{ACTIONS[type(waiting.request)]}: {error}")
            return True

    def _advance(self, now: Now, waiting: _Waiting, *, is_active: bool) -> bool:
        """Take one step of a connected session. Returns whether the session is over."""
        session = waiting.session
        if session.state is not SessionState.REJECTED:
            if not is_active:
                return False
            self._authenticate(now, session)
        if session.state is SessionState.AUTHENTICATED and self._authorise(waiting):
            return self._answer(now, waiting)
        if session.state is SessionState.REJECTED:
            leadership = self._leadership
            return self._egress.send_event(
                session,
                leadership.leadership_term_id,
                leadership.leader_member_id,
                session.event_code,
                session.event_detail,
            )
        return False

    def _authenticate(self, now: Now, session: ClusterSession) -> None:
        proxy = AuthenticationProxy(session, self._egress)
        if session.state is SessionState.CONNECTING:
            session.enter(SessionState.CONNECTED)
        if session.state is SessionState.CONNECTED:
            self._authenticator.on_connected_session(now, proxy)
        elif session.state is SessionState.CHALLENGED:
            self._authenticator.on_challenged_session(now, proxy)

    def _authorise(self, waiting: _Waiting) -> bool:
        session, request = waiting.session, waiting.request
        if isinstance(request, cm.StandbySnapshot) and not self._context.settings.accept_standby_snapshots:
            session.reject(cm.EventCode.ERROR, "Not configured to accept StandbySnapshot")
            return False
        schema_id = cm.SCHEMA.table.schema_id
        if self._authorisation.is_authorised(schema_id, request.TEMPLATE_ID, None, session.principal):
            return True
        session.reject(cm.EventCode.AUTHENTICATION_REJECTED, f"Not authorised for {ACTIONS[type(request)]}")
        return False

    def _answer(self, now: Now, waiting: _Waiting) -> bool:
        """Answer the request. Returns whether it is done. As in Aeron, a notice of a standby gets no answer."""
        session, request = waiting.session, waiting.request
        match request:
            case cm.BackupQuery():
                response = self._backup_response(session.correlation_id, request.log_position)
                return response is not None and session.send(response)
            case cm.HeartbeatRequest():
                return session.send(cm.HeartbeatResponse(correlation_id=session.correlation_id))
            case cm.StandbySnapshot():
                self._on_standby_notice(now, waiting.peer, request.snapshots)
                return True

    def _backup_response(self, correlation_id: int, log_position: Position) -> cm.BackupResponse | None:
        """The answer to a backup query, None while there is no term yet."""
        term = self._context.recording_log.find_last_term()
        if term is None:
            return None
        context = self._context
        position = MAX_POSITION if log_position < 0 else log_position
        snapshots = self._context.recording_log.find_snapshot_at_or_before_or_lowest(
            position, context.settings.service_count
        )
        return cm.BackupResponse(
            correlation_id=correlation_id,
            log_recording_id=term.recording_id,
            log_leadership_term_id=term.leadership_term_id,
            log_term_base_log_position=term.term_base_log_position,
            last_leadership_term_id=term.leadership_term_id,
            last_term_base_log_position=term.term_base_log_position,
            commit_position_counter_id=context.published.commit_position.id,
            leader_member_id=self._leadership.leader_member_id,
            member_id=context.member_id,
            snapshots=tuple(
                cm.BackupResponseSnapshot(
                    recording_id=entry.recording_id,
                    leadership_term_id=entry.leadership_term_id,
                    term_base_log_position=entry.term_base_log_position,
                    log_position=entry.log_position,
                    timestamp=entry.timestamp,
                    service_id=entry.service_id,
                )
                for entry in snapshots
            ),
            cluster_members=encode_members(context.members.values()),
        )
