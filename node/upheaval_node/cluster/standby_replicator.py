"""Fetches the newest snapshot of a standby, so that this member can start from it.

A standby's notice is only a reference in the recording log. This module has the archive copy the referenced recordings,
and then records them as snapshots of the member itself. The standbys' archives are tried one after the other, beginning
with the newest snapshot. Source: Aeron Cluster, standby snapshot replicator. Knows nothing of elections.
"""

from collections.abc import Callable, Mapping, Sequence

from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.recording_replication import ReplicationSource
from upheaval_node.archive.snapshot_replication import SnapshotReplication
from upheaval_node.archive.whole_recordings import describe_recording
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.errors import PeerError, TimeoutExpired, UsageError
from upheaval_node.files.recording_log import Entry, RecordingLog
from upheaval_node.protocol.channel import Channel
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import NULL_POSITION, Position

Candidate = tuple[str, list[Entry]]


def standby_candidates(recording_log: RecordingLog, service_count: int) -> list[Candidate]:
    """The entries of each archive endpoint that are newer than the member's own snapshots, newest first."""
    candidates: list[Candidate] = []
    for endpoint, entries in recording_log.latest_standby_snapshots(service_count).items():
        wanted = [entry for entry in entries if entry.log_position > _own_position(recording_log, entry.service_id)]
        if wanted:
            candidates.append((endpoint, wanted))
    return sorted(candidates, key=lambda candidate: (-candidate[1][0].log_position, candidate[0]))


def _own_position(recording_log: RecordingLog, service_id: int) -> Position:
    own = recording_log.get_latest_snapshot(service_id)
    return NULL_POSITION if own is None else own.log_position


def replicate_standby_snapshot(
    context: ModuleContext, recording_log: RecordingLog, new_archive_client: Callable[[], ArchiveClient]
) -> StepGenerator[str]:
    """Fetch the newest snapshot. Returns the archive endpoint it came from, or an empty string without a candidate.

    Raises `PeerError` when no archive delivers its candidate, and when the member's own archive does not answer.
    """
    candidates = standby_candidates(recording_log, context.settings.service_count)
    if not candidates:
        return ""
    archive = new_archive_client()
    steps = Steps(_replicate(context, recording_log, archive, candidates))
    try:
        while not steps.is_done:
            now = yield
            archive.do_work(now)
            steps.poll(now)
    finally:
        steps.close()
        archive.close()
    return steps.result


def _replicate(
    context: ModuleContext, recording_log: RecordingLog, archive: ArchiveClient, candidates: Sequence[Candidate]
) -> StepGenerator[str]:
    while not archive.is_connected:
        if archive.is_closed:
            raise PeerError(f"no standby snapshot without the own archive: {archive.error}")
        yield
    failures: list[str] = []
    for endpoint, entries in candidates:
        try:
            recordings = yield from _copy(context, archive, endpoint, entries)
            lengths = yield from _lengths(archive, recordings)
        except (PeerError, TimeoutExpired, UsageError) as error:
            failures.append(f"{endpoint}: {error}")
            continue
        _write(recording_log, entries, recordings, lengths)
        context.published.snapshot_count.increment()
        return endpoint
    raise PeerError(f"failed to replicate any standby snapshots, errors: {'; '.join(failures)}")


def _copy(
    context: ModuleContext, archive: ArchiveClient, endpoint: str, entries: Sequence[Entry]
) -> StepGenerator[dict[int, int]]:
    """Copy the recordings. Returns the local recording of each standby recording. A failed copy is purged."""
    replication = SnapshotReplication(
        archive,
        context.counters,
        ReplicationSource(str(Channel("tcp").with_(endpoint=endpoint))),
        [entry.recording_id for entry in entries],
        progress_timeout_ns=2 * archive.timeout_ns,
    )
    try:
        while not replication.is_complete:
            now = yield
            for signal in archive.take_signals():
                replication.on_signal(signal)
            while archive.late_errors:
                replication.on_late_error(archive.late_errors.popleft())
            replication.poll(now)
    except (PeerError, TimeoutExpired):
        replication.close()
        while not replication.release():
            yield
        for recording_id in replication.local_recordings:
            for call in (archive.stop_recording_by_identity(recording_id), archive.purge_recording(recording_id)):
                while not call.done:
                    yield
        raise
    return replication.recordings


def _lengths(archive: ArchiveClient, recordings: Mapping[int, int]) -> StepGenerator[dict[int, int]]:
    """The length in bytes of each local recording."""
    lengths: dict[int, int] = {}
    for recording_id in recordings.values():
        descriptor = yield from describe_recording(archive, recording_id)
        if descriptor.stop_position == NULL_POSITION:
            raise PeerError(f"recording {recording_id} has no end")
        lengths[recording_id] = descriptor.stop_position - descriptor.start_position
    return lengths


def _write(
    recording_log: RecordingLog, entries: Sequence[Entry], recordings: Mapping[int, int], lengths: Mapping[int, int]
) -> None:
    """Record the copies as snapshots of this member. The module's comes last, because without it the others do not
    count.
    """
    for entry in sorted(entries, key=lambda entry: -entry.service_id):
        recording_id = recordings[entry.recording_id]
        recording_log.append_snapshot(
            recording_id,
            entry.leadership_term_id,
            entry.term_base_log_position,
            entry.log_position,
            entry.timestamp,
            entry.service_id,
            recorded_length=lengths[recording_id],
        )
