"""The promise about backups: a backup, and what is restored from it, has every operation acknowledged before its
position.

A backup's recordings are read like a member's, compared byte by byte with the members' log, and searched for the
operations of the history. The positions that a backup had at a time, by its own trace or at its end, must have been
committed by then, as the members' traces show. A restored run is judged by its origin, which records what its members
were given. This module needs no cluster and, for a restored run, no backup.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.log_messages import decode_message
from upheaval.checkers.evidence.log_pieces import first_difference, log_digest
from upheaval.checkers.evidence.logs import WitnessLog, described, frame_at, read_entries
from upheaval.checkers.evidence.losses import losses_of, purged_starts
from upheaval.checkers.evidence.positions import CommittedOverTime, committed_over_time
from upheaval.checkers.evidence.recordings import (
    LogMissing,
    RecordedLog,
    snapshot_entries,
    snapshot_records,
    term_entries,
)
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import facts_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.backup_names import first_snapshot, require_known, require_offered, require_terms
from upheaval.checkers.states.taken_snapshots import require_whole
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import (
    BACKUP,
    OWN_SYSTEM,
    STANDBY,
    ControlRecord,
    FinalPosition,
    Function,
    Manifest,
    MemberFolder,
    Operation,
    Origin,
    Outcome,
    RunFolder,
    TraceEvent,
    companion_folders,
    load_companions,
    read_origin,
)
from upheaval.records.companions import BACKING_UP, COMPANIONS_FILE
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS

_MODULE_ID: Final = -1
_MARKERS: Final = 2
_START: Final = "start"
_RETRIEVES: Final = "SNAPSHOT_RETRIEVE"
_BEGINS_ANEW: Final = ("BACKUP_QUERY", "RESET_BACKUP")
GRACE_NS: Final = 200 * MS
"""A trace line has the time at which its process began the turn. Without stalls, a turn is no longer than this."""
_POSITION_OF: Final[Mapping[str, str]] = {
    TraceKind.BACKUP_TERM: "term_base_log_position",
    TraceKind.STANDBY_REPLAY_ENDED: "log_position",
    TraceKind.SERVICE_ACK: "log_position",
}
"""The events of companions that name a position up to which they have the log, and the field of that position."""


@dataclass(frozen=True, slots=True)
class _Members:
    """What a backup is compared with. `commit_position` is -1 (unknown) if the run did not converge.

    `witness_id` is the member with the longest log; -1 if no log is readable.
    """

    run: RunFolder
    count: int
    commit_position: int
    witness_id: int
    services: int
    """The number of services of a member; 0 if a backup may have ended between two snapshots of a set."""

    def log(self, member_id: int) -> RecordedLog:
        return RecordedLog(self.run.member(member_id))


def check_backups(
    run: RunFolder,
    manifest: Manifest,
    finals: Sequence[FinalPosition],
    operations: Iterable[Operation],
    witness_id: int,
    controls: Sequence[ControlRecord] = (),
) -> list[Result]:
    """Judge all backups and standbys of a run, and the backup that it was restored from.

    `witness_id` is the member with the longest log; -1 if no log is readable.
    """
    commit_position = min((final.commit_position for final in finals), default=-1)
    services = 1 + len(manifest.more_services) if manifest.system == OWN_SYSTEM else 0
    members = _Members(run, manifest.members, commit_position, witness_id, services)
    noted = {config.name: config.position for config in load_companions(run.path)}
    names = {folder.name for folder in companion_folders(run.path)}
    names |= {name for name, position in noted.items() if position > 0}
    names |= _started(controls)
    work = [partial(_judge_backup, run.path / name, noted.get(name, -1), members, operations) for name in sorted(names)]
    if manifest.system == OWN_SYSTEM:
        work += [partial(_require_named, run, name, controls) for name in sorted(names)]
        work += [partial(_require_listed, name, set(noted)) for name in sorted(_started(controls))]
        work += [partial(_require_snapshots, run, manifest, name) for name in sorted(names)]
    work += [partial(_judge_times, run, manifest, name, controls) for name in sorted(names)]
    origin = read_origin(run.path)
    if origin is not None:
        work.append(partial(_judge_restored, origin, members))
    findings = [_judged(judge) for judge in work]
    if not findings:
        return [NotApplicable(Promise.BACKED_UP, "there was no backup, and nothing was restored")]
    worst = max(findings, key=lambda finding: finding.verdict)
    if worst.verdict is not Verdict.VALID:
        return [worst]
    return [
        Finding(Promise.BACKED_UP, Verdict.VALID, "; ".join(finding.detail for finding in findings if finding.detail))
    ]


def _judged(judge: Callable[[], str]) -> Finding:
    try:
        return Finding(Promise.BACKED_UP, Verdict.VALID, judge())
    except Broken as broken:
        return broken.finding(Promise.BACKED_UP)


# --- a backup ---


@dataclass(frozen=True, slots=True)
class _Copy:
    """A backup's log: its start and end, and the positions of its operations."""

    name: str
    files: MemberFolder
    start: int
    end: int
    held: Mapping[int | str, int]
    terms: Sequence[int]
    """The terms that begin in it."""

    @property
    def log(self) -> RecordedLog:
        """The log, to be read again."""
        return RecordedLog(self.files)


