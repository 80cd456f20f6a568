"""The promise that the files of a run belong together: one run, its members, their processes, their recordings.

Traces, mark files, node state, recording log and catalog name the same things in different places. This module compares
them, member by member. It reads only the places of a recording that the small files name; others judge the log's
messages and the snapshots as a whole.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.aeron_versions import starts_of, strange_version
from upheaval.checkers.evidence.described import require_demands, require_described, require_sessions
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.node_states import candidate_term
from upheaval.checkers.evidence.protocol_events import OF_LOOP
from upheaval.checkers.evidence.recordings import (
    CATALOG_NAME,
    CatalogEntry,
    LogMissing,
    RecordedLog,
    RecordingLogEntry,
    catalog_entries,
    recording_log_entries,
)
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import (
    CLUSTER_FILE,
    OWN_SYSTEM,
    SCENARIO_NAME,
    FieldError,
    Json,
    Manifest,
    MemberFolder,
    RunFolder,
    TraceEvent,
    companion_folders,
    jsonfields,
    read_origin,
)
from upheaval_node.errors import DecodeError
from upheaval_node.files import mark_file
from upheaval_node.protocol import cluster_mark_messages as cmm, cluster_messages as cm
from upheaval_node.protocol.constants import LOG_STREAM_ID, MODULE_SNAPSHOT_STREAM_ID, SERVICE_SNAPSHOT_STREAM_ID
from upheaval_node.trace_kinds import TraceKind

_NOBODY: Final = -1
_WHOLE_MEMBER: Final = "all"
_OF_CLUSTER: Final = ("members", "service", "profile", "sync_level", "run_id", "settings")
"""Configuration fields that all members share."""
_OF_RUN: Final = (
    "run_id",
    "runtime",
    "members",
    "components",
    "profile",
    "sync_level",
    "service",
    "more_services",
    "model",
    "system",
    "planted",
)
"""Fields that `cluster.json` and the manifest share."""


@dataclass(slots=True)
class _Traced:
    """What the trace of one member shows of its writers."""

    started: dict[str, set[int]] = field(default_factory=dict)
    """The process ids of each component."""
    starts: list[TraceEvent] = field(default_factory=list)
    """The starts of its processes."""
    alive: dict[int, int] = field(default_factory=dict)
    """The ids of the processes that took part, each with its first line."""
    highest: int = -1
    """The highest term that it knows."""
    is_electing: bool = False
    """Its last election has no result yet."""


def check_binding(run: RunFolder, manifest: Manifest) -> list[Finding]:
    """The first file that does not belong to the run of the others, or that all belong together."""
    try:
        lossy = losses_of(run, manifest).powerless
        files = sum(
            _check_member(run, manifest, member_id, is_lossy=member_id in lossy)
            for member_id in range(manifest.members)
        )
        files += sum(_check_companion(manifest, path) for path in companion_folders(run.path))
        files += _check_cluster_file(run, manifest)
        _check_alike(run, manifest)
    except Broken as broken:
        return [broken.finding(Promise.EVIDENCE_BOUND)]
    detail = f"{files} files name the same run, members, processes, terms and recordings"
    return [Finding(Promise.EVIDENCE_BOUND, Verdict.VALID, detail)]


def _check_member(run: RunFolder, manifest: Manifest, member_id: int, *, is_lossy: bool) -> int:
    """Compare the files of a member. Returns their number.

    If a member lost files, the others are of different moments and need not agree.
    """
    folder = run.member(member_id)
    traced = _trace_of(folder, manifest, member_id) if folder.trace.exists() else None
    files = int(traced is not None) + _check_config(folder, manifest, member_id)
    if traced is not None:
        _require_version(run, manifest, folder, traced)
    if is_lossy:
        return files
    files += _check_marks(folder, member_id, traced)
    if manifest.system == OWN_SYSTEM:
        files += _check_node_state(folder, traced)
    # Aeron's backup need not name every term. Members that are restored from it lack the others.
    names_all = manifest.system == OWN_SYSTEM or read_origin(run.path) is None
    is_at_end = manifest.converge is not None and manifest.converge.reached
    # Aeron records a term, with its leader's session, before it names the term.
    is_named = manifest.system == OWN_SYSTEM or traced is None or not traced.is_electing
    return files + _check_recordings(folder, is_at_end=is_at_end, names_all=names_all, is_named=is_named)


def _check_companion(manifest: Manifest, path: Path) -> int:
    folder = MemberFolder(path, _NOBODY, path.name)
    traced = _trace_of(folder, manifest, _NOBODY) if folder.trace.exists() else None
    files = int(traced is not None) + _check_marks(folder, _NOBODY, None) + _check_companion_config(folder, manifest)
    is_own = manifest.system == OWN_SYSTEM
    return files + _check_recordings(folder, is_at_end=False, names_all=is_own, is_named=is_own)


def _check_companion_config(folder: MemberFolder, manifest: Manifest) -> int:
    path = folder.path / "config.json"
    fields = _object(path)
    if fields is None:
        return 0
    of_name: tuple[str, Json, Json] = "name", fields.get("name", folder.path.name), folder.path.name
    of_run: tuple[str, Json, Json] = "run_id", fields.get("run_id", manifest.run_id), manifest.run_id
    for name, here, wanted in (of_name, of_run, *_configured(fields, manifest)):
        if here != wanted:
            raise _broken(folder, path, f"has {name} {_text(here)}, expected {_text(wanted)}")
    return 1


def _broken(
    folder: MemberFolder,
    path: Path,
    detail: str,
    position: int | None = None,
    *,
    verdict: Verdict = Verdict.INVALID,
) -> Broken:
    where = f"{folder.path.name}/{path.relative_to(folder.path)}"
    members = () if folder.member_id < 0 else (folder.member_id,)
    return Broken(verdict, f"{where} {detail}", members=members, position=position)


# --- who wrote it ---


def _trace_of(folder: MemberFolder, manifest: Manifest, member_id: int) -> _Traced:
    traced = _Traced()
    for event in folder.read_trace():
        fields = event.fields
        if fields.get("member", member_id) != member_id:
            raise _broken(folder, folder.trace, f"is of member {fields['member']} in line {event.line}")
        if fields.get("run", manifest.run_id) != manifest.run_id:
            raise _broken(folder, folder.trace, f"is of run {fields['run']} in line {event.line}")
        _note(traced, event)
    started = set().union(*traced.started.values())
    for pid, line in traced.alive.items() if member_id != _NOBODY else ():
        if pid not in started:
            raise _broken(folder, folder.trace, f"has process {pid} in line {line}, and no start of it")
    return traced


def _require_version(run: RunFolder, manifest: Manifest, folder: MemberFolder, traced: _Traced) -> None:
    """Its processes ran the version of Aeron that the run names, else the run says nothing of that version.

    A run in containers names the new version of an upgrade for all members. One that the upgrade did not reach keeps
    the version before, if another one runs the new.
    """
    systems = (*manifest.systems_before, manifest.system)
    strange = strange_version(traced.starts, systems, folder.member_id)
    if strange is not None:
        before = systems[:-1]
        others = [run.member(other) for other in range(manifest.members) if other != folder.member_id]
        if before and strange_version(traced.starts, before, folder.member_id) is None:
            traces = (starts_of(other)[-1:] for other in others if other.trace.exists())
            if any(start.fields.get("version") == strange.expected for starts in traces for start in starts):
                return
        detail = f"is of Aeron {strange.version} in line {strange.line}, the run of {strange.expected}"
        hint = "name the version that the launcher or the image brings"
        raise _broken(folder, folder.trace, f"{detail}: {hint}", verdict=Verdict.UNKNOWN)


def _note(traced: _Traced, event: TraceEvent) -> None:
    fields = event.fields
    pid = fields.get("pid")
    if event.event == TraceKind.PROCESS_START and isinstance(pid, int):
        traced.started.setdefault(str(fields.get("component")), set()).add(pid)
        traced.starts.append(event)
    elif event.event in OF_LOOP and isinstance(pid, int):
        traced.alive.setdefault(pid, event.line)
    candidate, term = fields.get("candidate_term_id"), fields.get("leadership_term_id")
    if event.event == TraceKind.ELECTION_STATE:
        traced.is_electing = fields.get("state") != "CLOSED"
    traced.highest = max(traced.highest, *(number for number in (candidate, term) if isinstance(number, int)), -1)


def _check_config(folder: MemberFolder, manifest: Manifest, member_id: int) -> int:
    path = folder.path / "config.json"
    fields = _object(path)
    if fields is None:
        return 0
    if fields.get("member_id", member_id) != member_id:
        raise _broken(folder, path, f"is of member {fields['member_id']}")
    if fields.get("run_id", manifest.run_id) != manifest.run_id:
        raise _broken(folder, path, f"is of run {fields['run_id']}")
    for name, here, wanted in _configured(fields, manifest):
        if here != wanted:
            raise _broken(folder, path, f"has {name} {_text(here)}, manifest.json {_text(wanted)}")
    return 1


def _configured(fields: Mapping[str, Json], manifest: Manifest) -> Iterator[tuple[str, Json, Json]]:
    """The configuration fields that the manifest has, by the manifest's field names."""
    if "profile" in fields:
        yield "profile", fields["profile"], manifest.profile
    if "sync_level" in fields:
        yield "sync_level", fields["sync_level"], manifest.sync_level
    if "service" in fields:
        yield "service", fields["service"], [manifest.service, *manifest.more_services]
    if isinstance(members := fields.get("members"), str):
        yield "members", members.count("|") + 1, manifest.members
    if isinstance(settings := fields.get("settings"), dict):
        cluster = settings.get("cluster")
        of_cluster = cluster if isinstance(cluster, dict) else {}
        yield "timeouts", of_cluster.get("timeouts", {}), dict(manifest.timeouts)
        if manifest.max_sessions is not None:
            yield "max_sessions", of_cluster.get("max_sessions", 0), manifest.max_sessions


