"""What a search asks of a model, and models of one key that are made of kinds of data.

To add a kind of data: one file with a class that has what `DataType` asks for, and one row in `table`. This module
knows nothing of logs, histories or time."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from upheaval.records import FieldError, Function, Json, Operation
from upheaval.records.values import Frozen, frozen, value_text

State = Hashable
"""Two states are equal exactly when nothing can tell them apart."""


@dataclass(frozen=True, slots=True)
class Call:
    """What counts of an operation in a state: what it asks for, and what it was answered (None without an answer)."""

    operation: Operation
    value: Frozen
    result: Frozen

    @property
    def f(self) -> Function:
        """What it asks for."""
        return self.operation.f


def call_of(operation: Operation) -> Call:
    """With its values frozen."""
    return Call(operation, frozen(operation.value), frozen(operation.result))


class SequentialModel(Protocol):
    """What a search asks of a model."""

    @property
    def name(self) -> str:
        """By which it is asked for."""

    @property
    def names(self) -> Mapping[str, Function]:
        """What the operations are called in a history; the first name of a function is the one that is shown."""

    def space(self, function: Function) -> int | None:
        """The number of the function's name space of keys; None for one that is not of this model."""

    def shown(self, operation: Operation) -> str:
        """An operation in the words of the model, without its result."""

    def checked(self, operation: Operation) -> Operation:
        """The operation as the model reads it. Raises `FieldError` for what has no sense."""

    def has_result(self, function: Function) -> bool:
        """Whether the answer has a result that could have been another one."""

    def initial(self, space: int) -> State:
        """The state of a key before the first operation."""

    def step(self, call: Call, state: State) -> tuple[State, Frozen, bool]:
        """The next state, what the operation should answer, and whether it did."""

    def unexplained(self, space: int, operations: Sequence[Operation]) -> Operation | None:
        """The first one of a key, by completion, whose answer has a value that no operation before it can have put
        there; None when there is none, or the model cannot say."""


class DataType(Protocol):
    """What a key holds. Values are frozen, `Json` where a value is read or shown."""

    @property
    def names(self) -> Mapping[str, Function]:
        """As of a model."""

    @property
    def with_result(self) -> frozenset[Function]:
        """Those whose answers have a result that could have been another one."""

    @property
    def first(self) -> State:
        """The state before the first operation."""

    def first_of(self, value: Json) -> State:
        """The state that `--initial` asks for. Raises `FieldError`."""

    def checked(self, operation: Operation) -> Operation:
        """The operation as the data type reads it. Raises `FieldError` for what has no sense."""

    def apply(self, call: Call, state: State) -> tuple[State, Frozen]:
        """The next state, and what the operation should answer; `REFUSED` where it cannot have happened."""

    def unexplained(self, first: State, operations: Sequence[Operation]) -> Operation | None:
        """As of a model."""


REFUSED: Frozen = object()
"""The answer that is no answer: the operation does not happen in this state."""


@dataclass(frozen=True, slots=True)
class KeyModel:
    """Data types in name spaces of their own. Implements `SequentialModel`."""

    name: str
    types: tuple[DataType, ...]
    firsts: tuple[State, ...] = ()
    """The first state of each type, where it is not the usual one."""

    @property
    def names(self) -> Mapping[str, Function]:
        """Those of all types."""
        return {name: function for each in self.types for name, function in each.names.items()}

    def starting_with(self, value: Json) -> "KeyModel":
        """With another first value of its first data type. Raises `FieldError`."""
        return replace(self, firsts=(self.types[0].first_of(value), *(each.first for each in self.types[1:])))

    def initial(self, space: int) -> State:
        """That of the type."""
        return self.firsts[space] if self.firsts else self.types[space].first

    def space(self, function: Function) -> int | None:
        """The number of the type."""
        return next((number for number, each in enumerate(self.types) if function in each.names.values()), None)

    def has_result(self, function: Function) -> bool:
        """As the type says."""
        return any(function in each.with_result for each in self.types)

    def shown(self, operation: Operation) -> str:
        """The name and the value."""
        name = next(name for name, function in self.names.items() if function is operation.f)
        if operation.value is None and operation.f not in _WITH_VALUE:
            return name
        if operation.f is Function.CAS and isinstance(operation.value, list):
            expected, new = (value_text(value) for value in operation.value)
            return f"{name} {expected} to {new}"
        return f"{name} {value_text(operation.value)}"

    def checked(self, operation: Operation) -> Operation:
        """As the type reads it."""
        space = self.space(operation.f)
        if space is None:
            known = " or ".join(self.names)
            raise FieldError(f"unknown operation {operation.f.value!r} of the model {self.name}: expected {known}")
        return self.types[space].checked(operation)

    def step(self, call: Call, state: State) -> tuple[State, Frozen, bool]:
        """By `apply` of the type."""
        space = self.space(call.f)
        assert space is not None
        following, result = self.types[space].apply(call, state)
        return following, result, result == call.result

    def unexplained(self, space: int, operations: Sequence[Operation]) -> Operation | None:
        """As the type says."""
        return self.types[space].unexplained(self.initial(space), operations)


_WITH_VALUE: Final = (Function.WRITE, Function.APPEND, Function.ADD, Function.ENQUEUE, Function.ECHO)


def require_no_result(operation: Operation) -> None:
    """What could be no answer at all is bad input and says nothing of the system that answered."""
    if operation.result is not None:
        raise FieldError(f"expected no result of {operation.f}, got {value_text(operation.result)}")
