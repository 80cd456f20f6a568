"""The states before there is a leader: INIT, CANVASS, NOMINATE and the two ballots, and the messages about votes.

Knows nothing of what a leader or a follower does after the ballot.
"""

from typing import Final

from upheaval_node.cluster.election_base import ElectionBase
from upheaval_node.cluster.election_states import VOTING_STATES, ElectionState, Role
from upheaval_node.cluster.members import (
    ClusterMember,
    compare_logs,
    earlier_in_turn,
    is_quorum_candidate,
    is_quorum_leader,
    is_unanimous_candidate,
    is_unanimous_leader,
)
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import CONSENSUS_PROTOCOL_VERSION
from upheaval_node.types import LOG_START, NULL_POSITION, NULL_TERM_ID, NULL_VALUE, Now, Position, TermId

_TURN: Final = 2
"""Intervals of CanvassPosition between the turns of two candidates.

By then the first has heard from all others, and these have heard of its candidacy.
"""


class BallotStates(ElectionBase):
    """The states of a ballot: all members canvass, some nominate themselves, all vote."""

    def _init(self, now: Now) -> int:
        # Differs from Aeron (docs/protocol.md, E2): the tail is cut here, before the canvass.
        if self._truncate_position is not None and not self._finish_truncation(now, self._truncate_position):
            return 0
        if now.ns < self._retry_at_ns:
            return 0
        if not (self._is_first_init and self._is_node_startup):
            self._abandon_log_work()
            append_position = self._log.leave_term(now, self.log_position)
            if append_position is None:
                return 0
            if append_position != NULL_POSITION:
                self.append_position = append_position
        # An abandoned replay has set the log term to the term that it had reached.
        self.log_leadership_term_id = self.named_term_id
        self.notified_commit_position = LOG_START
        self.candidate_term_id = max(self._context.node_state.candidate_term_id, self.leadership_term_id)
        if not self._membership.others:
            self.candidate_term_id = self._persist_candidate_term(now, TermId(self.candidate_term_id + 1))
            self._become_leader(now, "single member")
        else:
            self._enter(ElectionState.CANVASS, now, "")
        return 1

    def _finish_truncation(self, now: Now, position: Position) -> bool:
        if not self._log.truncate(now, position):
            return False
        self.log_leadership_term_id = self._context.recording_log.cut_terms(position)
        self.append_position = position
        self._truncate_position = None
        return True

    def _abandon_log_work(self) -> None:
        if self._replication is not None:
            self._replication.close()
            self._replication = None
        if self._replay is not None:
            self._replay.close()
            self._replay = None
        self._replication_deadline_ns = 0
        self._last_published_commit = LOG_START
        self.catchup_join_position = NULL_POSITION
        self.log_session_id = None

    def _canvass(self, now: Now) -> int:
        if self._is_extended_canvass:
            deadline = self._state_change_ns + self._timeouts.startup_canvass_ns
        else:
            deadline = self._context.leader.heard_ns + self._timeouts.leader_heartbeat_ns
        work = self._send_canvass_position_on_interval(now)
        if self._context.settings.appointed_leader_id not in (NULL_VALUE, self._self.id):
            return work
        members = self._membership.all
        unanimous = is_unanimous_candidate(members, self._self, self._absent_leader_id)
        unanimous = unanimous and now.ns >= self._turn_ns
        if unanimous or (now.ns >= deadline and is_quorum_candidate(members, self._self)):
            self._nominate_soon(now, "unanimous candidate" if unanimous else "quorum candidate")
        elif self._barred_since_ns is not None and now.ns >= self._barred_since_ns + self._timeouts.leader_heartbeat_ns:
            # The leader that this member may not follow persists: have the cluster elect a leader of a later term.
            self._nominate_soon(now, "bound by a vote in a later term than the leader's")
        return work

    def _nominate_soon(self, now: Now, reason: str) -> None:
        self._nomination_deadline_ns = now.ns + self._nomination_delay_ns()
        self._enter(ElectionState.NOMINATE, now, reason)

    def _nomination_delay_ns(self) -> int:
        """The wait before the candidacy, so that candidates do not collide.

        It is random. Among members that know that their leader has left, it goes by turn: the first nominates itself at
        once.
        """
        if not self._takes_turns:
            return int(self._context.random.random() * (self._timeouts.election_ns / 2))
        # The first in turn may not reach any other member, so the next wait is random.
        self._takes_turns = False
        before = earlier_in_turn(self._membership.all, self._self, self._absent_leader_id)
        return before * _TURN * self._timeouts.election_status_interval_ns

    def _send_canvass_position_on_interval(self, now: Now) -> int:
        if now.ns < self._last_update_ns + self._timeouts.election_status_interval_ns:
            return 0
        self._last_update_ns = now.ns
        self._send_to_others(
            now,
            cm.CanvassPosition(
                log_leadership_term_id=self.log_leadership_term_id,
                log_position=self.append_position,
                leadership_term_id=self.leadership_term_id,
                follower_member_id=self._self.id,
                protocol_version=CONSENSUS_PROTOCOL_VERSION,
            ),
        )
        return 1

    def _nominate(self, now: Now) -> int:
        if now.ns < self._nomination_deadline_ns:
            return self._send_canvass_position_on_interval(now)
        self.log_leadership_term_id = self.named_term_id
        self.candidate_term_id = self._persist_candidate_term(now, TermId(self.candidate_term_id + 1))
        for member in self._membership.all:
            is_self = member is self._self
            member.vote = True if is_self else None
            member.candidate_term_id = self.candidate_term_id if is_self else NULL_TERM_ID
            member.is_ballot_sent = is_self
        self._enter(ElectionState.CANDIDATE_BALLOT, now, "")
        return 1

    def _candidate_ballot(self, now: Now) -> int:
        members = self._membership.all
        if is_unanimous_leader(members, self.candidate_term_id, self._absent_leader_id):
            self._become_leader(now, "unanimous leader")
        elif now.ns >= self._state_change_ns + self._timeouts.election_ns:
            if is_quorum_leader(members, self.candidate_term_id):
                self._become_leader(now, "quorum leader")
            else:
                self._enter(ElectionState.CANVASS, now, "failed to gather a quorum")
        else:
            return sum(self._send_request_vote(now, m) for m in members if not m.is_ballot_sent)
        return 1

    def _send_request_vote(self, now: Now, member: ClusterMember) -> bool:
        self._last_update_ns = now.ns
        member.is_ballot_sent = self._context.send(
            now,
            member.id,
            cm.RequestVote(
                log_leadership_term_id=self.log_leadership_term_id,
                log_position=self.append_position,
                candidate_term_id=self.candidate_term_id,
                candidate_member_id=self._self.id,
                protocol_version=CONSENSUS_PROTOCOL_VERSION,
            ),
        )
        return member.is_ballot_sent

    def _follower_ballot(self, now: Now) -> int:
        if now.ns >= self._state_change_ns + self._timeouts.election_ns:
            self._enter(ElectionState.CANVASS, now, "no leader came of the ballot")
        return 0

    def on_request_vote(self, now: Now, message: cm.RequestVote) -> None:
        """Grant at most one vote per term, and only to a log that is at least as good.

        The term is durable before the answer is sent.
        """
        if self.state is ElectionState.INIT or message.candidate_member_id == self._self.id:
            return
        own_is_better = (
            compare_logs(
                self.named_term_id,
                self.append_position,
                message.log_leadership_term_id,
                message.log_position,
            )
            > 0
        )
        if message.candidate_term_id <= self.candidate_term_id:
            self._send_vote(now, message, granted=False)
        elif own_is_better:
            self.candidate_term_id = self._persist_candidate_term(now, message.candidate_term_id)
            self._send_vote(now, message, granted=False)
            if self._role is Role.LEADER:
                self._answer_with_term(
                    now, message.candidate_member_id, message.log_leadership_term_id, message.log_position
                )
        elif self.state in VOTING_STATES:
            self.candidate_term_id = self._persist_candidate_term(now, message.candidate_term_id)
            self._promised_term_id = self.candidate_term_id
            self._send_vote(now, message, granted=True)
            self._enter(ElectionState.FOLLOWER_BALLOT, now, f"voted for member {message.candidate_member_id}")
        elif self._role is Role.LEADER:
            self.candidate_term_id = self._persist_candidate_term(now, message.candidate_term_id)

    def _send_vote(self, now: Now, request: cm.RequestVote, *, granted: bool) -> None:
        if request.candidate_member_id in self._membership.by_id:
            self._context.send(
                now,
                request.candidate_member_id,
                cm.Vote(
                    candidate_term_id=request.candidate_term_id,
                    log_leadership_term_id=self.log_leadership_term_id,
                    log_position=self.append_position,
                    candidate_member_id=request.candidate_member_id,
                    follower_member_id=self._self.id,
                    vote=granted,
                ),
            )

    def on_vote(self, now: Now, message: cm.Vote) -> None:
        """Count an answer to this member's current candidacy; ignore any other."""
        voter = self._membership.by_id.get(message.follower_member_id)
        if (
            self.state is ElectionState.CANDIDATE_BALLOT
            and message.candidate_term_id == self.candidate_term_id
            and message.candidate_member_id == self._self.id
            and voter is not None
        ):
            voter.candidate_term_id = message.candidate_term_id
            voter.vote = message.vote
            voter.record(message.log_leadership_term_id, message.log_position, now.ns)
