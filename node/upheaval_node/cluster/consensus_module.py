"""The consensus module of a member: its duty cycle, from recovery through elections to leading or following.

Theory of operation. A module recovers (`recovery`), then runs an election whenever it has no leader. Between elections
it leads (takes ingress, appends to the log, commits what a quorum has recorded) or follows (reads the log up to the
commit position, reports what it has recorded). Nothing blocks: each duty cycle does what is possible now. The module is
made of parts, each of which owns and writes its own state: state, role and term of the member (`module_standing`), the
log (`member_log`), the state that follows from the log (`replicated_state`), snapshots, termination, elections, and the
messages of peers (`module_messages`). The module connects the parts. Source: Aeron Cluster, consensus module agent.
"""

from random import Random
from typing import Final, NamedTuple

from upheaval_node.bell import Bell
from upheaval_node.cluster.authentication import (
    Authenticator,
    AuthorisationService,
    authenticator_named,
    authorisation_named,
)
from upheaval_node.cluster.backup_sessions import BackupSessions
from upheaval_node.cluster.consensus_adapter import FRAGMENT_LIMIT, ConsensusAdapter
from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.cluster.elections import Elections
from upheaval_node.cluster.ingress import IngressAdapter, IngressExtension
from upheaval_node.cluster.leader_contact import LeaderContact
from upheaval_node.cluster.leader_log import LeaderLog
from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.member_log import MemberLog
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_messages import ConsensusMessages
from upheaval_node.cluster.module_snapshots import Snapshots
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ControlToggle, ModuleState, NodeToggle
from upheaval_node.cluster.module_termination import Termination
from upheaval_node.cluster.node_control import NodeControl
from upheaval_node.cluster.recovery import Recovered, recover
from upheaval_node.cluster.replicated_state import ReplicatedState, is_for_all
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.cluster.service_proxy import ServiceAdapter, ServiceProxy
from upheaval_node.cluster.standby_notices import StandbyNotices
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError, TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import max_message_length
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.trace_kinds import ElectionCause, TraceKind
from upheaval_node.types import LOG_START, MS, NEVER_NS, NULL_VALUE, Now, Position, TermId

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
"""Election states that wait for counters of other components. Changes of these counters are not signalled."""


class _AdminCommand(NamedTuple):
    """The effect of a control toggle value: its log entry, and the next state of the module, None if that stays."""

    taken_in: ModuleState
    action: cm.ClusterAction
    leads_to: ModuleState | None
    flags: int = 0


_COMMANDS: Final[dict[int, _AdminCommand]] = {
    ControlToggle.SUSPEND: _AdminCommand(ModuleState.ACTIVE, cm.ClusterAction.SUSPEND, ModuleState.SUSPENDED),
    ControlToggle.RESUME: _AdminCommand(ModuleState.SUSPENDED, cm.ClusterAction.RESUME, ModuleState.ACTIVE),
    ControlToggle.SNAPSHOT: _AdminCommand(ModuleState.ACTIVE, cm.ClusterAction.SNAPSHOT, ModuleState.SNAPSHOT),
    ControlToggle.SHUTDOWN: _AdminCommand(ModuleState.ACTIVE, cm.ClusterAction.SNAPSHOT, ModuleState.SNAPSHOT),
    ControlToggle.STANDBY_SNAPSHOT: _AdminCommand(ModuleState.ACTIVE, cm.ClusterAction.SNAPSHOT, None, STANDBY_FLAG),
}