def _judge_backup(folder: Path, noted: int, members: _Members, operations: Iterable[Operation]) -> str:
    """Summarise a good backup in one line. `noted` is the position that it reported; -1 if none. Raises `Broken`."""
    copy = _read(MemberFolder(folder, -1, folder.name), noted)
    _require_operations(copy, operations)
    compared = _compare(copy, members)
    snapshots = _check_snapshots(copy, members)
    if members.services:
        require_whole(copy.name, -1, snapshot_records(copy.files.recording_log), members.services)
    _require_start(copy, snapshots)
    if members.services:
        require_terms(copy.files, copy.terms)
    taken = sorted({position for position, _ in snapshots})
    shown = f", and snapshots at {', '.join(map(str, taken))}" if taken else ""
    return f"{copy.name} has {len(copy.held)} operations up to position {copy.end}, {compared}{shown}"


def _read(files: MemberFolder, noted: int) -> _Copy:
    """Read the log. Raises `Broken` if it is missing, empty, or shorter than the backup reported."""
    held: dict[int | str, int] = {}
    terms: list[int] = []
    try:
        log = RecordedLog(files)
        for segment in log.segments():
            witness = WitnessLog()
            held.update((entry.id, entry.position) for entry in read_entries(segment, witness))
            held.update((f"call at {call.position}", call.position) for call in witness.calls)
            terms.extend(term.leadership_term_id for term in witness.terms)
    except LogMissing as error:
        if noted <= 0:
            raise Broken(Verdict.UNKNOWN, f"{files.name} has no log: {error}") from error
        detail = f"{files.name} reported the log up to position {noted}, and has none: {error}"
        raise Broken(Verdict.INVALID, detail, position=noted) from error
    if log.end_position < noted:
        why = f" ({log.fault})" if log.fault else ""
        detail = f"the log of {files.name} ends at position {log.end_position}, it reported it up to {noted}{why}"
        raise Broken(Verdict.INVALID, detail, position=log.end_position)
    if log.end_position == log.start_position:
        raise Broken(Verdict.UNKNOWN, f"the log of {files.name} is empty")
    return _Copy(files.name, files, log.start_position, log.end_position, held, terms)


def _require_operations(copy: _Copy, operations: Iterable[Operation]) -> None:
    """Check that the log has each acknowledged operation at its position, if it reaches that far."""
    for operation in operations:
        position = operation.position
        if operation.outcome is not Outcome.OK or position is None or operation.f is Function.CALL:
            continue
        held_at = copy.held.get(operation.id)
        if copy.start < position <= copy.end and held_at != position:
            where = "is missing" if held_at is None else f"is at position {held_at}"
            shown = f"operation id={operation.id} {operation.f} {operation.key}"
            detail = f"{shown}, acknowledged at position {position}, {where} in {copy.name}"
            raise Broken(Verdict.INVALID, detail, position=position, operation=operation.id)


