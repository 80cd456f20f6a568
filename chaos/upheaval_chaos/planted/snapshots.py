"""Planted bugs of snapshots: what is not in one, and what a start does not take from it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, TrackerState
from upheaval_node.cluster.replicated_state import ReplicatedState
from upheaval_node.protocol.message import with_values
from upheaval_node.service.container import ServiceContainer
from upheaval_node.service.snapshots import ServiceSnapshot
from upheaval_node.steps import StepGenerator
from upheaval_node.types import Now, Position

AREA: Final[Area] = Area("snapshots")


@AREA.bug("snapshot-is-replay")
def snapshot_misses_a_session(module: ConsensusModule) -> None:
    """The session that was opened last is not in the module's snapshot."""
    change_snapshots(module._state, lambda snapshot: replace(snapshot, sessions=snapshot.sessions[:-1]))


@AREA.bug("snapshot-is-replay", "timers-kept")
def snapshot_misses_a_timer(module: ConsensusModule) -> None:
    """The timer that expires last is not in the module's snapshot."""
    change_snapshots(module._state, lambda snapshot: replace(snapshot, timers=snapshot.timers[:-1]))


@AREA.bug("snapshot-is-replay", "money-conserved", is_rare=True)
def snapshot_misses_pending_messages(module: ConsensusModule) -> None:
    """Messages of services that are not in the log yet are not in the module's snapshot."""
    change_snapshots(module._state, without_pending_messages)


@AREA.bug("snapshot-is-replay", "sessions-kept")
def snapshot_repeats_a_session_id(module: ConsensusModule) -> None:
    """The module's snapshot names the id of the last session as the next one."""
    change_snapshots(module._state, lambda snapshot: replace(snapshot, next_session_id=snapshot.next_session_id - 1))


@AREA.bug("sessions-kept", "clients-in-order", "sessions-outlive-leaders", "snapshot-is-replay")
def sessions_lost_over_a_restart(module: ConsensusModule) -> None:
    """A start from a snapshot restores no sessions."""
    load = module._state.load

    @replacing(module._state, "load")
    def load_without_sessions(now: Now, snapshot: ModuleSnapshot) -> None:
        load(now, replace(snapshot, sessions=[]))


@AREA.bug("snapshot-is-replay")
def service_snapshot_misses_a_session(container: ServiceContainer) -> None:
    """The session that was opened last is not in the snapshot of a service."""
    _change_service_snapshots(container, lambda snapshot: replace(snapshot, sessions=snapshot.sessions[:-1]))


@AREA.bug("snapshot-is-replay", "states-agree")
def service_snapshot_misses_its_last_message(container: ServiceContainer) -> None:
    """The last message of a service's state is not in its snapshot."""
    _change_service_snapshots(container, lambda snapshot: replace(snapshot, state=snapshot.state[:-1]))


def without_pending_messages(snapshot: ModuleSnapshot) -> ModuleSnapshot:
    """As if the log had all messages that services have offered."""
    trackers = [
        TrackerState(with_values(tracker.record, log_service_session_id=tracker.record.next_service_session_id - 1), [])
        for tracker in snapshot.trackers
    ]
    return replace(snapshot, trackers=trackers)


def change_snapshots(state: ReplicatedState, change: Callable[[ModuleSnapshot], ModuleSnapshot]) -> None:
    """Change what the snapshots of a module have."""
    take = state.snapshot

    @replacing(state, "snapshot")
    def take_changed(now: Now, log_position: Position) -> ModuleSnapshot:
        return change(take(now, log_position))


def _change_service_snapshots(
    container: ServiceContainer, change: Callable[[ServiceSnapshot], ServiceSnapshot]
) -> None:
    write = container._store.write

    @replacing(container._store, "write")
    def write_changed(snapshot: ServiceSnapshot) -> StepGenerator[int]:
        return write(change(snapshot))
