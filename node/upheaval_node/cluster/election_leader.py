"""The states of the election's winner, up to the first log entry of the new term.

Knows nothing of ballots, and of followers only the positions that they report.
"""

from upheaval_node.cluster.election_base import ElectionBase
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.errors import TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_POSITION, Now, Position


class LeaderStates(ElectionBase):
    """Commit the whole old log on a quorum, replay it, open the new term."""

    def _leader_log_replication(self, now: Now) -> int:
        # This member is the first of the quorum that names the new term.
        self._name_new_term(now, self.append_position)
        quorum = self._quorum_position(now)
        work = self._announce_term_on_interval(now, quorum) + self._publish_commit_on_interval(now, quorum)
        if quorum >= self.append_position:
            self._enter(ElectionState.LEADER_REPLAY, now, "")
        else:
            self._check_not_passed(now)
        return work

    def _leader_replay(self, now: Now) -> int:
        work = 0
        if self._replay is None:
            self.is_leader_startup = self._is_node_startup
            if self.log_position < self.append_position:
                self._replay = self._log.replay(self.log_position, self.append_position)
                work = 1
            else:
                self._enter(ElectionState.LEADER_INIT, now, "")
        else:
            work = self._replay.do_work(now)
            if self._replay.is_done:
                self._replay.close()
                self._replay = None
                self.log_position = self.append_position
                self._enter(ElectionState.LEADER_INIT, now, "")
        quorum = self._quorum_position(now)
        return work + self._announce_term_on_interval(now, quorum) + self._publish_commit_on_interval(now, quorum)

    def _leader_init(self, now: Now) -> int:
        is_startup = self.is_leader_startup
        if not self._log.join_as_leader(now, self.leadership_term_id, self.log_position, is_startup=is_startup):
            return 0
        self._update_recording_log(now, self.leadership_term_id, self.log_position, NULL_POSITION)
        self._enter(ElectionState.LEADER_READY, now, "")
        return 1

    def _leader_ready(self, now: Now) -> int:
        log, term_id = self._log, self.leadership_term_id
        work = log.commit(now, term_id, self.append_position, self._quorum_position(now))
        work += self._announce_term_on_interval(now, self._quorum_position(now))
        has_quorum = self._membership.has_quorum_at(now, term_id, self.log_position)
        if has_quorum and log.append_term_event(now, term_id, self.log_position):
            self._enter(ElectionState.CLOSED, now, "")
        else:
            self._check_not_passed(now)
        return work

    def _check_not_passed(self, now: Now) -> None:
        """Raise `TimeoutExpired` when there is no quorum in time and a later term was seen, for a new election.

        Members that voted in a later term do not follow this one.
        """
        # Differs from Aeron (docs/protocol.md, E5): Aeron stays in the state.
        is_passed = self._rules.is_passed(self.leadership_term_id, self.candidate_term_id)
        if is_passed and now.ns >= self._state_change_ns + self._timeouts.leader_heartbeat_ns:
            raise TimeoutExpired(f"no quorum in time, and a candidate of term {self.candidate_term_id} was seen")

    def _announce_term_on_interval(self, now: Now, quorum: Position) -> int:
        if now.ns < self._last_update_ns + self._timeouts.leader_heartbeat_interval_ns:
            return 0
        self._last_update_ns = now.ns
        message = self._new_leadership_term(now, self.log_leadership_term_id, self.append_position, quorum)
        if message is not None:
            self._send_to_others(now, message)
        return 1

    def _publish_commit_on_interval(self, now: Now, quorum: Position) -> int:
        """Send a CommitPosition on advance and on every interval. After a step back nothing is sent until it
        recovers.
        """
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
