"""The consensus module of a member: its duty cycle, from recovery through elections to leading or following.

Theory of operation. A module recovers (`recovery`), then runs an election whenever it has no leader; between elections
it leads (takes ingress, appends to the log, commits what a quorum has recorded) or follows (reads the log up to the
commit position, reports what it has recorded). Module states are in `module_state`. Nothing waits: each duty cycle
does what is possible now. What the parts do stands in `module_log`, `module_election` and `module_messages`.
Source: Aeron Cluster, consensus module agent.
"""

from typing import Final

from upheaval_node.cluster.consensus_adapter import ConsensusAdapter
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.cluster.members import has_active_quorum
from upheaval_node.cluster.module_messages import ConsensusSide
from upheaval_node.cluster.module_state import READS_LOG, ControlToggle, ModuleState
from upheaval_node.cluster.recovery import Recovered, recover
from upheaval_node.cluster.service_proxy import ServiceAdapter
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError, TimeoutExpired
from upheaval_node.ports import Bell
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import MAX_POSITION, MS, NULL_VALUE, Now

SLOW_TICK_INTERVAL_NS: Final = 10 * MS
RETRY_AFTER_ERROR_NS: Final = 1 * MS

STANDBY_FLAG: Final = 1
"""Flag of a ClusterActionRequest: only standby members take this snapshot."""

_STEPPING_STATES: Final = frozenset(
    {
        ElectionState.INIT,
        ElectionState.LEADER_REPLAY,
        ElectionState.LEADER_INIT,
        ElectionState.FOLLOWER_LOG_REPLICATION,
        ElectionState.FOLLOWER_REPLAY,
        ElectionState.FOLLOWER_CATCHUP_AWAIT,
        ElectionState.FOLLOWER_CATCHUP,
        ElectionState.FOLLOWER_LOG_AWAIT,
    }
)
"""Election states that wait for counters of other components, which nothing announces."""