def _check_alike(run: RunFolder, manifest: Manifest) -> None:
    """Fields that do not belong to one member must be equal in all configurations."""
    first: tuple[str, Mapping[str, Json]] | None = None
    folders = [run.member(member_id) for member_id in range(manifest.members)]
    with_one = next((folder for folder in folders if (folder.path / "config.json").is_file()), None)
    for folder in folders:
        path = folder.path / "config.json"
        fields = _object(path)
        if fields is None and with_one is not None and folder.path.is_dir():
            raise _broken(folder, path, f"is missing, and {with_one.path.name} has one", verdict=Verdict.UNKNOWN)
        if fields is None:
            continue
        shared = {name: fields[name] for name in _OF_CLUSTER if name in fields}
        name, other = first = first or (folder.path.name, shared)
        different = next((key for key in shared if key in other and shared[key] != other[key]), None)
        if different is not None:
            detail = f"has {different} {_text(shared[different])}, that of {name} {_text(other[different])}"
            raise _broken(folder, path, detail)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _check_cluster_file(run: RunFolder, manifest: Manifest) -> int:
    path = run.path / CLUSTER_FILE
    fields = _object(path)
    if fields is None:
        return 0
    of_manifest: Mapping[str, Json] = json.loads(manifest.to_json())
    for name in _OF_RUN:
        if name in fields and fields[name] != of_manifest[name]:
            detail = f"{path.name} has {name} {_text(fields[name])}, manifest.json {_text(of_manifest[name])}"
            raise Broken(Verdict.INVALID, detail)
    return 1


