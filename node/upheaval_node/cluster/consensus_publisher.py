"""Sends on the consensus stream: one publication to each of the other members.

A message that the transport does not take is not kept: its sender sends it again on its own clock. Every send is traced
before it happens. Does not know what any message means.
"""

from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.errors import NodeError
from upheaval_node.media.api import Publication
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.protocol.describe import trace_fields
from upheaval_node.protocol.message import Message
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now


class ConsensusPublisher:
    """The publications to the other members, by member id."""

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._publications: dict[int, Publication] = {}
        # A cache, so that a message to all members is encoded once.
        self._encoded_message: Message | None = None
        self._encoded = b""

    def connect(self, now: Now) -> None:
        """Open the missing publications. A failure is reported, and the next send tries again."""
        for member_id in self._context.members:
            if member_id != self._context.member_id:
                self._publication(now, member_id)

    def send(self, now: Now, member_id: int, message: Message) -> bool:
        """Send to one member. Returns whether the transport took the message."""
        publication = self._publication(now, member_id)
        if publication is None or not publication.is_connected:
            return False
        context = self._context
        if message is not self._encoded_message:
            self._encoded = cm.SCHEMA.encode(message)
            self._encoded_message = message
        context.tracer.emit(now, TraceKind.SEND, to=member_id, **trace_fields(message))
        if publication.offer(self._encoded) > 0:
            return True
        context.tracer.emit(now, TraceKind.SEND_FAILED, to=member_id, message=type(message).__name__)
        if publication.is_closed:
            del self._publications[member_id]
        return False

    def send_to_others(self, now: Now, message: Message) -> None:
        """Make one attempt for each of the other members. The caller does not learn which attempts failed."""
        for member_id in self._context.members:
            if member_id != self._context.member_id:
                self.send(now, member_id, message)

    def close(self) -> None:
        """Close all publications; the next send opens them again."""
        for publication in self._publications.values():
            publication.close()
        self._publications.clear()

    def _publication(self, now: Now, member_id: int) -> Publication | None:
        publication = self._publications.get(member_id)
        if publication is None and member_id in self._context.members and member_id != self._context.member_id:
            endpoint = self._context.members[member_id].endpoints.consensus
            try:
                channel = Channel("tcp", {"endpoint": endpoint, "alias": "consensus"})
                publication = self._context.media.add_publication(str(channel), CONSENSUS_STREAM_ID)
            except NodeError as error:
                self._context.report(now, "consensus publication", str(error))
                return None
            self._publications[member_id] = publication
        return publication