class ConsensusModule(ConsensusSide):
    """Implements `ports.Agent`.

    `do_work` raises `TerminationError` when the member must end: its archive is gone, a service acts out of turn, the
    log is of another kind. `StorageError` leaves it too, because nothing that this member would say could be trusted.
    """

    _recovery: Steps[Recovered] | None = None
    _consensus: ConsensusAdapter | None = None
    _service_adapter: ServiceAdapter | None = None
    _slow_tick_deadline_ns = 0
    _deadline_ns = 0
    bell: Bell | None = None

    def do_work(self, now: Now) -> int:
        if self._state is ModuleState.CLOSED:
            return 0
        try:
            work = self._tick(now)
        except (TerminationError, StorageError) as error:
            if isinstance(error, TerminationError) and error.expected:
                self._release_streams(now)
            else:
                self._terminate_unexpectedly(now, error)
            raise
        except NodeError as error:
            self._on_error(now, error)
            self._deadline_ns = now.ns + RETRY_AFTER_ERROR_NS
            return 0
        self._deadline_ns = self._next_deadline(now)
        return work

    def next_deadline_ns(self) -> int:
        return self._deadline_ns

    def _tick(self, now: Now) -> int:
        work = self._archive.do_work(now)
        if self._state is ModuleState.INIT:
            return work + self._recover(now)
        assert self._consensus is not None
        assert self._service_adapter is not None
        self._take_archive_events(now)
        if now.ns >= self._slow_tick_deadline_ns:
            slow_work = self._slow_tick(now)
            self._slow_tick_deadline_ns = now.ns + (1 if slow_work else SLOW_TICK_INTERVAL_NS)
            work += slow_work
        work += self._consensus.poll(now)
        if self._election is not None:
            work += self._election.do_work(now)
        elif self._role is Role.LEADER:
            work += self._lead(now)
        else:
            work += self._follow(now)
        work += self._service_adapter.poll(now)
        work += self._poll_snapshot(now)
        return work + self._poll_termination(now)

    def _on_error(self, now: Now, error: NodeError) -> None:
        if self._election is not None:
            self._context.report(now, "election", str(error))
            self._election.handle_error(now, error)
        else:
            self._context.report(now, "consensus module", str(error))

    def _next_deadline(self, now: Now) -> int:
        timeouts = self._timeouts
        deadline = self._archive.next_deadline_ns()
        election = self._election
        if self._state is ModuleState.INIT:
            deadline = min(deadline, now.ns + SLOW_TICK_INTERVAL_NS)
        elif election is not None:
            deadline = min(deadline, election.next_deadline_ns())
            if election.state in _STEPPING_STATES:
                deadline = min(deadline, now.ns + SLOW_TICK_INTERVAL_NS)
        elif self._role is Role.LEADER:
            deadline = min(deadline, self._last_commit_send_ns + timeouts.leader_heartbeat_interval_ns)
            timer = self._timers.next_deadline
            if timer is not None and self.active_log is not None:
                deadline = min(deadline, now.ns + self._time.in_ns(timer - self.cluster_time(now)))
        else:
            deadline = min(
                deadline,
                self._last_append_send_ns + timeouts.leader_heartbeat_interval_ns,
                self._leader_deadline_ns,
            )
        if self._snapshot is not None or self._state is ModuleState.TERMINATING:
            deadline = min(deadline, now.ns + SLOW_TICK_INTERVAL_NS)
        if any(each.needs_ticks for each in (self._sessions, self._backups, self._notices, self._node_control)):
            deadline = min(deadline, self._slow_tick_deadline_ns)
        # What could not be sent is looked at again soon, but the loop must not spin on it.
        return max(deadline, now.ns + RETRY_AFTER_ERROR_NS)

    # --- start ---

    def _recover(self, now: Now) -> int:
        if self._recovery is None:
            self._service_adapter = ServiceAdapter(self._context, self, self._acks)
            self._recovery = Steps(self._start())
        assert self._service_adapter is not None
        work = self._service_adapter.poll(now)
        try:
            is_done = self._recovery.poll(now)
        except (PeerError, TimeoutExpired) as error:
            raise TerminationError(f"cannot start from what is there: {error}", expected=False) from error
        if is_done:
            self._begin(now, self._recovery.result)
            work += 1
        return work

    def _start(self) -> StepGenerator[Recovered]:
        """First of all the newest snapshot of a standby: without it the member starts from its own."""
        try:
            yield from self._node_control.replicate_standby_snapshot()
        except PeerError as error:
            now = yield
            self._context.report(now, "standby snapshot", str(error))
        return (yield from recover(self._context, self.recording_log, self._recording, self._acks, self._time))

    def _begin(self, now: Now, recovered: Recovered) -> None:
        plan = recovered.plan
        self._appended_at_start = recovered.appended_position
        self._last_term_base_at_start = plan.last_term_base_log_position
        self.leadership_term_id = plan.last_leadership_term_id
        if recovered.snapshot is not None:
            self._load_snapshot(now, recovered.snapshot)
        self.time_of_last_leader_update_ns = now.ns
        self._consensus = ConsensusAdapter(self._context, self)
        self._publisher.connect(now)
        self._enter(now, ModuleState.ACTIVE)
        self._start_election(now, is_node_startup=True, graceful_leader_id=NULL_VALUE, reason="node started")
        if recovered.snapshot is not None:
            # The election goes by the last term of the log, the module by what it has read of it.
            self.leadership_term_id = recovered.snapshot.leadership_term_id

    # --- slow tick ---

    def _slow_tick(self, now: Now) -> int:
        work = self._sessions.answer_waiting(now)
        is_active = self._election is None and self._state is ModuleState.ACTIVE
        work += self._backups.process(now, is_active=is_active)
        work += self._notices.poll(now, self.commit_position)
        self._catchups.poll(now)
        self._release_abandoned()
        if self._election is None:
            if self._role is Role.LEADER:
                work += self._lead_slowly(now)
            else:
                self._check_leader(now)
        if self._election is None and self._state is ModuleState.ACTIVE:
            work += self._node_control.check_toggle()
        return work + self._node_control.poll(now)

    def _lead_slowly(self, now: Now) -> int:
        work = self._check_control_toggle(now)
        if self._state is not ModuleState.ACTIVE:
            return work
        work += self._sessions.process_pending(now)
        work += self._sessions.check(now)
        members = self.members.values()
        if len(members) > 1 and not has_active_quorum(members, now.ns, self._timeouts.leader_heartbeat_ns):
            self.enter_election(now, "inactive follower quorum")
            work += 1
        return work

    def _check_leader(self, now: Now) -> None:
        if self._state in READS_LOG and now.ns >= self._leader_deadline_ns:
            self.enter_election(now, "leader heartbeat timeout")

    def _check_control_toggle(self, now: Now) -> int:
        """Serve what an operator asked for; a value that does not suit the state stays where it is."""
        toggle = self.counters.control_toggle
        value = toggle.get()
        is_active = self._state is ModuleState.ACTIVE
        if value == ControlToggle.SUSPEND and is_active:
            return self._append_action(now, cm.ClusterAction.SUSPEND, ModuleState.SUSPENDED)
        if value == ControlToggle.SNAPSHOT and is_active:
            return self._append_action(now, cm.ClusterAction.SNAPSHOT, ModuleState.SNAPSHOT)
        if value == ControlToggle.SHUTDOWN and is_active:
            work = self._append_action(now, cm.ClusterAction.SNAPSHOT, ModuleState.SNAPSHOT)
            if work:
                self._announce_termination(now, self._snapshot_position)
            return work
        if value == ControlToggle.ABORT and is_active:
            assert self._leader_log.publisher is not None
            self._abort(now, self._leader_log.publisher.position)
            return 1
        if value == ControlToggle.STANDBY_SNAPSHOT and is_active:
            work = self._append_action(now, cm.ClusterAction.SNAPSHOT, self._state, flags=STANDBY_FLAG)
            if work:
                toggle.set(ControlToggle.NEUTRAL)
            return work
        if value == ControlToggle.RESUME and self._state is ModuleState.SUSPENDED:
            work = self._append_action(now, cm.ClusterAction.RESUME, ModuleState.ACTIVE)
            if work:
                toggle.set(ControlToggle.NEUTRAL)
            return work
        return 0

    def _append_action(self, now: Now, action: cm.ClusterAction, state: ModuleState, *, flags: int = 0) -> int:
        publisher = self._leader_log.publisher
        assert publisher is not None

        def request(position: int) -> cm.ClusterActionRequest:
            return cm.ClusterActionRequest(
                leadership_term_id=self._term_id,
                log_position=position,
                timestamp=self.cluster_time(now),
                action=action,
                flags=flags,
            )

        end = publisher.position_after(request(0))
        if end <= 0 or publisher.append(request(end)) <= 0:
            return 0
        self._uncommitted_states.append((end, self._state))
        if state is ModuleState.SNAPSHOT:
            self._durations.begin(now)
            self._begin_snapshot(now, end)
        else:
            self._enter(now, state)
        return 1

    # --- leading and following ---

    def _lead(self, now: Now) -> int:
        work = 0
        log = self.active_log
        if self._ingress is not None and log is not None:
            position = log.position
            work = self._serve_services(now, log)
            work += self._ingress.poll(now, log, self._term_id)
            self._latency.on_append(now, position, log.position)
        appended = self._recording.position
        if appended is None and self._recording.has_stopped:
            appended = self._recording.stop_position
        if appended is not None:
            self._context.own.record(self._term_id, appended, now.ns)
            work += self.update_leader_position(now, appended, self.quorum_position(now, (self._term_id,)))
        return work

    def _follow(self, now: Now) -> int:
        work = 0
        if self._state in READS_LOG and not self._check_termination(now):
            appended = self._recording.position
            if appended is None:
                appended = self._recording.stop_position
            work = self._log.poll(now, min(appended, self._notified_commit_position))
            if work == 0 and self._log.is_image_closed:
                self._on_log_ended(now)
                return 1
            self._raise_commit_position(self._notified_commit_position)
            if self._ingress is not None:
                work += self._ingress.poll(now, None, self._term_id)
        return work + self._send_append_position(now, 0)

    def _on_log_ended(self, now: Now) -> None:
        image = self._log.image
        is_end = image is not None and image.end_of_stream_position is not None
        self.enter_election(now, f"log disconnected from leader: eos={is_end}", is_graceful=is_end)

    # --- archive ---

    def _take_archive_events(self, now: Now) -> None:
        archive = self._archive
        if archive.is_closed:
            raise TerminationError(f"local archive is not connected: {archive.error}", expected=False)
        while archive.late_errors:
            error = archive.late_errors.popleft()
            self._recording.on_late_error(error)
            self._catchups.on_late_error(now, error)
            for replication in self._replications:
                replication.on_late_error(error)
        while archive.signals:
            signal = archive.signals.popleft()
            for replication in self._replications:
                replication.on_signal(signal)
            self._recording.on_signal(signal)
        if self._recording.has_stopped and self._election is None and self._needs_recording():
            self._on_recording_stopped(now)

    def _needs_recording(self) -> bool:
        """A snapshot is finished first, unless the recording ended before the entry that asks for it."""
        is_lost = self._state is ModuleState.SNAPSHOT and self._recording.stop_position < self._snapshot_position
        return is_lost or self._state in READS_LOG

    def _on_recording_stopped(self, now: Now) -> None:
        image = self._log.image
        is_end = image is not None and image.end_of_stream_position == self._recording.stop_position
        self.enter_election(now, f"log recording stopped: eos={is_end}", is_graceful=is_end)

    # --- end ---

    def close(self, now: Now) -> None:
        """End in good order: the services are told, and the end of the log tells the other members at once."""
        if self._state is ModuleState.CLOSED:
            return
        if self._settings.service_count > 0:
            position = self.commit_position
            self._services.send(cm.ServiceTerminationPosition(log_position=position, ack_required=False))
        self._release_streams(now)

    def _terminate_unexpectedly(self, now: Now, error: NodeError) -> None:
        if self._state is ModuleState.CLOSED:
            return
        self._context.report(now, "termination", str(error))
        if self._settings.service_count > 0:
            self._services.send(cm.ServiceTerminationPosition(log_position=0, ack_required=True))
        self._release_streams(now)

    def _release_streams(self, now: Now) -> None:
        self._enter(now, ModuleState.CLOSED)
        self._deadline_ns = MAX_POSITION
        self._election = None
        if self._ingress is not None:
            self._ingress.close()
            self._ingress = None
        for steps in (self._recovery, self._snapshot):
            if steps is not None:
                steps.close()
        self._snapshot = None
        self._log.detach()
        self._leader_log.close()
        self._follower_log.close()
        if self._recording.recording_id != NULL_VALUE and self._archive.is_connected:
            self._archive.stop_recording_by_identity(self._recording.recording_id)
        self._sessions.close()
        self._backups.close()
        self._publisher.close()
        if self._consensus is not None:
            self._consensus.close()
        if self._service_adapter is not None:
            self._service_adapter.close()
        self._services.close()
        self._node_control.close()
        self._archive.close()
        self.counters.close()
        self._latency.close()
        self._durations.close()
        self.recording_log.close()
        self.node_state.close()
