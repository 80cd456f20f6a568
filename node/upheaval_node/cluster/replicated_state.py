"""The state that follows from the log and from the services' requests: sessions, timers, service messages, module
state.

On members that do not write the log, and in every replay, the log entries arrive here. The requests of services arrive
here on every member, in the same order. So this state is the same on all members, and a snapshot contains it. Source:
Aeron Cluster, follower log consumption, service to module messages. Knows nothing of elections.
"""

from collections import deque
from collections.abc import Callable

from upheaval_node.cluster.authentication import Authenticator, AuthorisationService
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.members import encode_members
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, TrackerState
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.cluster.pending_messages import PendingMessages, service_of
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.cluster.sessions import SessionManager
from upheaval_node.cluster.timers import Timers
from upheaval_node.errors import DecodeError, TerminationError
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.message import Message
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now, Position


def is_for_all(request: cm.ClusterActionRequest) -> bool:
    """Whether all members take the snapshot, not only standbys."""
    return request.flags in (0, NULL_INT32)


class ReplicatedState:
    """Implements `log_adapter.LogHandler` and `service_proxy.ServiceHandler`.

    `on_term` is called when the log enters a new term, `on_snapshot` when it requests a snapshot in the current term.
    """

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        services: ServiceProxy,
        authenticator: Authenticator,
        authorisation: AuthorisationService,
        on_term: Callable[[Now, cm.NewLeadershipTermEvent], None],
        on_snapshot: Callable[[Now, cm.ClusterActionRequest], None],
    ) -> None:
        self._context = context
        self._standing = standing
        self._services = services
        self._on_term = on_term
        self._on_snapshot = on_snapshot
        self.timers = Timers()
        self.sessions = SessionManager(context, standing, authenticator, authorisation)
        self.pending_messages = [PendingMessages(service_id) for service_id in range(context.settings.service_count)]
        # The uncommitted changes of the module state: the log position of each, and the state before it.
        self._uncommitted_states: deque[tuple[int, ModuleState]] = deque()

    # --- log entries ---

    def on_log_messages(self, ids: list[int]) -> None:
        """Note the service messages that are in the log."""
        for message_id in ids:
            if message_id < 0:
                service_id = service_of(message_id)
                if service_id < len(self.pending_messages):
                    self.pending_messages[service_id].on_log_message(message_id)

    def on_log_entry(self, now: Now, entry: Message, end_position: int) -> bool:
        """Apply the entry. After a ClusterActionRequest, reading stops for this turn, because it changes the module's
        state.
        """
        match entry:
            case cm.SessionOpenEvent():
                self.sessions.on_log_open(now, entry, end_position)
            case cm.SessionCloseEvent():
                self.sessions.on_log_close(entry)
            case cm.TimerEvent():
                self.timers.on_event(entry.correlation_id)
            case cm.NewLeadershipTermEvent():
                self._on_new_leadership_term_event(now, entry)
            case cm.ClusterActionRequest():
                self._on_cluster_action(now, entry)
                return True
            case _:
                pass
        return False

    def on_bad_log_entry(self, now: Now, end_position: int, error: DecodeError) -> None:
        """Report the entry. Reading continues after it, as on every other member."""
        self._context.report(now, "log entry", f"entry that ends at {end_position}: {error}")

    def _on_new_leadership_term_event(self, now: Now, event: cm.NewLeadershipTermEvent) -> None:
        difference = self._context.time.difference(event.time_unit)
        if difference is not None:
            raise TerminationError(f"the log has {difference}", expected=False)
        ours = self._context.settings.app_version
        if event.app_version >> 16 != ours >> 16:
            text = f"incompatible app version {event.app_version} in the log, ours is {ours}"
            raise TerminationError(text, expected=False)
        self._standing.enter_term(event.leadership_term_id)
        self._context.tracer.emit(
            now,
            TraceKind.LEADERSHIP_TERM,
            leadership_term_id=event.leadership_term_id,
            leader_member_id=event.leader_member_id,
            log_position=event.log_position,
            term_base_log_position=event.term_base_log_position,
            source="log",
        )
        self._on_term(now, event)

    def _on_cluster_action(self, now: Now, request: cm.ClusterActionRequest) -> None:
        standing = self._standing
        if request.leadership_term_id != standing.leadership_term_id:
            return
        match request.action:
            case cm.ClusterAction.SUSPEND if standing.state is ModuleState.ACTIVE:
                standing.enter(now, ModuleState.SUSPENDED)
            case cm.ClusterAction.RESUME if standing.state is ModuleState.SUSPENDED:
                standing.enter(now, ModuleState.ACTIVE)
            case cm.ClusterAction.SNAPSHOT:
                self._on_snapshot(now, request)
            case _:
                pass

    # --- services ---

    def on_service_message(self, now: Now, header: cm.SessionMessageHeader, payload: Buffer) -> None:
        """Queue a message of a service, as on every member. The header has the service's id; the message gets its
        number here.
        """
        service_id = header.cluster_session_id
        if not 0 <= service_id < len(self.pending_messages):
            self._context.report(now, "service message", f"{len(payload)} bytes of an unknown service {service_id}")
            return
        self.pending_messages[service_id].enqueue(payload)

    def on_close_session(self, now: Now, message: cm.CloseSession) -> None:
        """Request the close of a session. The leader's log entry closes it."""
        self.sessions.close_by_service(now, message.cluster_session_id)

    def on_schedule_timer(self, now: Now, message: cm.ScheduleTimer) -> None:  # noqa: ARG002 - of the protocol
        """Schedule a timer. It replaces a timer with the same correlation id."""
        self.timers.request(message.correlation_id, message.deadline)

    def on_cancel_timer(self, now: Now, message: cm.CancelTimer) -> None:  # noqa: ARG002 - of the protocol
        """Cancel a timer. An expiry that is already in the log stays there."""
        self.timers.cancel(message.correlation_id)

    def on_cluster_members_query(self, now: Now, message: cm.ClusterMembersQuery) -> None:
        """Answer a tool's query on the stream to the services, in any state of the module."""
        if message.extended:
            self._services.send(self._extended_members(now, message.correlation_id))
        else:
            self._services.send(
                cm.ClusterMembersResponse(
                    correlation_id=message.correlation_id,
                    leader_member_id=self._standing.leader_member_id,
                    active_members=encode_members(self._context.membership.all),
                    passive_followers="",
                )
            )

    def _extended_members(self, now: Now, correlation_id: int) -> cm.ClusterMembersExtendedResponse:
        return cm.ClusterMembersExtendedResponse(
            correlation_id=correlation_id,
            current_time_ns=now.ns,
            leader_member_id=self._standing.leader_member_id,
            member_id=self._context.member_id,
            active_members=tuple(
                cm.ClusterMembersExtendedResponseActiveMember(
                    leadership_term_id=member.leadership_term_id,
                    log_position=member.log_position,
                    time_of_last_append_ns=member.time_of_last_append_position_ns or -1,
                    member_id=member.id,
                    ingress_endpoint=member.endpoints.ingress,
                    consensus_endpoint=member.endpoints.consensus,
                    log_endpoint=member.endpoints.log,
                    catchup_endpoint=member.endpoints.catchup,
                    archive_endpoint=member.endpoints.archive,
                )
                for member in self._context.membership.all
            ),
            passive_members=(),
        )

    # --- what an active leader writes ---

    def serve_services(self, now: Now, log: LogPublisher) -> int:
        """Expire timers and append the services' messages to the log."""
        time = self._context.cluster_time(now)
        term_id = self._standing.leadership_term_id

        def expire(correlation_id: int) -> int:
            event = cm.TimerEvent(leadership_term_id=term_id, correlation_id=correlation_id, timestamp=time)
            return log.append(event)

        work = self.timers.expire(time, expire)
        return work + sum(pending_message.append(log, term_id, time) for pending_message in self.pending_messages)

    def on_action_appended(self, end_position: int) -> None:
        """Remember the module state before the action whose entry ends at `end_position`."""
        self._uncommitted_states.append((end_position, self._standing.state))

    def on_committed(self, position: Position) -> None:
        """Drop the undo information of committed changes."""
        self.sessions.on_committed(position)
        for pending in self.pending_messages:
            pending.on_committed(position)
        self.timers.on_committed(position)
        while self._uncommitted_states and self._uncommitted_states[0][0] <= position:
            self._uncommitted_states.popleft()

    def undo(self, now: Now, position: Position) -> None:
        """Undo the changes after commit position `position` at the start of an election. The next leader makes them
        again.
        """
        self.sessions.leave_term(position)
        for pending in self.pending_messages:
            pending.restore(position)
        self.timers.restore(position)
        uncommitted = [state for end, state in self._uncommitted_states if end > position]
        self._uncommitted_states.clear()
        if uncommitted and self._standing.state is not ModuleState.CLOSED:
            self._standing.enter(now, uncommitted[0])

    # --- snapshots ---

    def snapshot(self, now: Now, log_position: Position) -> ModuleSnapshot:
        """The state at `log_position`, for a snapshot."""
        for pending in self.pending_messages:
            if pending.lags:
                text = f"service {pending.service_id} offered fewer messages than the log has of it"
                self._context.report(now, "snapshot", text)
        return ModuleSnapshot(
            log_position=log_position,
            leadership_term_id=self._standing.leadership_term_id,
            app_version=self._context.settings.app_version,
            time_unit=self._context.time.unit,
            next_session_id=self.sessions.next_committed_session_id,
            sessions=self.sessions.records(),
            timers=[cm.Timer(correlation_id=key, deadline=deadline) for key, deadline in self.timers],
            trackers=[
                TrackerState(pending_message.record(), pending_message.encoded_messages())
                for pending_message in self.pending_messages
            ],
        )

    def load(self, now: Now, snapshot: ModuleSnapshot) -> None:
        """Restore the state of a snapshot. Raises `TerminationError` when it has messages of an unknown service."""
        self.sessions.load(now, snapshot.next_session_id, snapshot.sessions)
        for timer in snapshot.timers:
            self.timers.load(timer.correlation_id, timer.deadline)
        for tracker in snapshot.trackers:
            service_id = tracker.record.service_id
            if not 0 <= service_id < len(self.pending_messages):
                raise TerminationError(f"the snapshot has messages of service {service_id}", expected=False)
            self.pending_messages[service_id].load(tracker.record, tracker.messages)
