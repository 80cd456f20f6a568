"""Starts elections, and shows them in counters and the trace. Knows the rules of no state."""

from random import Random

from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_base import ElectionContext
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.cluster.leader_contact import LeaderContact
from upheaval_node.cluster.member_log import MemberLog
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.cluster.recovery import Recovered
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import LOG_START, NULL_MEMBER_ID, NULL_POSITION, MemberId, Now


class Elections:
    """Creates each election of a member. `standing` holds the current one."""

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        log: MemberLog,
        leader: LeaderContact,
        publisher: ConsensusPublisher,
        random: Random,
    ) -> None:
        self._context = context
        self._standing = standing
        self._log = log
        self._election_context = ElectionContext(
            context.membership,
            context.settings,
            context.rules,
            context.node_state,
            context.recording_log,
            leader,
            random,
            context.cluster_time,
            publisher.send,
            self._on_move,
        )
        self._appended_at_start = LOG_START
        self._term_base_at_start = NULL_POSITION

    def start_first(self, now: Now, recovered: Recovered) -> None:
        """Start the first election after a start of the node, from the recovered state."""
        self._appended_at_start = recovered.appended_position
        self._term_base_at_start = recovered.plan.last_term_base_log_position
        self.start(now, is_node_startup=True, absent_leader_id=NULL_MEMBER_ID, reason="node started")

    def enter(self, now: Now, reason: str, *, has_leader_left: bool = False) -> None:
        """Give up the term. `has_leader_left`: the leader ended its log in good order, or its connection is lost."""
        standing = self._standing
        # Differs from Aeron (docs/protocol.md, E18): a TERMINATING member takes part in no election.
        if standing.election is not None or standing.state is ModuleState.TERMINATING:
            return
        absent_leader_id = standing.leader_member_id if has_leader_left else NULL_MEMBER_ID
        self._context.report(now, "election", reason)
        self.start(now, is_node_startup=False, absent_leader_id=absent_leader_id, reason=reason)

    def start(self, now: Now, *, is_node_startup: bool, absent_leader_id: MemberId, reason: str) -> None:
        """Create an election and make it the current one."""
        log, term_id = self._log, self._standing.leadership_term_id
        recorded = log.recording.position
        if recorded is None:
            recorded = max(self._appended_at_start, log.recording.stop_position)
        term = self._context.recording_log.find_term_entry(term_id)
        election = Election(
            self._election_context,
            log,
            is_node_startup=is_node_startup,
            absent_leader_id=absent_leader_id,
            leadership_term_id=term_id,
            term_base_log_position=self._term_base_at_start if term is None else term.term_base_log_position,
            log_position=log.commit_position,
            append_position=self._appended_at_start if is_node_startup else recorded,
            now=now,
        )
        self._standing.hold_election(election)
        self._context.published.election_count.increment()
        self._on_move(now, ElectionState.INIT, Role.FOLLOWER, reason)

    def _on_move(self, now: Now, state: ElectionState, role: Role, reason: str) -> None:
        election = self._standing.election
        assert election is not None
        self._context.published.election_state.set(state)
        self._context.tracer.emit(
            now,
            TraceKind.ELECTION_STATE,
            state=state.name,
            reason=reason,
            leadership_term_id=election.leadership_term_id,
            candidate_term_id=election.candidate_term_id,
            log_leadership_term_id=election.log_leadership_term_id,
            log_position=election.log_position,
            append_position=election.append_position,
            leader_member_id=election.leader_member_id,
        )
        self._standing.become(now, role)