def _compare(copy: _Copy, members: _Members) -> str:
    """Compare with the longest log of a member up to the commit position. A majority must have the log past it."""
    if members.witness_id < 0:
        raise Broken(Verdict.UNKNOWN, f"no readable log of a member to compare {copy.name} with")
    is_known = members.commit_position >= 0
    limit = min(copy.end, members.commit_position) if is_known else copy.end
    witness = members.log(members.witness_id)
    begin = max(copy.start, witness.start_position)
    if begin >= limit:
        detail = f"member {members.witness_id} has nothing of the log of {copy.name}"
        raise Broken(Verdict.UNKNOWN, detail, members=(members.witness_id,))
    different = first_difference(copy.log, witness, begin, limit)
    if different is not None:
        segment, offset = different
        at = segment.base + offset
        where = f"of member {members.witness_id} at position {at}"
        detail = f"the log of {copy.name} is not that {where}: {described(frame_at(segment, offset))}"
        verdict = Verdict.INVALID if is_known else Verdict.UNKNOWN
        raise Broken(verdict, detail, members=(members.witness_id,), position=at)
    if copy.end > limit:
        _require_majority(copy, limit, members)
    if not is_known and members.log(members.witness_id).read_to_end() < copy.end:
        raise Broken(Verdict.UNKNOWN, f"{copy.name} has more log than any member, and the run has no converge phase")
    return f"byte for byte the log of member {members.witness_id}"


def _require_majority(copy: _Copy, start: int, members: _Members) -> None:
    """Check that a majority has the log past the commit position: the log may have grown after the converge phase."""
    having = 0
    for member_id in range(members.count):
        try:
            is_there = members.log(member_id).read_to_end() >= copy.end
        except LogMissing:
            continue
        having += is_there and first_difference(copy.log, members.log(member_id), start, copy.end) is None
    if having <= members.count // 2:
        raise Broken(
            Verdict.INVALID,
            f"{copy.name} holds log that was never committed: it goes on to position {copy.end}, past the commit "
            f"position {start}, where {having} of {members.count} members have the same",
            position=start,
        )


def _check_snapshots(copy: _Copy, members: _Members) -> set[tuple[int, int]]:
    """Check that each snapshot in the recording log is whole and equals a member's. Returns positions and services."""
    snapshots = set()
    for recording_id, position, service_id in snapshot_entries(copy.files.recording_log):
        what = "consensus module" if service_id == _MODULE_ID else f"service {service_id}"
        where = f"the snapshot of the {what} at position {position} in {copy.name}"
        try:
            content = _content(RecordedLog(copy.files, recording_id))
        except LogMissing as error:
            raise Broken(Verdict.INVALID, f"{where} cannot be read: {error}", position=position) from error
        if _marks(content) < _MARKERS:
            raise Broken(Verdict.INVALID, f"{where} has no end", position=position)
        others = list(_same_of_members(members, position, service_id))
        if others and content not in others:
            raise Broken(Verdict.INVALID, f"{where} is that of no member", position=position)
        snapshots.add((position, service_id))
    return snapshots


def _same_of_members(members: _Members, position: int, service_id: int) -> Iterator[list[bytes]]:
    """The members' snapshots of that service at that position, as far as they are readable."""
    for member_id in range(members.count):
        folder = members.run.member(member_id)
        for recording_id, at, of_service in snapshot_entries(folder.recording_log):
            if (at, of_service) == (position, service_id):
                with suppress(LogMissing):
                    yield _content(RecordedLog(folder, recording_id))


def _content(log: RecordedLog) -> list[bytes]:
    return [message for _, message in log.messages()]


def _marks(content: Iterable[bytes]) -> int:
    count = 0
    for message in content:
        with suppress(DecodeError):
            count += isinstance(decode_message(message), cm.SnapshotMarker)
    return count


def _require_start(copy: _Copy, snapshots: set[tuple[int, int]]) -> None:
    """Check that a log that does not start at 0 has a set of snapshots to continue from."""
    if copy.start == 0:
        return
    modules = {position for position, service_id in snapshots if service_id == _MODULE_ID}
    services = {position for position, service_id in snapshots if service_id != _MODULE_ID}
    if not any(copy.start <= position <= copy.end for position in modules & services):
        detail = f"the log of {copy.name} begins at position {copy.start}, where it has no snapshot to go on from"
        raise Broken(Verdict.INVALID, detail, position=copy.start)


# --- positions over time ---


@dataclass(frozen=True, slots=True)
class Held:
    """A log position that a companion had at `ns`, and the line that shows it."""

    ns: int
    position: int
    line: str


