"""An election: from the loss of a leader, or a start, to being the leader or following one.

One method a state, named after it; one method a message, named `on_<message>`; one writer of the state. The election
decides and asks the consensus module, through `ElectionAgent`, to act. It knows no streams, archives or services, and
reads no clock. Source of the rules: Aeron Cluster's election, state by state.
"""

from random import Random

from upheaval_node.cluster.election_agent import ElectionAgent, LogReplay, LogReplication
from upheaval_node.cluster.election_states import LEGAL_MOVES, ROLE_ON_ENTRY, VOTING_STATES, ElectionState, Role
from upheaval_node.cluster.leadership_terms import (
    TermAction,
    TermDecision,
    decide_on_term,
    next_term_in_election,
)
from upheaval_node.cluster.members import (
    ClusterMember,
    compare_logs,
    has_quorum_at_position,
    is_quorum_candidate,
    is_quorum_leader,
    is_unanimous_candidate,
    is_unanimous_leader,
    quorum_position,
)
from upheaval_node.errors import NodeError, PeerError, TerminationError, TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import ClusterTimeouts
from upheaval_node.types import MAX_POSITION, NULL_POSITION, NULL_VALUE, Now

PROTOCOL_VERSION = 1 << 16
"""Consensus protocol version 1.0.0, carried by CanvassPosition and RequestVote."""

LIVE_JOIN_WINDOW = 32 * 1024 * 1024
"""A follower that catches up adds the live log once it is at most this far behind, or a quarter of a term."""

SHORTEST_WAIT_NS = 1_000_000
"""A deadline that a failed send left in the past is looked at again after this long, so that the loop cannot spin."""

_LONG_AGO = -MAX_POSITION


