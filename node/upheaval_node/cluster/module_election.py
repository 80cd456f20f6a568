"""What a consensus module does for its election: implements `election_agent.ElectionAgent`.

Whatever takes time is a sequence of steps that is polled; an abandoned one is closed when the next election attempt
leaves the term. Source: Aeron Cluster, entering and completing an election. Knows no consensus message but those that
it sends for the election.
"""

from collections.abc import Callable

from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_agent import LogReplay, LogReplication
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.cluster.ingress import IngressAdapter
from upheaval_node.cluster.log_replay import LocalLogReplay
from upheaval_node.cluster.log_replication import LeaderLogReplication
from upheaval_node.cluster.module_base import LONG_AGO
from upheaval_node.cluster.module_log import LogSide
from upheaval_node.cluster.module_state import READS_LOG, ControlToggle, ModuleState, NodeToggle
from upheaval_node.errors import NodeError, PeerError, TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import max_message_length
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now

CATCHUP_FLAG = 1
"""Flag of an AppendPosition that was sent while catching up."""


class ElectionSide(LogSide):
    # --- life of an election ---

    def _start_election(self, now: Now, *, is_node_startup: bool, graceful_leader_id: int, reason: str) -> None:
        recorded = self._recording.position
        if recorded is None:
            recorded = max(self._appended_at_start, self._recording.stop_position)
        term = self.recording_log.find_term_entry(self._term_id)
        term_base = self._last_term_base_at_start if term is None else term.term_base_log_position
        self._election = Election(
            self,
            is_node_startup=is_node_startup,
            gracefully_closed_leader_id=graceful_leader_id,
            leadership_term_id=self._term_id,
            term_base_log_position=term_base,
            log_position=self.commit_position,
            append_position=self._appended_at_start if is_node_startup else recorded,
            timeouts=self._timeouts,
            random=self._random,
            now=now,
            appointed_leader_id=self._settings.appointed_leader_id,
            log_term_length=self._recording.format.term_length,
        )
        self.counters.election_count.increment()
        self.on_election_state(now, ElectionState.INIT, Role.FOLLOWER, reason)

    def enter_election(self, now: Now, reason: str, *, is_graceful: bool = False) -> None:
        """Give up the term. `is_graceful` tells that the leader ended its log in good order."""
        if self._election is not None or self._state is ModuleState.TERMINATING:
            return
        graceful_leader_id = self.leader_member_id if is_graceful else NULL_VALUE
        self._context.report(now, "election", reason)
        self._start_election(now, is_node_startup=False, graceful_leader_id=graceful_leader_id, reason=reason)

    def on_election_state(self, now: Now, state: int, role: int, reason: str) -> None:
        election = self._election
        self.counters.election_state.set(state)
        if election is not None:
            self._context.tracer.emit(
                now,
                "election_state",
                state=ElectionState(state).name,
                reason=reason,
                leadership_term_id=election.leadership_term_id,
                candidate_term_id=election.candidate_term_id,
                log_leadership_term_id=election.log_leadership_term_id,
                log_position=election.log_position,
                append_position=election.append_position,
                leader_member_id=election.leader_member_id,
            )
        self._become(now, Role(role))

    def election_complete(self, now: Now) -> None:
        election = self._election
        assert election is not None
        is_leader = self._role is Role.LEADER
        self.leadership_term_id = election.leadership_term_id
        self.leader_member_id = election.leader_member_id
        for member in self.members.values():
            member.is_leader = member.id == self.leader_member_id
        self._notified_commit_position = max(self._notified_commit_position, election.log_position)
        self.counters.commit_position.set(election.log_position)
        self.on_election_state(now, ElectionState.CLOSED, self._role, "")
        self._election = None
        self._context.tracer.emit(
            now,
            "leadership_term",
            leadership_term_id=self._term_id,
            leader_member_id=self.leader_member_id,
            log_position=election.log_position,
            term_base_log_position=election.log_position,
            source="election",
        )
        if is_leader:
            self._last_commit_send_ns = LONG_AGO
            self._sessions.become_leader(now, is_startup=election.is_leader_startup)
            self.counters.control_toggle.set(ControlToggle.NEUTRAL)
        else:
            self.time_of_last_leader_update_ns = now.ns
            self._last_append_send_ns = now.ns
            self._append_advance_ns = now.ns
        self.counters.node_toggle.set(NodeToggle.NEUTRAL)
        self._open_ingress()

    def _open_ingress(self) -> None:
        """As many full-sized frames as the limit says, but never more than a part of the log's term."""
        settings = self._settings
        term_length = self._recording.format.term_length
        self._ingress = IngressAdapter(
            self._context,
            self._sessions,
            max_block_length=min(settings.ingress_fragment_limit * settings.log_mtu, term_length // 4),
            max_message_length=max_message_length(term_length),
            extension=self.ingress_extension,
        )

    # --- INIT ---

    def prepare_for_new_leadership(self, now: Now, log_position: int) -> int | None:
        if self._leaving is None:
            for steps in (self._joining, self._truncating):
                if steps is not None:
                    steps.close()
            self._joining = self._truncating = None
            self._leaving = Steps(self._leave_term(now, log_position))
        try:
            is_done = self._leaving.poll(now)
        except BaseException:
            self._leaving = None
            raise
        if not is_done:
            return None
        stop_position = self._leaving.result
        self._leaving = None
        return stop_position

    def _leave_term(self, now: Now, log_position: int) -> StepGenerator[int]:
        self._become(now, Role.FOLLOWER)
        if self._ingress is not None:
            self._ingress.close()
            self._ingress = None
        self.counters.control_toggle.set(ControlToggle.INACTIVE)
        self._backtrack_reported_at = NULL_POSITION
        self._follower_log.remove_destinations()
        # Services that were told to join a log must find one.
        joining_at = self._services.joining_at
        if joining_at is not None and self._follower_log.is_open:
            yield from self._recording.stop()
            self._follower_log.replace_for_services(joining_at)
        yield from self._services.settle(now)
        # A replay shares the session id of the live log, so it must not outlive it.
        yield from self._catchups.stop_all(now)
        self._log.detach()
        self._leader_log.close()
        for replay in self._replays:
            replay.close()
        for replication in self._replications:
            replication.close()
        while self._replays or self._replications:
            self._release_abandoned()
            if self._replays or self._replications:
                yield
        stop_position = yield from self._recording.stop()
        self._roll_back(now, log_position)
        self._follower_log.close()
        return stop_position

    def _release_abandoned(self) -> None:
        """End what the archive still does for replays and replications that nobody reads any more."""
        if self._services.is_joining:
            return
        self._replays = [each for each in self._replays if not (each.is_closed and each.release())]
        self._replications = [each for each in self._replications if not (each.is_closed and each.release())]

    def _roll_back(self, now: Now, log_position: int) -> None:
        """Undo what stands in the log behind `log_position`: another leader may write something else there."""
        self._latency.abandon()
        self._durations.abandon()
        self._sessions.leave_term(log_position)
        self._undo_for_services(log_position)
        self._call_off_termination()
        self.counters.commit_position.set(log_position)
        uncommitted = [state for position, state in self._uncommitted_states if position > log_position]
        self._uncommitted_states.clear()
        if uncommitted and self._state is not ModuleState.CLOSED:
            self._enter(now, uncommitted[0], is_rollback=True)

    def truncate_log(self, now: Now, position: int) -> bool:
        """The recording is stopped already: a member that is told to truncate has not joined a log."""
        if self._truncating is None:
            self._context.report(now, "election", f"Truncating Cluster Log - to {position}")
            self._truncating = Steps(self._recording.truncate(position))
        try:
            is_done = self._truncating.poll(now)
        except NodeError:
            # The next attempt asks the archive again.
            self._truncating = None
            raise
        if is_done:
            self._truncating = None
        return is_done

    # --- leader ---

    def open_log_publication(self, position: int) -> int:
        return self._leader_log.open(position)

    def join_log_as_leader(self, now: Now, leadership_term_id: int, log_position: int, is_startup: bool) -> bool:
        if self._joining is None:
            self.leadership_term_id = leadership_term_id
            self._joining = Steps(self._leader_log.join(log_position, is_startup=is_startup))
        if not self._joining.poll(now):
            return False
        self._joining = None
        return True

    def update_leader_position(self, now: Now, append_position: int, quorum_position: int) -> int:
        publisher = self._leader_log.publisher
        assert publisher is not None
        term_id = self._term_id if self._election is None else self._election.leadership_term_id
        # Followers may come late: until they do this member must stay an active one of its own quorum.
        self._context.own.record(term_id, append_position, now.ns)
        commit = self.commit_position
        reached = publisher.whole_entries(min(quorum_position, append_position))
        is_due = now.ns >= self._last_commit_send_ns + self._timeouts.leader_heartbeat_interval_ns
        if reached <= commit and not is_due:
            return 0
        if reached < commit and self._backtrack_reported_at != commit:
            self._backtrack_reported_at = commit
            text = f"quorum position went backwards: leaderCommitPosition={commit} quorumPosition={reached}"
            self._context.report(now, "commit position", text)
        self._publisher.send_to_others(
            now, cm.CommitPosition(leadership_term_id=term_id, log_position=reached, leader_member_id=self.member_id)
        )
        self._last_commit_send_ns = now.ns
        if reached > commit:
            self.counters.commit_position.set(reached)
            self._latency.on_commit(now, reached)
            self._on_committed(reached)
        return 1

    def append_new_leadership_term_event(self, now: Now, leadership_term_id: int, log_position: int) -> bool:
        publisher = self._leader_log.publisher
        assert publisher is not None

        def event(position: int) -> cm.NewLeadershipTermEvent:
            return cm.NewLeadershipTermEvent(
                leadership_term_id=leadership_term_id,
                log_position=position,
                timestamp=self.cluster_time(now),
                term_base_log_position=log_position,
                leader_member_id=self.member_id,
                log_session_id=publisher.session_id,
                time_unit=self._time.unit,
                app_version=self.app_version,
            )

        end = publisher.position_after(event(0))
        return end > 0 and publisher.append(event(end)) > 0

    # --- follower ---

    def open_follower_log(self, log_session_id: int, log_position: int) -> None:
        self._follower_log.open(log_session_id, log_position)

    @property
    def is_follower_log_open(self) -> bool:
        return self._follower_log.is_open

    def add_catchup_destination(self) -> None:
        self._follower_log.add_catchup_destination()

    @property
    def catchup_endpoint(self) -> str | None:
        return self._follower_log.catchup_endpoint

    @property
    def has_catchup_destination(self) -> bool:
        return self._follower_log.has_catchup_destination

    def add_live_log_destination(self) -> None:
        self._follower_log.add_live_destination()

    @property
    def has_live_log_destination(self) -> bool:
        return self._follower_log.has_live_destination

    def join_log_as_follower(
        self,
        now: Now,
        log_position: int,
        is_leader_startup: bool,
        name_term: Callable[[], None],
    ) -> bool:
        if self._joining is None:
            self._joining = Steps(self._follower_log.join(log_position, name_term, is_startup=is_leader_startup))
        if not self._joining.poll(now):
            return False
        self._joining = None
        self._last_append_position = self._appended_position = log_position
        return True

    @property
    def follower_log_position(self) -> int:
        return self._follower_log.received_position

    def catchup_initiated(self, now: Now) -> None:
        self._last_append_send_ns = now.ns
        self._append_advance_ns = now.ns

    def catchup_poll(self, now: Now, limit_position: int) -> int:
        work = 0
        if self._state in READS_LOG:
            appended = self._recording.position
            if appended is None:
                raise PeerError("the log is not recorded any more while catching up")
            limit = min(appended, limit_position)
            work = self._log.poll(now, limit)
            if work == 0 and self._log.is_image_closed:
                raise PeerError(f"the log ended at {self._log.position} while catching up")
            work += self._send_append_position(now, CATCHUP_FLAG)
            self._raise_commit_position(limit_position)
        if now.ns > self._append_advance_ns + self._timeouts.leader_heartbeat_ns and self._state is ModuleState.ACTIVE:
            raise TimeoutExpired(f"no catchup progress: appended {self._appended_position}")
        return work

    def _raise_commit_position(self, notified_position: int) -> None:
        """Follow the log reader, but never into the middle of an entry unless the leader said so."""
        position = self._log.position
        if position < notified_position:
            position = self._log.whole_entries_position
        self.counters.commit_position.set_max(position)

    # --- both ---

    def new_log_replay(self, start_position: int, stop_position: int) -> LogReplay:
        replay = LocalLogReplay(
            self._context,
            self._services,
            self._log,
            recording_id=self._recording.recording_id,
            start_position=start_position,
            stop_position=stop_position,
            may_read=lambda: self._state in READS_LOG,
            is_taking_snapshot=lambda: self.is_taking_snapshot,
            on_position=self._on_replay_position,
            timeout_ns=self._archive_timeout_ns,
        )
        self._replays.append(replay)
        return replay

    def _on_replay_position(self, position: int) -> None:
        self.counters.commit_position.set_max(position)

    def new_log_replication(
        self, now: Now, leader_member_id: int, leader_recording_id: int, stop_position: int
    ) -> LogReplication:
        election = self._election
        assert election is not None
        replication = LeaderLogReplication(
            self._context,
            self._recording,
            leader_member_id=leader_member_id,
            leader_recording_id=leader_recording_id,
            start_position=election.append_position,
            stop_position=stop_position,
            now=now,
        )
        self._replications.append(replication)
        return replication
