"""A first-in, first-out queue."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, cast

from upheaval.checkers.history.models.origins import Origins, answered_of, completion_of
from upheaval.checkers.history.models.sequential import Call, State, require_no_result
from upheaval.records import FieldError, Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, frozen, value_text


class FifoQueue:
    """The state is a tuple of the elements, the oldest first. Implements `DataType`."""

    names: Final[Mapping[str, Function]] = {"enqueue": Function.ENQUEUE, "dequeue": Function.DEQUEUE}
    with_result: Final = frozenset({Function.DEQUEUE})
    first: Final[State] = ()

    def first_of(self, value: Json) -> State:
        """Accepts a list without nil, oldest element first."""
        if not isinstance(value, list) or None in value:
            raise FieldError(f"expected a list without nil, got {value_text(value)}")
        return tuple(map(frozen, value))

    def checked(self, operation: Operation) -> Operation:
        """Refuses to enqueue nil, because nil is the answer of an empty queue."""
        if operation.f is Function.ENQUEUE:
            if operation.value is None:
                raise FieldError("expected a value to enqueue, got null: it means that the queue is empty")
            if operation.outcome is Outcome.OK:
                require_no_result(operation)
        return operation

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Enqueue, or dequeue the oldest element; nil from an empty queue."""
        elements = cast(tuple[Frozen, ...], state)
        if call.f is Function.ENQUEUE:
            return (*elements, call.value), None
        return (elements[1:], elements[0]) if elements else (elements, None)

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """The first dequeue of an element that had not been enqueued often enough."""
        enqueued = [(frozen(operation.value), operation) for operation in operations if operation.f is Function.ENQUEUE]
        origins = Origins(cast(tuple[Frozen, ...], first), enqueued)
        counts: Counter[Frozen] = Counter()
        for operation in answered_of(operations):
            if operation.f is Function.DEQUEUE and operation.result is not None:
                element = frozen(operation.result)
                counts[element] += 1
                if not origins.have(element, counts[element], completion_of(operation)):
                    return operation
        return None
