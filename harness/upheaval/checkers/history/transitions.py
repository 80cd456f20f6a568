"""The transitions between the states of one key, each computed once.

States and kinds of operations have numbers, so that a search compares and hashes small integers. Operations of one kind
have the same request and the same answer. This module knows nothing of orders and time.
"""

from typing import Final

from upheaval.checkers.history.models.sequential import Call, SequentialModel, State, call_of
from upheaval.records import Operation, Outcome
from upheaval.records.values import Frozen

FIRST: Final = 0
"""The number of the initial state."""


class Transitions:
    """A cache of transitions, shared by all searches of one key."""

    def __init__(self, model: SequentialModel, space: int) -> None:
        self._model = model
        first = model.initial(space)
        self._states: list[State] = [first]
        self._numbers: dict[State, int] = {first: FIRST}
        self._calls: list[Call] = []
        self._answered: list[bool] = []
        self._kinds: dict[tuple[Frozen, ...], int] = {}
        self._results: list[dict[int, Frozen]] = []
        self.tables: list[dict[int, int]] = []
        """By kind and state, what `step` has returned."""

    def kind(self, operation: Operation) -> int:
        """The number of the operation's kind."""
        call = call_of(operation)
        is_answered = operation.outcome is Outcome.OK
        key = (call.f, call.value, is_answered, call.result if is_answered else None)
        number = self._kinds.setdefault(key, len(self._calls))
        if number == len(self._calls):
            self._calls.append(call)
            self._answered.append(is_answered)
            self._results.append({})
            self.tables.append({})
        return number

    def step(self, kind: int, state: int) -> int:
        """The number of the next state; its complement (`~number`) if the model would have answered differently."""
        known = self.tables[kind].get(state)
        if known is not None:
            return known
        following, result, is_right = self._model.step(self._calls[kind], self._states[state])
        number = self._numbers.setdefault(following, len(self._states))
        if number == len(self._states):
            self._states.append(following)
        if not is_right and self._answered[kind]:
            self._results[kind][state] = result
            number = ~number
        self.tables[kind][state] = number
        return number

    def right_result(self, kind: int, state: int) -> Frozen:
        """The model's answer, where `step` returned a complement."""
        return self._results[kind][state]
