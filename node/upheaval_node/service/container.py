"""The agent that runs one service of a member (Aeron Cluster: clustered service agent).

It reads the log itself, never beyond the commit position, and talks to its consensus module over two streams of the
control channel: 104 from the module, 105 to it. `states` has the theory. Nothing in here blocks: every wait is a state
that the next duty cycle checks again. It knows nothing of other members or elections.
"""

import struct
from contextlib import suppress
from typing import Final, assert_never

from upheaval_node import counters as counter_types
from upheaval_node.bell import Bell
from upheaval_node.counters import Counter, Counters
from upheaval_node.errors import DecodeError, NodeError, PeerError, StorageError, TerminationError, UsageError
from upheaval_node.media.api import Image, Media, Message, Subscription
from upheaval_node.media.shared_publications import SharedPublications
from upheaval_node.ports import ErrorSink, Tracer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel, is_response_channel
from upheaval_node.protocol.constants import MODULE_STREAM_ID, SERVICE_CONTROL_CHANNEL, SERVICE_STREAM_ID
from upheaval_node.service.api import ClusteredService, ClusterRole
from upheaval_node.service.cluster_view import ClusterView
from upheaval_node.service.entries import EntryApplier, versions_are_compatible
from upheaval_node.service.log_consumer import LogConsumer
from upheaval_node.service.module_proxy import ModuleProxy, longest_offer
from upheaval_node.service.raised import RaisedExceptions, is_of_service
from upheaval_node.service.session import ContainerSession
from upheaval_node.service.snapshot_taker import SnapshotTaker
from upheaval_node.service.snapshots import ServiceSnapshot, SnapshotStore, StateReader
from upheaval_node.service.states import LEGAL_LOG_MOVES, LEGAL_MOVES, ContainerState, LogState
from upheaval_node.settings import ClusterSettings
from upheaval_node.snapshot_durations import SnapshotDurations
from upheaval_node.state_machine import StateMachine
from upheaval_node.steps import Steps
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, NOT_YET, NULL_VALUE, Now, S

COUNTER_CHECK_INTERVAL_NS: Final = 10 * MS
"""The interval at which to look for a counter of another process, which is not signalled."""
LIVENESS_CHECK_INTERVAL_NS: Final = S
RETRY_INTERVAL_NS: Final = 10 * MS
"""The pause before a failed send is retried or background work continues, if nothing else wakes the container."""
TERMINATION_ACK_TIMEOUT_NS: Final = S
"""Replaces the five attempts of Aeron's agent: a module that is gone takes no ack."""

UNREADABLE_STATE: Final = -2
"""In the first ack: the state in the snapshot is damaged (`DecodeError`). Any other failure is -1."""

_RECOVERY_HEAD: Final = struct.Struct("<qqqii")
_CLUSTER_ID_OFFSET: Final = 24


