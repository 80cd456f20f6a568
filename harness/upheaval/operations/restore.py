"""Restore: makes a new run folder whose members begin with the files of a backup, or of a member that is down.

A node needs its archive and its recording log to continue; nothing else is copied. The history of the backup's run is
copied as far as the backup reaches, so that the restored run can be judged as a whole. This module reads and copies
files; the cluster started from them is like any other.
"""

import os
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.checkers.evidence.log_pieces import log_digest
from upheaval.checkers.evidence.logs import WitnessLog, read_entries
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import (
    SCHEMA_FILE,
    Function,
    Manifest,
    MemberFolder,
    Operation,
    Origin,
    Outcome,
    RunFolder,
    copy_sparse,
    write_origin,
)
from upheaval.runtimes.cluster_file import has_cluster
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.node import LiveNode, Node
from upheaval.runtimes.opening import create_cluster, open_cluster
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec
from upheaval_node.errors import DecodeError
from upheaval_node.files import layout, recording_log_entry
from upheaval_node.files.recording_log_entry import Entry, EntryType, encode_type
from upheaval_node.runtime.mark_lock import is_locked

_MARKS: Final = (layout.CLUSTER_MARK, layout.ARCHIVE_MARK)


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that can be restored from. `run` is the run folder that contains it; None if none does.

    `unreached` are the snapshots beyond the end of its log: they were fetched before the log got there.
    """

    folder: Path
    run: RunFolder | None
    start_position: int
    position: int
    snapshots: tuple[int, ...]
    unreached: tuple[Entry, ...]
    log_digest: str

    @property
    def files(self) -> MemberFolder:
        """The files of the node in this folder."""
        return MemberFolder(self.folder, -1, self.folder.name)

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of its run; None if no run folder contains the source."""
        return None if self.run is None else self.run.read_manifest()


# --- looking ---