def _object(path: Path) -> Mapping[str, Json] | None:
    if not path.is_file():
        return None
    try:
        return jsonfields.parse_object(jsonfields.read_text(path))
    except FieldError as error:
        raise Broken(Verdict.INVALID, f"{path.parent.name}/{path.name}: {error}") from None


# --- marks and node state ---


def _check_marks(folder: MemberFolder, member_id: int, traced: _Traced | None) -> int:
    marks = sorted(folder.cluster.glob("cluster-mark*.dat"))
    archive_mark = folder.archive / "archive-mark.dat"
    for path in marks:
        mark = _mark(folder, path, mark_file.ClusterMarkHeader)
        if mark is None:
            continue
        # A service learns its member when it joins the log. Until then its mark file has no version.
        if mark.version and mark.member_id not in (member_id, _NOBODY):
            raise _broken(folder, path, f"is of member {mark.member_id}")
        is_service = mark.component_type == cmm.ClusterComponentType.CONTAINER
        component = f"service-{mark.service_id}" if is_service else "consensus"
        if mark.version and is_service and path.name != f"cluster-mark-service-{mark.service_id}.dat":
            raise _broken(folder, path, f"is of service {mark.service_id}")
        _require_started(folder, path, component, mark.pid, traced)
    if not archive_mark.exists():
        return len(marks)
    of_archive = _mark(folder, archive_mark, mark_file.ArchiveMarkHeader)
    if of_archive is not None:
        # Up to 1.46, Aeron writes no id into it.
        if of_archive.version and member_id != _NOBODY and of_archive.archive_id not in (member_id, _NOBODY):
            raise _broken(folder, archive_mark, f"is of archive {of_archive.archive_id}")
        _require_started(folder, archive_mark, "archive", of_archive.pid, traced)
    return len(marks) + 1


