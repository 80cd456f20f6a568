"""The effect of consensus messages on a consensus module, in and out of an election.

An election gets every message that concerns it; outside of an election, a higher term begins one. Source: Aeron
Cluster, consensus messages outside an election, catch-up on the leader's side. Knows no streams.
"""

from upheaval_node.cluster.backup_sessions import BackupSessions, Request
from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.elections import Elections
from upheaval_node.cluster.leader_contact import LeaderContact
from upheaval_node.cluster.leadership_terms import next_term_when_running
from upheaval_node.cluster.member_log import CATCHUP_FLAG, MemberLog
from upheaval_node.cluster.members import ClusterMember
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import TAKES_REQUESTS
from upheaval_node.cluster.module_termination import Termination
from upheaval_node.cluster.sessions import SessionManager
from upheaval_node.errors import TerminationError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_UINT8
from upheaval_node.protocol.message import Message
from upheaval_node.types import NULL_VALUE, MemberId, Now, Position, TermId

MAX_TERM_GAP = 1 << 16
"""The most terms between the last known term and a believable one. Each such term costs a record of a file."""


class ConsensusMessages:
    """One method per message. Raises `NodeError` for failures."""

    peer = ""
    """The sender of the current message."""

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        log: MemberLog,
        elections: Elections,
        leader: LeaderContact,
        publisher: ConsensusPublisher,
        termination: Termination,
        sessions: SessionManager,
        backups: BackupSessions,
    ) -> None:
        self._context = context
        self._standing = standing
        self._log = log
        self._elections = elections
        self._leader = leader
        self._publisher = publisher
        self._termination = termination
        self._sessions = sessions
        self._backups = backups

    @property
    def _term_id(self) -> TermId:
        return self._standing.leadership_term_id

    def _ignore(self, now: Now, kind: str, text: object, *, may_be_late: bool = False) -> None:
        """Count the current message as one that no healthy member sends, or that came too late."""
        self._context.ignored.note(now, self.peer, kind, text, may_be_late=may_be_late)

    def on_canvass_position(self, now: Now, message: cm.CanvassPosition) -> None:
        """A member in its canvass reports the end of its log, on every interval."""
        member = self._other_member(now, message.follower_member_id, message)
        if member is None:
            return
        if self._standing.election is not None:
            self._standing.election.on_canvass_position(now, message)
        elif self._standing.role is Role.LEADER and message.log_leadership_term_id > self._term_id:
            self._ignore(now, "CanvassPosition of a later term", message, may_be_late=True)
        elif self._standing.role is Role.LEADER:
            # Under an earlier term the position says nothing about this log and does not count for a quorum.
            member.leadership_term_id = message.log_leadership_term_id
            member.log_position = message.log_position
            self._log.catchups.stop(member.id)
            self._answer_canvass(now, member.id, message.log_leadership_term_id, message.log_position)

    def _answer_canvass(self, now: Now, follower_id: int, log_term_id: TermId, log_position: Position) -> None:
        """Answer a member that looks for a leader with this term, or with the next term that its log misses."""
        publisher = self._log.publisher
        recording_log, term_id = self._context.recording_log, self._term_id
        base = recording_log.base_of_term(term_id)
        following = next_term_when_running(recording_log, log_term_id, log_position, term_id, base, self._context.rules)
        self._publisher.send(
            now,
            follower_id,
            cm.NewLeadershipTerm(
                log_leadership_term_id=log_term_id,
                next_leadership_term_id=following.leadership_term_id,
                next_term_base_log_position=following.base_log_position,
                next_log_position=following.end_log_position,
                leadership_term_id=term_id,
                term_base_log_position=base,
                log_position=Position(publisher.position),
                leader_recording_id=self._log.recording_id,
                timestamp=self._context.cluster_time(now),
                leader_member_id=self._context.member_id,
                log_session_id=publisher.session_id,
                app_version=self._context.settings.app_version,
                is_startup=False,
                commit_position=self._log.commit_position,
            ),
        )

    def _other_member(self, now: Now, member_id: MemberId, message: Message) -> ClusterMember | None:
        """The member that a message names as its sender. None, and ignored, if that is no other member."""
        member = self._context.members.get(member_id)
        if member is not None and member_id != self._context.member_id:
            return member
        self._ignore(now, f"{type(message).__name__} of a member that is none or this one", message)
        return None

    def _is_believable(self, now: Now, member_id: MemberId, term_id: TermId, message: Message) -> bool:
        """Whether the message is from another member and names a term within reach.

        Every term up to a new one gets an entry in the recording log of every member, so an invented term could fill
        their disks.
        """
        if self._other_member(now, member_id, message) is None:
            return False
        # Differs from Aeron (docs/protocol.md, E14): Aeron believes any term.
        known = max(self._term_id, self._context.node_state.candidate_term_id)
        if term_id <= known + MAX_TERM_GAP:
            return True
        self._ignore(now, f"{type(message).__name__} of a term out of reach", message)
        return False

    def on_request_vote(self, now: Now, message: cm.RequestVote) -> None:
        """A candidate asks for a vote in its term."""
        if not self._is_believable(now, message.candidate_member_id, message.candidate_term_id, message):
            return
        if self._standing.election is not None:
            self._standing.election.on_request_vote(now, message)
        elif message.candidate_term_id > self._term_id:
            self._elections.enter(now, f"unexpected vote request: {message}")
        else:
            self._ignore(now, "RequestVote of no later term", message, may_be_late=True)

    def on_vote(self, now: Now, message: cm.Vote) -> None:
        """A member answers a request for its vote."""
        if self._other_member(now, message.follower_member_id, message) is None:
            return
        if self._standing.election is not None:
            self._standing.election.on_vote(now, message)
        else:
            self._ignore(now, "Vote without an election", message, may_be_late=True)

    def on_new_leadership_term(self, now: Now, message: cm.NewLeadershipTerm) -> None:
        """A leader announces its term, or the term that follows the last one of the receiver's log."""
        terms = (message.leadership_term_id, message.next_leadership_term_id, message.log_leadership_term_id)
        if not self._is_believable(now, message.leader_member_id, max(terms), message):
            return
        is_from_leader = self._is_from_leader(message.leadership_term_id, message.leader_member_id)
        if self._standing.election is None and not is_from_leader and message.leadership_term_id <= self._term_id:
            self._ignore(now, "NewLeadershipTerm of no leader of this or a later term", message, may_be_late=True)
            return
        ours = self._context.settings.app_version
        if message.app_version >> 16 != ours >> 16:
            text = f"incompatible app version {message.app_version} of the leader, ours is {ours}"
            raise TerminationError(text, expected=False)
        self._note_leader_update(now, message.leadership_term_id)
        if self._standing.election is not None:
            self._standing.election.on_new_leadership_term(now, message)
        elif is_from_leader:
            self._leader.on_commit_position(message.commit_position)
            self._leader.heard(now)
        else:
            self._elections.enter(now, f"unexpected new leadership term event: {message}")

    def on_append_position(self, now: Now, message: cm.AppendPosition) -> None:
        """A follower reports how far it has recorded the log."""
        member = self._other_member(now, message.follower_member_id, message)
        if member is None:
            return
        if self._standing.election is not None:
            self._standing.election.on_append_position(now, message)
        elif self._standing.role is not Role.LEADER or message.leadership_term_id > self._term_id:
            self._ignore(now, "AppendPosition of a later term or to no leader", message, may_be_late=True)
            return
        elif self._is_out_of_reach(message):
            self._ignore(now, "AppendPosition past the end of the log", message)
            return
        else:
            # A member that catches up reads this log, but names the term that it has reached in the log.
            is_own_log = message.flags == CATCHUP_FLAG and self._log.catchups.has(member.id)
            term_id = self._term_id if is_own_log else message.leadership_term_id
            member.record(term_id, message.log_position, now.ns)
        if self._standing.role is Role.LEADER:
            self._check_caught_up(now, message)

    def _is_out_of_reach(self, message: cm.AppendPosition) -> bool:
        """Whether the position is beyond what this leader has sent of its term's log, which no follower can have."""
        publisher = self._log.leader_log.publisher
        is_of_term = message.leadership_term_id == self._term_id
        return is_of_term and publisher is not None and message.log_position > publisher.position

    def _check_caught_up(self, now: Now, message: cm.AppendPosition) -> None:
        """End the replay to a follower that has caught up: from here on it follows the live log."""
        publisher = self._log.leader_log.publisher
        follower_id = message.follower_member_id
        flags = 0 if message.flags == NULL_UINT8 else message.flags
        is_catching_up = self._log.catchups.has(follower_id) or flags & CATCHUP_FLAG
        if publisher is None or not is_catching_up or message.log_position < publisher.position:
            return
        stop = cm.StopCatchup(leadership_term_id=message.leadership_term_id, follower_member_id=follower_id)
        if self._publisher.send(now, follower_id, stop):
            self._log.catchups.stop(follower_id)

    def on_commit_position(self, now: Now, message: cm.CommitPosition) -> None:
        """The leader reports the commit position."""
        if not self._is_believable(now, message.leader_member_id, message.leadership_term_id, message):
            return
        self._note_leader_update(now, message.leadership_term_id)
        if self._standing.election is not None:
            self._standing.election.on_commit_position(now, message)
        elif self._is_from_leader(message.leadership_term_id, message.leader_member_id):
            self._leader.on_commit_position(message.log_position)
            self._leader.heard(now)
        elif message.leadership_term_id > self._term_id:
            self._elections.enter(now, f"unexpected commit position from new leader: {message}")
        else:
            self._ignore(now, "CommitPosition of no leader of this or a later term", message, may_be_late=True)

    def on_catchup_position(self, now: Now, message: cm.CatchupPosition) -> None:
        """A follower asks for a replay of the log from its position on."""
        if self._other_member(now, message.follower_member_id, message) is None:
            return
        log, is_of_term = self._log, message.leadership_term_id <= self._term_id
        if self._standing.role is Role.LEADER and is_of_term and log.can_serve_catchup:
            session_id = log.publisher.session_id
            log.catchups.start(now, message, recording_id=log.recording_id, session_id=session_id)
        else:
            self._ignore(now, "CatchupPosition to no leader that can serve it", message, may_be_late=True)

    def on_stop_catchup(self, now: Now, message: cm.StopCatchup) -> None:
        """The leader has ended the replay, because the follower has the live log."""
        if message.follower_member_id == self._context.member_id and message.leadership_term_id == self._term_id:
            self._log.follower_log.remove_catchup_destination()
        else:
            self._ignore(now, "StopCatchup of another member or term", message, may_be_late=True)

    def on_termination_position(self, now: Now, message: cm.TerminationPosition) -> None:
        """The leader announces the position at which all members end."""
        self._termination.on_termination_position(now, self.peer, message, self._log.commit_position)

    def on_termination_ack(self, now: Now, message: cm.TerminationAck) -> None:
        """A follower has ended its services at the announced position."""
        self._termination.on_termination_ack(now, self.peer, message)

    def on_challenge_response(self, now: Now, message: cm.ChallengeResponse) -> None:
        """A challenged backup answers, or a client that the leader challenged and whose answer a follower passed on."""
        if message.cluster_session_id < 0:
            if not self._backups.on_challenge_response(now, self.peer, message):
                self._ignore(now, "ChallengeResponse to no challenge", message.cluster_session_id, may_be_late=True)
        elif self._standing.active_log is not None:
            self._sessions.on_challenge_response(now, message)

    def on_backup_query(self, now: Now, message: cm.BackupQuery) -> None:
        """A backup asks which recordings to copy."""
        self._take_request(now, message)

    def on_heartbeat_request(self, now: Now, message: cm.HeartbeatRequest) -> None:
        """A standby asks for a sign of life."""
        self._take_request(now, message)

    def on_standby_snapshot(self, now: Now, message: cm.StandbySnapshot) -> None:
        """A standby announces snapshots that it has taken."""
        self._take_request(now, message)

    def _take_request(self, now: Now, message: Request) -> None:
        """Pass on a request. In an election or while out of service it is dropped, and its sender turns to another
        member.
        """
        if self._standing.election is not None or self._standing.state not in TAKES_REQUESTS:
            return
        problem = self._backups.on_request(now, self.peer, message)
        if problem:
            self._ignore(now, problem, f"{message.correlation_id} to {message.response_channel}")

    def _note_leader_update(self, now: Now, term_id: TermId) -> None:
        """Note a message of a leader in an election: there may still be a leader."""
        if self._standing.election is not None and term_id >= self._term_id:
            self._leader.heard(now)

    def _is_from_leader(self, term_id: TermId, leader_id: int) -> bool:
        standing = self._standing
        is_leader = leader_id == standing.leader_member_id not in (NULL_VALUE, self._context.member_id)
        return standing.role is Role.FOLLOWER and term_id == standing.leadership_term_id and is_leader
