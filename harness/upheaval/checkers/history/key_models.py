"""Sequential models of one key with an immutable state, for searches that go back to a state they have left.

Each has the names that other harnesses give to its operations. This module knows nothing of logs, histories or time.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from upheaval.checkers.history.model import same
from upheaval.records import WORKBENCH, FieldError, Function, Json, Operation, Outcome

State = tuple[Json, ...]
"""Of a register or text `(value,)`, or `()` before the first write; of a list its values."""


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
        """The operation, with its key as the model has it. Raises `FieldError` for what has no sense."""

    def step(self, operation: Operation, state: State) -> tuple[State, Json, bool]:
        """The next state, what the operation should answer, and whether it did."""


@dataclass(frozen=True, slots=True)
class KeyModel:
    """What the operations on one key do, and what they answer. Implements `SequentialModel`."""

    name: str
    spaces: tuple[tuple[Function, ...], ...]
    """The name spaces of keys: functions of different ones never meet on a key."""
    names: Mapping[str, Function]
    """What the operations are called in a history; the first name of a function is the one that is shown."""
    apply: Callable[[Function, State, Json], tuple[State, Json]]
    """The next state and the result of an operation."""

    def step(self, operation: Operation, state: State) -> tuple[State, Json, bool]:
        """By `apply`."""
        following, result = self.apply(operation.f, state, operation.value)
        return following, result, same(result, operation.result)

    def space(self, function: Function) -> int | None:
        """The number of the function's name space; None for one that is not of this model."""
        return next((number for number, functions in enumerate(self.spaces) if function in functions), None)

    def shown(self, operation: Operation) -> str:
        """An operation in the words of the model, without its result."""
        name = next(name for name, function in self.names.items() if function is operation.f)
        if operation.f in _READS:
            return name
        if operation.f is Function.CAS and isinstance(operation.value, list):
            expected, new = (json.dumps(value) for value in operation.value)
            return f"{name} {expected} to {new}"
        return f"{name} {json.dumps(operation.value)}"

    def checked(self, operation: Operation) -> Operation:
        """The operation, with an empty key read as the model reads it. Raises `FieldError` for what has no sense."""
        if self.space(operation.f) is None:
            known = " or ".join(self.names)
            raise FieldError(f"unknown operation {operation.f.value!r} of the model {self.name}: expected {known}")
        if operation.f is Function.CAS and not (isinstance(operation.value, list) and len(operation.value) == 2):
            raise FieldError("the value of a cas must be [expected, new]")
        if self is KV and operation.f is not Function.READ and not isinstance(operation.value, str):
            raise FieldError(f"expected a text to {operation.f}, got {json.dumps(operation.value)}")
        if operation.outcome is not Outcome.OK:
            return operation
        result = operation.result
        if result is None and self is KV and operation.f is Function.READ:
            return replace(operation, result="")
        if result is None and operation.f is Function.LIST:
            return replace(operation, result=[])
        _require_result(operation)
        return operation


_READS: Final = (Function.READ, Function.LIST)
_ANSWERS_NOTHING: Final = (Function.WRITE, Function.APPEND)


def _require_result(operation: Operation) -> None:
    """What could be no answer at all is bad input and says nothing about the one who answered."""
    shown = json.dumps(operation.result)
    if operation.f in _ANSWERS_NOTHING and operation.result is not None:
        raise FieldError(f"expected no result of {operation.f}, got {shown}")
    if operation.f is Function.CAS and not isinstance(operation.result, bool):
        raise FieldError(f"expected the result true or false of cas, got {shown}")
    if operation.f is Function.LIST and not isinstance(operation.result, list):
        raise FieldError(f"expected a list as the result of {operation.f}, got {shown}")


def _register_list_or_echo(function: Function, state: State, value: Json) -> tuple[State, Json]:
    match function:
        case Function.READ:
            return state, state[0] if state else None
        case Function.WRITE:
            return (value,), None
        case Function.CAS:
            assert isinstance(value, list)
            swapped = same(state[0] if state else None, value[0])
            return ((value[1],) if swapped else state), swapped
        case Function.APPEND:
            return (*state, value), None
        case Function.LIST:
            return state, list(state)
        case Function.ECHO:
            return state, value
        case _:
            raise ValueError(f"{function} is no operation on one key")


def _text(function: Function, state: State, value: Json) -> tuple[State, Json]:
    held = state[0] if state else ""
    match function:
        case Function.READ:
            return state, held
        case Function.WRITE:
            return (value,), None
        case Function.APPEND:
            assert isinstance(held, str)
            assert isinstance(value, str)
            return (held + value,), None
        case _:
            raise ValueError(f"{function} is no operation on a text")


_REGISTER: Final = (Function.READ, Function.WRITE, Function.CAS)
_LIST: Final = (Function.APPEND, Function.LIST)


def _own_names(*functions: Function) -> dict[str, Function]:
    return {function.value: function for function in functions}


WORKBENCH_MODEL: Final = KeyModel(
    "workbench", (_REGISTER, _LIST, (Function.ECHO,)), _own_names(*WORKBENCH), _register_list_or_echo
)
"""The registers, lists and echoes of the service `workbench`."""

REGISTER: Final = KeyModel("register", (_REGISTER,), _own_names(*_REGISTER), _register_list_or_echo)
LIST: Final = KeyModel(
    "list",
    (_LIST,),
    {"append": Function.APPEND, "read": Function.LIST, "list": Function.LIST},
    _register_list_or_echo,
)
KV: Final = KeyModel(
    "kv",
    ((Function.READ, Function.WRITE, Function.APPEND),),
    {
        "get": Function.READ,
        "put": Function.WRITE,
        "append": Function.APPEND,
        "read": Function.READ,
        "write": Function.WRITE,
    },
    _text,
)
"""Texts that are put, appended to and got; a key without one holds the empty text."""

KEY_MODELS: Final = {
    "workbench": WORKBENCH_MODEL,
    "register": REGISTER,
    "cas-register": REGISTER,
    "list": LIST,
    "kv": KV,
}
