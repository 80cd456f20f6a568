"""The append service: one list of values per key, with append and read."""

from collections.abc import Iterator
from typing import Final

from upheaval_node.derivable import mypyc_attr
from upheaval_node.service.services.encoding import MAX_RESPONSE_LENGTH, Operation, Request, Response, Status
from upheaval_node.service.services.operations import (
    Handler,
    OperationError,
    OperationService,
    accepted,
    required_value,
)
from upheaval_node.service.services.state import Record

LIST_VALUE_KIND: Final = 2
MAX_KEYS: Final = 1_000_000
MAX_LIST_BYTES: Final = MAX_RESPONSE_LENGTH - 1024
"""The most bytes of a list, which must fit into one response. Each value counts four bytes more than its length."""


class Lists:
    """The lists and the operations on them. An absent key reads as the empty list."""

    def __init__(self) -> None:
        self.values: dict[str, list[bytes]] = {}
        self._lengths: dict[str, int] = {}
        self.handlers: dict[int, Handler] = {Operation.APPEND: self.append, Operation.READ_LIST: self.read_list}

    def append(self, request: Request, position: int) -> Response:
        """Append the value to the list of the key. Raises `OperationError` without a value and at the limits."""
        value = required_value(request)
        key = request.key
        length = self._lengths.get(key, 0) + len(value) + 4
        if length > MAX_LIST_BYTES:
            raise OperationError(f"the list of this key would be longer than {MAX_LIST_BYTES} bytes")
        if key not in self.values:
            if len(self.values) >= MAX_KEYS:
                raise OperationError(f"there are already {MAX_KEYS} keys")
            self.values[key] = []
        self.values[key].append(value)
        self._lengths[key] = length
        return accepted(request, position)

    def records(self) -> Iterator[Record]:
        """The state: one record per value, in the order of each list."""
        return (Record(LIST_VALUE_KIND, key, value) for key, values in self.values.items() for value in values)

    def load(self, record: Record) -> bool:
        """Load a record. Returns whether it is a list value."""
        if record.kind == LIST_VALUE_KIND:
            self.values.setdefault(record.key, []).append(record.value)
            self._lengths[record.key] = self._lengths.get(record.key, 0) + len(record.value) + 4
        return record.kind == LIST_VALUE_KIND

    def read_list(self, request: Request, position: int) -> Response:
        """The whole list of the key, empty for an absent key."""
        values = tuple(self.values.get(request.key, ()))
        return Response(request.operation_id, request.operation, Status.OK, position, values=values)


@mypyc_attr(allow_interpreted_subclasses=True)
class Append(OperationService):
    """The operations APPEND and READ_LIST by key."""

    def __init__(self) -> None:
        self.lists = Lists()
        super().__init__(self.lists.handlers)

    def records(self) -> Iterator[Record]:
        """The lists."""
        return self.lists.records()

    def load(self, record: Record) -> None:
        """Load a record. Raises `DecodeError` when it is not a list value."""
        if not self.lists.load(record):
            super().load(record)
