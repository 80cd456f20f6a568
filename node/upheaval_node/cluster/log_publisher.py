"""Appends entries to the log of a leader's term.

Runs of session messages go in as whole blocks of frames, everything else one entry at a time. An append happens
completely or not at all; False and 0 mean back pressure. Knows nothing of sessions, and of commits only that a commit
position is never inside an entry.
"""

from collections import deque
from collections.abc import Callable

from upheaval_node.errors import NodeError
from upheaval_node.media.api import CLOSED, MAX_POSITION_EXCEEDED, Publication
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.fragments import framed_length
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import LOG_START, Position


class LogPublisher:
    """The publication of one leader's term."""

    def __init__(self, publication: Publication) -> None:
        self._publication = publication
        # Start and end positions of fragmented entries, oldest first.
        self._fragmented: deque[tuple[int, int]] = deque()

    @property
    def session_id(self) -> int:
        """The session id of the log's stream."""
        return self._publication.session_id

    @property
    def position(self) -> int:
        """The end of the log, where the next entry begins."""
        return self._publication.position

    @property
    def mtu(self) -> int:
        """The longest frame of the log, in bytes."""
        return self._publication.mtu

    @property
    def term_length(self) -> int:
        """The length in bytes of a term buffer of the log's stream."""
        return self._publication.term_length

    @property
    def initial_term_id(self) -> int:
        """The stream's term id at position 0 of the log."""
        return self._publication.initial_term_id

    @property
    def max_message_length(self) -> int:
        """The length in bytes of the longest entry."""
        return self._publication.max_message_length

    def append_frames(self, run: bytearray, count: int) -> bool:
        """Append a run of unfragmented frames. If that succeeds, the log owns the memory of `run`."""
        return self._checked(self._publication.offer_frames(run, count)) > 0

    def append_session_message(self, term_id: int, session_id: int, timestamp: int, payload: Buffer) -> bool:
        """Append one session message of any length up to the log's limit."""
        return self._append(pack_session_header(term_id, session_id, timestamp), payload) > 0

    def append_service_message(self, term_id: int, message_id: int, timestamp: int, payload: Buffer) -> int:
        """Append one message of a service and return the position after it, 0 under back pressure."""
        return self._append(pack_session_header(term_id, message_id, timestamp), payload)

    def append(self, message: Message) -> int:
        """Append an entry and return the position after it, 0 under back pressure."""
        return self._append(cm.SCHEMA.encode(message))

    def append_with_end(self, entry: Callable[[Position], Message]) -> Position:
        """Append the entry that `entry` makes from its own end position. Returns that position, 0 under back
        pressure.
        """
        end = Position(self._checked(self._publication.claim_position(len(cm.SCHEMA.encode(entry(LOG_START))))))
        return end and Position(self.append(entry(end)))

    def whole_entries(self, position: Position) -> Position:
        """`position`, or the start of the entry that `position` would cut in two.

        Fragments are recorded one by one, so a quorum may hold a part of an entry. That part must not count as
        committed: a member that reads on from there would never see the whole entry.
        """
        # Differs from Aeron (docs/protocol.md, E16): Aeron commits any frame.
        fragmented = self._fragmented
        while fragmented and fragmented[0][1] <= position:
            fragmented.popleft()
        if fragmented and fragmented[0][0] < position:
            return Position(fragmented[0][0])
        return position

    def close(self) -> None:
        """End the log stream. Followers see its end, and know that their leader left in good order."""
        self._publication.close(eos=True)

    def _append(self, *parts: Buffer) -> int:
        publication = self._publication
        end = self._checked(publication.offer(*parts))
        if end > 0:
            length = sum(len(part) for part in parts)
            if length > publication.max_payload_length:
                self._fragmented.append((end - framed_length(length, publication.max_payload_length), end))
        return end

    def _checked(self, result: int) -> int:
        if result in (CLOSED, MAX_POSITION_EXCEEDED):
            raise NodeError(f"the log publication at {self.position} takes nothing more: result {result}")
        return max(result, 0)
