"""Counts the acknowledgements of the services: each service numbers its acks from 0, and the module counts along.

The module waits for a position and an ack id, both of which the acks of all services must carry. Source: Aeron Cluster,
service acks. Knows nothing of why the module waits.
"""

from collections import deque

from upheaval_node.errors import ContradictionError, PeerError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_VALUE


class ServiceAcks:
    """The acks of each service that have not been taken yet."""

    def __init__(self, service_count: int) -> None:
        self.ack_id = 0
        """The id expected in the next ack of every service."""
        self.client_ids = [NULL_VALUE] * service_count
        """The media client of each service, known from its first ack."""
        self._queues: list[deque[cm.ServiceAck]] = [deque() for _ in range(service_count)]

    def on_ack(self, ack: cm.ServiceAck) -> None:
        """Queue an ack. Raises `PeerError` when the service does not exist or repeats its first ack."""
        if not 0 <= ack.service_id < len(self._queues):
            raise PeerError(f"ack of an unknown service: {ack}")
        if ack.ack_id == 0 and self.client_ids[ack.service_id] != NULL_VALUE:
            raise PeerError(f"initial ack already received from service {ack.service_id}: possible duplicate serviceId")
        self._queues[ack.service_id].append(ack)

    def has_reached(self, position: int) -> bool:
        """Whether all services have acknowledged `position` with the current ack id.

        Raises `ContradictionError` for an ack out of sequence: module and service no longer agree on their position.
        """
        if not all(self._queues):
            return False
        for queue in self._queues:
            head = queue[0]
            if head.ack_id != self.ack_id or head.log_position != position:
                text = f"ack out of sequence: expected id {self.ack_id} at {position}, got {head}"
                raise ContradictionError(text)
        return True

    def take(self) -> list[cm.ServiceAck]:
        """Take the awaited acks, by service, and advance to the next ack id."""
        self.ack_id += 1
        return [queue.popleft() for queue in self._queues]
