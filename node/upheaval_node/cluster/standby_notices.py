"""Notices of snapshots that standbys have taken: kept until the log is committed that far, then recorded.

A notice becomes one STANDBY_SNAPSHOT entry of the recording log per recording, which only says where to fetch it. The
content of a notice is checked against this member's log. A notice that was recorded before is not recorded again,
because a snapshot set counts only if it has each service once. Source: Aeron Cluster, standby snapshot notifications.
Knows nothing of who sent a notice.
"""

from dataclasses import dataclass
from typing import Final

from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.errors import UsageError
from upheaval_node.files.recording_log import EntryType, RecordingLog
from upheaval_node.files.recording_log_entry import CONSENSUS_MODULE_ID
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel, split_endpoint
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import FRAME_ALIGNMENT, MAX_POSITION, NULL_POSITION, Now, Position

MAX_NOTICES: Final = 64
"""The most waiting notices. Beyond that, the notice of the highest position is dropped, which may be the newest."""

MAX_ENDPOINTS: Final = 16
"""The most standby archives with entries in the recording log. Notices of further archives are ignored."""

MAX_ENDPOINT_LENGTH: Final = 256

Snapshots = tuple[cm.StandbySnapshotSnapshot, ...]


@dataclass(slots=True)
class _Notice:
    peer: str
    snapshots: Snapshots
    due_ns: int | None = None

    @property
    def position(self) -> Position:
        return self.snapshots[0].log_position


class StandbyNotices:
    """The notices that wait until the log is committed up to their snapshot."""

    def __init__(self, context: ModuleContext, recording_log: RecordingLog) -> None:
        self._context = context
        self._recording_log = recording_log
        self._delay_ns = context.settings.standby_snapshot_delay_ns
        self._notices: list[_Notice] = []

    @property
    def needs_ticks(self) -> bool:
        """Whether a notice waits for its delay to pass."""
        return any(notice.due_ns is not None for notice in self._notices)

    def queue(self, now: Now, peer: str, snapshots: Snapshots) -> None:
        """Keep a notice of `peer`. An inconsistent notice is ignored."""
        if not snapshots:
            return
        problem = self._problem(snapshots)
        if problem:
            self._context.ignored.note(now, peer, "StandbySnapshot that cannot be right", problem)
            return
        self._notices.append(_Notice(peer, snapshots))
        if len(self._notices) > MAX_NOTICES:
            self._notices.remove(max(self._notices, key=lambda notice: notice.position))

    def poll(self, now: Now, commit_position: Position) -> int:
        """Record the notices that are due. That is safe in elections, too, because it changes nothing that they depend
        on.
        """
        work = 0
        for notice in [notice for notice in self._notices if notice.position <= commit_position]:
            if notice.due_ns is None:
                notice.due_ns = now.ns + self._delay_ns
            if now.ns >= notice.due_ns:
                self._notices.remove(notice)
                self._write(now, notice)
                work += 1
        return work

    def _problem(self, snapshots: Snapshots) -> str:
        """Why a notice cannot be right, whatever the log contains; empty if it can."""
        service_ids = sorted(snapshot.service_id for snapshot in snapshots)
        if service_ids != list(range(CONSENSUS_MODULE_ID, self._context.settings.service_count)):
            return f"a notice with snapshots of services {service_ids[:16]}"
        head = snapshots[0]
        if head.log_position < 0 or head.log_position % FRAME_ALIGNMENT:
            return f"a notice of position {head.log_position}"
        for snapshot in snapshots:
            if (snapshot.log_position, snapshot.leadership_term_id) != (head.log_position, head.leadership_term_id):
                return f"a notice of positions {head.log_position} and {snapshot.log_position}"
            if snapshot.archive_endpoint != head.archive_endpoint or snapshot.recording_id < 0:
                return f"recording {snapshot.recording_id} in {snapshot.archive_endpoint[:MAX_ENDPOINT_LENGTH]!r}"
        return _endpoint_problem(head.archive_endpoint)

    def _write(self, now: Now, notice: _Notice) -> None:
        snapshots = notice.snapshots
        head = snapshots[0]
        problem = self._problem_in_log(head)
        if problem:
            self._context.ignored.note(now, notice.peer, "StandbySnapshot that does not fit the log", problem)
            return
        known = {
            entry.service_id
            for entry in self._recording_log.entries
            if entry.is_valid
            and entry.type is EntryType.STANDBY_SNAPSHOT
            and (entry.archive_endpoint, entry.log_position) == (head.archive_endpoint, head.log_position)
        }
        for snapshot in snapshots:
            if snapshot.service_id not in known:
                self._recording_log.append_standby_snapshot(
                    snapshot.recording_id,
                    snapshot.leadership_term_id,
                    snapshot.term_base_log_position,
                    snapshot.log_position,
                    snapshot.timestamp,
                    snapshot.service_id,
                    snapshot.archive_endpoint,
                )
        self._context.published.standby_snapshots.increment()
        position, endpoint = head.log_position, head.archive_endpoint
        self._context.tracer.emit(now, TraceKind.STANDBY_SNAPSHOT, log_position=position, endpoint=endpoint)

    def _problem_in_log(self, head: cm.StandbySnapshotSnapshot) -> str:
        """Why a notice does not fit this member's committed log; empty if it does."""
        term = self._recording_log.find_term_entry(head.leadership_term_id)
        where = f"a notice of term {head.leadership_term_id} from {head.term_base_log_position} at {head.log_position}"
        if term is None or head.term_base_log_position != term.term_base_log_position:
            return where
        end = MAX_POSITION if term.log_position == NULL_POSITION else term.log_position
        if not term.term_base_log_position <= head.log_position <= end:
            return where
        latest: dict[str, int] = {}
        for entry in self._recording_log.entries:
            if entry.type is EntryType.STANDBY_SNAPSHOT:
                latest[entry.archive_endpoint] = max(latest.get(entry.archive_endpoint, 0), entry.log_position)
        if head.archive_endpoint not in latest and len(latest) >= MAX_ENDPOINTS:
            return f"{head.archive_endpoint!r} is one archive too many"
        return ""


def _endpoint_problem(endpoint: str) -> str:
    shown = endpoint[:MAX_ENDPOINT_LENGTH]
    if len(endpoint) > MAX_ENDPOINT_LENGTH or not endpoint.isascii() or not endpoint.isprintable():
        return f"archive endpoint {shown!r}"
    try:
        split_endpoint(endpoint)
        Channel("tcp").with_(endpoint=endpoint)
    except UsageError as error:
        return f"archive endpoint {shown!r}: {error}"
    return ""
