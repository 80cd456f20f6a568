"""A register with read, write, and compare-and-set."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from upheaval.checkers.history.models.origins import Origins, answered_of, completion_of
from upheaval.checkers.history.models.sequential import Call, State, require_no_result
from upheaval.records import FieldError, Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, frozen, value_text


class Register:
    """The state is the value. Implements `DataType`."""

    names: Final[Mapping[str, Function]] = {
        "read": Function.READ,
        "write": Function.WRITE,
        "cas": Function.CAS,
    }
    with_result: Final = frozenset({Function.READ, Function.CAS})
    first: Final[State] = None

    def first_of(self, value: Json) -> State:
        """Accepts any value."""
        return frozen(value)

    def checked(self, operation: Operation) -> Operation:
        """Requires two values for a compare-and-set."""
        if operation.f is Function.CAS and not (isinstance(operation.value, list) and len(operation.value) == 2):
            raise FieldError("the value of a cas must be [expected, new]")
        if operation.outcome is Outcome.OK:
            if operation.f is Function.WRITE:
                require_no_result(operation)
            if operation.f is Function.CAS and not isinstance(operation.result, bool):
                raise FieldError(f"expected the result true or false of cas, got {value_text(operation.result)}")
        return operation

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Read, write, or compare and set; the last answers false if it finds another value."""
        match call.f:
            case Function.READ:
                return state, state
            case Function.WRITE:
                return call.value, None
            case _:
                expected, new = cast(tuple[Frozen, Frozen], call.value)
                return (new, _TRUE) if state == expected else (state, _FALSE)

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """The first read of, or compare-and-set from, a value that no other operation had begun to put there.

        A compare-and-set that answered false counts as an origin: before its answer it might have put the value.
        """
        put: list[tuple[Frozen, Operation]] = []
        for operation in operations:
            if operation.f is Function.WRITE:
                put.append((frozen(operation.value), operation))
            elif operation.f is Function.CAS:
                put.append((frozen(cast(list[Json], operation.value)[1]), operation))
        origins = Origins([first], put)
        for operation in answered_of(operations):
            if operation.f is Function.READ and not origins.have(frozen(operation.result), 1, completion_of(operation)):
                return operation
            if operation.f is Function.CAS and operation.result is True:
                expected, new = map(frozen, cast(list[Json], operation.value))
                if not origins.have(expected, 2 if expected == new else 1, completion_of(operation)):
                    return operation
        return None


_TRUE: Final[Frozen] = frozen(True)
_FALSE: Final[Frozen] = frozen(False)
