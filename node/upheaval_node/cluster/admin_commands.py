"""The admin commands of an operator, and what the counters report about them.

A command goes through the control toggle of the leader or the node control toggle of any member. Rules (Aeron Cluster:
ClusterControl, NodeControl): a toggle takes a command only while its value is NEUTRAL. The leader's toggle and that of
each node become NEUTRAL when the election of that member is over. A suspended cluster takes only RESUME. Pure functions
over counters and the bytes of a recording log; knows neither processes nor files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from upheaval_node import counters as counter_types
from upheaval_node.cluster.module_state import ControlToggle, ModuleState, NodeToggle
from upheaval_node.counters import Counters
from upheaval_node.errors import DecodeError
from upheaval_node.files.recording_log_entry import CONSENSUS_MODULE_ID, Entry, EntryType, read_entries

ADMIN_COMMANDS: Final = {
    "snapshot": ControlToggle.SNAPSHOT,
    "suspend": ControlToggle.SUSPEND,
    "resume": ControlToggle.RESUME,
    "shutdown": ControlToggle.SHUTDOWN,
    "abort": ControlToggle.ABORT,
    "standby-snapshot": ControlToggle.STANDBY_SNAPSHOT,
    "replicate-standby-snapshot": NodeToggle.REPLICATE_STANDBY_SNAPSHOT,
}
"""The toggle value of each command word. Its type says whether the toggle is the leader's or a node's."""
_STATE_NAMES: Final = {state.value: state.name for state in ModuleState}


@dataclass(frozen=True, slots=True)
class ControlStatus:
    """What a member reports about its consensus module. `module_state` is None while there is no module.

    `snapshot_count` counts from the start of the member. `snapshot_position` is the position of the latest complete
    snapshot, `standby_position` the position of the latest snapshot that a standby reported; both are -1 without one.
    """

    module_state: str | None = None
    snapshot_count: int = -1
    snapshot_position: int = -1
    standby_position: int = -1


def read_control(counters: Counters | None, recording_log: bytes) -> ControlStatus:
    """Read the status of a member. `counters` is None while the member is down: only its recording log can be read."""
    position = latest_snapshot_position(recording_log)
    standby_position = _latest(recording_log, lambda e: e.is_valid and e.type is EntryType.STANDBY_SNAPSHOT)
    if counters is None:
        return ControlStatus(snapshot_position=position, standby_position=standby_position)
    state = counters.value_of(counter_types.CONSENSUS_MODULE_STATE)
    count = counters.value_of(counter_types.SNAPSHOT_COUNT)
    name = None if state is None else _STATE_NAMES.get(state)
    return ControlStatus(name, -1 if count is None else count, position, standby_position)


def latest_snapshot_position(recording_log: bytes) -> int:
    """The log position of the latest valid snapshot of the module, -1 without one.

    A member's snapshot counts only with the module's entry.
    """
    return _latest(recording_log, lambda e: e.is_valid_snapshot)


def _latest(recording_log: bytes, wanted: Callable[[Entry], bool]) -> int:
    positions = [e.log_position for e in _entries(recording_log) if e.service_id == CONSENSUS_MODULE_ID and wanted(e)]
    return max(positions, default=-1)


@lru_cache(maxsize=16)
def _entries(recording_log: bytes) -> tuple[Entry, ...]:
    """The entries of the module and of services, empty if the log cannot be read.

    Cached because a wait for a change reads the same bytes again and again.
    """
    try:
        return tuple(read_entries(recording_log)[0])
    except DecodeError:
        return ()


def give_command(counters: Counters, word: str) -> str:
    """Set the toggle. Returns why the command cannot be taken now, or an empty string if it was set.

    Raises `KeyError` when `word` is not an admin command.
    """
    command = ADMIN_COMMANDS[word]
    is_of_node = isinstance(command, NodeToggle)
    toggle = counters.find(counter_types.NODE_CONTROL_TOGGLE if is_of_node else counter_types.CONTROL_TOGGLE)
    if toggle is None:
        return "no consensus module"
    state = counters.value_of(counter_types.CONSENSUS_MODULE_STATE)
    value = toggle.get()
    if command is ControlToggle.RESUME:
        if state != ModuleState.SUSPENDED or value not in (ControlToggle.NEUTRAL, ControlToggle.SUSPEND):
            return "the cluster is not suspended"
    elif value != ControlToggle.NEUTRAL:
        name = f"node control toggle is {_named(NodeToggle, value)}"
        return f"the {name if is_of_node else f'control toggle is {_named(ControlToggle, value)}'}, not NEUTRAL"
    elif state != ModuleState.ACTIVE:
        return f"the consensus module is {_named(ModuleState, state)}, not ACTIVE"
    toggle.set(command)
    return ""


def _named(names: type[IntEnum], value: int | None) -> str:
    return names(value).name if value in {name.value for name in names} else str(value)