def require_committed(
    name: str, held: Iterable[Held], committed: CommittedOverTime, stalls: Sequence[tuple[int, int]] = ()
) -> int:
    """Check that a companion only had committed positions. Returns how many were compared. Raises `Broken`.

    A turn that began before a stall ended after it.
    """
    count = 0
    for report in held:
        around = (
            end_ns - begin_ns for begin_ns, end_ns in stalls if begin_ns <= report.ns + GRACE_NS and report.ns <= end_ns
        )
        known = committed.by(report.ns + GRACE_NS + max(around, default=0))
        if report.position > known:
            detail = (
                f"{name} had the log up to position {report.position} at {report.ns // MS} ms ({report.line}), and the "
                f"traces show no more than {known} committed by then"
            )
            raise Broken(Verdict.INVALID, detail, position=report.position)
        count += 1
    return count


def _started(controls: Iterable[ControlRecord]) -> set[str]:
    """The companions that were seen running."""
    names = set()
    for control in controls:
        companion = _companion_of(control)
        if companion is not None and companion[1] == _START and control.proof.holds:
            names.add(companion[0])
    return names


def _companion_of(control: ControlRecord) -> tuple[str, str] | None:
    """The companion that a record of `controls.jsonl` is about, and what was done to it. None if it is about no
    companion.
    """
    words = control.what.split()
    if len(words) < 2 or words[0] not in (BACKUP, STANDBY):
        return None
    named = (word.removeprefix("name=") for word in words[2:] if word.startswith("name="))
    return next(named, f"{words[0]}-0"), words[1]


def _judge_times(run: RunFolder, manifest: Manifest, name: str, controls: Sequence[ControlRecord]) -> str:
    """Check that what a backup had was committed. Empty for a cluster that lost power or does not trace its commits.

    A member that loses its files keeps its trace.
    """
    lost_power = losses_of(run, manifest).powerless
    folders = [run.member(member_id) for member_id in range(manifest.members)]
    has_traces = all(folder.trace.exists() for folder in folders)
    if manifest.system != OWN_SYSTEM or manifest.members == 1 or lost_power or not has_traces:
        return ""
    files = MemberFolder(run.path / name, -1, name, at_rest=True)
    stalls = [stall for folder in (files, *folders) for stall in facts_of(folder).stalls]
    count = require_committed(name, _held_by(files, controls), committed_over_time(run, manifest), stalls)
    return f"{count} positions that {name} had were committed then" if count else ""


def _held_by(files: MemberFolder, controls: Sequence[ControlRecord]) -> Iterator[Held]:
    """Yield the positions that its trace names, and the end of its log if it was stopped for good."""
    events = list(files.traced())
    for event in events:
        field = _POSITION_OF.get(event.event)
        position = event.fields.get(field) if field is not None else None
        if type(position) is int and position >= 0:
            yield Held(event.ns, position, f"{files.name}/trace.jsonl:{event.line}")
    done = [
        (line, control, companion[1])
        for line, control in enumerate(controls, 1)
        if (companion := _companion_of(control)) is not None and companion[0] == files.name
    ]
    if not done or done[-1][2] == _START or not done[-1][1].proof.holds:
        return
    line, control, _ = done[-1]
    try:
        yield Held(control.end_ns, RecordedLog(files).read_to_end(), f"controls.jsonl:{line}")
    except LogMissing:
        return


def _require_named(run: RunFolder, name: str, controls: Sequence[ControlRecord]) -> str:
    """Check that its recording log has the terms and snapshots that its trace names. Always returns an empty line."""
    files = MemberFolder(run.path / name, -1, name, at_rest=True)
    if not files.trace.exists():
        if name in _started(controls):
            raise Broken(Verdict.UNKNOWN, f"{name}/trace.jsonl is missing, and {name} was started")
        return ""
    terms = {(term, base) for term, base, _ in term_entries(files.recording_log)}
    has_retrieved = False
    for event in files.read_trace():
        if event.event == TraceKind.BACKUP_TERM:
            term, base = event.fields.get("leadership_term_id"), event.fields.get("term_base_log_position")
            if (term, base) not in terms:
                detail = f"does not have term {term} from position {base}, which {name} named"
                raise _unnamed(files, event, detail, base if type(base) is int else None)
        elif event.event == TraceKind.BACKUP_STATE:
            state = event.fields.get("state")
            has_retrieved = state == _RETRIEVES or (has_retrieved and state not in _BEGINS_ANEW)
            if has_retrieved and state == BACKING_UP and not snapshot_records(files.recording_log):
                raise _unnamed(files, event, f"has no snapshot, and {name} had retrieved one", None)
    return ""


