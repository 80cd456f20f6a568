"""The states of a follower: copy missed terms, replay, catch up, join the live log. Handles NewLeadershipTerm.

Knows nothing of ballots.
"""

from upheaval_node.cluster.election_base import ElectionBase
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.leadership_terms import TermAction, TermDecision, decide_on_term
from upheaval_node.cluster.log_access import LogTransfer
from upheaval_node.errors import PeerError, TerminationError, TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_POSITION, NULL_TERM_ID, NULL_VALUE, Now, Position


class FollowerStates(ElectionBase):
    """Make this member's log equal to the leader's, then read what the leader appends."""

    def _follower_log_replication(self, now: Now) -> int:
        wanted = self._slice
        if self._replication is None:
            if self.append_position >= wanted.stop_position:
                self._finish_slice(now, wanted, "empty term")
                return 1
            self._name_slice(now, wanted)
            self._replication = self._log.replicate(
                now, self.leader_member_id, self.leader_recording_id, self.append_position, wanted.stop_position
            )
            self._replication_deadline_ns = now.ns + self._timeouts.leader_heartbeat_ns
            return 1
        replication = self._replication
        is_named = self._log.recording_id != NULL_VALUE
        work = replication.do_work(now)
        if not is_named:
            self._name_slice(now, wanted)
        if wanted.first_empty_term_id != NULL_TERM_ID:
            position = min(replication.position, wanted.stop_position)
            self._context.recording_log.move_empty_terms(wanted.first_empty_term_id, position)
        if replication.position >= wanted.stop_position == self._term_base:
            self._name_new_term(now, self._term_base)
        if self._publish_append_position(now, replication.position):
            self.append_position = max(self.append_position, replication.position)
            work += 1
        if replication.is_done:
            return work + self._conclude_replication(now, replication, wanted)
        return work

    def _name_slice(self, now: Now, wanted: TermDecision) -> None:
        """Name the term of the slice in the recording log, once the recording is known and before a position is
        reported.
        """
        if self._log.recording_id != NULL_VALUE:
            self._update_recording_log(now, wanted.leadership_term_id, wanted.base_log_position, NULL_POSITION)

    def _conclude_replication(self, now: Now, replication: LogTransfer, wanted: TermDecision) -> int:
        """Finish the slice, which is recorded. It counts once the leader has reported it as committed."""
        if self.notified_commit_position < self.append_position:
            if now.ns >= self._replication_deadline_ns:
                raise TimeoutExpired("awaiting commit position")
            return 0
        self.append_position = replication.position
        replication.close()
        self._replication = None
        self._finish_slice(now, wanted, "term replicated")
        return 1

    def _finish_slice(self, now: Now, wanted: TermDecision, reason: str) -> None:
        self._update_recording_log(now, wanted.leadership_term_id, wanted.base_log_position, wanted.stop_position)
        self._enter(ElectionState.CANVASS, now, reason)

    def _follower_replay(self, now: Now) -> int:
        if self._replay is None:
            return self._start_replay(now)
        work = self._replay.do_work(now)
        if self._replay.is_done:
            self.log_position = self._replay.position
            self._replay.close()
            self._replay = None
            if self.log_position == self.append_position:
                self._enter_catchup_or_log(now, "log replayed")
            else:
                self._canvass_again(now, "incomplete log replay")
        return work

    def _start_replay(self, now: Now) -> int:
        """Name the term, report the recorded position, then replay what is committed.

        The report comes first because the leader may need it for its quorum before it can name a commit position, and
        the term is named before the report. Nothing is replayed while the leader's commit position is below the base of
        its term, because the log up to there may still be replaced.
        """
        is_recorded = self._log.recording_id != NULL_VALUE
        names = is_recorded and self._rules.names_first
        if names and self.log_leadership_term_id < self.leadership_term_id:
            self._check_ends_at_term_base(self.append_position)
            self._update_recording_log(now, self.leadership_term_id, self._term_base, NULL_POSITION)
        is_leader_waiting = self.notified_commit_position < self._rules.replayed_from(self._term_base)
        has_nothing_to_replay = self.log_position >= self.append_position
        work = 0
        # Differs from Aeron (docs/protocol.md, E10): also sent when there is nothing to replay.
        reports = self._rules.reports_before_replay(
            is_leader_waiting=is_leader_waiting, has_rest=not has_nothing_to_replay
        )
        if is_recorded and reports:
            work = int(self._publish_append_position(now, self.append_position))
        if has_nothing_to_replay:
            self._enter_catchup_or_log(now, "nothing to replay")
            return 1
        if is_leader_waiting:
            # Differs from Aeron (docs/protocol.md, E12): Aeron waits.
            if self._rules.replay_wait_ends:
                self._check_await_timeout(now, "no commit position")
        elif self.log_position >= self.notified_commit_position:
            self._canvass_again(now, "log replay rejected")
        else:
            stop = min(self.append_position, self.notified_commit_position)
            self._replay = self._log.replay(self.log_position, stop)
            work += 1
        return work

    def _canvass_again(self, now: Now, reason: str) -> None:
        """Return to CANVASS with the last term that the recording log names. The replay may have reached only an
        earlier term.
        """
        # Differs from Aeron (docs/protocol.md, E11): Aeron takes the term of the last entry read.
        self.log_leadership_term_id = self.named_term_id
        self._enter(ElectionState.CANVASS, now, reason)

    def _check_ends_at_term_base(self, position: Position) -> None:
        if self.log_leadership_term_id < self.leadership_term_id and position != self._term_base:
            raise PeerError(f"the log ends at {position}, but the next term begins at {self._term_base}")

    def _enter_catchup_or_log(self, now: Now, reason: str) -> None:
        is_behind = self.catchup_join_position != NULL_POSITION
        self._enter(ElectionState.FOLLOWER_CATCHUP_INIT if is_behind else ElectionState.FOLLOWER_LOG_INIT, now, reason)

    def _follower_catchup_init(self, now: Now) -> int:
        if self.log_session_id is None:
            raise PeerError("the leader named no log session")
        endpoint = self._log.follow(self.log_session_id, self.log_position, catching_up=True)
        if endpoint is not None and self._context.send(
            now,
            self.leader_member_id,
            cm.CatchupPosition(
                leadership_term_id=self.leadership_term_id,
                log_position=self.log_position,
                follower_member_id=self._self.id,
                catchup_endpoint=endpoint,
            ),
        ):
            self._enter(ElectionState.FOLLOWER_CATCHUP_AWAIT, now, "")
        else:
            self._check_await_timeout(now, "catch-up position could not be sent")
        return 0

    def _follower_catchup_await(self, now: Now) -> int:
        if self._has_joined_log(now):
            self._enter(ElectionState.FOLLOWER_CATCHUP, now, "")
        else:
            self._check_await_timeout(now, "no catch-up image")
        return 0

    def _has_joined_log(self, now: Now) -> bool:
        """Join the leader's log. Returns whether that is done.

        The term is named first. If the last part of the log counted as part of an earlier term, a member without that
        part could extend the log.
        """

        def name_term() -> None:
            self._check_ends_at_term_base(self.log_position)
            self._update_recording_log(now, self.leadership_term_id, self.log_position, NULL_POSITION)

        return self._log.join_as_follower(now, self.log_position, name_term, is_startup=self.is_leader_startup)

    def _follower_catchup(self, now: Now) -> int:
        work, is_done = self._log.catch_up(now, self.notified_commit_position, self.catchup_join_position)
        if is_done:
            self.log_position = self.append_position = self._log.commit_position
            self._enter(ElectionState.FOLLOWER_LOG_INIT, now, "caught up")
        return work

    def _follower_log_init(self, now: Now) -> int:
        if self.catchup_join_position != NULL_POSITION:
            self._enter(ElectionState.FOLLOWER_READY, now, "")
        elif self.log_session_id is not None:
            self._log.follow(self.log_session_id, self.log_position, catching_up=False)
            self._enter(ElectionState.FOLLOWER_LOG_AWAIT, now, "")
        return 1

    def _follower_log_await(self, now: Now) -> int:
        if self._has_joined_log(now):
            self._enter(ElectionState.FOLLOWER_READY, now, "")
        else:
            self._check_await_timeout(now, "no log image")
        return 0

    def _follower_ready(self, now: Now) -> int:
        if self._send_append_position(now, self.log_position):
            self._enter(ElectionState.CLOSED, now, "")
        else:
            self._check_await_timeout(now, "append position could not be sent")
        return 0

    def _check_await_timeout(self, now: Now, what: str) -> None:
        if now.ns >= self._state_change_ns + self._timeouts.leader_heartbeat_ns:
            raise TimeoutExpired(f"{self.state.name}: {what}")

    def _publish_append_position(self, now: Now, position: Position) -> bool:
        """Send an AppendPosition on advance and on every interval."""
        is_due = now.ns >= self._last_update_ns + self._timeouts.leader_heartbeat_interval_ns
        if position <= self._last_published_append and not is_due:
            return False
        if not self._send_append_position(now, position):
            return False
        self._last_update_ns = now.ns
        self._last_published_append = position
        return True

    def _send_append_position(self, now: Now, position: Position) -> bool:
        return self._context.send(
            now,
            self.leader_member_id,
            cm.AppendPosition(
                leadership_term_id=self.leadership_term_id,
                log_position=position,
                follower_member_id=self._self.id,
                flags=0,
            ),
        )

    def on_new_leadership_term(self, now: Now, message: cm.NewLeadershipTerm) -> None:
        """Follow the leader, or copy a missing term.

        Raises `PeerError` for a later term while this member awaits a quorum.
        """
        leader_id = message.leader_member_id
        is_own_echo = leader_id == self._self.id and message.leadership_term_id == self.leadership_term_id
        if self.state is ElectionState.INIT or leader_id not in self._membership.by_id or is_own_echo:
            return
        self._heard_from(leader_id)
        # Differs from Aeron (docs/protocol.md, E4): Aeron ignores it.
        if self.state in self._rules.passed_by_term and message.leadership_term_id > self.leadership_term_id:
            raise PeerError("unexpected new leadership term")
        # Differs from Aeron (docs/protocol.md, E3): a vote binds.
        may_follow = self._rules.may_follow(message.leadership_term_id, self._promised_term_id)
        if self.state is ElectionState.CANVASS and not may_follow:
            if self._barred_since_ns is None:
                self._barred_since_ns = now.ns
        elif self._accepts_term(message):
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
        # Before a truncation: an earlier leader would be sent the tail's position again, for a log without the tail.
        self._promised_term_id = max(message.leadership_term_id, self._promised_term_id)
        if decision.action is TermAction.TRUNCATE:
            self._begin_truncation(decision.stop_position)
        self.leader_member_id = message.leader_member_id
        self.is_leader_startup = message.is_startup
        self.leadership_term_id = message.leadership_term_id
        self.candidate_term_id = max(message.leadership_term_id, self.candidate_term_id)
        self._term_base = message.term_base_log_position
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

    def _begin_truncation(self, position: Position) -> None:
        """Cut the uncommitted tail after `position` in INIT, then canvass with the shorter log."""
        # Differs from Aeron (docs/protocol.md, E6): Aeron truncates.
        if not self._rules.may_cut(position, self._log.commit_position):
            raise TerminationError(
                f"a new leader's log ends at {position}, below the commit position {self._log.commit_position}",
                expected=False,
            )
        self._truncate_position = position
        raise PeerError(f"Truncating Cluster Log - append position {self.append_position} to {position}")

    def on_replay_new_leadership_term_event(self, now: Now, event: cm.NewLeadershipTermEvent) -> None:
        """Note a new term: its first entry was read in a replay or while catching up."""
        if self.state in (ElectionState.FOLLOWER_CATCHUP, ElectionState.FOLLOWER_REPLAY):
            self._update_recording_log(
                now, event.leadership_term_id, event.term_base_log_position, NULL_POSITION, event.timestamp
            )
            self.log_position = event.log_position
