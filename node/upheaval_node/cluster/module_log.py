"""What log entries and services do to a consensus module.

Log entries come here on a member that does not write the log, and in every replay. Source: Aeron Cluster, follower log
consumption, service to module messages. Knows no election but to tell it of a new term.
"""

from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.members import encode_members
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.cluster.module_termination import TerminationSide
from upheaval_node.cluster.pending_messages import service_of
from upheaval_node.errors import DecodeError, TerminationError
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32, Message
from upheaval_node.types import Now


class LogSide(TerminationSide):
    # --- log entries ---

    def on_log_messages(self, timestamps: dict[int, int]) -> None:
        self._sessions.on_log_activity(timestamps)
        for message_id in timestamps:
            if message_id < 0:
                service_id = service_of(message_id)
                if service_id < len(self._pending_messages):
                    self._pending_messages[service_id].on_log_message(message_id)

    def on_log_entry(self, now: Now, entry: Message, end_position: int) -> bool:
        match entry:
            case cm.SessionOpenEvent():
                self._sessions.on_log_open(now, entry, end_position)
            case cm.SessionCloseEvent():
                self._sessions.on_log_close(entry)
            case cm.TimerEvent():
                self._timers.on_event(entry.correlation_id)
            case cm.NewLeadershipTermEvent():
                self._on_new_leadership_term_event(now, entry)
            case cm.ClusterActionRequest():
                self._on_cluster_action(now, entry)
                return True
            case _:
                pass
        return False

    def on_bad_log_entry(self, now: Now, end_position: int, error: DecodeError) -> None:
        self._context.report(now, "log entry", f"entry that ends at {end_position}: {error}")

    def _on_new_leadership_term_event(self, now: Now, event: cm.NewLeadershipTermEvent) -> None:
        difference = self._time.difference(event.time_unit)
        if difference is not None:
            raise TerminationError(f"the log has {difference}", expected=False)
        if event.app_version >> 16 != self.app_version >> 16:
            text = f"incompatible app version {event.app_version} in the log, ours is {self.app_version}"
            raise TerminationError(text, expected=False)
        self.leadership_term_id = event.leadership_term_id
        self._context.tracer.emit(
            now,
            "leadership_term",
            leadership_term_id=event.leadership_term_id,
            leader_member_id=event.leader_member_id,
            log_position=event.log_position,
            term_base_log_position=event.term_base_log_position,
            source="log",
        )
        if self._election is not None:
            self._election.on_replay_new_leadership_term_event(now, event)

    def _on_cluster_action(self, now: Now, request: cm.ClusterActionRequest) -> None:
        if request.leadership_term_id != self._term_id:
            return
        match request.action:
            case cm.ClusterAction.SUSPEND if self._state is ModuleState.ACTIVE:
                self._enter(now, ModuleState.SUSPENDED)
            case cm.ClusterAction.RESUME if self._state is ModuleState.SUSPENDED:
                self._enter(now, ModuleState.ACTIVE)
            case cm.ClusterAction.SNAPSHOT if request.flags in (0, NULL_INT32):
                self._begin_snapshot(now, request.log_position)
            case _:
                pass

    # --- services ---

    def on_service_message(self, now: Now, header: cm.SessionMessageHeader, payload: Buffer) -> None:
        """On every member: the session id is the service's, the message gets its own here."""
        service_id = header.cluster_session_id
        if not 0 <= service_id < len(self._pending_messages):
            self._context.report(now, "service message", f"{len(payload)} bytes of an unknown service {service_id}")
            return
        self._pending_messages[service_id].enqueue(payload)

    def on_close_session(self, now: Now, message: cm.CloseSession) -> None:
        self._sessions.close_by_service(now, message.cluster_session_id)

    def on_schedule_timer(self, now: Now, message: cm.ScheduleTimer) -> None:  # noqa: ARG002 - of the protocol
        self._timers.request(message.correlation_id, message.deadline)

    def on_cancel_timer(self, now: Now, message: cm.CancelTimer) -> None:  # noqa: ARG002 - of the protocol
        self._timers.cancel(message.correlation_id)

    # --- what an active leader writes for them ---

    def _serve_services(self, now: Now, log: LogPublisher) -> int:
        """Expire timers and bring the services' messages into the log."""
        time = self.cluster_time(now)

        def expire(correlation_id: int) -> int:
            event = cm.TimerEvent(leadership_term_id=self._term_id, correlation_id=correlation_id, timestamp=time)
            return log.append(event)

        work = self._timers.expire(time, expire)
        return work + sum(each.append(log, self._term_id, time) for each in self._pending_messages)

    def _on_committed(self, position: int) -> None:
        """Forget how to undo what is committed now."""
        self._sessions.on_committed(position)
        for pending in self._pending_messages:
            pending.on_committed(position)
        self._timers.on_committed(position)
        while self._uncommitted_states and self._uncommitted_states[0][0] <= position:
            self._uncommitted_states.popleft()

    def _undo_for_services(self, position: int) -> None:
        """An election begins at commit position `position`: what was behind it is due again, for whoever leads."""
        for pending in self._pending_messages:
            pending.restore(position)
        self._timers.restore(position)

    def on_cluster_members_query(self, now: Now, message: cm.ClusterMembersQuery) -> None:
        """A tool asks on the services' stream; the answer goes out on it as well, in any state."""
        if message.extended:
            self._services.send(self._extended_members(now, message.correlation_id))
        else:
            self._services.send(
                cm.ClusterMembersResponse(
                    correlation_id=message.correlation_id,
                    leader_member_id=self.leader_member_id,
                    active_members=encode_members(self.members.values()),
                    passive_followers="",
                )
            )

    def _extended_members(self, now: Now, correlation_id: int) -> cm.ClusterMembersExtendedResponse:
        return cm.ClusterMembersExtendedResponse(
            correlation_id=correlation_id,
            current_time_ns=now.ns,
            leader_member_id=self.leader_member_id,
            member_id=self.member_id,
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
                for member in self.members.values()
            ),
            passive_members=(),
        )
