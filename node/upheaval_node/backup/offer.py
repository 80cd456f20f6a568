"""A member's offer to a backup: its checked answer to a query, and the members that a backup accepts it from.

Source: Aeron Cluster, backup response and log source validation. Pure functions on messages.
"""

from dataclasses import dataclass
from typing import Final

from upheaval_node.backup.config import SourceType
from upheaval_node.cluster.members import ClusterMember, parse_members
from upheaval_node.errors import PeerError, UsageError
from upheaval_node.files.recording_log_entry import CONSENSUS_MODULE_ID
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import FRAME_ALIGNMENT, NULL_VALUE, Position, TermId

MAX_SNAPSHOTS: Final = 128
"""More than the services of any cluster: a longer list is not a valid answer."""


@dataclass(frozen=True, slots=True)
class Offer:
    """`supplier` is the member that answered. `snapshots` are in the order of the message: services last to first, then
    -1.
    """

    supplier: ClusterMember
    leader_member_id: int
    snapshots: tuple[cm.BackupResponseSnapshot, ...]
    log_recording_id: int
    log_leadership_term_id: TermId
    log_term_base_log_position: Position
    commit_position_counter_id: int


def is_acceptable(source: SourceType, leader_member_id: int, member_id: int) -> bool:
    """Whether a backup with this source type copies from the member; -1 means an unknown leader."""
    is_leader = leader_member_id != NULL_VALUE and leader_member_id == member_id
    match source:
        case SourceType.LEADER:
            return is_leader
        case SourceType.FOLLOWER:
            return not is_leader
        case SourceType.ANY:
            return True


def offer_of(response: cm.BackupResponse) -> Offer:
    """Raises `PeerError` for an answer that no member can give."""
    try:
        members = parse_members(response.cluster_members)
    except UsageError as error:
        raise PeerError(f"backup response with impossible members: {error}") from error
    supplier = members.get(response.member_id)
    if supplier is None:
        raise PeerError(f"backup response of member {response.member_id}, who is not among the members that it names")
    base = response.log_term_base_log_position
    if response.log_recording_id < 0 or response.log_leadership_term_id < 0 or not _is_position(base):
        raise PeerError(
            f"backup response of member {response.member_id} with log recording {response.log_recording_id},"
            f" term {response.log_leadership_term_id} from {base}"
        )
    if response.commit_position_counter_id < 0:
        # An unbounded replay would copy uncommitted messages.
        raise PeerError(f"backup response of member {response.member_id} without a counter of what is committed")
    _check_snapshots(response)
    return Offer(
        supplier,
        response.leader_member_id,
        response.snapshots,
        response.log_recording_id,
        response.log_leadership_term_id,
        base,
        response.commit_position_counter_id,
    )


def _check_snapshots(response: cm.BackupResponse) -> None:
    """One set: the module's snapshot and one of each service, all of one position."""
    snapshots = response.snapshots
    if not snapshots:
        return
    services = [snapshot.service_id for snapshot in snapshots]
    places = {
        (snapshot.leadership_term_id, snapshot.term_base_log_position, snapshot.log_position) for snapshot in snapshots
    }
    term, base, position = next(iter(places))
    is_set = len(places) == 1 and sorted(services) == list(range(CONSENSUS_MODULE_ID, len(services) - 1))
    is_sound = term >= 0 and _is_position(base) and _is_position(position) and base <= position
    has_recordings = all(snapshot.recording_id >= 0 for snapshot in snapshots)
    if len(snapshots) > MAX_SNAPSHOTS or not (is_set and is_sound and has_recordings):
        raise PeerError(f"backup response of member {response.member_id} with snapshots that do not form a set")


def _is_position(position: int) -> bool:
    return position >= 0 and position % FRAME_ALIGNMENT == 0