def _mark(folder: MemberFolder, path: Path, kind: type[mark_file.Header]) -> mark_file.Header | None:
    """The header of a mark file; None for a file that was never written."""
    with path.open("rb") as stream:
        head = stream.read(mark_file.HEADER_LENGTH)
    if not any(head):
        return None
    try:
        return mark_file.decode_header(head, kind)
    except DecodeError as error:
        raise _broken(folder, path, f"is no mark file: {error}") from error


def _require_started(folder: MemberFolder, path: Path, component: str, pid: int, traced: _Traced | None) -> None:
    """The trace must have the start of the last owner of a mark file."""
    if traced is None:
        return
    started = traced.started.get(component, set()) | traced.started.get(_WHOLE_MEMBER, set())
    if started and pid not in started:
        raise _broken(folder, path, f"is of process {pid}, and the trace has no start of it")


def _check_node_state(folder: MemberFolder, traced: _Traced | None) -> int:
    """The file must not name a term that the member never saw. Another promise checks that it has the member's
    votes.
    """
    path = folder.cluster / "node-state.dat"
    if traced is None or not path.is_file():
        return 0
    candidate = candidate_term(path)
    # A member may be killed after it stores a term and before it asks for votes.
    if candidate is not None and candidate > traced.highest + 1:
        raise _broken(folder, path, f"has candidate term {candidate}, and the trace knows none after {traced.highest}")
    return 1


# --- recordings ---


