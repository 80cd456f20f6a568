"""One state, the table of its legal moves, and the one writer that keeps to it.

Every state machine of the node is an enum with stable codes, a table as data, and a `StateMachine` that holds where it
is. What else a move brings with it (a trace line, a counter, a deadline) hangs on `on_move`.
"""

from collections.abc import Callable, Mapping, Set
from enum import Enum
from typing import Final, Generic, TypeVar

from upheaval_node.errors import NodeError

State = TypeVar("State", bound=Enum)


class StateMachine(Generic[State]):
    """Where one thing with states is. `current` is read by everybody and written by `enter` alone."""

    __slots__ = ("_moves", "_name", "_on_move", "current")

    def __init__(
        self,
        name: str,
        initial: State,
        moves: Mapping[State, Set[State]],
        on_move: Callable[[State, State], None] | None = None,
    ) -> None:
        """`moves` has the states that may follow each state; `on_move` gets the old and new state after each move."""
        self._name: Final = name
        self._moves: Final = moves
        self._on_move: Final = on_move
        self.current = initial

    def enter(self, state: State) -> None:
        """Go to `state`. Raises `NodeError`, and stays, if the table has no such move."""
        old = self.current
        if state not in self._moves[old]:
            raise NodeError(f"{self._name} cannot go from {old.name} to {state.name}")
        self.current = state
        if self._on_move is not None:
            self._on_move(old, state)
