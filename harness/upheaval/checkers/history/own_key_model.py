"""A user's model as a model for the search, which copies its state and returns to earlier ones.

A state is a pickled instance. So a model must not keep state elsewhere, where all branches of the search share it: all
steps of a search are repeated in another order before its verdict counts. With a mere cache they give the same.
The operations are calls; their values are the requests and their results the answers, both as texts. An exception of
the model is raised as `ModelRaised`. This module knows nothing of logs, histories or time.
"""

import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from upheaval.checkers.history.models.sequential import Call, State
from upheaval.checkers.history.models.table import KEY_MODELS
from upheaval.checkers.own.own_model_process import load_model, shown_error
from upheaval.checkers.own.shared_state import SharedState
from upheaval.errors import HarnessError, UsageError
from upheaval.model import Model, Request
from upheaval.records import FieldError, Function, Operation, Outcome, answer_bytes
from upheaval.records.values import Frozen, frozen
from upheaval_node.errors import NodeError
from upheaval_node.suggestions import did_you_mean

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_SHOWN: Final = 60


class ModelRaised(HarnessError):
    """The model raised an exception, or has state outside of its instance. The message has that and the operation."""


@dataclass(frozen=True, slots=True)
class OwnKeyModel:
    """Implements `SequentialModel`. A state is a pickled instance; None before the first request."""

    model: type[Model]
    name: str
    shared: SharedState
    names: Mapping[str, Function] = field(default_factory=lambda: {"call": Function.CALL})
    steps: list[tuple[Call, State, int]] = field(default_factory=list)
    """Each step of the search so far, with the hash of what it gave."""

    def space(self, function: Function) -> int | None:
        """0 for calls; None for anything else."""
        return 0 if function is Function.CALL else None

    def shown(self, operation: Operation) -> str:
        """The request, cut if it is long."""
        text = str(operation.value)
        return text if len(text) <= _SHOWN else text[:_SHOWN] + " .."

    def checked(self, operation: Operation) -> Operation:
        """The operation with the key that the model gives it. Raises `FieldError` for anything but a
        well-formed call.
        """
        if operation.f is not Function.CALL:
            raise FieldError(f"unknown operation {operation.f.value!r} of a custom model: expected call")
        if not isinstance(operation.value, str):
            raise FieldError(f"expected a text as what was asked, got {json.dumps(operation.value)}")
        if _DIGEST.fullmatch(operation.value):
            raise FieldError("expected what was asked, got its digest: a run with a log is judged by `upheaval verify`")
        if operation.outcome is Outcome.OK and not isinstance(operation.result, str):
            raise FieldError(f"expected a text as the answer, got {json.dumps(operation.result)}")
        try:
            return replace(operation, key=str(self.model.partition(_request(operation))))
        except Exception as error:
            raise ModelRaised(self._raised(operation, error)) from error

    def has_result(self, function: Function) -> bool:
        """True for calls: every call has an answer."""
        return function is Function.CALL

    def initial(self, space: int) -> State:  # noqa: ARG002
        """None, for a new instance."""
        return None

    def unexplained(self, space: int, operations: Sequence[Operation]) -> Operation | None:  # noqa: ARG002
        """Always None: only the model knows the meaning of answers."""
        return None

    def step(self, call: Call, state: State) -> tuple[State, Frozen, bool]:
        """The next state, the expected answer, and whether the model agrees with the actual one."""
        after, expected, is_right = self._step(call, state)
        self.steps.append((call, state, _hash(after, expected, is_right)))
        return after, _shown(expected), is_right

    def require_repeatable(self) -> None:
        """Repeat all steps, the last one first, from the shared state at the beginning. Raises `ModelRaised` if one
        gives something else.
        """
        changed = self.shared.restore()
        for call, state, given in reversed(self.steps):
            if _hash(*self._step(call, state)) != given:
                what = f"changed {', '.join(changed)}" if changed else "has state outside of the instance"
                raise ModelRaised(
                    f"the model {self.name} {what}, which all instances share: set it in __init__"
                    f" (repeated, operation {call.operation.id} gives something else)"
                )

    def _step(self, call: Call, state: State) -> tuple[bytes, object, bool]:
        operation = call.operation
        request = _request(operation)
        try:
            model = pickle.loads(state) if isinstance(state, bytes) else self.model()
            expected = model.apply(request)
            given = operation.result
            is_right = isinstance(given, str) and bool(model.agrees(request, expected, answer_bytes(given)))
            return pickle.dumps(model), expected, is_right
        except Exception as error:
            raise ModelRaised(self._raised(operation, error)) from error

    def _raised(self, operation: Operation, error: Exception) -> str:
        return f"the model {self.name} raised {shown_error(error)}, at operation {operation.id}"


def load_key_model(name: str) -> OwnKeyModel:
    """Load the model `module:Class`. Raises `UsageError` if it cannot be loaded or is no model."""
    if ":" not in name:
        raise UsageError(
            f"unknown model {name!r}: expected {', '.join(KEY_MODELS)} or module:Class{did_you_mean(name, KEY_MODELS)}"
        )
    try:
        model = load_model(name)
    except NodeError as error:
        raise UsageError(str(error)) from error
    except Exception as error:
        raise UsageError(f"model {name!r}: {shown_error(error)}") from error
    if model is None or not issubclass(model, Model):
        raise UsageError(f"model {name!r}: a service is its own model only where there is a log")
    return OwnKeyModel(model, name, SharedState(model))


def _hash(after: bytes, expected: object, is_right: bool) -> int:
    """Without an answer that is an object of the model's: its text may differ between equal ones."""
    try:
        answer = expected if isinstance(expected, bytes) else json.dumps(expected)
    except (TypeError, ValueError):
        answer = ""
    return hash((after, answer, is_right))


def _shown(expected: object) -> Frozen:
    """The expected answer as JSON; as Python writes it where it has no JSON."""
    if isinstance(expected, bytes | bytearray | memoryview):
        return bytes(expected).decode("utf-8", "backslashreplace")
    try:
        return frozen(json.loads(json.dumps(expected, default=str)))
    except (TypeError, ValueError):
        return repr(expected)


def _request(operation: Operation) -> Request:
    return Request(str(operation.value).encode())
