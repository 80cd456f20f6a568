"""Messages of a consensus module to clients: session events, the new leader, challenges.

Each call makes one attempt; the part that owes an event tries again. Knows nothing of when an event is due.
"""

from dataclasses import dataclass

from upheaval_node.cluster.members import ingress_endpoints
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.session import ClusterSession, SessionState
from upheaval_node.errors import UsageError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import CLUSTER_PROTOCOL_VERSION, MAX_PRINCIPAL_LENGTH
from upheaval_node.types import MemberId, TermId


class EgressPublisher:
    """Makes one attempt to send a message to a client, on the publication of its session."""

    def __init__(self, context: ModuleContext) -> None:
        self._heartbeat_ns = context.settings.timeouts.leader_heartbeat_ns
        self.ingress_endpoints = ingress_endpoints(context.members.values())

    def send_event(
        self, session: ClusterSession, term_id: TermId, leader_id: MemberId, code: cm.EventCode, detail: str
    ) -> bool:
        """Send a SessionEvent: OK, an error, a redirect to the leader, a rejection, or the end of the session."""
        return session.send(
            cm.SessionEvent(
                cluster_session_id=session.id,
                correlation_id=session.correlation_id,
                leadership_term_id=term_id,
                leader_member_id=leader_id,
                code=code,
                version=CLUSTER_PROTOCOL_VERSION,
                leader_heartbeat_timeout_ns=self._heartbeat_ns,
                detail=detail,
            )
        )

    def send_new_leader(self, session: ClusterSession, term_id: TermId, leader_id: MemberId) -> bool:
        """Send a NewLeaderEvent with the ingress endpoints of all members."""
        return session.send(
            cm.NewLeaderEvent(
                leadership_term_id=term_id,
                cluster_session_id=session.id,
                leader_member_id=leader_id,
                ingress_endpoints=self.ingress_endpoints,
            )
        )

    @staticmethod
    def send_challenge(session: ClusterSession, encoded_challenge: bytes) -> bool:
        """Send a Challenge, which the client answers on its ingress."""
        return session.send(
            cm.Challenge(
                correlation_id=session.correlation_id,
                cluster_session_id=session.id,
                encoded_challenge=encoded_challenge,
            )
        )


@dataclass(slots=True)
class AuthenticationProxy:
    """Implements `authentication.SessionProxy`."""

    session: ClusterSession
    egress: EgressPublisher

    @property
    def session_id(self) -> int:
        """The id that the session will have."""
        return self.session.id

    def authenticate(self, principal: bytes = b"") -> None:
        """Accept the client. Raises `UsageError` for a principal longer than 4096 bytes."""
        if len(principal) > MAX_PRINCIPAL_LENGTH:
            raise UsageError(f"principal of {len(principal)} bytes")
        self.session.principal = principal
        self.session.enter(SessionState.AUTHENTICATED)

    def challenge(self, encoded_challenge: bytes) -> bool:
        """Send a challenge. The session becomes CHALLENGED once the challenge is sent."""
        if not self.egress.send_challenge(self.session, encoded_challenge):
            return False
        self.session.enter(SessionState.CHALLENGED)
        return True

    def reject(self) -> None:
        """Refuse the client, which learns so once it can be reached."""
        self.session.reject(cm.EventCode.AUTHENTICATION_REJECTED, "session failed authentication")
