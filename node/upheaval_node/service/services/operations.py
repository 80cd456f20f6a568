"""A service whose requests are operations: it decodes them, dispatches by operation code, and answers.

No client request makes it raise: a malformed request, an unknown operation or an exceeded limit gets an ERROR response
with the reason. This module knows nothing of what the operations do.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from upheaval_node.derivable import mypyc_attr
from upheaval_node.errors import DecodeError, NodeError
from upheaval_node.service.api import (
    ClientSession,
    Cluster,
    ClusteredService,
    SnapshotImage,
    SnapshotPublication,
)
from upheaval_node.service.services.encoding import (
    Request,
    Response,
    Status,
    decode_request,
    encode_response,
    peek_operation,
    peek_operation_id,
)
from upheaval_node.service.services.state import Record, read_state, write_state

LONG: Final = struct.Struct("<q")
"""A number as the value of a request, a response or a record."""

Handler = Callable[[Request, int], Response]
"""Performs one operation: takes the request and the log position of its entry, returns the response."""


class OperationError(NodeError):
    """The operation cannot be performed; the text goes to the client. The state must be unchanged."""


def accepted(request: Request, position: int, value: bytes | None = None) -> Response:
    """A response with status OK."""
    return Response(request.operation_id, request.operation, Status.OK, position, value)


def required_value(request: Request) -> bytes:
    """The value of a request that needs one. Raises `OperationError` when it is absent."""
    if request.value is None:
        raise OperationError("the request has no value")
    return request.value


def required_long(request: Request) -> int:
    """The value of a request as a little-endian int64. Raises `OperationError` when it is absent or of another size."""
    value = required_value(request)
    if len(value) != LONG.size:
        raise OperationError(f"the value has {len(value)} bytes instead of {LONG.size}")
    number: int = LONG.unpack(value)[0]
    return number


@mypyc_attr(allow_interpreted_subclasses=True)
class OperationService(ClusteredService):
    """Dispatches requests by operation code to a table of handlers.

    `records` returns its state, and `load` restores it.
    """

    def __init__(self, handlers: Mapping[int, Handler]) -> None:
        self._handlers = dict(handlers)

    def records(self) -> Iterable[Record]:
        """The state, in an order that is the same on every member. By default it is empty."""
        return ()

    def load(self, record: Record) -> None:
        """Restore one record of the state. Raises `DecodeError` when it is not a record of this service."""
        raise DecodeError(f"record of kind {record.kind} in the state of a service without one")

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:  # noqa: ARG002 - of the API
        """Restore the state of the snapshot. Raises `DecodeError` when it is damaged or of another service."""
        if snapshot_image is not None:
            for record in read_state(snapshot_image):
                self.load(record)

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        """Write the records, followed by their number and CRC-32."""
        write_state(publication, self.records())

    def on_session_message(
        self,
        session: ClientSession | None,
        timestamp: int,  # noqa: ARG002 - no operation depends on time
        payload: memoryview,
        position: int,
    ) -> None:
        """Perform the operation on every member. Only a connected session gets the answer."""
        response = self.perform(payload, position)
        if session is not None and session.is_connected:
            session.respond(encode_response(response))

    def execute(self, payload: memoryview | bytes, position: int) -> bytes:
        """Perform the operation of one log entry and return its encoded response."""
        return encode_response(self.perform(payload, position))

    def perform(self, payload: memoryview | bytes, position: int) -> Response:
        """Perform the operation of one log entry."""
        try:
            request = decode_request(payload)
            handler = self._handlers.get(request.operation)
            if handler is None:
                raise OperationError(f"operation {request.operation} is unknown to this service")
            return handler(request, position)
        except (DecodeError, OperationError) as error:
            return Response(
                peek_operation_id(payload), peek_operation(payload), Status.ERROR, position, error=str(error)
            )
