"""A lock with acquire and release. The model does not track its holder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from upheaval.checkers.history.models.sequential import REFUSED, Call, State, require_no_result
from upheaval.records import FieldError, Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, value_text


class Mutex:
    """The state is whether the lock is held. Implements `DataType`."""

    names: Final[Mapping[str, Function]] = {"acquire": Function.ACQUIRE, "release": Function.RELEASE}
    with_result: Final[frozenset[Function]] = frozenset()
    first: Final[State] = False

    def first_of(self, value: Json) -> State:
        """Accepts true (initially held) or false."""
        if not isinstance(value, bool):
            raise FieldError(f"expected true (held) or false, got {value_text(value)}")
        return value

    def checked(self, operation: Operation) -> Operation:
        """Requires that there is no result, since a failed attempt did not happen. Drops the value."""
        if operation.outcome is Outcome.OK:
            require_no_result(operation)
        return replace(operation, value=None)

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Acquire or release; `REFUSED` in a state where that cannot succeed."""
        is_held = call.f is Function.ACQUIRE
        return (state, REFUSED) if state == is_held else (is_held, None)

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:  # noqa: ARG002
        """Always None: a lock holds no values."""
        return None