def _check_recordings(folder: MemberFolder, *, is_at_end: bool, names_all: bool, is_named: bool) -> int:
    """`is_at_end`: the member has all that the cluster has, so nothing is half done. `names_all`: it names every term
    of the log; Aeron's backup names only terms that lead while it asks. `is_named`: it names the recorded term.
    """
    path, catalog = folder.recording_log, folder.archive / CATALOG_NAME
    try:
        entries = list(recording_log_entries(path))
        recordings = list(catalog_entries(catalog))
    except LogMissing:
        return 0
    by_id = {recording.recording_id: recording for recording in recordings}
    if len(by_id) < len(recordings):
        raise _broken(folder, catalog, "has two recordings of one id")
    terms = sorted((entry for entry in entries if entry.is_term), key=lambda entry: entry.term_id)
    _check_terms(folder, terms, names_all=names_all)
    for entry in entries:
        recording = by_id.get(entry.recording_id)
        if recording is not None:
            _check_recording(folder, entry, recording)
        elif not entry.is_term and entry.position > 0 and folder.member_id != _NOBODY:
            detail = f"does not have recording {entry.recording_id}, of the snapshot at {entry.position}"
            raise _broken(folder, catalog, detail, entry.position)
    if terms:
        try:
            log = RecordedLog(folder)
        except LogMissing:
            return 2
        if names_all and terms[0].term_base > log.start_position:
            detail = f"begins with term {terms[0].term_id} at {terms[0].term_base}, the log at {log.start_position}"
            raise _broken(folder, path, detail, log.start_position)
        _check_log(folder, log, terms, by_id[log.recording_id], is_at_end=is_at_end, is_named=is_named)
        _check_snapshots(folder, log, [entry for entry in entries if not entry.is_term], terms)
    return 2


def _check_terms(folder: MemberFolder, terms: Sequence[RecordingLogEntry], *, names_all: bool) -> None:
    """All terms have one recording, and each ends where the next begins, unless terms between them are missing."""
    for one, other in pairwise(terms):
        if one.recording_id != other.recording_id:
            detail = f"has the log in recording {one.recording_id} and in {other.recording_id}"
            raise _broken(folder, folder.recording_log, detail)
        if one.term_id == other.term_id:
            raise _broken(folder, folder.recording_log, f"has term {one.term_id} twice")
        is_next = one.term_id + 1 == other.term_id
        is_apart = one.position >= 0 and one.position != other.term_base and (names_all or is_next)
        if is_apart or (one.position < 0 and is_next):
            end = "has no end" if one.position < 0 else f"ends at {one.position}"
            detail = f"says that term {one.term_id} {end}, and term {other.term_id} begins at {other.term_base}"
            raise _broken(folder, folder.recording_log, detail, other.term_base)


def _check_recording(folder: MemberFolder, entry: RecordingLogEntry, recording: CatalogEntry) -> None:
    """The catalog has the recording that the recording log names, and its segments."""
    catalog = folder.archive / CATALOG_NAME
    what = f"recording {recording.recording_id}"
    stream = LOG_STREAM_ID if entry.is_term else SERVICE_SNAPSHOT_STREAM_ID
    if not entry.is_term and entry.service_id == _NOBODY:
        stream = MODULE_SNAPSHOT_STREAM_ID
    if recording.stream_id != stream:
        raise _broken(folder, catalog, f"has stream {recording.stream_id} for {what}, which is one of stream {stream}")
    if not recording.is_intact:
        raise _broken(folder, catalog, f"has a checksum for {what} that is not that of its fields")
    if not entry.is_intact:
        detail = f"has a checksum for the snapshot at {entry.position} that is not that of its fields"
        raise _broken(folder, folder.recording_log, detail, entry.position)
    stop = recording.stop_position
    if entry.recorded_length >= 0 and stop >= 0 and stop - recording.start_position != entry.recorded_length:
        detail = f"says that {what} has {entry.recorded_length} bytes, the catalog {stop - recording.start_position}"
        raise _broken(folder, folder.recording_log, detail, entry.position)
    if stop < 0:
        return
    try:
        recorded = RecordedLog(folder, recording.recording_id)
    except LogMissing:
        return
    if not recorded.has_end_at(stop) or recorded.has_frame_at(stop):
        raise _broken(folder, catalog, f"says that {what} stops at {stop}, its segments say otherwise", stop)


