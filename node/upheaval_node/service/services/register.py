"""The register service: one value per key, with read, write and compare-and-set."""

from collections.abc import Iterator
from typing import Final

from upheaval_node.derivable import mypyc_attr
from upheaval_node.service.services.encoding import Operation, Request, Response, Status
from upheaval_node.service.services.operations import (
    Handler,
    OperationError,
    OperationService,
    accepted,
    required_value,
)
from upheaval_node.service.services.state import Record

REGISTER_KIND: Final = 1
MAX_KEYS: Final = 1_000_000
"""The most keys, so that clients cannot exhaust a member's memory. It is the same on every member, so that all refuse
alike.
"""


class Registers:
    """The registers and the operations on them. An absent key has no value."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.handlers: dict[int, Handler] = {
            Operation.READ: self.read,
            Operation.WRITE: self.write,
            Operation.COMPARE_AND_SET: self.compare_and_set,
        }

    def read(self, request: Request, position: int) -> Response:
        """The value of the key, absent if the key is."""
        return accepted(request, position, self.values.get(request.key))

    def write(self, request: Request, position: int) -> Response:
        """Set the value of the key. Raises `OperationError` without a value and at the limit of keys."""
        self._set(request.key, required_value(request))
        return accepted(request, position)

    def compare_and_set(self, request: Request, position: int) -> Response:
        """Set the value if the current one equals `expected`. Without `expected`, the key must be absent.

        Raises `OperationError` without a value and at the limit of keys.
        """
        value = required_value(request)
        current = self.values.get(request.key)
        if current != request.expected:
            return Response(request.operation_id, request.operation, Status.CAS_FAILED, position, current)
        self._set(request.key, value)
        return accepted(request, position)

    def records(self) -> Iterator[Record]:
        """The state: one record per key."""
        return (Record(REGISTER_KIND, key, value) for key, value in self.values.items())

    def load(self, record: Record) -> bool:
        """Load a record. Returns whether it is a register."""
        if record.kind == REGISTER_KIND:
            self.values[record.key] = record.value
        return record.kind == REGISTER_KIND

    def _set(self, key: str, value: bytes) -> None:
        if key not in self.values and len(self.values) >= MAX_KEYS:
            raise OperationError(f"there are already {MAX_KEYS} keys")
        self.values[key] = value


@mypyc_attr(allow_interpreted_subclasses=True)
class Register(OperationService):
    """The operations READ, WRITE and COMPARE_AND_SET by key."""

    def __init__(self) -> None:
        self.registers = Registers()
        super().__init__(self.registers.handlers)

    def records(self) -> Iterator[Record]:
        """The registers."""
        return self.registers.records()

    def load(self, record: Record) -> None:
        """Load a record. Raises `DecodeError` when it is not a register."""
        if not self.registers.load(record):
            super().load(record)
