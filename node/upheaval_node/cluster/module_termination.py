"""The orderly end of a whole cluster: every member stops at the same log position, after its services.

Theory of operation. SHUTDOWN takes a snapshot and ends after it, ABORT ends at the current end of the log. The leader
sends the position to the others, and to its own services once they may end; a follower ends when it has read up to
there. Services acknowledge their end, followers report it to the leader, and the leader ends last, or when the time-out
has passed. An election that begins before a member is TERMINATING calls off the termination on that member; a
TERMINATING member takes part in no election. A follower that was asked to end still gives up a silent leader, only
later: the request may be forged, and must not keep it waiting for ever. Source: Aeron Cluster, termination; Aeron keeps
a termination across elections and does not give up a leader until then. Knows nothing of why an operator asks.
"""

from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.errors import TerminationError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import FRAME_ALIGNMENT, NULL_POSITION, NULL_TERM_ID, Now, Position


class Termination:
    """One end of the cluster, from its announcement until this member has ended or an election calls it off."""

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        publisher: ConsensusPublisher,
        services: ServiceProxy,
        acks: ServiceAcks,
    ) -> None:
        self._context = context
        self._standing = standing
        self._publisher = publisher
        self._services = services
        self._acks = acks
        self._timeout_ns = context.settings.timeouts.termination_ns
        self._position = NULL_POSITION
        self._term_id = NULL_TERM_ID
        self._deadline_ns = 0
        self._services_deadline_ns = 0
        self._is_sent_to_services = False
        self._have_services_ended = False

    @property
    def is_pending(self) -> bool:
        """Whether an end was announced."""
        return self._position != NULL_POSITION

    # --- leader ---

    def announce(self, now: Now, position: Position) -> None:
        """On the leader: announce that all members end at `position`."""
        self._position = position
        self._term_id = self._standing.leadership_term_id
        self._deadline_ns = now.ns + self._timeout_ns
        for member in self._context.membership.all:
            member.has_terminated = False
        message = cm.TerminationPosition(leadership_term_id=self._term_id, log_position=position)
        self._publisher.send_to_others(now, message)

    def abort(self, now: Now, position: Position) -> None:
        """On the leader: announce the end and begin it at once, waiting only for services and followers."""
        self.announce(now, position)
        self._terminate_services(now)

    def on_snapshot_ended(self, now: Now) -> None:
        """On the leader: begin a SHUTDOWN after its snapshot."""
        if self.is_pending and self._standing.is_leader:
            self._deadline_ns = now.ns + self._timeout_ns
            self._terminate_services(now)

    def on_termination_ack(self, now: Now, peer: str, message: cm.TerminationAck) -> None:
        """On the leader: note that a follower's services have ended."""
        member = self._context.members.get(message.member_id)
        standing = self._standing
        is_answer = self.is_pending and message.leadership_term_id == standing.leadership_term_id
        if member is not None and is_answer and standing.role is Role.LEADER:
            member.has_terminated |= message.log_position >= self._position
        else:
            kind, is_member = "TerminationAck to no leader that ends", member is not None
            self._context.ignored.note(now, peer, kind, message, may_be_late=is_member)

    # --- follower ---

    @property
    def patience_ns(self) -> int:
        """The extra nanoseconds for which a follower waits for a silent leader.

        A leader that ends the cluster may be gone before its followers have read up to the end.
        """
        # Differs from Aeron (docs/protocol.md, E17): Aeron no longer gives up a silent leader.
        return self._timeout_ns if self.is_pending else 0

    def on_termination_position(
        self, now: Now, peer: str, message: cm.TerminationPosition, commit_position: Position
    ) -> None:
        """On a follower: note the position at which all members end."""
        standing, ignored = self._standing, self._context.ignored
        is_of_term = message.leadership_term_id == standing.leadership_term_id
        if is_of_term and standing.is_follower and standing.state is not ModuleState.TERMINATING:
            if message.log_position < commit_position or message.log_position % FRAME_ALIGNMENT:
                # No leader can send this: its log reaches at least to our commit position and consists of whole frames.
                ignored.note(now, peer, "an end where no leader ends", message)
                return
            self._position = message.log_position
            self._term_id = message.leadership_term_id
        else:
            kind = "TerminationPosition of another term or to no follower"
            ignored.note(now, peer, kind, message, may_be_late=True)

    def is_reached(self, now: Now, log_position: int) -> bool:
        """On a follower: whether the announced end is reached. If so, end the services, too."""
        if not self.is_pending or log_position < self._position:
            return False
        self._terminate_services(now)
        return True

    # --- both ---

    def call_off(self) -> None:
        """Call off the termination, because an election begins."""
        # Differs from Aeron (docs/protocol.md, E18): Aeron keeps the termination.
        if self._standing.state is not ModuleState.TERMINATING:
            self._position = NULL_POSITION

    def on_service_ack(self) -> None:
        """Take the acks of the services' end."""
        if self._standing.state is ModuleState.TERMINATING and self._acks.has_reached(self._position):
            self._acks.take()
            self._have_services_ended = True

    def poll(self, now: Now) -> int:
        """Advance the end of this member. Raises `TerminationError` when it has ended."""
        standing, position = self._standing, self._position
        if standing.state is not ModuleState.TERMINATING:
            return 0
        if not self._have_services_ended:
            if not self._is_sent_to_services:
                message = cm.ServiceTerminationPosition(log_position=position, ack_required=True)
                self._is_sent_to_services = self._services.send(message)
            if now.ns >= self._services_deadline_ns:
                # Without a quorum, for example, the services never reach the position of their end.
                raise TerminationError(f"the services did not end at {position} in time", expected=False)
            return 0
        term_id, member_id = standing.leadership_term_id, self._context.member_id
        if standing.role is Role.LEADER:
            others = self._context.membership.others
            if now.ns < self._deadline_ns and not all(member.has_terminated for member in others):
                return 0
        elif self._term_id == term_id:
            ack = cm.TerminationAck(leadership_term_id=term_id, log_position=position, member_id=member_id)
            self._publisher.send(now, standing.leader_member_id, ack)
        else:
            text = "termination ack not sent - different leadership term to request"
            self._context.report(now, "termination", text)
        self._context.recording_log.commit_log_position(term_id, position)
        self._context.tracer.emit(
            now,
            TraceKind.CLUSTER_END,
            log_position=position,
            leadership_term_id=term_id,
            requested_term_id=self._term_id,
            services=self._context.settings.service_count,
        )
        raise TerminationError(f"the cluster ends at {position}", expected=True)

    def _terminate_services(self, now: Now) -> None:
        self._standing.enter(now, ModuleState.TERMINATING)
        self._is_sent_to_services = False
        self._services_deadline_ns = now.ns + self._timeout_ns
        self._have_services_ended = self._context.settings.service_count == 0