def _check_log(
    folder: MemberFolder,
    log: RecordedLog,
    terms: Sequence[RecordingLogEntry],
    recording: CatalogEntry,
    *,
    is_at_end: bool,
    is_named: bool,
) -> None:
    """Each term of the recording log begins at its position in the log, and the log has no other terms."""
    path = folder.recording_log
    session = None
    for term in terms:
        is_empty = term.position == term.term_base
        if is_empty or term.term_base < log.start_position or not log.has_frame_at(term.term_base):
            # Aeron gives the recording the session of an earlier term that has a frame.
            session = None
            continue
        event = _new_term(log, term.term_base)
        if event is None or (event.leadership_term_id, event.term_base_log_position) != (term.term_id, term.term_base):
            actual = "none" if event is None else f"term {event.leadership_term_id} from {event.term_base_log_position}"
            detail = f"says that term {term.term_id} begins at {term.term_base}, where the log has {actual}"
            raise _broken(folder, path, detail, term.term_base)
        session = event.log_session_id
    last = terms[-1]
    event = _new_term(log, last.position) if last.position >= 0 and is_at_end else None
    # A member that lost its leader there and found the same one again keeps that end.
    if event is not None and event.leadership_term_id != last.term_id:
        detail = f"ends with term {last.term_id}, and the log goes on with term {event.leadership_term_id}"
        raise _broken(folder, path, detail, last.position)
    if is_at_end and is_named and session not in (None, recording.session_id):
        detail = f"has session {recording.session_id} for recording {recording.recording_id}, its last term {session}"
        raise _broken(folder, folder.archive / CATALOG_NAME, detail)


def _new_term(log: RecordedLog, position: int) -> cm.NewLeadershipTermEvent | None:
    message = log.message_at(position)
    try:
        event = None if message is None else cm.SCHEMA.decode(message)
    except DecodeError:
        return None
    return event if isinstance(event, cm.NewLeadershipTermEvent) else None


def _check_snapshots(
    folder: MemberFolder,
    log: RecordedLog,
    snapshots: Sequence[RecordingLogEntry],
    terms: Sequence[RecordingLogEntry],
) -> None:
    """Each snapshot is within its term, at the end of a log entry. The last term may go on past its recorded end."""
    path = folder.recording_log
    by_id = {term.term_id: term for term in terms}
    for snapshot in snapshots:
        term = by_id.get(snapshot.term_id)
        if term is not None:
            end = snapshot.position if term.position < 0 or term is terms[-1] else term.position
            if snapshot.term_base != term.term_base or not term.term_base <= snapshot.position <= end:
                detail = f"has a snapshot at {snapshot.position} that is not in term {snapshot.term_id}"
                raise _broken(folder, path, detail, snapshot.position)
        if snapshot.position > log.start_position and not log.has_end_at(snapshot.position):
            detail = f"has a snapshot at {snapshot.position}, where no entry of the log ends"
            raise _broken(folder, path, detail, snapshot.position)


def _check(evidence: Evidence) -> list[Finding]:
    findings = check_binding(evidence.run, evidence.manifest)
    if findings[0].verdict is Verdict.VALID:
        try:
            is_scenario = evidence.run.scenario_file.exists()
            if SCENARIO_NAME in evidence.manifest.written:
                require_demands(evidence.manifest, jsonfields.read_text(evidence.run.scenario_file))
            require_described(evidence.manifest, evidence.operations, evidence.traces, has_one_load=is_scenario)
            if evidence.has_all_of_clients and evidence.finals and evidence.whole_log is not None:
                events = evidence.whole_log.events
                require_sessions(
                    evidence.operations, evidence.session_ends, events.sessions, evidence.traces, events.times.keys()
                )
        except Broken as broken:
            return [broken.finding(Promise.EVIDENCE_BOUND)]
    return findings


BINDING: Final = Checker(
    "binding",
    (Promise.EVIDENCE_BOUND,),
    OF_LOG
    | {Source.CONFIGURATIONS, Source.ORIGIN, Source.HISTORY, Source.SESSIONS, Source.SCENARIO, Source.COMPANIONS},
    _check,
)
