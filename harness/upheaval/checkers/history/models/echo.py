"""Answers what it was sent."""

from collections.abc import Mapping, Sequence
from typing import Final

from upheaval.checkers.history.models.sequential import Call, State
from upheaval.records import FieldError, Function, Json, Operation
from upheaval.records.values import Frozen, value_text


class Echo:
    """A data type without state. Implements `DataType`."""

    names: Final[Mapping[str, Function]] = {"echo": Function.ECHO}
    with_result: Final = frozenset({Function.ECHO})
    first: Final[State] = None

    def first_of(self, value: Json) -> State:
        """Accepts no value: always raises `FieldError`."""
        raise FieldError(f"expected no value, got {value_text(value)}: an echo holds none")

    def checked(self, operation: Operation) -> Operation:
        """The operation, unchanged."""
        return operation

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Answer what was sent."""
        return state, call.value

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:  # noqa: ARG002
        """Always None: the search finds a wrong echo at once."""
        return None
