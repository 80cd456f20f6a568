"""The interface between a search and a model, and models of one key that are composed of data types.

To add a data type: add a file with a class that implements `DataType`, and a row in `table`. This module knows nothing
of logs, histories or time.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from upheaval.records import FieldError, Function, Json, Operation
from upheaval.records.values import Frozen, frozen, value_text

State = Hashable
"""States are equal exactly if no operation can tell them apart."""


@dataclass(frozen=True, slots=True)
class Call:
    """The request and the answer of an operation (`result` is None if it was not answered)."""

    operation: Operation
    value: Frozen
    result: Frozen

    @property
    def f(self) -> Function:
        """The function of the operation."""
        return self.operation.f


def call_of(operation: Operation) -> Call:
    """The call of an operation, with frozen values."""
    return Call(operation, frozen(operation.value), frozen(operation.result))


class SequentialModel(Protocol):
    """The interface that a search needs."""

    @property
    def name(self) -> str:
        """The name that selects the model."""

    @property
    def names(self) -> Mapping[str, Function]:
        """The functions by their names in a history. The first name of a function is the one that is shown."""

    def space(self, function: Function) -> int | None:
        """The number of the function's key name space; None if the model lacks the function."""

    def shown(self, operation: Operation) -> str:
        """The operation in the model's words, without its result."""

    def checked(self, operation: Operation) -> Operation:
        """The operation as the model reads it. Raises `FieldError` for invalid values."""

    def has_result(self, function: Function) -> bool:
        """Whether the answer carries a result that could have been different."""

    def initial(self, space: int) -> State:
        """The initial state of a key."""

    def step(self, call: Call, state: State) -> tuple[State, Frozen, bool]:
        """The next state, the expected answer, and whether the answer was right."""

    def unexplained(self, space: int, operations: Sequence[Operation]) -> Operation | None:
        """The first operation of a key, by completion, that was answered with a value that no operation before it can
        have put there. None if there is none or the model cannot tell.
        """


class DataType(Protocol):
    """The type of data under a key. Values are frozen; `Json` where a value is parsed or shown."""

    @property
    def names(self) -> Mapping[str, Function]:
        """As `SequentialModel.names`."""

    @property
    def with_result(self) -> frozenset[Function]:
        """The functions whose answers carry a result that could have been different."""

    @property
    def first(self) -> State:
        """The usual initial state."""

    def first_of(self, value: Json) -> State:
        """The state for the value of `--initial`. Raises `FieldError`."""

    def checked(self, operation: Operation) -> Operation:
        """The operation as the data type reads it. Raises `FieldError` for invalid values."""

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """The next state and the expected answer; `REFUSED` if the operation cannot happen in this state."""

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """As `SequentialModel.unexplained`."""


REFUSED: Frozen = object()
"""Instead of an answer: the operation cannot happen in this state."""


@dataclass(frozen=True, slots=True)
class KeyModel:
    """Data types, each in its own name space. Implements `SequentialModel`."""

    name: str
    types: tuple[DataType, ...]
    firsts: tuple[State, ...] = ()
    """The initial state of each type; empty for the usual ones."""

    @property
    def names(self) -> Mapping[str, Function]:
        """The names of all types."""
        return {name: function for kind in self.types for name, function in kind.names.items()}

    def starting_with(self, value: Json) -> "KeyModel":
        """A copy with another initial state of the first data type. Raises `FieldError`."""
        return replace(self, firsts=(self.types[0].first_of(value), *(kind.first for kind in self.types[1:])))

    def initial(self, space: int) -> State:
        """The initial state of the type."""
        return self.firsts[space] if self.firsts else self.types[space].first

    def space(self, function: Function) -> int | None:
        """The number of the type that has the function."""
        return next((number for number, kind in enumerate(self.types) if function in kind.names.values()), None)

    def has_result(self, function: Function) -> bool:
        """Whether a type says that the function has a result."""
        return any(function in kind.with_result for kind in self.types)

    def shown(self, operation: Operation) -> str:
        """The name and the value of the operation."""
        name = next(name for name, function in self.names.items() if function is operation.f)
        if operation.value is None and operation.f not in _WITH_VALUE:
            return name
        if operation.f is Function.CAS and isinstance(operation.value, list):
            expected, new = (value_text(value) for value in operation.value)
            return f"{name} {expected} to {new}"
        return f"{name} {value_text(operation.value)}"

    def checked(self, operation: Operation) -> Operation:
        """The operation as its type reads it. Raises `FieldError` for one that the model lacks or that the type
        refuses.
        """
        space = self.space(operation.f)
        if space is None:
            known = " or ".join(self.names)
            raise FieldError(f"unknown operation {operation.f.value!r} of the model {self.name}: expected {known}")
        return self.types[space].checked(operation)

    def step(self, call: Call, state: State) -> tuple[State, Frozen, bool]:
        """Apply the operation by its type and compare the answers."""
        space = self.space(call.f)
        assert space is not None
        following, result = self.types[space].apply(call, state)
        return following, result, result == call.result

    def unexplained(self, space: int, operations: Sequence[Operation]) -> Operation | None:
        """The first unexplained operation, by the type."""
        return self.types[space].unexplained(self.initial(space), operations)


_WITH_VALUE: Final = (Function.WRITE, Function.APPEND, Function.ADD, Function.ENQUEUE, Function.ECHO)


def require_no_result(operation: Operation) -> None:
    """Raise `FieldError` for a result that can be no answer: such input is malformed and no evidence about the
    system.
    """
    if operation.result is not None:
        raise FieldError(f"expected no result of {operation.f}, got {value_text(operation.result)}")
