"""Messages of a consensus module to its services and back (streams 104 and 105 of the control channel).

Each send makes one attempt and returns whether the transport took the message. Knows nothing of why a message is sent.
"""

from collections.abc import Callable
from typing import Final, Protocol

from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.errors import DecodeError, TerminationError
from upheaval_node.media import api
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import LOG_STREAM_ID, MODULE_STREAM_ID, SERVICE_CONTROL_CHANNEL, SERVICE_STREAM_ID
from upheaval_node.protocol.message import Message
from upheaval_node.steps import StepGenerator
from upheaval_node.types import MAX_POSITION, NOT_YET, Now, Position, S

FRAGMENT_LIMIT: Final = 25


SETTLE_TIMEOUT_NS: Final = 10 * S
"""A service that has not joined a log this many nanoseconds after the module abandoned that log counts as dead."""


class ServiceProxy:
    """The sending side, and the wait for the services to join a log.

    At most one JoinLog is in flight. An abandoned JoinLog must be answered before the next is sent, because their acks
    could not be distinguished. Until then its stream must stay open.
    """

    def __init__(self, context: ModuleContext, acks: ServiceAcks, *, is_standby: bool = False) -> None:
        self._context = context
        self._acks = acks
        self._is_standby = is_standby
        self._has_services = context.settings.service_count > 0
        self._joining_at: int | None = None
        self._publication = context.media.add_publication(SERVICE_CONTROL_CHANNEL, SERVICE_STREAM_ID)

    @property
    def joining_at(self) -> int | None:
        """The start of the log that not all services have joined yet, None without such a log."""
        return self._joining_at

    @property
    def is_joining(self) -> bool:
        """Whether a JoinLog is in flight that not all services have answered."""
        return self._joining_at is not None

    def join_log(
        self,
        *,
        log_position: Position,
        session_id: int,
        channel: str,
        is_startup: bool,
        role: int,
        max_log_position: Position = MAX_POSITION,
        stream_id: int = LOG_STREAM_ID,
    ) -> StepGenerator[None]:
        """Have the services join a log. The steps end when all services have joined."""
        if not self._has_services:
            return
        assert self._joining_at is None, self._joining_at
        message = cm.JoinLog(
            log_position=log_position,
            max_log_position=max_log_position,
            member_id=self._context.member_id,
            log_session_id=session_id,
            log_stream_id=stream_id,
            is_startup=is_startup,
            role=role,
            is_standby=self._is_standby,
            log_channel=channel,
        )
        while not self.send(message):
            yield
        self._joining_at = log_position
        while not self._acks.has_reached(log_position):
            yield
        self._joined()

    def settle(self, now: Now) -> StepGenerator[None]:
        """Wait for the answers to an abandoned JoinLog. Raises `TerminationError` when they do not come in time."""
        deadline_ns = now.ns + SETTLE_TIMEOUT_NS
        while self._joining_at is not None:
            if self._acks.has_reached(self._joining_at):
                self._joined()
            elif now.ns >= deadline_ns:
                raise TerminationError("the services did not join the log", expected=False)
            else:
                now = yield

    def send(self, message: Message) -> bool:
        """Make one attempt to send. Returns False when the transport did not take the message."""
        return self._publication.offer(cm.SCHEMA.encode(message)) > 0

    def close(self) -> None:
        """Close the stream to the services."""
        self._publication.close()

    def _joined(self) -> None:
        self._acks.take()
        self._joining_at = None


class ServiceHandler(Protocol):
    """Takes the messages of services and tools. Raises `NodeError` for failures."""

    def on_service_message(self, now: Now, header: cm.SessionMessageHeader, payload: Buffer) -> None:
        """A service offers a message to the log; the header names the service."""

    def on_close_session(self, now: Now, message: cm.CloseSession) -> None:
        """A service asks to close a session."""

    def on_schedule_timer(self, now: Now, message: cm.ScheduleTimer) -> None:
        """A service asks for a timer."""

    def on_cancel_timer(self, now: Now, message: cm.CancelTimer) -> None:
        """A service cancels a timer."""

    def on_cluster_members_query(self, now: Now, message: cm.ClusterMembersQuery) -> None:
        """A tool asks who the members are."""


class ServiceAdapter:
    """The receiving side. `on_ack` gets each ack after it was counted."""

    def __init__(
        self,
        context: ModuleContext,
        handler: ServiceHandler,
        acks: ServiceAcks,
        on_ack: Callable[[Now, cm.ServiceAck], None],
    ) -> None:
        self._context = context
        self._handler = handler
        self._acks = acks
        self._on_ack = on_ack
        self._now = NOT_YET
        self._subscription = context.media.add_subscription(SERVICE_CONTROL_CHANNEL, MODULE_STREAM_ID)
        # Handler and key have matching types on each line, which the type of a dict cannot express.
        self._handlers: dict[type[Message], Callable[..., None]] = {
            cm.CloseSession: handler.on_close_session,
            cm.ScheduleTimer: handler.on_schedule_timer,
            cm.CancelTimer: handler.on_cancel_timer,
            cm.ServiceAck: self._on_service_ack,
            cm.ClusterMembersQuery: handler.on_cluster_members_query,
        }

    def poll(self, now: Now) -> int:
        """Handle the messages that arrived. Lets errors of a handler through."""
        self._now = now
        return self._subscription.poll(self._on_message, FRAGMENT_LIMIT)

    def close(self) -> None:
        """Close the stream from the services."""
        self._subscription.close()

    def _on_service_ack(self, now: Now, ack: cm.ServiceAck) -> None:
        self._acks.on_ack(ack)
        self._on_ack(now, ack)

    def _on_message(self, received: api.Message) -> None:
        try:
            decoded = cm.SCHEMA.decode_with_end(received.payload)
        except DecodeError as error:
            self._context.report(self._now, "service message", str(error))
            received.image.reject(str(error))
            return
        if decoded is None:
            return
        message, end = decoded
        if isinstance(message, cm.SessionMessageHeader):
            self._handler.on_service_message(self._now, message, received.payload[end:])
            return
        handle = self._handlers.get(type(message))
        if handle is not None:
            handle(self._now, message)