class ConsensusModule:
    """Implements `ports.Agent`.

    `do_work` raises `TerminationError` when the member must end: its archive is gone, a service is out of step, or the
    log is of another kind. It also lets `StorageError` through, because nothing that this member sends afterwards could
    be trusted.
    """

    _ingress: IngressAdapter | None = None
    _recovery: Steps[Recovered] | None = None
    _consensus: ConsensusAdapter | None = None
    _service_adapter: ServiceAdapter | None = None
    _settled_work = 0
    """The work of the last turn that needs no further turn: messages received, and positions sent."""
    _slow_tick_deadline_ns = 0
    _deadline_ns = 0

    def __init__(
        self,
        context: ModuleContext,
        random: Random,
        *,
        authenticator: Authenticator | None = None,
        authorisation: AuthorisationService | None = None,
    ) -> None:
        self.ingress_extension: IngressExtension | None = None
        """Takes the clients' messages of other schemas. To be set before the first turn."""
        self.bell: Bell | None = None
        self._context = context
        self.members: Final = context.members
        self.membership: Final = context.membership
        self.counters: Final = context.published
        self.recording_log: Final = context.recording_log
        self.node_state: Final = context.node_state
        cluster = context.settings
        authenticator = authenticator or authenticator_named(cluster.authenticator)
        authorisation = authorisation or authorisation_named(cluster.authorisation)
        acks = self._acks = ServiceAcks(cluster.service_count)
        services = self._services = ServiceProxy(context, acks)
        publisher = self._publisher = ConsensusPublisher(context)
        recording = LogRecording(context)
        leader_log = LeaderLog(context, recording, services)
        standing = self._standing = Standing(context, leader_log, publisher)
        state = self._state = ReplicatedState(
            context, standing, services, authenticator, authorisation, self._on_term_event, self._on_snapshot_request
        )
        reader = LogAdapter(state, max_block_length=cluster.log_fragment_limit * cluster.log_mtu)
        self._log = MemberLog(
            context,
            standing,
            publisher,
            services,
            recording,
            reader,
            leader_log,
            on_leave=self._on_term_left,
            on_roll_back=self._roll_back,
            on_commit=self._on_committed,
        )
        self._termination = Termination(context, standing, publisher, services, acks)
        self._snapshots = Snapshots(context, standing, state, acks, on_end=self._termination.on_snapshot_ended)
        self._leader = LeaderContact()
        self._elections = Elections(context, standing, self._log, self._leader, publisher, random)
        self._notices = StandbyNotices(context, context.recording_log)
        self._backups = BackupSessions(context, standing, authenticator, authorisation, self._notices.queue)
        self._messages = ConsensusMessages(
            context,
            standing,
            self._log,
            self._elections,
            self._leader,
            publisher,
            self._termination,
            state.sessions,
            self._backups,
        )
        self._node_control = NodeControl(context)

    # --- what others see ---

    @property
    def state(self) -> ModuleState:
        """The state of the module."""
        return self._standing.state

    @property
    def role(self) -> Role:
        """The role of the member."""
        return self._standing.role

    @property
    def election(self) -> Election | None:
        """The current election, None outside of elections."""
        return self._standing.election

    @property
    def leadership_term_id(self) -> TermId:
        """The current leadership term of the member."""
        return self._standing.leadership_term_id

    @property
    def commit_position(self) -> Position:
        """The value of the commit counter."""
        return self._log.commit_position

    @property
    def replicated_state(self) -> ReplicatedState:
        """The sessions, timers and service messages, to look at."""
        return self._state

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Run one duty cycle. An error that does not end the member is reported, and the work continues after
        a pause.
        """
        if self.state is ModuleState.CLOSED:
            return 0
        try:
            work = self._tick(now)
        except (TerminationError, StorageError) as end:
            if isinstance(end, TerminationError) and end.expected:
                self._release_streams(now)
            else:
                self._terminate_unexpectedly(now, end)
            raise
        except NodeError as error:
            self._on_error(now, error)
            self._deadline_ns = now.ns + RETRY_AFTER_ERROR_NS
            return 0
        self._deadline_ns = self._next_deadline(now)
        if self.bell is not None:
            is_settled = work == self._settled_work and self.election is None
            self.bell.is_settled = is_settled and not self._context.archive.has_unsent
        return work

    def next_deadline_ns(self) -> int:
        """The earliest deadline of election, leadership, sessions, timers and archive."""
        return self._deadline_ns

    def _tick(self, now: Now) -> int:
        work = self._context.archive.do_work(now)
        if self.state is ModuleState.INIT:
            return work + self._recover(now)
        assert self._consensus is not None
        assert self._service_adapter is not None
        self._log.take_archive_events(now)
        self._check_recording(now)
        if now.ns >= self._slow_tick_deadline_ns:
            slow_work = self._slow_tick(now)
            self._slow_tick_deadline_ns = now.ns + (1 if slow_work else SLOW_TICK_INTERVAL_NS)
            work += slow_work
        heard = self._consensus.poll(now)
        work += heard
        self._settled_work = heard if heard < FRAGMENT_LIMIT else 0
        election = self.election
        if election is not None:
            work += election.do_work(now)
            if election.is_closed:
                self._on_elected(now, election)
        elif self.role is Role.LEADER:
            work += self._lead(now)
        else:
            work += self._follow(now)
        work += self._service_adapter.poll(now)
        work += self._snapshots.poll(now, self.commit_position)
        return work + self._termination.poll(now)

    def _on_error(self, now: Now, error: NodeError) -> None:
        if self.election is not None:
            self._context.report(now, "election", str(error))
            self.election.handle_error(now, error)
        else:
            self._context.report(now, "consensus module", str(error))

    def _next_deadline(self, now: Now) -> int:
        standing, election = self._standing, self.election
        deadline = self._context.archive.next_deadline_ns()
        if self.state is ModuleState.INIT:
            deadline = min(deadline, now.ns + SLOW_TICK_INTERVAL_NS)
        elif election is not None:
            deadline = min(deadline, election.next_deadline_ns())
            if election.state in _STEPPING_STATES:
                deadline = min(deadline, now.ns + SLOW_TICK_INTERVAL_NS)
        elif standing.is_leader:
            deadline = min(deadline, self._log.next_send_ns)
            timer = self._state.timers.next_deadline
            if timer is not None and standing.active_log is not None:
                time = self._context.time
                deadline = min(deadline, now.ns + time.in_ns(timer - time.at(now)))
        else:
            deadline = min(deadline, self._log.next_send_ns)
            deadline = min(deadline, self._leader_deadline_ns)
            deadline = min(deadline, self._disconnect_deadline_ns)
        if self._snapshots.is_recording or self.state is ModuleState.TERMINATING:
            deadline = min(deadline, now.ns + SLOW_TICK_INTERVAL_NS)
        is_ticking = self._state.sessions.needs_ticks or self._backups.needs_ticks
        if is_ticking or self._notices.needs_ticks or self._node_control.needs_ticks:
            deadline = min(deadline, self._slow_tick_deadline_ns)
        # A failed send is retried soon, but the loop must not spin on it.
        return max(deadline, now.ns + RETRY_AFTER_ERROR_NS)

    # --- start ---

    def _recover(self, now: Now) -> int:
        if self._recovery is None:
            self._service_adapter = ServiceAdapter(self._context, self._state, self._acks, self._on_service_ack)
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
        """Fetch the newest snapshot of a standby, then recover. If the fetch fails, the member starts from its own
        snapshot.
        """
        try:
            yield from self._node_control.replicate_standby_snapshot()
        except PeerError as error:
            now = yield
            self._context.report(now, "standby snapshot", str(error))
        return (yield from recover(self._context, self._log.recording, self._acks))

    def _begin(self, now: Now, recovered: Recovered) -> None:
        standing, snapshot = self._standing, recovered.snapshot
        standing.enter_term(recovered.plan.last_leadership_term_id)
        if snapshot is not None:
            self._state.load(now, snapshot)
            self._log.begin_at(snapshot.log_position)
            self._leader.on_commit_position(snapshot.log_position)
        self._leader.heard(now)
        self._consensus = ConsensusAdapter(self._context, self._messages)
        self._publisher.connect(now)
        standing.enter(now, ModuleState.ACTIVE)
        self._elections.start_first(now, recovered)
        if snapshot is not None:
            # The election starts from the last term of the log, the module from the last term that it has read.
            standing.enter_term(snapshot.leadership_term_id)

    # --- elections ---

    def _on_elected(self, now: Now, election: Election) -> None:
        """The election is decided: this member leads, or knows its leader."""
        standing, position = self._standing, election.log_position
        standing.hold_election(None)
        standing.enter_term(election.leadership_term_id, election.leader_member_id)
        for member in self.membership.all:
            member.is_leader = member.id == election.leader_member_id
        self._leader.on_commit_position(position)
        self._log.begin_term(now, position)
        self._context.tracer.emit(
            now,
            TraceKind.LEADERSHIP_TERM,
            leadership_term_id=election.leadership_term_id,
            leader_member_id=election.leader_member_id,
            log_position=position,
            term_base_log_position=position,
            source="election",
        )
        if standing.is_leader:
            self._state.sessions.become_leader(now, is_startup=election.is_leader_startup)
            self.counters.control_toggle.set(ControlToggle.NEUTRAL)
        else:
            self._leader.heard(now)
        self.counters.node_toggle.set(NodeToggle.NEUTRAL)
        self._open_ingress()

    def _open_ingress(self) -> None:
        """Open the ingress. A block is at most the fragment limit in full-sized frames, and a quarter of a log term
        buffer.
        """
        settings, term_length = self._context.settings, self._log.recording.format.term_length
        self._ingress = IngressAdapter(
            self._context,
            self._state.sessions,
            max_block_length=min(settings.ingress_fragment_limit * settings.log_mtu, term_length // 4),
            max_message_length=max_message_length(term_length),
            extension=self.ingress_extension,
        )

    def _on_term_left(self, now: Now) -> None:
        """Stop taking requests of clients and operators: an election has begun."""
        self._standing.become(now, Role.FOLLOWER)
        self._close_ingress()
        self.counters.control_toggle.set(ControlToggle.INACTIVE)

    def _close_ingress(self) -> None:
        if self._ingress is not None:
            self._ingress.close()
            self._ingress = None

    def _roll_back(self, now: Now, position: Position) -> None:
        """Undo the effects of the log after `position`: another leader may write other entries there."""
        self._context.latency.abandon()
        self._context.durations.abandon()
        self._termination.call_off()
        self._state.undo(now, position)
        self._standing.return_to_term_at(position)

    # --- slow tick ---

    def _slow_tick(self, now: Now) -> int:
        standing = self._standing
        work = self._state.sessions.answer_waiting(now)
        is_active = standing.election is None and standing.state is ModuleState.ACTIVE
        work += self._backups.process(now, is_active=is_active)
        work += self._notices.poll(now, self.commit_position)
        self._log.catchups.poll(now)
        self._log.release_abandoned()
        if standing.is_leader:
            work += self._lead_slowly(now)
        elif standing.election is None:
            self._check_leader(now)
        if standing.election is None and standing.state is ModuleState.ACTIVE:
            work += self._node_control.check_toggle()
        return work + self._node_control.poll(now)

    def _lead_slowly(self, now: Now) -> int:
        work = self._check_control_toggle(now)
        if self.state is ModuleState.ACTIVE:
            work += self._state.sessions.process_pending(now)
            work += self._state.sessions.check(now)
        elif not self._snapshots.awaits_entry(self.commit_position):
            return work
        if self.membership.others and not self.membership.has_active_quorum(now):
            self._elections.enter(now, ElectionCause.FOLLOWERS_SILENT)
            work += 1
        return work

    @property
    def _leader_deadline_ns(self) -> int:
        """When a follower gives up a leader that stays silent."""
        heartbeat_ns = self._context.settings.timeouts.leader_heartbeat_ns
        return self._leader.heard_ns + heartbeat_ns + self._termination.patience_ns

    @property
    def _disconnect_deadline_ns(self) -> int:
        """When a follower gives up a leader whose connection is lost."""
        # Differs from Aeron (docs/protocol.md, E21): opt-in. The suspicion may be wrong, but then it costs no term.
        disconnect_ns = self._context.settings.timeouts.leader_disconnect_ns
        if not disconnect_ns:
            return NEVER_NS
        return self._leader.disconnected_ns + disconnect_ns + self._termination.patience_ns

    def _check_leader(self, now: Now) -> None:
        if not self._standing.reads_log:
            return
        if now.ns >= self._leader_deadline_ns:
            self._elections.enter(now, ElectionCause.LEADER_SILENT)
        elif now.ns >= self._disconnect_deadline_ns:
            self._elections.enter(now, ElectionCause.LEADER_DISCONNECTED, has_leader_left=True)

    def _check_control_toggle(self, now: Now) -> int:
        """Carry out the operator's command. A value that does not suit the state stays in the toggle."""
        toggle = self.counters.control_toggle
        value, state = toggle.get(), self.state
        if value == ControlToggle.ABORT and state is ModuleState.ACTIVE:
            self._termination.abort(now, Position(self._log.publisher.position))
            return 1
        command = _COMMANDS.get(value)
        if command is None or command.taken_in is not state or not self._append_action(now, command):
            return 0
        if value == ControlToggle.SHUTDOWN:
            self._termination.announce(now, self._snapshots.position)
        elif command.leads_to in (None, ModuleState.ACTIVE):
            toggle.set(ControlToggle.NEUTRAL)
        return 1

    def _append_action(self, now: Now, command: _AdminCommand) -> bool:
        def request(position: Position) -> cm.ClusterActionRequest:
            return cm.ClusterActionRequest(
                leadership_term_id=self.leadership_term_id,
                log_position=position,
                timestamp=self._context.cluster_time(now),
                action=command.action,
                flags=command.flags,
            )

        end = self._log.publisher.append_with_end(request)
        if end <= 0:
            return False
        self._state.on_action_appended(end)
        if command.leads_to is ModuleState.SNAPSHOT:
            self._snapshots.begin(now, end, is_timed=True)
        elif command.leads_to is not None:
            self._standing.enter(now, command.leads_to)
        return True

    # --- leading and following ---

    def _lead(self, now: Now) -> int:
        work = 0
        log = self._standing.active_log
        if self._ingress is not None and log is not None:
            position = log.position
            work = self._state.serve_services(now, log)
            work += self._ingress.poll(now, log, self.leadership_term_id)
            self._context.latency.on_append(now, position, log.position)
        committed, sent = self.commit_position, self._log.lead(now)
        if self.commit_position == committed:
            self._settled_work += sent
        return work + sent

    def _on_committed(self, now: Now, position: Position) -> None:
        """A quorum has recorded the log up to `position`."""
        self._context.latency.on_commit(now, position)
        self._state.on_committed(position)

    def _follow(self, now: Now) -> int:
        work = 0
        image = self._log.reader.image
        if image is not None and self._context.settings.timeouts.leader_disconnect_ns:
            self._leader.on_connection(now, is_there=image.active_transport_count > 0)
        if self._standing.reads_log and not self._termination.is_reached(now, self._log.reader.position):
            read = self._log.read(now, self._leader.commit_position)
            if read is None:
                self._on_log_ended(now, None)
                return 1
            work = read
            if self._ingress is not None:
                work += self._ingress.poll(now, None, self.leadership_term_id)
        sent = self._log.send_append_position(now, 0)
        self._settled_work += sent
        return work + sent

    def _on_log_ended(self, now: Now, stop_position: Position | None) -> None:
        """Start an election: the leader's stream has ended, or the recording of the log has stopped at
        `stop_position`.
        """
        image = self._log.reader.image
        end = None if image is None else image.end_of_stream_position
        is_end = end is not None if stop_position is None else end == stop_position
        what = "log disconnected from leader" if stop_position is None else "log recording stopped"
        self._elections.enter(now, f"{what}: eos={is_end}", has_leader_left=is_end)

    def _check_recording(self, now: Now) -> None:
        """Give up a log that is no longer recorded. A snapshot is finished first, unless its entry was not recorded."""
        recording = self._log.recording
        if recording.has_stopped and self.election is None:
            is_lost = self._standing.is_taking_snapshot and recording.stop_position < self._snapshots.position
            if is_lost or self._standing.reads_log:
                self._on_log_ended(now, recording.stop_position)

    # --- log and services ---

    def _on_term_event(self, now: Now, event: cm.NewLeadershipTermEvent) -> None:
        """Pass the term of a replayed entry to the election."""
        if self.election is not None:
            self.election.on_replay_new_leadership_term_event(now, event)

    def _on_snapshot_request(self, now: Now, request: cm.ClusterActionRequest) -> None:
        """Begin a snapshot. Members ignore a request that is for standbys only."""
        if is_for_all(request):
            self._snapshots.begin(now, request.log_position)

    def _on_service_ack(self, now: Now, message: cm.ServiceAck) -> None:
        self._snapshots.on_service_ack(now, message)
        self._termination.on_service_ack()

    # --- end ---

    def close(self, now: Now) -> None:
        """End in good order. The services learn of the end, and the end of the log stream notifies the other members at
        once.
        """
        if self.state is not ModuleState.CLOSED:
            self._end_services(self.commit_position, ack_required=False)
            self._release_streams(now)

    def _terminate_unexpectedly(self, now: Now, error: NodeError) -> None:
        if self.state is not ModuleState.CLOSED:
            self._context.report(now, "termination", str(error))
            self._end_services(LOG_START, ack_required=True)
            self._release_streams(now)

    def _end_services(self, position: Position, *, ack_required: bool) -> None:
        if self._context.settings.service_count > 0:
            self._services.send(cm.ServiceTerminationPosition(log_position=position, ack_required=ack_required))

    def _release_streams(self, now: Now) -> None:
        context, log = self._context, self._log
        self._standing.enter(now, ModuleState.CLOSED)
        self._deadline_ns = NEVER_NS
        self._standing.hold_election(None)
        self._close_ingress()
        if self._recovery is not None:
            self._recovery.close()
        self._snapshots.close()
        log.close()
        if log.recording_id != NULL_VALUE and context.archive.is_connected:
            context.archive.stop_recording_by_identity(log.recording_id)
        self._state.sessions.close()
        self._backups.close()
        self._publisher.close()
        if self._consensus is not None:
            self._consensus.close()
        if self._service_adapter is not None:
            self._service_adapter.close()
        self._services.close()
        self._node_control.close()
        context.archive.close()
        context.close()
        context.recording_log.close()
