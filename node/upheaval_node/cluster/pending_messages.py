"""Messages of a service to the log, from the service's offer until the log contains them.

Every member runs the same services, which offer the same messages in the same order, and numbers the messages alike.
The leader appends its messages; the others keep theirs until they read the number in the log. So each message gets into
the log once, whichever member leads. Source: Aeron Cluster, pending service messages. Knows no streams.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.errors import DecodeError, TerminationError
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import LENGTH, pack_session_header
from upheaval_node.types import MAX_POSITION, TermId

MESSAGES_PER_POLL: Final = 20
MAX_PENDING_LENGTH: Final = 64 * 1024 * 1024
"""The most bytes of one service that may be pending."""

CAPACITY: Final = 4096
"""The size of the buffer in a snapshot. The actual buffer grows."""

NOT_APPENDED: Final = MAX_POSITION
_SERVICE_SHIFT: Final = 56


def first_message_id(service_id: int) -> int:
    """The number before a service's first message: negative, with the service id in bits 56 to 62."""
    return -(1 << 63) + (service_id << _SERVICE_SHIFT)


def service_of(message_id: int) -> int:
    """The service that sent a log message with this negative id (Aeron Cluster: service messages)."""
    return message_id >> _SERVICE_SHIFT & 0x7F


@dataclass(slots=True, eq=False)
class _Pending:
    id: int
    payload: bytes
    position: int = NOT_APPENDED


class PendingMessages:
    """The pending messages of one service. `log_id` is the number of the last message known to be committed."""

    def __init__(self, service_id: int) -> None:
        self.service_id = service_id
        self.log_id = first_message_id(service_id)
        self.next_id = self.log_id + 1
        self._messages: deque[_Pending] = deque()
        self._appended = 0
        self._length = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def has_unsent(self) -> bool:
        """Whether a leader still has to append a message."""
        return self._appended < len(self._messages)

    def enqueue(self, payload: Buffer) -> None:
        """Take the next message of the service. A message that is already in the log is dropped.

        Raises `TerminationError` when too many bytes are pending: a member that left messages out would number the rest
        differently.
        """
        message_id = self.next_id
        self.next_id += 1
        if message_id <= self.log_id:
            return
        self._length += len(payload)
        if self._length > MAX_PENDING_LENGTH:
            text = f"service {self.service_id} has {self._length} bytes on their way into the log"
            raise TerminationError(text, expected=False)
        self._messages.append(_Pending(message_id, bytes(payload)))

    def append(self, log: LogPublisher, term_id: TermId, timestamp: int) -> int:
        """Append messages to the leader's log, as far as it takes them. Returns their number.

        Raises `TerminationError` for a message that no log of this term length takes. A container refuses it in
        `offer`, so it came from another program, or from a snapshot of a log with longer terms.
        """
        count = 0
        while count < MESSAGES_PER_POLL and self.has_unsent:
            message = self._messages[self._appended]
            if LENGTH + len(message.payload) > log.max_message_length:
                length = len(message.payload)
                text = f"a message of {length} bytes of service {self.service_id} does not fit into the log"
                raise TerminationError(text, expected=False)
            position = log.append_service_message(term_id, message.id, timestamp, message.payload)
            if position <= 0:
                break
            message.position = position
            self._appended += 1
            count += 1
        return count

    def on_committed(self, position: int) -> None:
        """Drop the messages that the leader's log has committed, up to `position`."""
        messages = self._messages
        while messages and messages[0].position <= position:
            self.log_id = messages[0].id
            self._drop_first()
            self._appended -= 1

    def on_log_message(self, message_id: int) -> None:
        """Drop messages up to this one: it was read from another leader's log, or in a replay."""
        self.log_id = message_id
        while self._messages and self._messages[0].id <= message_id:
            if self._messages[0].position != NOT_APPENDED:
                self._appended -= 1
            self._drop_first()

    def restore(self, commit_position: int) -> None:
        """Prepare for an election: the next leader appends the uncommitted messages again."""
        self.on_committed(commit_position)
        for message in self._messages:
            message.position = NOT_APPENDED
        self._appended = 0

    # --- snapshots ---

    def record(self) -> cm.PendingMessageTracker:
        """The PendingMessageTracker of a snapshot."""
        return cm.PendingMessageTracker(
            next_service_session_id=self.next_id if self._messages else self.log_id + 1,
            log_service_session_id=self.log_id,
            pending_message_capacity=CAPACITY,
            service_id=self.service_id,
        )

    @property
    def lags(self) -> bool:
        """Whether the service has offered fewer messages than the log has of it.

        Such a service does not do the same on every member.
        """
        return not self._messages and self.log_id + 1 > self.next_id

    def encoded_messages(self) -> list[bytes]:
        """The messages as encoded in a snapshot, all marked as not appended."""
        return [pack_session_header(0, message.id, NOT_APPENDED) + message.payload for message in self._messages]

    def load(self, record: cm.PendingMessageTracker, messages: list[bytes]) -> None:
        """Restore the messages of a snapshot. Raises `DecodeError` when their numbers are not consecutive."""
        self.next_id = record.next_service_session_id
        self.log_id = record.log_service_session_id
        self._messages = deque(
            _Pending(int.from_bytes(message[16:24], "little", signed=True), message[LENGTH:]) for message in messages
        )
        self._length = sum(len(message.payload) for message in self._messages)
        self._appended = 0
        expected = list(range(self.log_id + 1, self.log_id + 1 + len(messages)))
        if [message.id for message in self._messages] != expected or self.next_id != self.log_id + 1 + len(messages):
            raise DecodeError(f"messages of service {self.service_id} in the snapshot: {record} with {len(messages)}")

    def _drop_first(self) -> None:
        self._length -= len(self._messages.popleft().payload)
