"""The log of a leader: its publication to all members, recorded here and joined by the member's services.

Knows nothing of elections but the order of the calls: open, join, close.
"""

from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.log_recording import LogFormat, LogRecording, log_channel, publication_channel
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.steps import StepGenerator
from upheaval_node.types import ClusterRole, Position


class LeaderLog:
    """The publication of one term at a time. `publisher` is None without a publication."""

    def __init__(self, context: ModuleContext, recording: LogRecording, services: ServiceProxy) -> None:
        self._context = context
        self._recording = recording
        self._services = services
        self.publisher: LogPublisher | None = None

    def open(self, position: Position) -> int:
        """Create the publication at `position`, with all other members as destinations. Returns its session id."""
        self.close()
        context = self._context
        channel = publication_channel(self._recording.format, position)
        publication = context.media.add_publication(str(channel), LOG_STREAM_ID)
        for member in context.members.values():
            if member.id != context.member_id:
                publication.add_destination(str(Channel("tcp", {"endpoint": member.endpoints.log})))
        self.publisher = LogPublisher(publication)
        return publication.session_id

    def join(self, log_position: Position, *, is_startup: bool) -> StepGenerator[None]:
        """Record the publication and have the services join it."""
        publisher = self.publisher
        assert publisher is not None
        log_format = LogFormat(publisher.initial_term_id, publisher.term_length, publisher.mtu)
        yield from self._recording.start(publisher.session_id, log_format)
        yield from self._services.join_log(
            log_position=log_position,
            session_id=publisher.session_id,
            channel=str(log_channel(publisher.session_id).as_spy()),
            is_startup=is_startup,
            role=ClusterRole.LEADER,
        )

    def close(self) -> None:
        """End the publication: followers see the end of its stream."""
        publisher, self.publisher = self.publisher, None
        if publisher is not None:
            publisher.close()
