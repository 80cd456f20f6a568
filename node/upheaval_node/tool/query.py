"""ClusterMembersQuery: the only request to the module itself (Aeron Cluster: ClusterTool query).

It is sent on the stream from services to module and answered on the stream from module to services. Messages for the
services are ignored here, as services ignore the answer. Sans-IO: the owner of the media runs it.
"""

from typing import Final

from upheaval_node.errors import DecodeError
from upheaval_node.files.mark_file import ClusterMarkHeader
from upheaval_node.media import api
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.tool.node import MembersAnswer
from upheaval_node.types import NEVER_NS, Now

FRAGMENT_LIMIT: Final = 25


class MembersQuery:
    """One question. Implements `ports.Agent`; `answer` is None until there is one."""

    def __init__(self, media: api.Media, header: ClusterMarkHeader) -> None:
        """`header` is that of the module's mark file: it names the streams."""
        self.answer: MembersAnswer | None = None
        self._correlation_id = media.next_correlation_id()
        self._subscription = media.add_subscription(header.control_channel, header.service_stream_id)
        self._publication = media.add_publication(header.control_channel, header.consensus_module_stream_id)
        self._is_sent = False

    def do_work(self, now: Now) -> int:  # noqa: ARG002 - the deadline is its owner's
        """Send the query once the answer can be received, then wait for the answer."""
        if self.answer is not None:
            return 0
        if self._is_sent:
            return self._subscription.poll(self._on_message, FRAGMENT_LIMIT)
        # Without this image, the answer would be lost.
        if not self._subscription.images or not self._publication.is_connected:
            return 0
        query = cm.ClusterMembersQuery(correlation_id=self._correlation_id, extended=True)
        self._is_sent = self._publication.offer(cm.SCHEMA.encode(query)) > 0
        return int(self._is_sent)

    def next_deadline_ns(self) -> int:
        """Never: the caller that waits for the answer has the deadline."""
        return NEVER_NS

    def close(self) -> None:
        """Close both streams."""
        self._publication.close()
        self._subscription.close()

    def _on_message(self, received: api.Message) -> None:
        try:
            message = cm.SCHEMA.decode(received.payload)
        except DecodeError:
            return
        match message:
            case cm.ClusterMembersExtendedResponse() | cm.ClusterMembersResponse():
                if message.correlation_id == self._correlation_id:
                    self.answer = message
