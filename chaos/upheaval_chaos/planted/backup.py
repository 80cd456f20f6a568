"""Planted bugs of the backup agent: what it says that it has, and what it names in its recording log."""

from typing import Any, Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replacing
from upheaval_node.backup.agent import BackupAgent
from upheaval_node.files.recording_log import Entry
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.types import FRAME_ALIGNMENT, Now, Position

AREA: Final[Area] = Area("backup")


@AREA.bug("backed-up")
def backup_a_frame_ahead(agent: BackupAgent) -> None:
    """A backup says that it has 32 bytes more of the log than it has."""

    @replacing(agent, "_show_position")
    def show_more() -> int:
        position = None if agent._copy is None else agent._copy.position
        return int(position is not None and agent.published.live_log_position.set_max(position + FRAME_ALIGNMENT))


@AREA.bug("backed-up")
def backup_takes_no_snapshots(agent: BackupAgent) -> None:
    """A backup copies the log and none of the snapshots."""
    hear = agent._on_backup_response

    @replacing(agent, "_on_backup_response")
    def hear_less(now: Now, response: cm.BackupResponse) -> None:
        hear(now, with_values(response, snapshots=()))


@AREA.bug("backed-up")
def backup_names_no_later_terms(agent: BackupAgent) -> None:
    """A backup names the first term of its copy in its recording log, and none that follows."""
    name = agent._on_terms

    @replacing(agent, "_on_terms")
    def name_first(now: Now, recording_id: int, events: list[cm.NewLeadershipTermEvent]) -> None:
        is_first = agent.recording_log.find_last_term() is None
        name(now, recording_id, events[:1] if is_first else [])


@AREA.bug("backed-up", "snapshot-is-replay")
def backup_snapshot_a_frame_off(agent: BackupAgent) -> None:
    """A backup names each snapshot 32 bytes before the position at which it was taken."""
    append = agent.recording_log.append_snapshot

    @replacing(agent.recording_log, "append_snapshot")
    def append_earlier(
        recording_id: int, term_id: int, base: Position, position: Position, *rest: Any, **keywords: Any
    ) -> Entry:
        return append(recording_id, term_id, base, Position(position - FRAME_ALIGNMENT), *rest, **keywords)  # type: ignore[arg-type]
