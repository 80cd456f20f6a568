"""The state machine that all others are made of."""

from enum import Enum, auto

import pytest

from upheaval_node.errors import NodeError
from upheaval_node.state_machine import StateMachine


class Light(Enum):
    RED = auto()
    GREEN = auto()
    OFF = auto()


MOVES = {
    Light.RED: frozenset({Light.GREEN, Light.OFF}),
    Light.GREEN: frozenset({Light.RED, Light.OFF}),
    Light.OFF: frozenset[Light](),
}


def test_a_move_of_the_table_is_taken_and_told_after_it_was() -> None:
    told: list[tuple[Light, Light, Light]] = []
    light = StateMachine("light", Light.RED, MOVES, lambda old, new: told.append((old, new, light.current)))
    assert (light.current, told) == (Light.RED, [])
    light.enter(Light.GREEN)
    light.enter(Light.OFF)
    assert told == [(Light.RED, Light.GREEN, Light.GREEN), (Light.GREEN, Light.OFF, Light.OFF)]


@pytest.mark.parametrize(("from_state", "to_state"), [(Light.RED, Light.RED), (Light.OFF, Light.RED)])
def test_any_other_move_is_an_error_that_changes_nothing(from_state: Light, to_state: Light) -> None:
    told: list[Light] = []
    light = StateMachine("light", from_state, MOVES, lambda old, new: told.append(new))
    with pytest.raises(NodeError, match=f"light cannot go from {from_state.name} to {to_state.name}"):
        light.enter(to_state)
    assert (light.current, told) == (from_state, [])