class ServiceContainer:
    """One service of one member. Implements `ports.Agent`.

    `do_work` raises `TerminationError` when the container has ended by itself: the module requested it, the module is
    gone, or a failure cannot be recovered from. Other errors go to `errors`.
    """

    def __init__(
        self,
        media: Media,
        counters: Counters,
        service: ClusteredService,
        settings: ClusterSettings,
        *,
        service_id: int = 0,
        tracer: Tracer,
        errors: ErrorSink,
        is_responding: bool = True,
        control_channel: str = SERVICE_CONTROL_CHANNEL,
    ) -> None:
        if not 0 <= service_id < settings.service_count:
            raise UsageError(f"service id {service_id}, but the member runs {settings.service_count} services")
        self.service_id = service_id
        self.client_id = media.next_correlation_id()
        self._media = media
        self._counters = counters
        self.service = service
        self._has_background_work = type(service).do_background_work is not ClusteredService.do_background_work
        self._settings = settings
        self._tracer = tracer
        self._errors = errors
        self._raised = RaisedExceptions(tracer, service_id)
        self._error_count = counters.allocate(
            counter_types.CONTAINER_ERRORS,
            counter_types.cluster_key(settings.cluster_id, service_id),
            counter_types.cluster_label("Cluster Container Errors", settings.cluster_id, service_id),
        )
        self._durations = SnapshotDurations(
            counters, settings.cluster_id, settings.snapshot_duration_threshold_ns, service_id=service_id
        )
        self.bell: Bell | None = None
        self._now = NOT_YET
        initial = ContainerState.AWAIT_COMMIT_COUNTER
        self._states = StateMachine("service container", initial, LEGAL_MOVES, self._on_move)
        self._log_states = StateMachine("log of the service", LogState.NONE, LEGAL_LOG_MOVES, self._on_log_move)
        self._commit: Counter | None = None
        self._check_deadline_ns = 0
        self._next_ack_id = 0
        self._start_error: Exception | None = None
        self._pending_join: cm.JoinLog | None = None
        self._joining: cm.JoinLog | None = None
        self._log_subscription: Subscription | None = None
        self._termination: cm.ServiceTerminationPosition | None = None
        self._termination_deadline_ns = NEVER_NS
        self._requested_ack_position: int | None = None
        self._owes_ack = False
        self._store = SnapshotStore(media, counters, settings, service_id)
        self._loading: Steps[ServiceSnapshot] | None = None
        self._module = ModuleProxy(media.add_publication(control_channel, MODULE_STREAM_ID), service_id)
        self._control = media.add_subscription(control_channel, SERVICE_STREAM_ID)
        self.view = ClusterView(self._module)
        self._entries = EntryApplier(
            SharedPublications(media, is_response_channel),
            service,
            self.view,
            app_version=settings.app_version,
            is_responding=is_responding,
            on_snapshot=self._on_snapshot,
            report=self._report,
        )
        self._log = LogConsumer(service, self.view, self._entries.apply, self._on_delivery_error)
        self._snapshot = SnapshotTaker(
            service, self.view, self._store, settings, self._report_snapshot, self._on_raised
        )

    @property
    def state(self) -> ContainerState:
        """The state of the container, see `states`."""
        return self._states.current

    @property
    def log_state(self) -> LogState:
        """The state of the log that the module named in JoinLog, see `states`."""
        return self._log_states.current

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Run one duty cycle. A broken message of the module is reported and skipped."""
        self._now = now
        try:
            return self._work()
        except PeerError as error:
            self._report("module", str(error))
            return 1
        except TerminationError:
            self.close()
            raise

    def _work(self) -> int:
        match self._states.current:
            case ContainerState.AWAIT_COMMIT_COUNTER:
                return self._await_commit_counter()
            case ContainerState.AWAIT_RECOVERY_STATE:
                return self._await_recovery_state()
            case ContainerState.AWAIT_SNAPSHOT:
                return self._await_snapshot()
            case ContainerState.AWAIT_START_ACK:
                return self._await_start_ack()
            case ContainerState.ACTIVE:
                return self._run()
            case ContainerState.TERMINATING:
                return self._terminate()
            case ContainerState.CLOSED:
                return 0
            case _ as unreachable:
                assert_never(unreachable)

    def next_deadline_ns(self) -> int:
        """The time of a retry while anything waits for transport or archive, else of the next check of the module."""
        if self._states.current is ContainerState.CLOSED:
            return NEVER_NS
        is_waiting = self._loading is not None or self._snapshot.is_active or self._module.has_backlog
        is_waiting |= self._owes_ack or bool(self.view.backlog) or self._has_background_work
        if is_waiting or self._states.current is ContainerState.TERMINATING:
            return self._now.ns + RETRY_INTERVAL_NS
        return self._check_deadline_ns

    def close(self) -> None:
        """End without a request of the module. A started service still gets `on_terminate`."""
        if self._states.current is ContainerState.CLOSED:
            return
        was_active = self._states.current is ContainerState.ACTIVE
        self._states.enter(ContainerState.CLOSED)
        if was_active:
            self._call_on_terminate()
        self._leave_log()
        for session in self.view.sessions.values():
            session.disconnect()
        if self._loading is not None:
            self._loading.close()
        self._snapshot.close()
        self._store.close()
        self._control.close()
        self._module.close()
        self._error_count.close()
        self._durations.close()

    # --- start ---

    def _await_commit_counter(self) -> int:
        self._check_deadline_ns = self._now.ns + COUNTER_CHECK_INTERVAL_NS
        key = counter_types.cluster_key(self._settings.cluster_id)
        self._commit = self._counters.find(counter_types.COMMIT_POSITION, key)
        if self._commit is None:
            return 0
        self._states.enter(ContainerState.AWAIT_RECOVERY_STATE)
        return 1

    def _await_recovery_state(self) -> int:
        self._check_deadline_ns = self._now.ns + COUNTER_CHECK_INTERVAL_NS
        self._check_module_lives()
        key = self._find_recovery_key()
        if key is None:
            return 0
        term_id, log_position, timestamp, _, count = _RECOVERY_HEAD.unpack_from(key)
        view = self.view
        view.log_position, view.time, view.leadership_term_id = log_position, timestamp, term_id
        if term_id == NULL_VALUE:
            self._start(None)
        elif self.service_id >= count:
            self._start_error = UsageError(f"there are {count} snapshots of services, and none of this one")
            self._owe_start_ack()
        else:
            (recording_id,) = struct.unpack_from("<q", key, _RECOVERY_HEAD.size + 8 * self.service_id)
            self._loading = Steps(self._store.read(recording_id))
            self._states.enter(ContainerState.AWAIT_SNAPSHOT)
        return 1

    def _await_snapshot(self) -> int:
        loading = self._loading
        assert loading is not None
        work = self._store.do_work(self._now)
        try:
            if not loading.poll(self._now):
                return work
            self._load(loading.result)
        except NodeError as error:
            self._start_error = error
            self._owe_start_ack()
        else:
            self._start(StateReader(loading.result.state))
        return work + 1

    def _load(self, snapshot: ServiceSnapshot) -> None:
        """Restore the sessions of a snapshot, unconnected. A JoinLog as leader connects them."""
        view = self.view
        if not versions_are_compatible(self._settings.app_version, snapshot.app_version):
            own = self._settings.app_version
            raise UsageError(f"application version {own:#08x} cannot start from {snapshot.app_version:#08x}")
        # Position 0 has no snapshot of its own: an operator started a new log from the state of another.
        if view.log_position not in (0, snapshot.log_position):
            raise PeerError(f"the snapshot was taken at {snapshot.log_position}, not at {view.log_position}")
        view.time_unit = snapshot.time_unit
        for session in snapshot.sessions:
            view.sessions[session.id] = ContainerSession(
                view, session.id, session.response_stream_id, session.response_channel, session.encoded_principal
            )

    def _start(self, image: StateReader | None) -> None:
        try:
            with self.view.during("on_start"):
                self.service.on_start(self.view, image)
        except Exception as error:  # noqa: BLE001 - the module learns that the service could not start
            self._start_error = error
            if not isinstance(error, DecodeError | TerminationError | StorageError):
                self._on_raised(error)
        self._owe_start_ack()

    def _owe_start_ack(self) -> None:
        self._states.enter(ContainerState.AWAIT_START_ACK)
        self._owes_ack = True

    def _find_recovery_key(self) -> bytes | None:
        keys: list[bytes] = []
        cluster_id = self._settings.cluster_id

        def visit(_counter: Counter, type_id: int, key: bytes, _label: str) -> None:
            if (
                type_id == counter_types.RECOVERY_STATE
                and struct.unpack_from("<i", key, _CLUSTER_ID_OFFSET)[0] == cluster_id
            ):
                keys.append(key)

        self._counters.for_each(visit)
        return keys[0] if keys else None

    def _await_start_ack(self) -> int:
        if self._start_error is not None:
            return self._fail_start(self._start_error)
        if not self._send_ack(self.view.log_position, self.client_id):
            return 0
        self._check_deadline_ns = self._now.ns + LIVENESS_CHECK_INTERVAL_NS
        self._loading = None
        self._states.enter(ContainerState.ACTIVE)
        return 1

    def _fail_start(self, error: Exception) -> int:
        is_damaged = self._loading is not None and isinstance(error, DecodeError)
        if self._owes_ack:
            if not self._send_ack(self.view.log_position, UNREADABLE_STATE if is_damaged else NULL_VALUE):
                return 0
            self._termination_deadline_ns = self._now.ns + TERMINATION_ACK_TIMEOUT_NS
        if is_damaged and self._now.ns < self._termination_deadline_ns:
            # The module must get the ack before the member ends, or the next start would fail as well.
            self._check_deadline_ns = self._termination_deadline_ns
            return 0
        text = f"service {self.service_id} failed to start: {_text(error)}"
        raise TerminationError(text, expected=False) from error

    # --- active ---

    def _run(self) -> int:
        if self._now.ns >= self._check_deadline_ns:
            self._check_deadline_ns = self._now.ns + LIVENESS_CHECK_INTERVAL_NS
            self._check_module_lives()
        work = self._control.poll(self._on_control, 1) + self._act_on_control()
        if self._states.current is not ContainerState.ACTIVE:
            return work + 1
        if self._snapshot.is_active:
            work += self._continue_snapshot()
        elif self._log_states.current is LogState.READING:
            work += self._read_log()
        elif self._log_states.current is not LogState.NONE:
            work += self._continue_join()
        if self._module.has_backlog:
            work += self._module.flush()
        if self.view.backlog:
            work += sum(session.flush() for session in list(self.view.backlog.values()))
        return work + self._call_background_work()

    def _on_control(self, message: Message) -> None:
        decoded = cm.SCHEMA.decode(message.payload)
        match decoded:
            case cm.JoinLog():
                self._log.max_log_position = decoded.log_position
                self._pending_join = decoded
            case cm.ServiceTerminationPosition():
                self._termination = decoded
            case cm.RequestServiceAck():
                self._requested_ack_position = decoded.log_position
            case _:
                # Answers to the membership queries of tools share the stream.
                return

    def _act_on_control(self) -> int:
        """Act on the module's messages in Aeron's order: join, terminate, acknowledge."""
        if self._pending_join is None and self._termination is None and self._requested_ack_position is None:
            return 0
        if self._snapshot.is_active and self._termination is None:
            # Acks are numbered, so the ack of the snapshot comes first.
            return 0
        work = 0
        if self._pending_join is not None and self._log_states.current in (LogState.NONE, LogState.AWAIT_IMAGE):
            self._start_join(self._pending_join)
            self._pending_join = None
            work += 1
        if self._termination is not None and self._has_reached(self._termination.log_position):
            self._begin_termination()
            return work + 1
        if self._requested_ack_position is not None and self._has_reached(self._requested_ack_position):
            work += self._answer_ack_request(self._requested_ack_position)
        return work

    def _has_reached(self, position: int) -> bool:
        # Padding is not an entry: a position after padding is reached by consuming the padding.
        log = self._log
        if self.view.log_position < position and log.is_attached and log.position == position:
            self.view.log_position = position
        return self.view.log_position >= position

    def _answer_ack_request(self, position: int) -> int:
        if self.view.log_position > position:
            self._report("module", f"ack requested at {position}, the service is at {self.view.log_position}")
        if not self._send_ack(self.view.log_position, NULL_VALUE):
            return 0
        self._requested_ack_position = None
        return 1

    # --- the log ---

    def _start_join(self, join: cm.JoinLog) -> None:
        """Join a log. A join that still awaits its image is abandoned: its module does not wait for the ack."""
        if self._log_states.current is LogState.AWAIT_IMAGE:
            self._leave_log()
        if join.role != ClusterRole.LEADER:
            self._disconnect_egress()
        if join.log_position != self.view.log_position:
            raise self._broken_join(join, f"it joins at {join.log_position}")
        self._entries.is_standby = join.is_standby
        self._joining = join
        channel = str(Channel.parse(join.log_channel).with_(alias=f"log-service-{self.service_id}"))
        self._log_subscription = self._media.add_subscription(channel, join.log_stream_id)
        self._log_states.enter(LogState.AWAIT_IMAGE)
        self._continue_join()

    def _continue_join(self) -> int:
        join = self._joining
        assert join is not None
        assert self._log_subscription is not None
        if self._log_states.current is LogState.AWAIT_IMAGE:
            image = self._log_subscription.image(join.log_session_id)
            if image is None:
                return 0
            self._attach(join, image)
        if not self._send_ack(join.log_position, NULL_VALUE):
            return 1
        self._finish_join(join)
        return 1

    def _attach(self, join: cm.JoinLog, image: Image) -> None:
        if image.join_position != self.view.log_position:
            raise self._broken_join(join, f"its image begins at {image.join_position}")
        self._log.attach(image, join.max_log_position)
        self._module.longest_offer = longest_offer(image.term_length)
        self._owes_ack = True
        self._log_states.enter(LogState.AWAIT_JOIN_ACK)

    def _broken_join(self, join: cm.JoinLog, what: str) -> TerminationError:
        text = f"log must be contiguous: {what}, the service is at {self.view.log_position} ({join.log_channel})"
        return TerminationError(text, expected=False)

    def _finish_join(self, join: cm.JoinLog) -> None:
        self._joining = None
        self._log_states.enter(LogState.READING)
        self.view.member_id = join.member_id
        if join.role == ClusterRole.LEADER:
            for session in self.view.sessions.values():
                if not join.is_startup:
                    self._entries.connect(session)
                session.is_closing = False
        self._change_role(ClusterRole.LEADER if join.role == ClusterRole.LEADER else ClusterRole.FOLLOWER)

    def _read_log(self) -> int:
        assert self._commit is not None
        frames = self._log.poll(self._commit.get())
        if frames == 0 and self._log.is_done:
            self._close_log()
            return 1
        return frames

    def _close_log(self) -> None:
        self.view.log_position = max(self.view.log_position, self._log.position)
        self._leave_log()
        self._disconnect_egress()
        self._change_role(ClusterRole.FOLLOWER)

    def _leave_log(self) -> None:
        self._joining = None
        self._owes_ack = False
        self._log.detach()
        if self._log_subscription is not None:
            self._log_subscription.close()
            self._log_subscription = None
        if self._log_states.current is not LogState.NONE:
            self._log_states.enter(LogState.NONE)

    def _disconnect_egress(self) -> None:
        for session in self.view.sessions.values():
            session.disconnect()

    def _change_role(self, role: ClusterRole) -> None:
        view = self.view
        if view.role is role:
            return
        view.role = role
        self._tracer.emit(self._now, TraceKind.SERVICE_ROLE, service_id=self.service_id, role=role.name)
        try:
            with view.during("on_role_change"):
                self.service.on_role_change(role)
        except Exception as error:  # noqa: BLE001 - the service's failure is reported
            self._on_raised(error)

    def _on_snapshot(self, entry: cm.ClusterActionRequest) -> None:
        """Begin a snapshot. No further entry is delivered until it is recorded and acknowledged."""
        self._log.is_held = True
        self._durations.begin(self._now)
        self._snapshot.begin(entry)

    def _continue_snapshot(self) -> int:
        snapshot = self._snapshot
        work = snapshot.do_work(self._now)
        taken = snapshot.taken
        if taken is None or not self._send_ack(taken.log_position, taken.recording_id):
            return work
        snapshot.taken = None
        self._durations.end(self._now)
        self._log.is_held = False
        return work + 1

    def _report_snapshot(self, what: str, error: Exception) -> None:
        self._report("snapshot", f"{what}: {_text(error)}")

    def _on_delivery_error(self, error: Exception) -> None:
        """Report a failed delivery. The entry counts as delivered: the same happens on every member."""
        if isinstance(error, TerminationError | StorageError):
            raise error
        if isinstance(error, PeerError) and not is_of_service(error):
            self._report("log", f"entry ending at {self.view.log_position}: {_text(error)}")
        else:
            self._on_raised(error)

    def _on_raised(self, error: Exception) -> None:
        """Report an exception of a callback. A failed `assert` is raised again, and ends the member."""
        if not isinstance(error, AssertionError) or is_of_service(error):
            self._report("service", self._raised.trace(self._now, self.view.log_position, error))
        if isinstance(error, AssertionError):
            raise error

    # --- end ---

    def _begin_termination(self) -> None:
        assert self._termination is not None
        self._termination_deadline_ns = self._now.ns + TERMINATION_ACK_TIMEOUT_NS
        self._states.enter(ContainerState.TERMINATING)
        self._call_on_terminate()
        self._terminate()

    def _terminate(self) -> int:
        termination = self._termination
        assert termination is not None
        is_done = not termination.ack_required or self._send_ack(self.view.log_position, NULL_VALUE)
        if not is_done and self._now.ns < self._termination_deadline_ns:
            return 0
        expected = self.view.log_position == termination.log_position
        text = f"ordered to terminate at {termination.log_position}, the service is at {self.view.log_position}"
        if not expected:
            self._report("module", text)
        raise TerminationError(text, expected=expected)

    def _check_module_lives(self) -> None:
        if self._commit is not None and self._commit.is_closed:
            raise TerminationError("the commit counter is gone: the consensus module has ended", expected=True)
        if self._media.is_closed:
            raise TerminationError("the media driver is gone", expected=False)

    # --- helpers ---

    def _send_ack(self, log_position: int, relevant_id: int) -> bool:
        self._owes_ack = not self._module.ack(
            log_position=log_position, timestamp=self.view.time, ack_id=self._next_ack_id, relevant_id=relevant_id
        )
        if self._owes_ack:
            return False
        self._tracer.emit(
            self._now,
            TraceKind.SERVICE_ACK,
            service_id=self.service_id,
            ack_id=self._next_ack_id,
            log_position=log_position,
            relevant_id=relevant_id,
        )
        self._next_ack_id += 1
        return True

    def _call_on_terminate(self) -> None:
        position = self.view.log_position
        self._tracer.emit(self._now, TraceKind.SERVICE_TERMINATE, service_id=self.service_id, log_position=position)
        try:
            with self.view.during("on_terminate"):
                self.service.on_terminate(self.view)
        except Exception as error:  # noqa: BLE001 - the container ends anyway
            with suppress(AssertionError):
                self._on_raised(error)

    def _call_background_work(self) -> int:
        view = self.view
        view.callback = "do_background_work"
        try:
            return self.service.do_background_work(self._now.ns)
        except Exception as error:  # noqa: BLE001 - the service's failure is reported
            self._on_raised(error)
            return 0
        finally:
            view.callback = None

    def _report(self, kind: str, text: str) -> None:
        self._error_count.increment()
        self._errors.report(self._now, f"service-{self.service_id}-{kind}", text)

    def _on_move(self, old: ContainerState, new: ContainerState) -> None:
        self._tracer.emit(self._now, TraceKind.SERVICE_STATE, service_id=self.service_id, old=old.name, new=new.name)

    def _on_log_move(self, old: LogState, new: LogState) -> None:
        self._tracer.emit(
            self._now,
            TraceKind.SERVICE_LOG,
            service_id=self.service_id,
            old=old.name,
            new=new.name,
            log_position=self.view.log_position,
        )


def _text(error: Exception) -> str:
    name = "" if isinstance(error, NodeError) else f"{type(error).__name__}: "
    return f"{name}{error}"
