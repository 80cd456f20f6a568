"""What a backup must name: the terms in its log, and the snapshots that the members have at the same positions.

Each rule raises `Broken` for the first name that is missing or wrong. This module compares names, and no contents.
"""

from collections.abc import Iterable, Mapping, Sequence

from upheaval.checkers.evidence.recordings import SnapshotRecord, snapshot_records, term_entries
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.evidence.troubles import MARGIN_NS
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


def first_snapshot(records: Sequence[SnapshotRecord], facts: TraceFacts, lost_ns: int = -1) -> tuple[int, int] | None:
    """Since when a member certainly has a snapshot of its own, and its position; None if that is not known.

    What it took up to `lost_ns` may be lost. An error about snapshots may have made earlier ones invalid for a while.
    """
    valid = {record.position for record in records if record.is_valid and not record.is_of_standby}
    since_ns = max((lost_ns, *facts.snapshot_failures))
    taken = ((event.ns, position) for position, event in facts.snapshots.items() if event.ns > since_ns)
    return min(((ns, position) for ns, position in taken if position in valid), default=None)


def require_offered(files: MemberFolder, first: Mapping[int, tuple[int, int]]) -> None:
    """No member that had a snapshot offered none. `first` has the time and the position of each member's first one."""
    for event in files.read_trace() if first and files.trace.exists() else ():
        member_id = event.fields.get("member_id")
        if event.event != TraceKind.BACKUP_RESPONSE or event.fields.get("snapshots") != 0:
            continue
        if type(member_id) is not int or member_id not in first:
            continue
        ns, position = first[member_id]
        if ns + MARGIN_NS < event.ns:
            detail = (
                f"{files.name} was offered no snapshot at {event.ns // MS} ms ({files.name}/trace.jsonl:{event.line}) "
                f"by member {member_id}, which had one at position {position}"
            )
            when_ns = (event.ns, event.ns)
            raise Broken(Verdict.INVALID, detail, members=(member_id,), position=position, when_ns=when_ns)
