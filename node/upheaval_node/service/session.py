"""The client sessions of one service: what a service sees of a client, and its egress publication on the leader.

Knows nothing of the log. The response channel comes from a client, so it is hostile: a channel that cannot be used
leaves the session without a connection.
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
"""Bytes of responses kept for one session that does not take them; more than the longest message."""

MAX_BACKLOG_LENGTH: Final = 64 * 1024 * 1024
"""The same for all sessions of a service together: one client may have any number of them."""

QUEUED_LENGTH_OF_EACH: Final = 64 * 1024
"""Kept for a session whatever the others have queued."""

MAX_FLUSHED: Final = 256
"""Queued messages of one session sent in one duty cycle."""

# Asked for every response: compiled code looks names of an enumeration up each time.
_LEADER: Final = ClusterRole.LEADER


class SessionHost(Protocol):
    """What a session reads of the container at the entry that is being delivered, and what it leaves there.

    `callback` names the life-cycle callback that is running, in which nothing is sent; `backlog` are the sessions that
    have queued responses, by their ids, and `backlog_length` the bytes of these; `time` is that of the entry, in the
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
        """Ask for the end of a session; whether the request was taken."""


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
        """BACK_PRESSURED also while responses are queued, so that none is overtaken."""
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
        """The header of what is sent now; entries of one block usually share their time."""
        view = self._view
        key = (view.leadership_term_id, view.time)
        if key != self._header_key:
            self._header_key = key
            self._header = pack_session_header(view.leadership_term_id, self.id, view.time)
        return self._header

    def respond(self, *parts: Buffer) -> bool:
        """Keeps at most MAX_QUEUED_LENGTH bytes, and MAX_BACKLOG_LENGTH of all; what is more is counted as dropped.

        Sessions that take nothing do not starve the others: each may always have QUEUED_LENGTH_OF_EACH.
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
        """Raises `UsageError` inside a life-cycle callback and for a session that is closed."""
        return self._view.close_client_session(self.id)

    @property
    def is_connected(self) -> bool:
        """Whether there is an egress publication; the client may not have taken it up yet."""
        return self._publication is not None

    # --- for the container ---

    def connect(self, publications: SharedPublications) -> None:
        """Open the egress publication. Raises `NodeError` when the client's channel cannot be used."""
        assert self._publication is None, self.id
        channel = client_channel(self.response_channel)
        self._publication = publications.add_publication(channel, self.response_stream_id)

    def disconnect(self) -> None:
        """Close the egress and drop what is queued for it."""
        publication, self._publication = self._publication, None
        self._drop()
        self._view.backlog.pop(self.id, None)
        if publication is not None:
            publication.close()

    def flush(self) -> int:
        """Send what is queued, as far as the transport takes it, and return how many messages went."""
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
            # Behind the others, who may have to share the stream with it.
            self._view.backlog[self.id] = self
        return sent

    def _drop(self) -> None:
        self._queue.clear()
        self._count(-self._queued_length)

    def _count(self, length: int) -> None:
        """So many bytes more are queued."""
        self._queued_length += length
        self._view.backlog_length += length
