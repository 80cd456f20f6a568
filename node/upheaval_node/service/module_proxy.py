"""Messages of a service container to its consensus module (stream 105 of the control channel).

An ack makes one attempt, the request to close a session up to three. The state of a service depends on its timers and
its messages for the log, which must not get lost on one member alone. So they are kept when the transport does not take
them, and sent in order before any later timer, message or ack.
"""

from collections import deque
from typing import Final

from upheaval_node.errors import TerminationError, UsageError
from upheaval_node.media.api import BACK_PRESSURED, Publication
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import TERM_LENGTH, Channel
from upheaval_node.protocol.constants import SERVICE_CONTROL_CHANNEL
from upheaval_node.protocol.frames import max_message_length
from upheaval_node.protocol.session_header import LENGTH, pack_session_header
from upheaval_node.types import Position, SessionId

SEND_ATTEMPTS: Final = 3

MAX_QUEUED_LENGTH: Final = 16 * 1024 * 1024
"""The most bytes by which a service may be ahead of its module."""

_CONTROL_TERM_LENGTH: Final = Channel.parse(SERVICE_CONTROL_CHANNEL).get_size(TERM_LENGTH) or 0


def longest_offer(log_term_length: int) -> int:
    """The longest message in bytes that a service may offer to a log with terms of that length.

    It must fit into the control stream and into the log, whose terms are equally long on every member.
    """
    return max_message_length(min(log_term_length, _CONTROL_TERM_LENGTH)) - LENGTH


class ModuleProxy:
    """The publication to the module, and the queue of messages that it has not taken."""

    def __init__(self, publication: Publication, service_id: int) -> None:
        self._publication = publication
        self._service_id = service_id
        self._queue: deque[bytes] = deque()
        self._queued_length = 0
        self.longest_offer = longest_offer(_CONTROL_TERM_LENGTH)
        """Set for the log that is joined."""

    @property
    def has_backlog(self) -> bool:
        """Whether messages wait in the queue."""
        return bool(self._queue)

    def flush(self) -> int:
        """Send queued messages, as far as the transport takes them. Returns their number."""
        sent = 0
        while self._queue and self._publication.offer(self._queue[0]) > 0:
            self._queued_length -= len(self._queue.popleft())
            sent += 1
        return sent

    def ack(self, *, log_position: int, timestamp: int, ack_id: int, relevant_id: int) -> bool:
        """Send a ServiceAck: the service is at `log_position`, and all its earlier timers and messages were sent.

        Returns False when the transport did not take it.
        """
        message = cm.ServiceAck(
            log_position=Position(log_position),
            timestamp=timestamp,
            ack_id=ack_id,
            relevant_id=relevant_id,
            service_id=self._service_id,
        )
        self.flush()
        return not self._queue and self._publication.offer(cm.SCHEMA.encode(message)) > 0

    def close_session(self, session_id: int) -> bool:
        """Send a CloseSession, in up to three attempts. Returns False when the transport took none of them."""
        encoded = cm.SCHEMA.encode(cm.CloseSession(cluster_session_id=SessionId(session_id)))
        return any(self._publication.offer(encoded) > 0 for _ in range(SEND_ATTEMPTS))

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Send a ScheduleTimer, now or later. Raises `UsageError` without a module."""
        message = cm.ScheduleTimer(correlation_id=correlation_id, deadline=deadline)
        return self._send(cm.SCHEMA.encode(message)) > 0

    def cancel_timer(self, correlation_id: int) -> bool:
        """Send a CancelTimer, now or later. Raises `UsageError` without a module."""
        return self._send(cm.SCHEMA.encode(cm.CancelTimer(correlation_id=correlation_id))) > 0

    def offer(self, leadership_term_id: int, timestamp: int, parts: tuple[Buffer, ...]) -> int:
        """Send a message for the log. Its session id field carries the service id (Aeron Cluster: service messages).

        Raises `UsageError` without a module and for a message that is too long.
        """
        message = b"".join((pack_session_header(leadership_term_id, self._service_id, timestamp), *parts))
        length = len(message) - LENGTH
        if length > self.longest_offer:
            raise UsageError(f"message of {length} bytes for the log, limit is {self.longest_offer}")
        return self._send(message)

    def close(self) -> None:
        """Close the publication and drop the queue."""
        self._publication.close()

    def _send(self, message: bytes) -> int:
        """Send or queue a message. Returns a positive position.

        Raises `UsageError` without a module, `TerminationError` when the queue is too long.
        """
        result = BACK_PRESSURED if self._queue else self._publication.offer(message)
        if result < 0 and result != BACK_PRESSURED:
            raise UsageError(f"the consensus module takes no messages from this service (result {result})")
        if result > 0:
            return result
        self._queued_length += len(message)
        if self._queued_length > MAX_QUEUED_LENGTH:
            text = f"service {self._service_id} is {self._queued_length} bytes ahead of its consensus module"
            raise TerminationError(text, expected=False)
        self._queue.append(message)
        return self._publication.position + self._queued_length
