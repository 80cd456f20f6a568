"""A list with append and read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from upheaval.checkers.history.models.origins import Origins, answered_of, completion_of
from upheaval.checkers.history.models.sequential import Call, State, require_no_result
from upheaval.records import FieldError, Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, frozen, value_text


class AppendList:
    """The state is a tuple of the values. Implements `DataType`."""

    with_result: Final = frozenset({Function.LIST})
    first: Final[State] = ()

    def __init__(self, *names_of_reads: str) -> None:
        self._names = {"append": Function.APPEND, **dict.fromkeys(names_of_reads, Function.LIST)}

    @property
    def names(self) -> Mapping[str, Function]:
        """The functions by name. The names of a read are configurable."""
        return self._names

    def first_of(self, value: Json) -> State:
        """Accepts a list."""
        if not isinstance(value, list):
            raise FieldError(f"expected a list, got {value_text(value)}")
        return tuple(map(frozen, value))

    def checked(self, operation: Operation) -> Operation:
        """Reads nil as the empty list."""
        if operation.outcome is not Outcome.OK:
            return operation
        if operation.f is Function.APPEND:
            require_no_result(operation)
        elif operation.result is None:
            return replace(operation, result=[])
        elif not isinstance(operation.result, list):
            got = value_text(operation.result)
            raise FieldError(f"expected a list as the result of {operation.f}, got {got}")
        return operation

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Append to the end, or read the whole list."""
        values = cast(tuple[Frozen, ...], state)
        return ((*values, call.value), None) if call.f is Function.APPEND else (values, values)

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """The first read with more copies of a value than had been appended."""
        appended = [(frozen(operation.value), operation) for operation in operations if operation.f is Function.APPEND]
        origins = Origins(cast(tuple[Frozen, ...], first), appended)
        for operation in answered_of(operations):
            if operation.f is Function.LIST:
                counts = Counter(cast(tuple[Frozen, ...], frozen(operation.result)))
                if not all(origins.have(value, count, completion_of(operation)) for value, count in counts.items()):
                    return operation
        return None
