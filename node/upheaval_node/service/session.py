"""The client sessions of one service: the service's view of a client, and its egress publication on the leader.

Knows nothing of the log. The response channel comes from a client, so it is hostile: an unusable channel leaves the
session without a connection.
"""

from collections import deque
from typing import Final, Never, Protocol

from upheaval_node.errors import NodeError
from upheaval_node.media.api import BACK_PRESSURED, CLOSED, MAX_POSITION_EXCEEDED, NOT_CONNECTED
from upheaval_node.media.shared_publications import SharedPublication, SharedPublications
from upheaval_node.ports import Buffer
from upheaval_node.protocol.channel import client_channel
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.api import MOCKED_OFFER, ClusterRole
from upheaval_node.types import SessionId

MAX_QUEUED_LENGTH: Final = 4 * 1024 * 1024
"""The most bytes of queued responses of one session, more than the longest message."""

MAX_BACKLOG_LENGTH: Final = 64 * 1024 * 1024
"""The most bytes of queued responses of all sessions of a service. One client may have any number of sessions."""

QUEUED_LENGTH_OF_EACH: Final = 64 * 1024
"""The bytes that every session may queue, no matter how much the others have queued."""

MAX_FLUSHED: Final = 256
"""The most queued messages of one session that are sent in one duty cycle."""

# Needed for every response, and compiled code looks up enumeration members by name each time.
_LEADER: Final = ClusterRole.LEADER


class SessionHost(Protocol):
    """The state of the container, at the entry being delivered, that a session reads and updates.

    `callback` names the running life-cycle callback, which must not send anything. `backlog` has the sessions with
    queued responses by id, and `backlog_length` the bytes of these responses. `time` is the time of the entry, in the
    cluster's unit.
    """

    callback: str | None
    role: ClusterRole
    leadership_term_id: int
    time: int
    dropped_responses: int
    backlog_length: int
    backlog: "dict[int, ContainerSession]"

    def refuse_in_callback(self, what: str) -> Never:
        """Raises `UsageError`."""

    def close_client_session(self, session_id: int) -> bool:
        """Ask for the end of a session. Returns whether the request was taken."""


class ContainerSession:
    """Implements `api.ClientSession`."""

    __slots__ = (
        "_header",
        "_header_key",
        "_publication",
        "_queue",
        "_queued_length",
        "_view",
        "encoded_principal",
        "id",
        "is_closing",
        "response_channel",
        "response_stream_id",
    )

    def __init__(
        self,
        view: SessionHost,
        session_id: SessionId,
        response_stream_id: int,
        response_channel: str,
        encoded_principal: bytes,
    ) -> None:
        self.id = session_id
        self.response_stream_id = response_stream_id
        self.response_channel = response_channel
        self.encoded_principal = encoded_principal
        self.is_closing = False
        self._view = view
        self._publication: SharedPublication | None = None
        self._header = b""
        self._header_key = (0, 0)
        self._queue: deque[bytes] = deque()
        self._queued_length = 0

    def offer(self, *parts: Buffer) -> int:
        """Send a message. Returns BACK_PRESSURED also while responses are queued, which it must not overtake."""
        view = self._view
        if view.callback is not None:
            view.refuse_in_callback("sending to a client")
        if view.role is not _LEADER:
            return MOCKED_OFFER
        publication = self._publication
        if publication is None:
            return NOT_CONNECTED
        if self._queue:
            return BACK_PRESSURED
        return publication.offer(self._packed_header(), *parts)

    def _packed_header(self) -> bytes:
        """The header of a message sent now. Cached because entries of one block usually share their time."""
        view = self._view
        key = (view.leadership_term_id, view.time)
        if key != self._header_key:
            self._header_key = key
            self._header = pack_session_header(view.leadership_term_id, self.id, view.time)
        return self._header

    def respond(self, *parts: Buffer) -> bool:
        """Send or queue a message. Beyond MAX_QUEUED_LENGTH, or MAX_BACKLOG_LENGTH of all sessions, it is dropped and
        counted.

        Stalled sessions do not starve the others: each session may always queue QUEUED_LENGTH_OF_EACH bytes.
        """
        result = self.offer(*parts)
        if result > 0:
            return True
        if self._publication is None or result in (CLOSED, MAX_POSITION_EXCEEDED):
            return False
        view = self._view
        message = b"".join((self._packed_header(), *parts))
        length = len(message)
        queued = self._queued_length + length
        is_too_much_of_all = view.backlog_length + length > MAX_BACKLOG_LENGTH and queued > QUEUED_LENGTH_OF_EACH
        if queued > MAX_QUEUED_LENGTH or is_too_much_of_all:
            view.dropped_responses += 1
            return False
        self._queue.append(message)
        self._count(length)
        view.backlog[self.id] = self
        return True

    def close(self) -> bool:
        """Ask for the end of the session. Raises `UsageError` inside a life-cycle callback and for a closed session."""
        return self._view.close_client_session(self.id)

    @property
    def is_connected(self) -> bool:
        """Whether there is an egress publication. The client may not have connected to it yet."""
        return self._publication is not None

    # --- for the container ---

    def connect(self, publications: SharedPublications) -> None:
        """Open the egress publication. Raises `NodeError` when the client's channel is unusable."""
        assert self._publication is None, self.id
        channel = client_channel(self.response_channel)
        self._publication = publications.add_publication(channel, self.response_stream_id)

    def disconnect(self) -> None:
        """Close the egress and drop its queue."""
        publication, self._publication = self._publication, None
        self._drop()
        self._view.backlog.pop(self.id, None)
        if publication is not None:
            publication.close()

    def flush(self) -> int:
        """Send queued messages, as far as the transport takes them. Returns their number."""
        publication = self._publication
        assert publication is not None, "a queue without a publication was dropped by disconnect"
        sent = 0
        while self._queue and sent < MAX_FLUSHED:
            message = self._queue[0]
            try:
                result = publication.offer(message)
            except NodeError:
                result = CLOSED
            if result in (CLOSED, MAX_POSITION_EXCEEDED):
                self._drop()
                break
            if result < 0:
                break
            self._queue.popleft()
            self._count(-len(message))
            sent += 1
        self._view.backlog.pop(self.id, None)
        if self._queue:
            # To the end of the backlog: other sessions may share the stream.
            self._view.backlog[self.id] = self
        return sent

    def _drop(self) -> None:
        self._queue.clear()
        self._count(-self._queued_length)

    def _count(self, length: int) -> None:
        """Add `length` to the counts of queued bytes."""
        self._queued_length += length
        self._view.backlog_length += length
