"""The control toggles of leaders and nodes: which order they take in which state, and why they do not."""

import pytest

from upheaval_node.cluster.admin_commands import give_command
from upheaval_node.cluster.module_state import ControlToggle, ModuleState, NodeToggle
from upheaval_node.counters import CONSENSUS_MODULE_STATE, CONTROL_TOGGLE, NODE_CONTROL_TOGGLE, Counter, Counters


def module(toggle: ControlToggle, state: ModuleState) -> tuple[Counters, Counter]:
    counters = Counters.in_memory(4)
    counters.allocate(CONSENSUS_MODULE_STATE, b"", "state", state)
    return counters, counters.allocate(CONTROL_TOGGLE, b"", "toggle", toggle)


@pytest.mark.parametrize(
    ("toggle", "state", "word"),
    [
        (ControlToggle.NEUTRAL, ModuleState.ACTIVE, "snapshot"),
        (ControlToggle.NEUTRAL, ModuleState.SUSPENDED, "resume"),
        (ControlToggle.SUSPEND, ModuleState.SUSPENDED, "resume"),
    ],
)
def test_an_order_that_suits_is_taken(toggle: ControlToggle, state: ModuleState, word: str) -> None:
    counters, counter = module(toggle, state)
    assert give_command(counters, word) == ""
    assert counter.get() == ControlToggle[word.upper()]


@pytest.mark.parametrize(
    ("toggle", "state", "word", "why"),
    [
        (ControlToggle.INACTIVE, ModuleState.ACTIVE, "snapshot", "the control toggle is INACTIVE, not NEUTRAL"),
        (ControlToggle.SUSPEND, ModuleState.SUSPENDED, "abort", "the control toggle is SUSPEND, not NEUTRAL"),
        (ControlToggle.NEUTRAL, ModuleState.SUSPENDED, "snapshot", "the consensus module is SUSPENDED, not ACTIVE"),
        (ControlToggle.NEUTRAL, ModuleState.ACTIVE, "resume", "the cluster is not suspended"),
    ],
)
def test_an_order_that_does_not_suit_says_why(toggle: ControlToggle, state: ModuleState, word: str, why: str) -> None:
    counters, counter = module(toggle, state)
    assert give_command(counters, word) == why
    assert counter.get() == toggle


def test_an_order_to_a_node_goes_through_its_own_toggle() -> None:
    counters, leaders = module(ControlToggle.INACTIVE, ModuleState.ACTIVE)
    assert give_command(counters, "replicate-standby-snapshot") == "no consensus module"
    own = counters.allocate(NODE_CONTROL_TOGGLE, b"", "node", NodeToggle.INACTIVE)
    refused = "the node control toggle is INACTIVE, not NEUTRAL"
    assert give_command(counters, "replicate-standby-snapshot") == refused
    own.set(NodeToggle.NEUTRAL)
    assert give_command(counters, "replicate-standby-snapshot") == ""
    assert own.get() == NodeToggle.REPLICATE_STANDBY_SNAPSHOT
    assert leaders.get() == ControlToggle.INACTIVE


def test_without_a_module_nothing_takes_an_order() -> None:
    assert give_command(Counters.in_memory(1), "snapshot") == "no consensus module"