def _require_snapshots(run: RunFolder, manifest: Manifest, name: str) -> str:
    """Check its snapshots against those of the members. Always returns an empty line.

    One that members may have lost is compared with a replay of the log, by another promise.
    """
    losses = losses_of(run, manifest)
    of_members, first = {}, {}
    for member_id in range(manifest.members):
        folder = run.member(member_id)
        of_members[member_id] = snapshot_records(folder.recording_log)
        taken = first_snapshot(of_members[member_id], facts_of(folder), losses.until_ns.get(member_id, -1))
        if taken is not None:
            first[member_id] = taken
    files = MemberFolder(run.path / name, -1, name, at_rest=True)
    if name.startswith(BACKUP) and not losses.members:
        require_known(files, of_members)
    require_offered(files, first)
    return ""


def _require_listed(name: str, listed: Set[str]) -> str:
    """Check that the companion has an entry, by which later commands find it."""
    if name not in listed:
        raise Broken(Verdict.UNKNOWN, f"{COMPANIONS_FILE} does not have {name}, which was there")
    return ""


def _unnamed(files: MemberFolder, event: TraceEvent, what: str, position: int | None) -> Broken:
    detail = f"{files.name}/cluster/recording.log {what} ({files.name}/trace.jsonl:{event.line})"
    return Broken(Verdict.INVALID, detail, position=position, when_ns=(event.ns, event.ns))


# --- a restored run ---


def _judge_restored(origin: Origin, members: _Members) -> str:
    """Check that each member has the log that it was restored with, byte for byte, unless a purge removed it: what is
    left is compared with the others' logs, by another promise.
    """
    having = 0
    purged: list[Broken] = []
    starts = purged_starts(members.run, members.count)
    for member_id in range(members.count):
        try:
            log = members.log(member_id)
            start = log.start_position
            digest = log_digest(log, origin.start_position, origin.position)
        except LogMissing:
            continue
        if start != origin.start_position:
            detail = f"the log of member {member_id} begins at position {start}"
            broken = Broken(Verdict.UNKNOWN, detail, members=(member_id,), position=start)
            if start not in starts.get(member_id, ()):
                raise broken
            purged.append(broken)
            continue
        if digest != origin.log_digest:
            raise Broken(
                Verdict.INVALID,
                f"member {member_id} does not have the log up to position {origin.position} that it was restored with",
                members=(member_id,),
                position=origin.position,
            )
        _require_snapshot(origin, members.run.member(member_id))
        having += 1
    readable = having + len(purged)
    if readable < members.count:
        raise Broken(Verdict.UNKNOWN, f"of {members.count} restored members {readable} have a readable log")
    if not having:
        raise purged[0]
    who, rest = (f"{having} of {readable}", "; the others were purged") if purged else (f"all {having}", "")
    return (
        f"restored from {origin.name} with {origin.operations} acknowledged operations: {who} members have its "
        f"log up to position {origin.position}{rest}"
    )


def _require_snapshot(origin: Origin, folder: MemberFolder) -> None:
    """Check that the member has a restored snapshot, which alone holds what precedes the start of its log."""
    named = {position for _, position, service_id in snapshot_entries(folder.recording_log) if service_id == _MODULE_ID}
    if origin.start_position > 0 and not named & set(origin.snapshots):
        at = max(origin.snapshots, default=0)
        detail = (
            f"{folder.name} does not have the snapshot at position {at} that its log, from {origin.start_position} on, "
            "was restored with"
        )
        raise Broken(Verdict.INVALID, detail, members=(folder.member_id,), position=at)


def _check(evidence: Evidence) -> Iterable[Result]:
    witness = evidence.logs.witness
    longest = -1 if witness is None else witness.member_id
    run, manifest, finals = evidence.run, evidence.manifest, evidence.finals
    return check_backups(run, manifest, finals, evidence.operations, longest, evidence.controls)


BACKUPS: Final = Checker(
    "backups",
    (Promise.BACKED_UP,),
    OF_LOG | {Source.HISTORY, Source.CONTROLS, Source.ORIGIN, Source.COMPANIONS},
    _check,
)
