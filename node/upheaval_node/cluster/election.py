"""An election: from the start of a member or the loss of its leader until it leads or follows a leader.

There is one method per state, named after it, and one method per message, named `on_<message>`. The states of a
candidate or voter are in `election_ballot`, those of a leader in `election_leader`, those of a follower in
`election_follower`. Messages that may arrive in any state are here. The election decides, and acts on the log through
`LogAccess`. It knows no streams, archives or services, and reads no clock. Source of the rules: Aeron Cluster's
election, state by state.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.cluster.election_ballot import BallotStates
from upheaval_node.cluster.election_follower import FollowerStates
from upheaval_node.cluster.election_leader import LeaderStates
from upheaval_node.cluster.election_states import AWAITING_QUORUM, ElectionState, Role
from upheaval_node.errors import PeerError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_VALUE, Now


class Election(BallotStates, LeaderStates, FollowerStates):
    """One election of one member. Each election is a new object."""

    def do_work(self, now: Now) -> int:
        """Run one tick. Raises `NodeError` for a failure, which the owner passes to `handle_error`."""
        before = self.state
        self._tick_ns = now.ns
        work = _STATE_METHODS[before](self, now)
        return work + (self.state is not before)

    def on_canvass_position(self, now: Now, message: cm.CanvassPosition) -> None:
        """Note the end of the member's log. A leader answers a member of an earlier term with its own term.

        Raises `PeerError` for a later term while this member awaits a quorum.
        """
        follower_id = message.follower_member_id
        if self.state is ElectionState.INIT:
            return
        self._heard_from(follower_id)
        member = self._membership.by_id.get(follower_id)
        if member is None or member is self._self:
            return
        member.record(message.log_leadership_term_id, message.log_position, now.ns)
        if message.log_leadership_term_id < self.leadership_term_id:
            if self._role is Role.LEADER:
                self._answer_with_term(now, follower_id, message.log_leadership_term_id, message.log_position)
        elif message.log_leadership_term_id > self.leadership_term_id and self.state in AWAITING_QUORUM:
            raise PeerError("potential new election in progress")

    def on_append_position(self, now: Now, message: cm.AppendPosition) -> None:
        """Note how far the member has recorded the log."""
        member = self._membership.by_id.get(message.follower_member_id)
        if self.state is ElectionState.INIT or member is None:
            return
        if message.leadership_term_id <= self.leadership_term_id:
            member.record(message.leadership_term_id, message.log_position, now.ns)

    def on_commit_position(self, now: Now, message: cm.CommitPosition) -> None:
        """Take the leader's commit position. Raises `PeerError` for a later term while this member awaits a quorum."""
        if self.state is ElectionState.INIT:
            return
        if self.leader_member_id != NULL_VALUE and message.leader_member_id == self.leader_member_id:
            self.notified_commit_position = max(self.notified_commit_position, message.log_position)
            if self.state is ElectionState.FOLLOWER_LOG_REPLICATION:
                self._replication_deadline_ns = now.ns + self._timeouts.leader_heartbeat_ns
        elif message.leadership_term_id > self.leadership_term_id and self.state in self._rules.passed_by_commit:
            # Differs from Aeron (docs/protocol.md, E4): Aeron ignores it in LEADER_LOG_REPLICATION.
            raise PeerError("unexpected commit position from new leader")


_STATE_METHODS: Final[dict[ElectionState, Callable[[Election, Now], int]]] = {
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
