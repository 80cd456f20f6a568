"""The backup's update of its recording log at the end of a round. It decides nothing else.

Source: Aeron Cluster, backup's update of the recording log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.whole_recordings import describe_recording
from upheaval_node.backup.offer import Offer
from upheaval_node.errors import PeerError
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.files.recording_log_entry import CONSENSUS_MODULE_ID
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.steps import StepGenerator
from upheaval_node.types import NULL_POSITION


@dataclass(frozen=True, slots=True)
class RetrievedSnapshot:
    """`source` is the member's offer; `recording_id` and `length` are those of the local copy."""

    source: cm.BackupResponseSnapshot
    recording_id: int
    length: int


def wanted_snapshots(recording_log: RecordingLog, offer: Offer) -> list[cm.BackupResponseSnapshot]:
    """The offered snapshots that have not been copied yet."""
    have = {(entry.service_id, entry.log_position) for entry in recording_log.entries if entry.is_valid_snapshot}
    return [snapshot for snapshot in offer.snapshots if (snapshot.service_id, snapshot.log_position) not in have]


def describe_copies(
    archive: ArchiveClient, wanted: Sequence[cm.BackupResponseSnapshot], recordings: dict[int, int]
) -> StepGenerator[list[RetrievedSnapshot]]:
    """The copies with their lengths. Raises `PeerError` for one without an end."""
    copies: list[RetrievedSnapshot] = []
    for snapshot in wanted:
        descriptor = yield from describe_recording(archive, recordings[snapshot.recording_id])
        if descriptor.stop_position == NULL_POSITION:
            raise PeerError(f"the copy of recording {snapshot.recording_id} was never stopped")
        length = descriptor.stop_position - descriptor.start_position
        copies.append(RetrievedSnapshot(snapshot, descriptor.recording_id, length))
    return copies


def newest_position(snapshots: Sequence[RetrievedSnapshot]) -> int:
    """The highest position of a snapshot of the consensus module, -1 without any."""
    return max(
        (snapshot.source.log_position for snapshot in snapshots if snapshot.source.service_id == CONSENSUS_MODULE_ID),
        default=NULL_POSITION,
    )


def name_start_term(
    recording_log: RecordingLog,
    *,
    recording_id: int,
    start_position: int,
    retrieved: Sequence[RetrievedSnapshot],
    offer: Offer,
    timestamp: int,
) -> bool:
    """Name the term at the start of a copy that begins later than the log; whether there was one to name.

    Terms that begin in the copy are named from the log itself. The term before them is that of the newest snapshot, or
    else the one that the member named.
    """
    places = [(copy.source.leadership_term_id, copy.source.term_base_log_position) for copy in retrieved]
    places += [
        (entry.leadership_term_id, entry.term_base_log_position) for entry in recording_log.latest_snapshot_set()
    ]
    places.append((offer.log_leadership_term_id, offer.log_term_base_log_position))
    for term, base in places:
        if base <= start_position and term <= offer.log_leadership_term_id and recording_log.is_unknown(term):
            recording_log.append_term(recording_id, term, base, timestamp)
            return True
    return False


def name_snapshots(recording_log: RecordingLog, snapshots: Sequence[RetrievedSnapshot]) -> None:
    """The module's snapshot, which makes the set count, comes last, where Aeron writes it first."""
    for snapshot in snapshots:
        source = snapshot.source
        recording_log.append_snapshot(
            snapshot.recording_id,
            source.leadership_term_id,
            source.term_base_log_position,
            source.log_position,
            source.timestamp,
            source.service_id,
            recorded_length=snapshot.length,
        )