def examine(folder: Path) -> Source:
    """Check that a folder can be restored from. Raises `UsageError` with one line that says why not."""
    folder = folder.absolute()
    bring(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give the folder of a backup, such as RUN/backup-0")
    path = folder / layout.RECORDING_LOG
    if not path.is_file():
        raise UsageError(f"{folder} has no {layout.RECORDING_LOG}: give the folder of a backup, such as RUN/backup-0")
    entries = _entries(path)
    terms = [entry for entry in entries if entry.is_valid and entry.type is EntryType.TERM]
    if not terms:
        raise UsageError(f"{path} names no log: the backup had received none yet")
    files = MemberFolder(folder, -1, folder.name)
    snapshots = [entry for entry in entries if entry.is_valid_snapshot]
    for recording_id in dict.fromkeys(entry.recording_id for entry in (*terms, *snapshots)):
        _require_recording(files, recording_id)
    log = RecordedLog(files)
    digest = log_digest(log, log.start_position)
    end = log.end_position
    if end == log.start_position:
        raise UsageError(f"the log in {folder} is empty: it cannot be restored")
    reached = tuple(sorted({entry.log_position for entry in snapshots if entry.log_position <= end}))
    unreached = tuple(entry for entry in snapshots if entry.log_position > end)
    if log.start_position > 0 and not any(position >= log.start_position for position in reached):
        raise UsageError(f"the log in {folder} begins at position {log.start_position}, and no snapshot goes with it")
    run = RunFolder(folder.parent)
    return Source(
        folder, run if run.manifest_file.is_file() else None, log.start_position, end, reached, unreached, digest
    )


def bring(folder: Path) -> None:
    """Collect into the folder of a node all that its last process wrote, some of which may still be in a container.

    Raises `UsageError` while a process writes into the folder: a copy might then mix two moments.
    """
    if folder.is_dir() and any(is_locked(str(folder / mark)) for mark in _MARKS):
        raise UsageError(f"{folder} is in use by a live process: stop it first")
    run = folder.parent
    if not has_cluster(run):
        return
    with open_cluster(run) as cluster:
        nodes: list[LiveNode[Node]] = [*cluster.members, *cluster.companions()]
        node = next((node for node in nodes if node.folder == folder), None)
        if node is None:
            return
        if node.is_running():
            raise UsageError(f"{folder} is in use by {folder.name}, which runs: stop it first")
        node.collect()


def _entries(path: Path) -> list[Entry]:
    try:
        return recording_log_entry.read_entries(path.read_bytes())[0]
    except DecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _require_recording(files: MemberFolder, recording_id: int) -> None:
    try:
        RecordedLog(files, recording_id)
    except LogMissing as error:
        raise UsageError(f"{files.recording_log} names recording {recording_id}: {error}") from error


# --- making ---


def spec_of(origin: Source) -> ClusterSpec:
    """A cluster with the service, profile and sync level of the origin's run, and with its model and its schema.

    The code of a custom service comes from the folder that the run names, or from the current folder if that is gone.
    """
    manifest = origin.manifest
    if manifest is None:
        return CLUSTER_OF_THREE
    service = manifest.service or CLUSTER_OF_THREE.service
    source = manifest.source or manifest.model_source
    return ClusterSpec(
        profile=manifest.profile,
        sync_level=manifest.sync_level,
        service=service,
        more_services=manifest.more_services,
        source=source if ":" in service and Path(source).is_dir() else "",
        model=manifest.model,
        schema=_schema_of(origin),
        system=manifest.system,
    )


def _schema_of(origin: Source) -> str:
    path = None if origin.run is None else origin.run.path / SCHEMA_FILE
    return str(path) if path is not None and path.is_file() else ""


def with_protocol_of(origin: Source, spec: ClusterSpec) -> ClusterSpec:
    """The spec; if it has the same service as the origin's run but no model or schema, with those of that run."""
    of_run = spec_of(origin)
    if spec.service != of_run.service:
        return spec
    return replace(spec, model=spec.model or of_run.model, schema=spec.schema or of_run.schema)


def with_service(spec: ClusterSpec, service: str) -> ClusterSpec:
    """The spec with another service, without code, model and schema, which belong to the previous one."""
    if service == spec.service:
        return spec
    return replace(spec, service=service, source="", model="", schema="")


def restore(
    origin: Source, target: Path, spec: ClusterSpec | None = None, *, runtime: str, detached: bool = False
) -> AnyCluster:
    """Make a cluster whose members have the origin's files, by default like the origin's run. Starts nothing.

    Raises `HarnessError` with one clear line, and then leaves nothing of the new folder.
    """
    was_there = target.is_dir()
    cluster = create_cluster(runtime, target, spec or spec_of(origin), detached=detached)
    try:
        fill(origin, cluster.run, cluster.config.members, time.monotonic_ns())
    except BaseException:
        cluster.close()
        shutil.rmtree(target, ignore_errors=True)
        if was_there:
            target.mkdir(exist_ok=True)
        raise
    return cluster


def fill(source: Source, run: RunFolder, members: int, now_ns: int) -> None:
    """Copy the source into the folder of each member, copy the history, and record the origin."""
    operations = carried_operations(source, now_ns)
    for member_id in range(members):
        copy_files(source, run.member(member_id).path)
    with run.history_writer() as history:
        for operation in operations:
            history.add(operation)
    write_origin(run.path, origin_of(source, operations))


def origin_of(source: Source, operations: Iterable[Operation]) -> Origin:
    """The record of the source for the restored run; `operations` are those that the run takes over."""
    manifest = source.manifest
    return Origin(
        folder=str(source.folder),
        run_id="" if manifest is None else manifest.run_id,
        start_position=source.start_position,
        position=source.position,
        log_digest=source.log_digest,
        snapshots=source.snapshots,
        operations=sum(operation.outcome is Outcome.OK for operation in operations),
    )


def copy_files(source: Source, target: Path) -> None:
    """Copy archive and recording log; holes in files stay holes."""
    with _disk_errors(target):
        archive = target / layout.ARCHIVE_DIRECTORY
        archive.mkdir(parents=True, exist_ok=True)
        for entry in archive_files(source):
            copy_sparse(entry, archive / entry.name, syncs=True)
        recording_log = target / layout.RECORDING_LOG
        recording_log.parent.mkdir(parents=True, exist_ok=True)
        with recording_log.open("wb") as stream:
            stream.write(recording_log_of(source))
            stream.flush()
            os.fsync(stream.fileno())


def archive_files(source: Source) -> list[Path]:
    """The files of the archive that a member needs: all but the mark, which says what process ran in the source."""
    entries = (source.folder / layout.ARCHIVE_DIRECTORY).iterdir()
    return sorted(entry for entry in entries if entry.is_file() and entry.name != Path(layout.ARCHIVE_MARK).name)


def recording_log_of(source: Source) -> bytes:
    """The recording log, with snapshots beyond the end of the log marked invalid: no member could use them."""
    content = bytearray((source.folder / layout.RECORDING_LOG).read_bytes())
    for snapshot in source.unreached:
        at = snapshot.offset + recording_log_entry.TYPE_OFFSET
        content[at : at + 4] = encode_type(replace(snapshot, is_valid=False))
    return bytes(content)


@contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(f"cannot copy to {target}: {error.strerror}") from error


# --- history ---


def carried_operations(source: Source, now_ns: int) -> list[Operation]:
    """The operations of the source's run that are in its log. Operations requested later are lost with that run.

    Times are shifted back if necessary, so that all are before `now_ns`: the clock of another boot may be ahead.
    """
    if source.run is None or not source.run.history_file.is_file():
        return []
    ids, calls = _held(source)
    chosen = _chosen(list(source.run.read_history()), ids, calls)
    latest = max((max(operation.invoke_ns, operation.complete_ns or 0) for operation in chosen), default=0)
    back = max(latest - now_ns + 1, 0)
    return [
        replace(
            operation,
            invoke_ns=operation.invoke_ns - back,
            complete_ns=None if operation.complete_ns is None else operation.complete_ns - back,
        )
        for operation in chosen
    ]


def _held(source: Source) -> tuple[set[int], Counter[tuple[str, int]]]:
    """The ids of the operations in the log, and the number of calls in it by payload digest and session."""
    ids: set[int] = set()
    calls: Counter[tuple[str, int]] = Counter()
    for segment in RecordedLog(source.files).segments():
        witness = WitnessLog()
        ids.update(entry.id for entry in read_entries(segment, witness))
        calls.update((call.digest, call.session) for call in witness.calls)
    return ids, calls


def _chosen(operations: Sequence[Operation], ids: set[int], calls: Counter[tuple[str, int]]) -> list[Operation]:
    """The operations that the log holds. Of calls with the same payload in a session, answered ones are taken first.

    A call of unknown session may belong to any session.
    """
    left = Counter(calls)
    sessions_of: dict[str, list[int]] = defaultdict(list)
    for digest, session in calls:
        sessions_of[digest].append(session)
    taken: set[int] = set()
    for wanted in (Outcome.OK, Outcome.UNKNOWN):
        for operation in operations:
            if operation.outcome is not wanted:
                continue
            if operation.f is not Function.CALL:
                if operation.id in ids:
                    taken.add(operation.id)
            else:
                digest = str(operation.value)
                sessions = sessions_of[digest] if operation.session is None else [operation.session]
                held = next(((digest, session_id) for session_id in sessions if left[digest, session_id] > 0), None)
                if held is not None:
                    left[held] -= 1
                    taken.add(operation.id)
    return [operation for operation in operations if operation.id in taken]


def next_id(operations: Iterable[Operation]) -> int:
    """An id above the ids of all operations."""
    return max((operation.id for operation in operations), default=-1) + 1
