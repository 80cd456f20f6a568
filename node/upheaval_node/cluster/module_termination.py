"""The orderly end of a whole cluster: every member stops at the same place of the log, and its services first.

Theory of operation. SHUTDOWN takes a snapshot and ends behind it, ABORT ends where the log ends now. The leader tells
the others the position, and its own services once it may; a follower ends when it has read that far. Services
acknowledge their end, followers tell the leader, and the leader ends last, or when the time-out has passed. An election
that begins before a member is TERMINATING calls the termination off there; a TERMINATING member takes part in none.
A follower that was told to end misses a silent leader all the same, only later: what it was told may be forged, and
must not keep it waiting for ever. Source: Aeron Cluster, termination, which keeps it over elections and misses no
leader until then. Knows nothing of why an operator asks.
"""

from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.module_snapshots import SnapshotSide
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.errors import TerminationError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import FRAME_ALIGNMENT, NULL_POSITION, NULL_VALUE, Now


class TerminationSide(SnapshotSide):
    _termination_position = NULL_POSITION
    _termination_term_id = NULL_VALUE
    _termination_deadline_ns = 0
    _services_deadline_ns = 0
    _are_services_told = False
    _have_services_ended = False

    @property
    def _is_termination_pending(self) -> bool:
        return self._termination_position != NULL_POSITION

    # --- leader ---

    def _announce_termination(self, now: Now, position: int) -> None:
        """The leader: all members end at `position`."""
        self._termination_position = position
        self._termination_term_id = self._term_id
        self._termination_deadline_ns = now.ns + self._timeouts.termination_ns
        for member in self.members.values():
            member.has_terminated = False
        message = cm.TerminationPosition(leadership_term_id=self._term_id, log_position=position)
        self._publisher.send_to_others(now, message)

    def _abort(self, now: Now, position: int) -> None:
        self._announce_termination(now, position)
        self._terminate_services(now)

    def _end_snapshot(self, now: Now) -> None:
        super()._end_snapshot(now)
        if self._is_termination_pending and self._role is Role.LEADER and self._election is None:
            self._termination_deadline_ns = now.ns + self._timeouts.termination_ns
            self._terminate_services(now)

    def on_termination_ack(self, now: Now, message: cm.TerminationAck) -> None:
        member = self.members.get(message.member_id)
        is_answer = self._is_termination_pending and message.leadership_term_id == self._term_id
        if member is not None and is_answer and self._role is Role.LEADER:
            member.has_terminated |= message.log_position >= self._termination_position
        else:
            self._ignore(now, "TerminationAck to no leader that ends", message, may_be_late=member is not None)

    # --- follower ---

    @property
    def _leader_deadline_ns(self) -> int:
        """When a follower gives up a leader that says nothing more.

        One that ends the cluster may be gone before its followers have read as far as they must.
        """
        patience_ns = self._timeouts.termination_ns if self._is_termination_pending else 0
        return self.time_of_last_leader_update_ns + self._timeouts.leader_heartbeat_ns + patience_ns

    def on_termination_position(self, now: Now, message: cm.TerminationPosition) -> None:
        is_of_term = message.leadership_term_id == self._term_id and self._election is None
        if is_of_term and self._role is Role.FOLLOWER and self._state is not ModuleState.TERMINATING:
            if message.log_position < self.commit_position or message.log_position % FRAME_ALIGNMENT:
                # No leader says so: its log has at least what is committed here, and whole frames.
                self._ignore(now, "an end where no leader ends", message)
                return
            self._termination_position = message.log_position
            self._termination_term_id = message.leadership_term_id
        else:
            self._ignore(now, "TerminationPosition of another term or to no follower", message, may_be_late=True)

    def _check_termination(self, now: Now) -> bool:
        """A follower: whether the end is reached that the leader named."""
        if not self._is_termination_pending or self._log.position < self._termination_position:
            return False
        self._terminate_services(now)
        return True

    # --- both ---

    def _call_off_termination(self) -> None:
        """An election begins."""
        if self._state is not ModuleState.TERMINATING:
            self._termination_position = NULL_POSITION

    def _terminate_services(self, now: Now) -> None:
        self._enter(now, ModuleState.TERMINATING)
        self._are_services_told = False
        self._services_deadline_ns = now.ns + self._timeouts.termination_ns
        self._have_services_ended = self._settings.service_count == 0

    def on_service_ack(self, now: Now, message: cm.ServiceAck) -> None:
        super().on_service_ack(now, message)
        if self._state is ModuleState.TERMINATING and self._acks.has_reached(self._termination_position):
            self._acks.take()
            self._have_services_ended = True

    def _poll_termination(self, now: Now) -> int:
        """Go on towards the end; raises `TerminationError` there."""
        if self._state is not ModuleState.TERMINATING:
            return 0
        position = self._termination_position
        if not self._have_services_ended:
            if not self._are_services_told:
                message = cm.ServiceTerminationPosition(log_position=position, ack_required=True)
                self._are_services_told = self._services.send(message)
            if now.ns >= self._services_deadline_ns:
                # Without a quorum, say, they never get to where they have to end.
                raise TerminationError(f"the services did not end at {position} in time", expected=False)
            return 0
        if self._role is Role.LEADER:
            others = [member for member in self.members.values() if member.id != self.member_id]
            if now.ns < self._termination_deadline_ns and not all(member.has_terminated for member in others):
                return 0
        elif self._termination_term_id == self._term_id:
            ack = cm.TerminationAck(leadership_term_id=self._term_id, log_position=position, member_id=self.member_id)
            self.send(now, self.leader_member_id, ack)
        else:
            text = "termination ack not sent - different leadership term to request"
            self._context.report(now, "termination", text)
        self.recording_log.commit_log_position(self._term_id, position)
        self._context.tracer.emit(
            now,
            "cluster-end",
            log_position=position,
            leadership_term_id=self._term_id,
            requested_term_id=self._termination_term_id,
            services=self._settings.service_count,
        )
        raise TerminationError(f"the cluster ends at {position}", expected=True)
