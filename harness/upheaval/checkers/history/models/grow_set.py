"""A set that only grows and is read as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from upheaval.checkers.history.models.origins import Origins, answered_of, completion_of
from upheaval.checkers.history.models.sequential import Call, State, require_no_result
from upheaval.records import FieldError, Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, UnorderedSet, frozen, value_text


class GrowSet:
    """The state is a frozen set of the elements. Implements `DataType`."""

    names: Final[Mapping[str, Function]] = {"add": Function.ADD, "read": Function.READ}
    with_result: Final = frozenset({Function.READ})
    first: Final[State] = frozenset()

    def first_of(self, value: Json) -> State:
        """Accepts a list or set without duplicates."""
        elements = _as_set(value)
        if not isinstance(elements, UnorderedSet):
            raise FieldError(f"expected a list or set without duplicates, got {value_text(value)}")
        return frozen(elements)

    def checked(self, operation: Operation) -> Operation:
        """Reads a list without duplicates as a set, and nil as the empty set."""
        if operation.outcome is not Outcome.OK:
            return operation
        if operation.f is Function.ADD:
            require_no_result(operation)
            return operation
        if operation.result is not None and not isinstance(operation.result, list):
            raise FieldError(f"expected a list or set as the result of read, got {value_text(operation.result)}")
        return replace(operation, result=_as_set(operation.result or []))

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Add an element, which may already be in the set, or read the set."""
        elements = cast(frozenset[Frozen], state)
        return (elements | {call.value}, None) if call.f is Function.ADD else (state, state)

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """The first read with an element that had not been added, or with duplicates."""
        added = [(frozen(operation.value), operation) for operation in operations if operation.f is Function.ADD]
        origins = Origins(cast(frozenset[Frozen], first), added)
        for operation in answered_of(operations):
            if operation.f is Function.READ:
                elements = frozen(operation.result)
                end = completion_of(operation)
                if not isinstance(elements, frozenset) or not all(origins.have(one, 1, end) for one in elements):
                    return operation
        return None


def _as_set(value: Json) -> Json:
    """The list as a set; unchanged if it has duplicates or is no list."""
    if type(value) is not list or len(set(map(frozen, value))) < len(value):
        return value
    return UnorderedSet(value)
