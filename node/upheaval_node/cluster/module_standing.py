"""The standing of a consensus module: its state, role, term, leader and current election.

All parts of the module read these values. Each value has one method that writes, publishes and traces it. Knows no
message and no step of an election.
"""

from typing import Final

from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.leader_log import LeaderLog
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_state import LEGAL_MOVES, READS_LOG, ModuleState
from upheaval_node.protocol.message import Message
from upheaval_node.state_machine import StateMachine
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NULL_TERM_ID, MemberId, Now, Position, TermId

# Needed in every turn, and compiled code looks up enumeration members by name each time.
_LEADER: Final = Role.LEADER
_FOLLOWER: Final = Role.FOLLOWER


class Standing:
    """Implements `sessions.Leadership`. A mere reader of a log has no leader log and no publisher to a leader."""

    def __init__(
        self,
        context: ModuleContext,
        leader_log: LeaderLog | None = None,
        publisher: ConsensusPublisher | None = None,
    ) -> None:
        self._context = context
        self._leader_log = leader_log
        self._publisher = publisher
        self._states = StateMachine("consensus module", ModuleState.INIT, LEGAL_MOVES)
        self.role = Role.FOLLOWER
        self.leadership_term_id = NULL_TERM_ID
        """The term of the last NewLeadershipTermEvent or the last completed election."""
        self.leader_member_id = context.member_id
        self.election: Election | None = None

    @property
    def state(self) -> ModuleState:
        """The state of the module."""
        return self._states.current

    @property
    def is_taking_snapshot(self) -> bool:
        """Whether a snapshot is in progress, during which nothing of the log may be read."""
        return self.state is ModuleState.SNAPSHOT

    @property
    def reads_log(self) -> bool:
        """Whether log entries may be read now."""
        return self.state in READS_LOG

    @property
    def is_leader(self) -> bool:
        """Whether this member leads and no election is running."""
        return self.role is _LEADER and self.election is None

    @property
    def is_follower(self) -> bool:
        """Whether another member leads and no election is running."""
        return self.role is _FOLLOWER and self.election is None

    @property
    def active_log(self) -> LogPublisher | None:
        """The log to append entries to, None unless this member is an active leader outside of elections."""
        if self._leader_log is None or not self.is_leader or self.state is not ModuleState.ACTIVE:
            return None
        return self._leader_log.publisher

    def send_to_leader(self, now: Now, message: Message) -> bool:
        """Send to the leader. Returns False on the leader itself, in an election, and when the transport did not take
        it.
        """
        publisher = self._publisher if self.is_follower else None
        return publisher is not None and publisher.send(now, self.leader_member_id, message)

    def enter(self, now: Now, state: ModuleState) -> None:
        """Set the state. This is its only writer."""
        old = self.state
        if state is not old:
            self._states.enter(state)
            self._context.tracer.emit(now, TraceKind.MODULE_STATE, old=old.name, new=state.name)
            self._context.published.module_state.set(state)

    def become(self, now: Now, role: Role) -> None:
        """Set the role. This is its only writer."""
        if role is not self.role:
            self._context.tracer.emit(now, TraceKind.ROLE, old=self.role.name, new=role.name)
            self.role = role
            self._context.published.role.set(role)

    def enter_term(self, leadership_term_id: TermId, leader_member_id: MemberId | None = None) -> None:
        """Set the term, and its leader where that is known. This is their only writer."""
        self.leadership_term_id = leadership_term_id
        if leader_member_id is not None:
            self.leader_member_id = leader_member_id
        self._context.published.leadership_term_id.set(leadership_term_id)

    def return_to_term_at(self, position: Position) -> None:
        """Return to the term of the last entry before `position`: the log may lack any of the term that was joined.

        The next entries may belong to the earlier term, and admin commands take effect only in their own term. In
        another one the module would ignore a snapshot that its services take, and their acks would no longer match.
        """
        last = self._context.recording_log.find_term_at(Position(position - 1), self.leadership_term_id)
        # Differs from Aeron (docs/protocol.md, E23): Aeron stays in the term that it had joined.
        if last is not None and self._context.rules.terms_return:
            self.enter_term(last.leadership_term_id)

    def hold_election(self, election: Election | None) -> None:
        """Set the current election, None when it is over. This is its only writer."""
        self.election = election
