"""What an operator can order through the control toggle of a leader, and what the counters say of it.

Rules (Aeron Cluster: ClusterControl): an order is taken by the toggle only while it is NEUTRAL, which it is on a leader
whose election is over; a cluster that is suspended takes RESUME, and nothing else. Pure functions over counters and the
bytes of a recording log; knows neither processes nor files.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node import counters as counter_types
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import Counters
from upheaval_node.errors import DecodeError
from upheaval_node.files.recording_log_entry import CONSENSUS_MODULE_ID, read_entries

ORDERS: Final = {
    "snapshot": ControlToggle.SNAPSHOT,
    "suspend": ControlToggle.SUSPEND,
    "resume": ControlToggle.RESUME,
    "shutdown": ControlToggle.SHUTDOWN,
    "abort": ControlToggle.ABORT,
}
"""The toggle by the word for it."""


@dataclass(frozen=True, slots=True)
class ControlStatus:
    """What a member says about its consensus module; `module_state` is None while there is none.

    `snapshot_count` counts from the start of the member. `snapshot_position` is that of its latest complete snapshot,
    -1 without one.
    """

    module_state: str | None = None
    snapshot_count: int = -1
    snapshot_position: int = -1


def read_control(counters: Counters | None, recording_log: bytes) -> ControlStatus:
    """`counters` None: the member is down, only its recording log can be read."""
    position = latest_snapshot_position(recording_log)
    if counters is None:
        return ControlStatus(snapshot_position=position)
    state = _value(counters, counter_types.CONSENSUS_MODULE_STATE)
    count = _value(counters, counter_types.SNAPSHOT_COUNT)
    name = ModuleState(state).name if state in {each.value for each in ModuleState} else None
    return ControlStatus(name, -1 if count is None else count, position)


def latest_snapshot_position(recording_log: bytes) -> int:
    """The log position of the latest valid snapshot of the module, by which all of a member's count; -1 without one."""
    try:
        entries, _, _ = read_entries(recording_log)
    except DecodeError:
        return -1
    found = [e.log_position for e in entries if e.is_valid_snapshot and e.service_id == CONSENSUS_MODULE_ID]
    return max(found, default=-1)


def give_order(counters: Counters, word: str) -> str:
    """Set the control toggle; returns why it cannot be taken now, empty when it was. Raises `KeyError` for no order."""
    order = ORDERS[word]
    toggle = counters.find(counter_types.CONTROL_TOGGLE)
    if toggle is None:
        return "there is no consensus module"
    state = _value(counters, counter_types.CONSENSUS_MODULE_STATE)
    value = toggle.get()
    if order is ControlToggle.RESUME:
        if state != ModuleState.SUSPENDED or value not in (ControlToggle.NEUTRAL, ControlToggle.SUSPEND):
            return "the cluster is not suspended"
    elif value != ControlToggle.NEUTRAL:
        return f"the control toggle is {_named(ControlToggle, value)}, not NEUTRAL"
    elif state != ModuleState.ACTIVE:
        return f"the consensus module is {_named(ModuleState, state)}, not ACTIVE"
    toggle.set(order)
    return ""


def _named(names: type[IntEnum], value: int | None) -> str:
    return names(value).name if value in {each.value for each in names} else str(value)


def _value(counters: Counters, type_id: int) -> int | None:
    counter = counters.find(type_id)
    return None if counter is None else counter.get()