class Election:
    """One election of one member; a new object is made for each."""

    def __init__(
        self,
        agent: ElectionAgent,
        *,
        is_node_startup: bool,
        gracefully_closed_leader_id: int,
        leadership_term_id: int,
        term_base_log_position: int,
        log_position: int,
        append_position: int,
        timeouts: ClusterTimeouts,
        random: Random,
        now: Now,
        appointed_leader_id: int = NULL_VALUE,
        log_term_length: int = 4 * LIVE_JOIN_WINDOW,
    ) -> None:
        self._agent = agent
        self._members = agent.members
        self._self = agent.members[agent.member_id]
        self._timeouts = timeouts
        self._random = random
        self._appointed_leader_id = appointed_leader_id
        self._live_join_window = min(log_term_length // 4, LIVE_JOIN_WINDOW)
        self._is_node_startup = is_node_startup
        self._is_extended_canvass = is_node_startup
        self._is_first_init = True
        self._gracefully_closed_leader_id = gracefully_closed_leader_id
        self._initial_term_id = leadership_term_id
        self._initial_term_base = term_base_log_position
        self._role = Role.FOLLOWER

        self.state = ElectionState.INIT
        self.log_leadership_term_id = leadership_term_id
        self.leadership_term_id = leadership_term_id
        self.candidate_term_id = leadership_term_id
        self.log_position = log_position
        self.append_position = append_position
        self.notified_commit_position = 0
        self.catchup_join_position = NULL_POSITION
        self.leader_member_id = NULL_VALUE
        self.leader_recording_id = NULL_VALUE
        self.log_session_id: int | None = None
        self.is_leader_startup = False

        self._tick_ns = now.ns
        self._state_change_ns = now.ns
        self._last_update_ns = _LONG_AGO
        self._last_commit_update_ns = _LONG_AGO
        self._last_published_commit = 0
        self._last_published_append = NULL_POSITION
        self._nomination_deadline_ns = 0
        self._replication_deadline_ns = 0
        self._slice = TermDecision(TermAction.NOTHING)
        self._truncate_position: int | None = None
        self._replay: LogReplay | None = None
        self._replication: LogReplication | None = None

    # --- the outside ---

    @property
    def is_closed(self) -> bool:
        return self.state is ElectionState.CLOSED

    @property
    def role(self) -> Role:
        return self._role

    def do_work(self, now: Now) -> int:
        """One tick. Raises `NodeError` for what goes wrong; the owner hands it to `handle_error`."""
        before = self.state
        self._tick_ns = now.ns
        work = _STATE_METHODS[before](self, now)
        return work + (self.state is not before)

    def next_deadline_ns(self) -> int:
        """When a time-out or an interval of the present state is due; never before the last tick."""
        heartbeat = self._timeouts.leader_heartbeat_interval_ns
        status = self._timeouts.election_status_interval_ns
        match self.state:
            case ElectionState.INIT | ElectionState.LEADER_INIT | ElectionState.CLOSED:
                return MAX_POSITION
            case ElectionState.CANVASS:
                due = self._last_update_ns + status
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

    def handle_error(self, now: Now, error: Exception) -> None:
        """Any failure but the end of the node: forget the attempt and start again from INIT."""
        self.log_position = self._agent.commit_position
        if self.state is ElectionState.INIT:
            self._is_first_init = False
        elif self.state is not ElectionState.CLOSED:
            self._enter(ElectionState.INIT, now, str(error))

    # --- state ---

    def _enter(self, state: ElectionState, now: Now, reason: str) -> None:
        """The only writer of the state: checks the move, runs the entry actions, rewinds the interval clocks."""
        if state is self.state:
            return
        if state not in LEGAL_MOVES[self.state]:
            raise NodeError(f"election cannot go from {self.state.name} to {state.name}")
        if self.state is ElectionState.CANVASS:
            self._is_extended_canvass = False
        if self.state is ElectionState.INIT:
            self._is_first_init = False
        self._role = ROLE_ON_ENTRY.get(state, self._role)
        if state is ElectionState.CANVASS:
            self._reset_members()
        elif state is ElectionState.LEADER_LOG_REPLICATION:
            self.log_session_id = self._agent.open_log_publication(now, self.append_position)
        self.state = state
        self._state_change_ns = now.ns
        self._last_update_ns = _LONG_AGO
        self._last_commit_update_ns = _LONG_AGO
        self._last_published_append = NULL_POSITION
        self._agent.on_election_state(now, state, self._role, reason)

    def _reset_members(self) -> None:
        for member in self._members.values():
            member.reset()
        self._self.leadership_term_id = self.leadership_term_id
        self._self.log_position = self.append_position
        self.leader_member_id = NULL_VALUE

    def _init(self, now: Now) -> int:
        if self._truncate_position is not None and not self._finish_truncation(now, self._truncate_position):
            return 0
        if not (self._is_first_init and self._is_node_startup):
            self._abandon_log_work(now)
            append_position = self._agent.prepare_for_new_leadership(now, self.log_position)
            if append_position is None:
                return 0
            if append_position != NULL_POSITION:
                self.append_position = append_position
        self.notified_commit_position = 0
        self.candidate_term_id = max(self._agent.node_state.candidate_term_id, self.leadership_term_id)
        if len(self._members) == 1:
            self.candidate_term_id = self._persist_candidate_term(now, self.candidate_term_id + 1)
            self._become_leader(now, "single member")
        else:
            self._enter(ElectionState.CANVASS, now, "")
        return 1

    def _finish_truncation(self, now: Now, position: int) -> bool:
        if not self._agent.truncate_log(now, position):
            return False
        if self.log_leadership_term_id != NULL_VALUE:
            self._agent.recording_log.commit_log_position(self.log_leadership_term_id, position)
        self.append_position = position
        self._truncate_position = None
        return True

    def _abandon_log_work(self, now: Now) -> None:
        if self._replication is not None:
            self._replication.close(now)
            self._replication = None
        if self._replay is not None:
            self._replay.close(now)
            self._replay = None
        self._replication_deadline_ns = 0
        self._last_published_commit = 0
        self.catchup_join_position = NULL_POSITION
        self.log_session_id = None

    # --- candidates and voters ---

    def _canvass(self, now: Now) -> int:
        if self._is_extended_canvass:
            deadline = self._state_change_ns + self._timeouts.startup_canvass_ns
        else:
            deadline = self._agent.time_of_last_leader_update_ns + self._timeouts.leader_heartbeat_ns
        work = self._send_canvass_position_on_interval(now)
        if self._appointed_leader_id not in (NULL_VALUE, self._self.id):
            return work
        members = self._members.values()
        unanimous = is_unanimous_candidate(members, self._self, self._gracefully_closed_leader_id)
        if unanimous or (now.ns >= deadline and is_quorum_candidate(members, self._self)):
            self._nomination_deadline_ns = now.ns + int(self._random.random() * (self._timeouts.election_ns / 2))
            self._enter(ElectionState.NOMINATE, now, "unanimous candidate" if unanimous else "quorum candidate")
        return work

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
                protocol_version=PROTOCOL_VERSION,
            ),
        )
        return 1

    def _nominate(self, now: Now) -> int:
        if now.ns < self._nomination_deadline_ns:
            return self._send_canvass_position_on_interval(now)
        self.candidate_term_id = self._persist_candidate_term(now, self.candidate_term_id + 1)
        for member in self._members.values():
            is_self = member is self._self
            member.vote = True if is_self else None
            member.candidate_term_id = self.candidate_term_id if is_self else NULL_VALUE
            member.is_ballot_sent = is_self
        self._enter(ElectionState.CANDIDATE_BALLOT, now, "")
        return 1

    def _candidate_ballot(self, now: Now) -> int:
        members = self._members.values()
        if is_unanimous_leader(members, self.candidate_term_id, self._gracefully_closed_leader_id):
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
        member.is_ballot_sent = self._agent.send(
            now,
            member.id,
            cm.RequestVote(
                log_leadership_term_id=self.log_leadership_term_id,
                log_position=self.append_position,
                candidate_term_id=self.candidate_term_id,
                candidate_member_id=self._self.id,
                protocol_version=PROTOCOL_VERSION,
            ),
        )
        return member.is_ballot_sent

    def _follower_ballot(self, now: Now) -> int:
        if now.ns >= self._state_change_ns + self._timeouts.election_ns:
            self._enter(ElectionState.CANVASS, now, "no leader came of the ballot")
        return 0

    def _persist_candidate_term(self, now: Now, candidate_term_id: int) -> int:
        """Durable before anything that names the term is sent."""
        return self._agent.node_state.propose_max_candidate_term_id(candidate_term_id, self.log_position, now.epoch_ms)

    # --- leader ---

    def _become_leader(self, now: Now, reason: str) -> None:
        self.leader_member_id = self._self.id
        self.leadership_term_id = self.candidate_term_id
        self.is_leader_startup = False
        self._enter(ElectionState.LEADER_LOG_REPLICATION, now, reason)

    def _leader_log_replication(self, now: Now) -> int:
        self._self.log_position = self.append_position
        self._self.time_of_last_append_position_ns = now.ns
        quorum = self._quorum_position(now)
        work = self._announce_term_on_interval(now, quorum) + self._publish_commit_on_interval(now, quorum)
        if quorum >= self.append_position:
            self._enter(ElectionState.LEADER_REPLAY, now, "")
        return work

    def _leader_replay(self, now: Now) -> int:
        work = 0
        if self._replay is None:
            self.is_leader_startup = self._is_node_startup
            self._self.record(self.leadership_term_id, self.append_position, now.ns)
            if self.log_position < self.append_position:
                self._replay = self._agent.new_log_replay(now, self.log_position, self.append_position)
                work = 1
            else:
                self._enter(ElectionState.LEADER_INIT, now, "")
        else:
            work = self._replay.do_work(now)
            if self._replay.is_done:
                self._replay.close(now)
                self._replay = None
                self.log_position = self.append_position
                self._enter(ElectionState.LEADER_INIT, now, "")
        quorum = self._quorum_position(now)
        return work + self._announce_term_on_interval(now, quorum) + self._publish_commit_on_interval(now, quorum)

    def _leader_init(self, now: Now) -> int:
        if not self._agent.join_log_as_leader(
            now, self.leadership_term_id, self.log_position, self.is_leader_startup
        ):
            return 0
        self._update_recording_log(now, self.leadership_term_id, self.log_position, NULL_POSITION)
        self._enter(ElectionState.LEADER_READY, now, "")
        return 1

    def _leader_ready(self, now: Now) -> int:
        work = self._agent.update_leader_position(now, self.append_position, self._quorum_position(now))
        work += self._announce_term_on_interval(now, self._quorum_position(now))
        if has_quorum_at_position(
            self._members.values(), self.leadership_term_id, self.log_position, now.ns, self._timeouts.leader_heartbeat_ns
        ) and self._agent.append_new_leadership_term_event(now, self.leadership_term_id, self.log_position):
            self._close(now)
        return work

    def _quorum_position(self, now: Now) -> int:
        reached = quorum_position(self._members.values(), now.ns, self._timeouts.leader_heartbeat_ns)
        return min(reached, self.append_position)

    def _announce_term_on_interval(self, now: Now, quorum: int) -> int:
        if now.ns < self._last_update_ns + self._timeouts.leader_heartbeat_interval_ns:
            return 0
        self._last_update_ns = now.ns
        message = self._new_leadership_term(now, self.log_leadership_term_id, quorum)
        if message is not None:
            self._send_to_others(now, message)
        return 1

    def _new_leadership_term(self, now: Now, log_leadership_term_id: int, quorum: int) -> cm.NewLeadershipTerm | None:
        if self.log_session_id is None:
            return None
        following = next_term_in_election(
            self._agent.recording_log, log_leadership_term_id, self.leadership_term_id, self.append_position
        )
        return cm.NewLeadershipTerm(
            log_leadership_term_id=log_leadership_term_id,
            next_leadership_term_id=following.leadership_term_id,
            next_term_base_log_position=following.base_log_position,
            next_log_position=following.end_log_position,
            leadership_term_id=self.leadership_term_id,
            term_base_log_position=self.append_position,
            log_position=self.append_position,
            leader_recording_id=self._agent.log_recording_id,
            timestamp=self._agent.cluster_time(now),
            leader_member_id=self._self.id,
            log_session_id=self.log_session_id,
            app_version=self._agent.app_version,
            is_startup=self.is_leader_startup,
            commit_position=quorum,
        )

    def _publish_commit_on_interval(self, now: Now, quorum: int) -> int:
        """On advance and on every interval; a position that went back is not published until it recovers."""
        is_due = now.ns >= self._last_commit_update_ns + self._timeouts.leader_heartbeat_interval_ns
        if not (quorum > self._last_published_commit or (quorum == self._last_published_commit and is_due)):
            return 0
        self._last_commit_update_ns = now.ns
        self._last_published_commit = quorum
        self._send_to_others(
            now,
            cm.CommitPosition(
                leadership_term_id=self.leadership_term_id, log_position=quorum, leader_member_id=self._self.id
            ),
        )
        return 1

    # --- follower ---

    def _follower_log_replication(self, now: Now) -> int:
        wanted = self._slice
        if self._replication is None:
            if self.append_position >= wanted.stop_position:
                self._finish_slice(now, wanted, "empty term")
                return 1
            self._replication = self._agent.new_log_replication(
                now, self.leader_member_id, self.leader_recording_id, wanted.stop_position
            )
            self._replication_deadline_ns = now.ns + self._timeouts.leader_heartbeat_ns
            return 1
        replication = self._replication
        work = replication.do_work(now)
        if self._publish_append_position(now, replication.position):
            self.append_position = max(self.append_position, replication.position)
            work += 1
        if replication.is_done:
            return work + self._conclude_replication(now, replication, wanted)
        return work

    def _conclude_replication(self, now: Now, replication: LogReplication, wanted: TermDecision) -> int:
        """The slice is recorded; it counts once the leader has said that it is committed."""
        if self.notified_commit_position < self.append_position:
            if now.ns >= self._replication_deadline_ns:
                raise TimeoutExpired("awaiting commit position")
            return 0
        self.append_position = replication.position
        self._agent.log_recording_id = replication.recording_id
        replication.close(now)
        self._replication = None
        self._finish_slice(now, wanted, "term replicated")
        return 1

    def _finish_slice(self, now: Now, wanted: TermDecision, reason: str) -> None:
        self._update_recording_log(now, wanted.leadership_term_id, wanted.base_log_position, wanted.stop_position)
        self._enter(ElectionState.CANVASS, now, reason)

    def _follower_replay(self, now: Now) -> int:
        if self._replay is None:
            if self.log_position >= self.append_position:
                self._enter_catchup_or_log(now, "nothing to replay")
            elif self.notified_commit_position == 0:
                return self._publish_append_position(now, self.append_position)
            elif self.log_position >= self.notified_commit_position:
                self._enter(ElectionState.CANVASS, now, "log replay rejected")
            else:
                stop = min(self.append_position, self.notified_commit_position)
                self._replay = self._agent.new_log_replay(now, self.log_position, stop)
            return 1
        work = self._replay.do_work(now)
        if self._replay.is_done:
            self.log_position = self._replay.position
            self._replay.close(now)
            self._replay = None
            if self.log_position == self.append_position:
                self._enter_catchup_or_log(now, "log replayed")
            else:
                self._enter(ElectionState.CANVASS, now, "incomplete log replay")
        return work

    def _enter_catchup_or_log(self, now: Now, reason: str) -> None:
        is_behind = self.catchup_join_position != NULL_POSITION
        self._enter(
            ElectionState.FOLLOWER_CATCHUP_INIT if is_behind else ElectionState.FOLLOWER_LOG_INIT, now, reason
        )

    def _follower_catchup_init(self, now: Now) -> int:
        if self.log_session_id is None:
            raise PeerError("the leader named no log session")
        work = 0
        if not self._agent.is_follower_log_open:
            self._agent.open_follower_log(now, self.log_session_id, self.log_position)
            self._agent.add_catchup_destination(now)
            work = 1
        endpoint = self._agent.catchup_endpoint
        if endpoint is not None and self._agent.send(
            now,
            self.leader_member_id,
            cm.CatchupPosition(
                leadership_term_id=self.leadership_term_id,
                log_position=self.log_position,
                follower_member_id=self._self.id,
                catchup_endpoint=endpoint,
            ),
        ):
            self._agent.catchup_initiated(now)
            self._enter(ElectionState.FOLLOWER_CATCHUP_AWAIT, now, "")
        else:
            self._check_await_timeout(now, "catch-up position could not be sent")
        return work

    def _follower_catchup_await(self, now: Now) -> int:
        if self._agent.join_log_as_follower(now, self.leadership_term_id, self.log_position, self.is_leader_startup):
            self._enter(ElectionState.FOLLOWER_CATCHUP, now, "")
        else:
            self._check_await_timeout(now, "no catch-up image")
        return 0

    def _follower_catchup(self, now: Now) -> int:
        agent = self._agent
        work = agent.catchup_poll(now, self.notified_commit_position)
        target = max(self.catchup_join_position, self.notified_commit_position)
        if not agent.has_live_log_destination and agent.follower_log_position >= target - self._live_join_window:
            agent.add_live_log_destination(now)
            work += 1
        if agent.commit_position >= target and not agent.has_catchup_destination and not agent.is_taking_snapshot:
            self.log_position = self.append_position = agent.commit_position
            self._enter(ElectionState.FOLLOWER_LOG_INIT, now, "caught up")
        return work

    def _follower_log_init(self, now: Now) -> int:
        if self._agent.is_follower_log_open:
            self._enter(ElectionState.FOLLOWER_READY, now, "")
        elif self.log_session_id is not None:
            self._agent.open_follower_log(now, self.log_session_id, self.log_position)
            self._agent.add_live_log_destination(now)
            self._enter(ElectionState.FOLLOWER_LOG_AWAIT, now, "")
        return 1

    def _follower_log_await(self, now: Now) -> int:
        if self._agent.join_log_as_follower(now, self.leadership_term_id, self.log_position, self.is_leader_startup):
            self._update_recording_log(now, self.leadership_term_id, self.log_position, NULL_POSITION)
            self._enter(ElectionState.FOLLOWER_READY, now, "")
        else:
            self._check_await_timeout(now, "no log image")
        return 0

    def _follower_ready(self, now: Now) -> int:
        if self._send_append_position(now, self.log_position):
            self._close(now)
        else:
            self._check_await_timeout(now, "append position could not be sent")
        return 0

    def _check_await_timeout(self, now: Now, what: str) -> None:
        if now.ns >= self._state_change_ns + self._timeouts.leader_heartbeat_ns:
            raise TimeoutExpired(f"{self.state.name}: {what}")

    def _publish_append_position(self, now: Now, position: int) -> bool:
        """AppendPosition on advance and on every interval."""
        is_due = now.ns >= self._last_update_ns + self._timeouts.leader_heartbeat_interval_ns
        if position <= self._last_published_append and not is_due:
            return False
        if not self._send_append_position(now, position):
            return False
        self._last_update_ns = now.ns
        self._last_published_append = position
        return True

    def _send_append_position(self, now: Now, position: int) -> bool:
        return self._agent.send(
            now,
            self.leader_member_id,
            cm.AppendPosition(
                leadership_term_id=self.leadership_term_id,
                log_position=position,
                follower_member_id=self._self.id,
                flags=0,
            ),
        )

    # --- both ---

    def _close(self, now: Now) -> None:
        self._agent.election_complete(now)
        self._enter(ElectionState.CLOSED, now, "")

    def _send_to_others(self, now: Now, message: cm.Message) -> None:
        for member in self._members.values():
            if member is not self._self:
                self._agent.send(now, member.id, message)

    def _update_recording_log(self, now: Now, term_id: int, base: int, end: int, timestamp: int | None = None) -> None:
        self._agent.recording_log.ensure_coherent(
            self._agent.log_recording_id,
            self._initial_term_id,
            self._initial_term_base,
            term_id,
            base,
            end,
            self._agent.cluster_time(now) if timestamp is None else timestamp,
        )
        self.log_leadership_term_id = term_id

    # --- messages ---

    def on_canvass_position(self, now: Now, message: cm.CanvassPosition) -> None:
        follower_id = message.follower_member_id
        if self.state is ElectionState.INIT:
            return
        self._heard_from(follower_id)
        member = self._members.get(follower_id)
        if member is None or member is self._self:
            return
        member.record(message.log_leadership_term_id, message.log_position, now.ns)
        if message.log_leadership_term_id < self.leadership_term_id:
            if self._role is Role.LEADER:
                self._answer_with_term(now, follower_id, message.log_leadership_term_id)
        elif message.log_leadership_term_id > self.leadership_term_id and self.state in (
            ElectionState.LEADER_LOG_REPLICATION,
            ElectionState.LEADER_READY,
        ):
            raise PeerError("potential new election in progress")

    def _heard_from(self, member_id: int) -> None:
        if member_id == self._gracefully_closed_leader_id:
            self._gracefully_closed_leader_id = NULL_VALUE

    def _answer_with_term(self, now: Now, member_id: int, log_leadership_term_id: int) -> None:
        message = self._new_leadership_term(now, log_leadership_term_id, self._quorum_position(now))
        if message is not None:
            self._agent.send(now, member_id, message)

    def on_request_vote(self, now: Now, message: cm.RequestVote) -> None:
        if self.state is ElectionState.INIT or message.candidate_member_id == self._self.id:
            return
        own_is_better = (
            compare_logs(
                self.log_leadership_term_id,
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
                self._answer_with_term(now, message.candidate_member_id, message.log_leadership_term_id)
        elif self.state in VOTING_STATES:
            self.candidate_term_id = self._persist_candidate_term(now, message.candidate_term_id)
            self._send_vote(now, message, granted=True)
            self._enter(ElectionState.FOLLOWER_BALLOT, now, f"voted for member {message.candidate_member_id}")

    def _send_vote(self, now: Now, request: cm.RequestVote, *, granted: bool) -> None:
        if request.candidate_member_id in self._members:
            self._agent.send(
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
        voter = self._members.get(message.follower_member_id)
        if (
            self.state is ElectionState.CANDIDATE_BALLOT
            and message.candidate_term_id == self.candidate_term_id
            and message.candidate_member_id == self._self.id
            and voter is not None
        ):
            voter.candidate_term_id = message.candidate_term_id
            voter.vote = message.vote
            voter.record(message.log_leadership_term_id, message.log_position, now.ns)

    def on_new_leadership_term(self, now: Now, message: cm.NewLeadershipTerm) -> None:
        leader_id = message.leader_member_id
        is_own_echo = leader_id == self._self.id and message.leadership_term_id == self.leadership_term_id
        if self.state is ElectionState.INIT or leader_id not in self._members or is_own_echo:
            return
        self._heard_from(leader_id)
        if self._accepts_term(message):
            if message.log_leadership_term_id == self.log_leadership_term_id:
                self._follow(now, message)
            else:
                self._enter(ElectionState.CANVASS, now, "log term does not match that of the new leader")
        if (
            self.state is ElectionState.FOLLOWER_LOG_REPLICATION
            and message.log_leadership_term_id == self.log_leadership_term_id
            and leader_id == self.leader_member_id
        ):
            self._replication_deadline_ns = now.ns + self._timeouts.leader_heartbeat_ns

    def _accepts_term(self, message: cm.NewLeadershipTerm) -> bool:
        if self.state is ElectionState.CANVASS:
            return True
        in_ballot = self.state in (ElectionState.FOLLOWER_BALLOT, ElectionState.CANDIDATE_BALLOT)
        return in_ballot and message.leadership_term_id == self.candidate_term_id

    def _follow(self, now: Now, message: cm.NewLeadershipTerm) -> None:
        decision = decide_on_term(message, self.append_position)
        if decision.action is TermAction.TRUNCATE:
            self._begin_truncation(decision.stop_position)
        self.leader_member_id = message.leader_member_id
        self.is_leader_startup = message.is_startup
        self.leadership_term_id = message.leadership_term_id
        self.candidate_term_id = max(message.leadership_term_id, self.candidate_term_id)
        self.log_session_id = message.log_session_id
        self.leader_recording_id = message.leader_recording_id
        is_behind = self.append_position < message.log_position
        self.catchup_join_position = message.log_position if is_behind else NULL_POSITION
        self.notified_commit_position = max(self.notified_commit_position, message.commit_position)
        match decision.action:
            case TermAction.REPLAY:
                self._enter(ElectionState.FOLLOWER_REPLAY, now, "")
            case TermAction.REPLICATE:
                self._slice = decision
                self._enter(ElectionState.FOLLOWER_LOG_REPLICATION, now, "")
            case TermAction.INVALID:
                raise PeerError("invalid newLeadershipTerm: the log is behind the term and no next term is named")
            case _:
                pass

    def _begin_truncation(self, position: int) -> None:
        """The tail after `position` was never committed: cut it in INIT, then canvass with the shorter log."""
        if position < self._agent.commit_position:
            raise TerminationError(
                f"a new leader's log ends at {position}, below the commit position {self._agent.commit_position}",
                expected=False,
            )
        self._truncate_position = position
        raise PeerError(f"Truncating Cluster Log - append position {self.append_position} to {position}")

    def on_append_position(self, now: Now, message: cm.AppendPosition) -> None:
        member = self._members.get(message.follower_member_id)
        if self.state is ElectionState.INIT or member is None:
            return
        if message.leadership_term_id <= self.leadership_term_id:
            member.record(message.leadership_term_id, message.log_position, now.ns)

    def on_commit_position(self, now: Now, message: cm.CommitPosition) -> None:
        if self.state is ElectionState.INIT:
            return
        if self.leader_member_id != NULL_VALUE and message.leader_member_id == self.leader_member_id:
            self.notified_commit_position = max(self.notified_commit_position, message.log_position)
            if self.state is ElectionState.FOLLOWER_LOG_REPLICATION:
                self._replication_deadline_ns = now.ns + self._timeouts.leader_heartbeat_ns
        elif message.leadership_term_id > self.leadership_term_id and self.state is ElectionState.LEADER_READY:
            raise PeerError("unexpected commit position from new leader")

    def on_replay_new_leadership_term_event(self, now: Now, event: cm.NewLeadershipTermEvent) -> None:
        """A term's first entry was consumed from the log, by replay or by catch-up."""
        if self.state in (ElectionState.FOLLOWER_CATCHUP, ElectionState.FOLLOWER_REPLAY):
            self._update_recording_log(
                now, event.leadership_term_id, event.term_base_log_position, NULL_POSITION, event.timestamp
            )
            self.log_position = event.log_position


_STATE_METHODS = {
    ElectionState.INIT: Election._init,
    ElectionState.CANVASS: Election._canvass,
    ElectionState.NOMINATE: Election._nominate,
    ElectionState.CANDIDATE_BALLOT: Election._candidate_ballot,
    ElectionState.FOLLOWER_BALLOT: Election._follower_ballot,
    ElectionState.LEADER_LOG_REPLICATION: Election._leader_log_replication,
    ElectionState.LEADER_REPLAY: Election._leader_replay,
    ElectionState.LEADER_INIT: Election._leader_init,
    ElectionState.LEADER_READY: Election._leader_ready,
    ElectionState.FOLLOWER_LOG_REPLICATION: Election._follower_log_replication,
    ElectionState.FOLLOWER_REPLAY: Election._follower_replay,
    ElectionState.FOLLOWER_CATCHUP_INIT: Election._follower_catchup_init,
    ElectionState.FOLLOWER_CATCHUP_AWAIT: Election._follower_catchup_await,
    ElectionState.FOLLOWER_CATCHUP: Election._follower_catchup,
    ElectionState.FOLLOWER_LOG_INIT: Election._follower_log_init,
    ElectionState.FOLLOWER_LOG_AWAIT: Election._follower_log_await,
    ElectionState.FOLLOWER_READY: Election._follower_ready,
    ElectionState.CLOSED: lambda _election, _now: 0,
}
