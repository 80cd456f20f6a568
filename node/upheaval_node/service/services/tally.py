"""The tally service: a count and a checksum of the log's messages, and messages of its own. It answers no client.

A member runs it beside another service. That one answers clients; the tally has state, snapshots and messages for the
log like any other service.
"""

import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from upheaval_node.derivable import mypyc_attr
from upheaval_node.errors import DecodeError
from upheaval_node.service.api import ClientSession, Cluster, SnapshotImage
from upheaval_node.service.services.operations import OperationService
from upheaval_node.service.services.state import Record

MESSAGES_AN_OFFER: Final = 8
"""The number of client messages per message of the service."""

TALLY_KIND: Final = 7

_STATE: Final = struct.Struct("<QI")


@mypyc_attr(allow_interpreted_subclasses=True)
class Tally(OperationService):
    """Counts client messages, and offers its count to the log after every MESSAGES_AN_OFFER. It has no operations."""

    def __init__(self) -> None:
        self.messages = 0
        self.checksum = 0
        self._cluster: Cluster | None = None
        super().__init__({})

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        """Keep the cluster, which takes the service's messages."""
        self._cluster = cluster
        super().on_start(cluster, snapshot_image)

    def on_session_message(
        self,
        session: ClientSession | None,
        timestamp: int,  # noqa: ARG002 - equal messages count the same at any time
        payload: memoryview,
        position: int,  # noqa: ARG002 - and at any place
    ) -> None:
        """Add the message to the checksum, and count it unless it comes from a service (without a session)."""
        self.checksum = crc32(payload, self.checksum)
        if session is None:
            return
        self.messages += 1
        if self.messages % MESSAGES_AN_OFFER == 0:
            assert self._cluster is not None
            self._cluster.offer(_STATE.pack(self.messages, self.checksum))

    def records(self) -> Iterator[Record]:
        """The count and the checksum."""
        yield Record(TALLY_KIND, "", _STATE.pack(self.messages, self.checksum))

    def load(self, record: Record) -> None:
        """Load a record. Raises `DecodeError` when it is not the record of a tally."""
        if record.kind != TALLY_KIND or len(record.value) != _STATE.size:
            raise DecodeError(f"record of kind {record.kind} with {len(record.value)} bytes is not one of a tally")
        self.messages, self.checksum = _STATE.unpack(record.value)
