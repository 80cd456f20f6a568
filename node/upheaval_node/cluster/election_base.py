"""The base of all states of an election: its data, the only writer of the state, deadlines, and sending.

Knows the rules of no state. Source: Aeron Cluster's election, side effects of a state change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from upheaval_node.cluster.election_states import LEGAL_MOVES, ROLE_ON_ENTRY, ElectionState, Role
from upheaval_node.cluster.leader_contact import LeaderContact
from upheaval_node.cluster.leadership_terms import TermAction, TermDecision, next_term_in_election
from upheaval_node.cluster.log_access import LogAccess, LogTransfer
from upheaval_node.cluster.members import Membership
from upheaval_node.cluster.rules import Rules
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.settings import ClusterSettings
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import (
    LOG_START,
    LONG_AGO_NS,
    NEVER_NS,
    NULL_MEMBER_ID,
    NULL_POSITION,
    NULL_VALUE,
    MemberId,
    Now,
    Position,
    TermId,
)

SHORTEST_WAIT_NS = 1_000_000
"""The shortest wait in nanoseconds. A failed send leaves a deadline in the past, on which the loop must not spin."""

_ANSWERS: Final = 4
"""A leader answers a canvass within the interval of CanvassPosition divided by this number."""


@dataclass(frozen=True, slots=True)
class ElectionContext:
    """What an election knows of its member apart from the log, and the callback that gets its moves."""

    membership: Membership
    settings: ClusterSettings
    rules: Rules
    node_state: NodeState
    recording_log: RecordingLog
    leader: LeaderContact
    random: Random
    cluster_time: Callable[[Now], int]
    """The epoch time in the cluster's unit, for messages and log entries."""

    send: Callable[[Now, int, Message], bool]
    """Send on the consensus stream. Returns False when the transport did not take it (not connected, back pressure)."""

    on_move: Callable[[Now, ElectionState, Role, str], None]
    """Called when the election has entered this state, with this role, for this reason."""


