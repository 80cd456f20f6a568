"""What a backup must name: the terms in its log, and the snapshots that the members have at the same positions.

Each rule raises `Broken` for the first name that is missing or wrong. This module compares names, and no contents.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from upheaval.checkers.evidence.recordings import SnapshotRecord, snapshot_records, term_entries
from upheaval.checkers.states.taken_snapshots import OrderedSnapshot
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import MemberFolder
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS


def require_terms(files: MemberFolder, terms: Iterable[int]) -> None:
    """Each of these terms of its log is in its recording log: a term is named before its log is written."""
    named = {term for term, _, _ in term_entries(files.recording_log)}
    for term in terms:
        if term not in named:
            detail = f"{files.name}/cluster/recording.log does not have term {term}, which begins in its log"
            raise Broken(Verdict.INVALID, detail)


def require_known(files: MemberFolder, of_members: Mapping[int, Sequence[SnapshotRecord]]) -> None:
    """Each of its snapshots is at the position of a member's snapshot. `of_members` has all that ever took one."""
    known = {record.place for records in of_members.values() for record in records}
    for record in snapshot_records(files.recording_log):
        if record.place not in known:
            detail = (
                f"{files.name}/cluster/recording.log has a snapshot of service {record.service_id} at position "
                f"{record.position}, where no member has one"
            )
            raise Broken(Verdict.INVALID, detail, position=record.position)


def require_offered(
    files: MemberFolder, orders: Sequence[OrderedSnapshot], of_members: Mapping[int, Sequence[SnapshotRecord]]
) -> None:
    """No member that had an ordered snapshot offered none."""
    for event in files.read_trace() if orders and files.trace.exists() else ():
        member_id = event.fields.get("member_id")
        if event.event != TraceKind.BACKUP_RESPONSE or event.fields.get("snapshots") != 0:
            continue
        if type(member_id) is not int or member_id not in of_members:
            continue
        valid = {each.position for each in of_members[member_id] if each.is_valid and not each.is_of_standby}
        position = _position_by(event.ns, member_id, orders, valid)
        if position is not None:
            detail = (
                f"{files.name} was offered no snapshot at {event.ns // MS} ms ({files.name}/trace.jsonl:{event.line}) "
                f"by member {member_id}, which had one at position {position}"
            )
            raise Broken(Verdict.INVALID, detail, members=(member_id,), position=position)


def _position_by(ns: int, member_id: int, orders: Iterable[OrderedSnapshot], valid: Set[int]) -> int | None:
    """The position of a snapshot that the member had by that time, and has to the end."""
    taken = (order.seen[member_id] for order in orders if member_id in order.seen and order.end_ns < ns)
    return next((position for position in taken if position in valid), None)
