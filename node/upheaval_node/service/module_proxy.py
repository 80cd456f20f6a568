"""What a service container says to its consensus module (stream 105 of the control channel).

Every call makes one attempt and returns whether the transport took the message.
"""

from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.media.api import BACK_PRESSURED, Publication
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header

SEND_ATTEMPTS: Final = 3


class ModuleProxy:
    def __init__(self, publication: Publication, service_id: int) -> None:
        self._publication = publication
        self._service_id = service_id

    def ack(self, *, log_position: int, timestamp: int, ack_id: int, relevant_id: int) -> bool:
        """ServiceAck: the service stands at `log_position`."""
        message = cm.ServiceAck(
            log_position=log_position,
            timestamp=timestamp,
            ack_id=ack_id,
            relevant_id=relevant_id,
            service_id=self._service_id,
        )
        return self._publication.offer(cm.SCHEMA.encode(message)) > 0

    def close_session(self, session_id: int) -> bool:
        encoded = cm.SCHEMA.encode(cm.CloseSession(cluster_session_id=session_id))
        return any(self._publication.offer(encoded) > 0 for _ in range(SEND_ATTEMPTS))

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        message = cm.ScheduleTimer(correlation_id=correlation_id, deadline=deadline)
        return self._publication.offer(cm.SCHEMA.encode(message)) > 0

    def cancel_timer(self, correlation_id: int) -> bool:
        return self._publication.offer(cm.SCHEMA.encode(cm.CancelTimer(correlation_id=correlation_id))) > 0

    def offer(self, leadership_term_id: int, timestamp: int, parts: tuple[Buffer, ...]) -> int:
        """A message for the log. The session id field carries the service id (Aeron Cluster: service messages).

        Returns a position or BACK_PRESSURED; raises `UsageError` for every other failure.
        """
        header = pack_session_header(leadership_term_id, self._service_id, timestamp)
        result = self._publication.offer(header, *parts)
        if result < 0 and result != BACK_PRESSURED:
            raise UsageError(f"the consensus module takes no messages from this service (result {result})")
        return result

    def close(self) -> None:
        self._publication.close()