class ElectionBase:
    """Data and helpers of an election; `election_ballot`, `election_leader` and `election_follower` add the states."""

    def __init__(
        self,
        context: ElectionContext,
        log: LogAccess,
        *,
        is_node_startup: bool,
        absent_leader_id: MemberId,
        leadership_term_id: TermId,
        term_base_log_position: Position,
        log_position: Position,
        append_position: Position,
        now: Now,
    ) -> None:
        self._context = context
        self._log = log
        self._rules = context.rules
        self._membership = context.membership
        self._self = context.membership.own
        self._timeouts = context.settings.timeouts
        self._is_node_startup = is_node_startup
        self._is_extended_canvass = is_node_startup
        self._is_first_init = True
        # The leader that closed its log in good order, or whose connection is lost. Once it sends anything, it counts
        # again as a member whose vote is needed.
        self._absent_leader_id = absent_leader_id
        self._takes_turns = self._timeouts.leader_disconnect_ns > 0 and absent_leader_id != NULL_MEMBER_ID
        self._initial_term_id = leadership_term_id
        self._initial_term_base = term_base_log_position
        self._role = Role.FOLLOWER

        self._states = StateMachine("election", ElectionState.INIT, LEGAL_MOVES)
        self.log_leadership_term_id = leadership_term_id
        self.leadership_term_id = leadership_term_id
        self.candidate_term_id = leadership_term_id
        self.log_position = log_position
        self.append_position = append_position
        self.notified_commit_position = LOG_START
        self.catchup_join_position = NULL_POSITION
        self.leader_member_id = NULL_MEMBER_ID
        self.leader_recording_id = NULL_VALUE
        self.log_session_id: int | None = None
        self.is_leader_startup = False
        # A member that granted its vote in a term, followed the leader of a term, or cut its log for one, follows no
        # leader of an earlier term. With two leaders alive, what it acknowledged to the earlier leader would be lost to
        # the later one. After a restart only the highest persisted term is known.
        self._promised_term_id = leadership_term_id
        if is_node_startup:
            self._promised_term_id = max(leadership_term_id, context.node_state.candidate_term_id)
        self._barred_since_ns: int | None = None

        self._tick_ns = now.ns
        self._last_error_ns = LONG_AGO_NS
        self._retry_at_ns: int = LONG_AGO_NS
        self._state_change_ns = now.ns
        self._last_update_ns = LONG_AGO_NS
        self._last_commit_update_ns = LONG_AGO_NS
        self._last_published_commit = LOG_START
        self._last_published_append = NULL_POSITION
        self._nomination_deadline_ns = 0
        self._replication_deadline_ns = 0
        self._slice = TermDecision(TermAction.NOTHING)
        self._term_base = NULL_POSITION
        self._truncate_position: Position | None = None
        self._replay: LogTransfer | None = None
        self._replication: LogTransfer | None = None

    @property
    def state(self) -> ElectionState:
        """The state of this election."""
        return self._states.current

    @property
    def is_closed(self) -> bool:
        """Whether the election has a result: this member leads, or follows `leader_member_id`."""
        return self.state is ElectionState.CLOSED

    @property
    def role(self) -> Role:
        """The role of this member in the election: follower, candidate or leader."""
        return self._role

    def next_deadline_ns(self) -> int:
        """When a time-out or an interval of the current state is due; always after the last tick."""
        heartbeat = self._timeouts.leader_heartbeat_interval_ns
        status = self._timeouts.election_status_interval_ns
        match self.state:
            case ElectionState.LEADER_INIT | ElectionState.CLOSED:
                return NEVER_NS
            case ElectionState.INIT:
                return self._retry_at_ns if self._retry_at_ns > self._tick_ns else NEVER_NS
            case ElectionState.CANVASS:
                due = self._last_update_ns + status
                if self._tick_ns < self._turn_ns:
                    due = min(due, self._turn_ns)
            case ElectionState.NOMINATE:
                due = min(self._nomination_deadline_ns, self._last_update_ns + status)
            case ElectionState.CANDIDATE_BALLOT:
                due = min(self._state_change_ns + self._timeouts.election_ns, self._tick_ns + status)
            case ElectionState.FOLLOWER_BALLOT:
                due = self._state_change_ns + self._timeouts.election_ns
            case ElectionState.LEADER_LOG_REPLICATION | ElectionState.LEADER_REPLAY | ElectionState.LEADER_READY:
                due = self._last_update_ns + heartbeat
            case _:
                due = self._tick_ns + heartbeat
        return max(due, self._tick_ns + SHORTEST_WAIT_NS)

    @property
    def _turn_ns(self) -> int:
        """When the canvass may end: until then a leader that was wrongly taken for lost has time to answer."""
        wait_ns = self._timeouts.election_status_interval_ns // _ANSWERS if self._takes_turns else 0
        return self._state_change_ns + wait_ns

    def handle_error(self, now: Now, error: Exception) -> None:
        """Abandon the attempt and start again from INIT, after any failure that does not end the node.

        The first retry is immediate, later ones come at intervals: an error that keeps recurring, such as a full disk,
        would burden the other members.
        """
        if now.ns - self._last_error_ns < self._timeouts.election_ns:
            self._retry_at_ns = now.ns + self._timeouts.election_status_interval_ns
        self._last_error_ns = now.ns
        self.log_position = self._log.commit_position
        if self.state is ElectionState.INIT:
            self._is_first_init = False
        elif self.state is not ElectionState.CLOSED:
            self._enter(ElectionState.INIT, now, str(error))

    def _enter(self, state: ElectionState, now: Now, reason: str) -> None:
        """Run the entry actions, make the move and reset the interval clocks."""
        if state is self.state:
            return
        if self.state is ElectionState.CANVASS:
            self._is_extended_canvass = False
        if self.state is ElectionState.INIT:
            self._is_first_init = False
        self._role = ROLE_ON_ENTRY.get(state, self._role)
        if state is ElectionState.CANVASS:
            self._reset_members()
        elif state is ElectionState.LEADER_LOG_REPLICATION:
            self.log_session_id = self._log.publish(self.append_position)
        self._states.enter(state)
        self._barred_since_ns = None
        self._state_change_ns = now.ns
        self._last_update_ns = LONG_AGO_NS
        self._last_commit_update_ns = LONG_AGO_NS
        self._last_published_append = NULL_POSITION
        self._context.on_move(now, state, self._role, reason)

    def _reset_members(self) -> None:
        for member in self._membership.all:
            member.reset()
        self._self.leadership_term_id = self.leadership_term_id
        self._self.log_position = self.append_position
        self.leader_member_id = NULL_MEMBER_ID

    def _become_leader(self, now: Now, reason: str) -> None:
        self.leader_member_id = self._self.id
        self.leadership_term_id = self.candidate_term_id
        self.is_leader_startup = False
        self._enter(ElectionState.LEADER_LOG_REPLICATION, now, reason)

    def _persist_candidate_term(self, now: Now, candidate_term_id: TermId) -> TermId:
        """Persist the candidate term. It must be durable before any message that names it is sent."""
        return self._context.node_state.propose_max_candidate_term_id(
            candidate_term_id, self.log_position, now.epoch_ms
        )

    @property
    def named_term_id(self) -> TermId:
        """The last term that the recording log names, even if the log has no entry of it yet. Votes compare
        this term.
        """
        # Differs from Aeron (docs/protocol.md, E9): Aeron compares the term last joined or replayed.
        last = self._context.recording_log.find_last_term()
        joined = self.log_leadership_term_id
        return joined if last is None else self._rules.log_term(joined, last.leadership_term_id)

    def _quorum_position(self, now: Now) -> Position:
        """The position up to which a quorum has recorded the log of this leader, itself included."""
        # Differs from Aeron (docs/protocol.md, E22): however long replay and services took, this leader is active.
        self._self.record(self.leadership_term_id, self.append_position, now.ns)
        # Differs from Aeron (docs/protocol.md, E7): Aeron counts any position of an active member. A log that ends in
        # the same term as ours is a prefix or an extension of it, and a log reported under our new term was copied from
        # ours. No other position says anything about our log.
        terms = self._rules.quorum_terms(self.log_leadership_term_id, self.leadership_term_id)
        position = min(self._membership.quorum_position(now, terms), self.append_position)
        is_old_log = self.state is ElectionState.LEADER_LOG_REPLICATION and self._rules.names_first
        if not is_old_log or position < self.append_position:
            return position
        # Differs from Aeron (docs/protocol.md, E8): Aeron commits the old log when a quorum has copies. A member that
        # reports the whole log under the new term has named that term. Only then can no log of a term between the last
        # one and the new one beat it, so only then is the old log committed.
        named = self._membership.has_quorum_at(now, self.leadership_term_id, self.append_position)
        return position if named else min(position, max(self.log_position, self._last_published_commit))

    def _new_leadership_term(
        self, now: Now, log_leadership_term_id: TermId, log_position: Position, quorum: Position
    ) -> cm.NewLeadershipTerm | None:
        if self.log_session_id is None:
            return None
        following = next_term_in_election(
            self._context.recording_log,
            log_leadership_term_id,
            log_position,
            self.log_leadership_term_id,
            self.leadership_term_id,
            self.append_position,
            self._rules,
        )
        return cm.NewLeadershipTerm(
            log_leadership_term_id=log_leadership_term_id,
            next_leadership_term_id=following.leadership_term_id,
            next_term_base_log_position=following.base_log_position,
            next_log_position=following.end_log_position,
            leadership_term_id=self.leadership_term_id,
            term_base_log_position=self.append_position,
            log_position=self.append_position,
            leader_recording_id=self._log.recording_id,
            timestamp=self._context.cluster_time(now),
            leader_member_id=self._self.id,
            log_session_id=self.log_session_id,
            app_version=self._context.settings.app_version,
            is_startup=self.is_leader_startup,
            commit_position=quorum,
        )

    def _heard_from(self, member_id: MemberId) -> None:
        if member_id == self._absent_leader_id:
            self._absent_leader_id = NULL_MEMBER_ID

    def _answer_with_term(
        self, now: Now, member_id: MemberId, log_leadership_term_id: TermId, log_position: Position
    ) -> None:
        message = self._new_leadership_term(now, log_leadership_term_id, log_position, self._quorum_position(now))
        if message is not None:
            self._context.send(now, member_id, message)

    def _send_to_others(self, now: Now, message: Message) -> None:
        for member in self._membership.others:
            self._context.send(now, member.id, message)

    def _update_recording_log(
        self, now: Now, term_id: TermId, base: Position, end: Position, timestamp: int | None = None
    ) -> None:
        self._name_term(now, term_id, base, end, timestamp)
        self.log_leadership_term_id = term_id

    def _name_new_term(self, now: Now, base: Position) -> None:
        """Name the new term while the old log is not committed, if the rules require it."""
        if self._rules.names_first:
            self._name_term(now, self.leadership_term_id, base, NULL_POSITION)

    def _name_term(self, now: Now, term: TermId, base: Position, end: Position, timestamp: int | None = None) -> None:
        """Write the term into the recording log. The log term that this member reports does not change."""
        # Differs from Aeron (docs/protocol.md, E20): the last term keeps its end.
        self._context.recording_log.extend_last_term(term, base)
        self._context.recording_log.ensure_coherent(
            self._log.recording_id,
            self._initial_term_id,
            self._initial_term_base,
            term,
            base,
            end,
            self._context.cluster_time(now) if timestamp is None else timestamp,
        )
