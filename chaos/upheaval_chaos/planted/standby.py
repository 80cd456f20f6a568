"""Planted bugs of standbys, and of what members write down of their snapshots."""

from dataclasses import replace
from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_chaos.planted.snapshots import change_snapshots
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.standby.module import StandbyModule
from upheaval_node.types import FRAME_ALIGNMENT

AREA: Final[Area] = Area("standby")


@AREA.bug("standbys-known")
def standby_snapshot_a_frame_off(module: StandbyModule) -> None:
    """A standby tells the members of a snapshot 32 bytes before the position at which it was taken."""
    notify = module._news.notify

    @replacing(module._news, "notify")
    def notify_earlier(snapshot: tuple[cm.StandbySnapshotSnapshot, ...]) -> None:
        notify(tuple(with_values(entry, log_position=entry.log_position - FRAME_ALIGNMENT) for entry in snapshot))


@AREA.bug("standbys-known", is_rare=True)
def standby_snapshot_not_written_down(module: ConsensusModule) -> None:
    """A member forgets the snapshots that a standby tells it of."""
    replace_method(module._notices, "_write", lambda now, notice: None)  # noqa: ARG005


@AREA.bug("snapshot-is-replay", "backed-up")
def standby_snapshot_misses_a_session(module: StandbyModule) -> None:
    """The session that was opened last is not in the snapshot of a standby."""
    change_snapshots(module._state, lambda snapshot: replace(snapshot, sessions=snapshot.sessions[:-1]))
