"""A text with put, append and get."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from upheaval.checkers.history.models.origins import answered_of, completion_of
from upheaval.checkers.history.models.sequential import Call, State, require_no_result
from upheaval.records import FieldError, Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, value_text


class Text:
    """The state is the text. Implements `DataType`."""

    names: Final[Mapping[str, Function]] = {
        "get": Function.READ,
        "put": Function.WRITE,
        "append": Function.APPEND,
        "read": Function.READ,
        "write": Function.WRITE,
    }
    with_result: Final = frozenset({Function.READ})
    first: Final[State] = ""

    def first_of(self, value: Json) -> State:
        """Accepts a text."""
        if type(value) is not str:
            raise FieldError(f"expected a text, got {value_text(value)}")
        return value

    def checked(self, operation: Operation) -> Operation:
        """Reads nil as the empty text."""
        if operation.f is not Function.READ and type(operation.value) is not str:
            raise FieldError(f"expected a text to {operation.f}, got {value_text(operation.value)}")
        if operation.outcome is not Outcome.OK:
            return operation
        if operation.f is not Function.READ:
            require_no_result(operation)
        elif operation.result is None:
            return replace(operation, result="")
        return operation

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """Get, put, or append to the end."""
        match call.f:
            case Function.READ:
                return state, state
            case Function.WRITE:
                return call.value, None
            case _:
                return cast(str, state) + cast(str, call.value), None

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """The first read of a text that is not made of one that was put (or the initial one) and pieces that had been
        appended.
        """
        pieces = _Pieces(cast(str, first), operations)
        for operation in answered_of(operations):
            if operation.f is Function.READ:
                moment = pieces.possible_from(operation.result) if type(operation.result) is str else None
                if moment is None or moment > completion_of(operation):
                    return operation
        return None


class _Pieces:
    """The earliest time at which a text is possible. Of equal pieces only the first invocation counts."""

    def __init__(self, first: str, operations: Sequence[Operation]) -> None:
        self._put = {first: -1}
        self._appended: dict[str, int] = {}
        for operation in sorted(operations, key=lambda one: one.invoke_ns):
            if operation.f is Function.WRITE:
                self._put.setdefault(str(operation.value), operation.invoke_ns)
            elif operation.f is Function.APPEND and operation.value:
                self._appended.setdefault(str(operation.value), operation.invoke_ns)
        self._lengths = sorted({len(piece) for piece in self._appended})
        self._moments: dict[str, int | None] = {}

    def possible_from(self, text: str) -> int | None:
        """The earliest time at which the text is possible; None if never. Remembers prefixes, so a growing text costs
        its new end.
        """
        open_texts = [text]
        while open_texts:
            last = open_texts[-1]
            shorter = [last[:-length] for length in self._lengths if last[-length:] in self._appended]
            unknown = [prefix for prefix in shorter if prefix not in self._moments]
            if unknown:
                open_texts += unknown
                continue
            open_texts.pop()
            moments = [self._put.get(last)]
            for prefix in shorter:
                before = self._moments[prefix]
                if before is not None:
                    moments.append(max(before, self._appended[last[len(prefix) :]]))
            self._moments[last] = min((moment for moment in moments if moment is not None), default=None)
        return self._moments[text]
