"""The promise that a run left all its evidence: whatever one file mentions must exist in another.

The manifest lists the members, the planned faults and commands, and where the run ended. Recording logs and the log
list terms and snapshots. This module checks that evidence exists; others judge its content.
"""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.alone import times_alone
from upheaval.checkers.evidence.losses import Losses, losses_of
from upheaval.checkers.evidence.operation_ids import MissingIds, missing_ids
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.evidence.protocol_events import OF_MODULE, quorum_of
from upheaval.checkers.evidence.recordings import named_snapshots, snapshot_records, term_entries
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.term_facts import TermFacts
from upheaval.checkers.evidence.trace_facts import GAP_NS, TraceFacts
from upheaval.checkers.history.columns import IS_OK, LogEntries, PlacedHistory
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import (
    LOST_EVENTS,
    OWN_SYSTEM,
    SPLIT,
    STANDBY,
    FinalPosition,
    Manifest,
    RunFolder,
    companion_folders,
    read_origin,
)
from upheaval.records.own_source import code_digest
from upheaval_node.files import layout
from upheaval_node.types import S

_MEMBER: Final = re.compile(r"member-(\d+)")
_TOGETHER: Final = frozenset({"all"})
_SPLIT: Final = frozenset({"archive", "consensus", "service-0"})


def check_absence(
    run: RunFolder,
    manifest: Manifest,
    traces: Sequence[TraceFacts],
    asked: Iterable[int] = (),
    answered: Mapping[int, int] = MappingProxyType({}),
    missing: MissingIds | None = None,
) -> Finding:
    """Unknown when something is missing.

    `asked`: positions at which the log asks members for a snapshot. `answered`: by leadership term, the last position
    whose answer a client received. `missing`: ids that a complete history would have.
    """
    try:
        _require_folders(run, manifest)
        for facts in traces:
            _require_trace(facts, manifest)
        _require_terms(run, manifest, traces)
        _require_no_gap(run, manifest, traces)
        _require_messages(manifest, traces, answered)
        _require_ids(run, manifest, missing)
        _require_planned(run, manifest)
        _require_snapshots(run, manifest, traces)
        _require_marks(run, manifest, traces)
        _require_valid(run, manifest, traces)
        _require_asked(asked, manifest, taken_snapshots(run, manifest, traces))
        _require_code(manifest)
    except Broken as broken:
        return broken.finding(Promise.EVIDENCE_COMPLETE)
    detail = f"{manifest.members} members with traces up to the end of the run"
    return Finding(Promise.EVIDENCE_COMPLETE, Verdict.VALID, detail)


def _missing(detail: str, *members: int, position: int | None = None) -> Broken:
    return Broken(Verdict.UNKNOWN, detail, members=members, position=position)


def _require_code(manifest: Manifest) -> None:
    """Copies of a user's service check its states and answers, so its code is evidence."""
    if not manifest.source or not manifest.source_digest:
        return
    digest = code_digest(manifest.source, manifest.service, manifest.system)
    if digest != manifest.source_digest:
        how = "was changed since the run began" if digest else "is missing"
        where = "judge the run where that code is, for example in a checkout of its commit"
        raise _missing(f"the code of {manifest.service} in {manifest.source} {how}: {where}")


def _require_folders(run: RunFolder, manifest: Manifest) -> None:
    of_manifest = f"the manifest has {manifest.members} members"
    for member_id in range(manifest.members):
        if not run.member(member_id).path.is_dir():
            raise _missing(f"member-{member_id} is missing: {of_manifest}", member_id)
    matches = (_MEMBER.fullmatch(path.name) for path in run.path.iterdir())
    others = [int(match[1]) for match in matches if match and int(match[1]) >= manifest.members]
    if others:
        raise _missing(f"member-{min(others)} is there: {of_manifest}", min(others))


def _require_trace(facts: TraceFacts, manifest: Manifest) -> None:
    who = facts.member_id
    if not facts.is_there:
        raise _missing(f"{facts.name} is missing: every member leaves one", who)
    if facts.unstarted is not None:
        event = facts.unstarted
        component = event.fields.get("component", "")
        detail = f"{facts.name}:{event.line} is {event.event!r} of {component!r}, and no earlier line has its start"
        raise _missing(detail, who)
    if facts.lost is not None:
        detail = f"{facts.name}:{facts.lost.line} says that {facts.lost.fields[LOST_EVENTS]} events before it were lost"
        raise _missing(detail, who)
    if manifest.system != OWN_SYSTEM and facts.terms:
        term = min(facts.terms)
        detail = f"{facts.name} has messages of term {term}, which members of {manifest.system} do not trace"
        raise _missing(detail, who)
    if facts.backwards is not None:
        line = facts.backwards.line
        raise _missing(f"{facts.name}:{line} is earlier than a line before it of the same process", who)
    started = facts.components
    absent = (_SPLIT if manifest.components == SPLIT else _TOGETHER) - started
    if absent:
        raise _missing(f"{facts.name} has no start of {min(absent)!r}", who)


def _require_no_gap(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> None:
    """A member must keep sending or receiving, except during faults and stalls, and while no other member runs."""
    if manifest.system != OWN_SYSTEM or manifest.members < 2:
        return
    faults = list(run.read_faults()) if any(facts.gaps for facts in traces) else []
    for facts in traces:
        spans = [(fault.inject_begin_ns, fault.heal_end_ns) for fault in faults if facts.member_id in fault.members]
        for begin_ns, end_ns, line in facts.gaps:
            alone_ns = sum(
                max(0, min(end_ns, other_ns) - max(begin_ns, one_ns))
                for one_ns, other_ns in times_alone(traces, faults, facts.member_id)
            )
            if end_ns - begin_ns - alone_ns > GAP_NS and not any(
                one_ns <= end_ns and (other_ns is None or begin_ns <= other_ns + GAP_NS)
                for one_ns, other_ns in [*spans, *facts.stalls]
            ):
                detail = (
                    f"{facts.name}:{line} is the first line of an election or a message for "
                    f"{(end_ns - begin_ns) / S:.1f} s, and no recorded stall or fault explains it"
                )
                raise _missing(detail, facts.member_id)


def _require_terms(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> None:
    """After convergence, each trace must reach the last term and position, and each term must be in some trace."""
    finals = finals_of(manifest)
    by_member = {facts.member_id: facts for facts in traces}
    for final in finals:
        facts = by_member.get(final.member_id)
        if facts is None:
            continue
        last = f"the run ended at {final.commit_position} in term {final.leadership_term_id}"
        if final.leadership_term_id not in facts.entered:
            detail = f"{facts.name} has nothing about term {final.leadership_term_id}: {last}"
            raise _missing(detail, final.member_id, position=final.commit_position)
        # The trace of a lone member has no positions, because it sends them to no one.
        if manifest.members > 1 and facts.position < final.commit_position:
            detail = f"{facts.name} ends at position {facts.position}: {last}"
            raise _missing(detail, final.member_id, position=final.commit_position)
    if finals:
        entered = {term for facts in traces for term in facts.entered}
        for term, base in sorted(_named_terms(run, manifest, min(final.commit_position for final in finals))):
            if term not in entered:
                detail = f"no trace has term {term}, which recording logs have from position {base}"
                raise _missing(detail, position=base)


def _require_messages(manifest: Manifest, traces: Sequence[TraceFacts], answered: Mapping[int, int]) -> None:
    """Leaders must announce commit positions, followers must report append positions, and each must receive the
    other's.

    This holds in each term with an answer, and in the last term of a run that converged.
    """
    has_leader = any(known.leads for facts in traces for known in facts.terms.values())
    if manifest.system != OWN_SYSTEM or manifest.members < 2 or not has_leader:
        return
    for term, position in sorted(answered.items()):
        leader = next((facts for facts in traces if term in facts.terms and facts.terms[term].leads), None)
        if leader is None:
            continue
        if leader.terms[term].sent.highest < 0:
            detail = f"{leader.name} has no CommitPosition that was sent in term {term}, which committed {position}"
            raise _missing(detail, leader.member_id, position=position)
        others = [facts for facts in traces if facts is not leader]
        silent = [facts for facts in others if not _has_reported(facts, term)]
        if len(others) - len(silent) < quorum_of(manifest.members) - 1:
            detail = f"{silent[0].name} has no AppendPosition that was sent in term {term}, which committed {position}"
            raise _missing(detail, *(facts.member_id for facts in silent), position=position)
    for final in finals_of(manifest):
        if final.member_id < len(traces):
            _require_last_messages(traces[final.member_id], final)


def _has_reported(facts: TraceFacts, term: int) -> bool:
    """A member that catches up reports the term that it has reached in the log, which may be an earlier one."""
    return facts.has_caught_up or (term in facts.terms and facts.terms[term].appended.highest >= 0)


def _require_last_messages(facts: TraceFacts, final: FinalPosition) -> None:
    term, position = final.leadership_term_id, final.commit_position
    last = f"the run ended at {position} in term {term}"
    known = facts.terms.get(term, TermFacts())
    if known.leads:
        if known.sent.highest < position:
            detail = f"{facts.name} has no CommitPosition of {position} that was sent: {last}"
            raise _missing(detail, facts.member_id, position=position)
        return
    if max(known.heard.highest, known.announced.highest) < position:
        detail = f"{facts.name} has no CommitPosition of {position} that was received: {last}"
        raise _missing(detail, facts.member_id, position=position)
    if known.appended.highest < position:
        detail = f"{facts.name} has no AppendPosition of {position} that was sent: {last}"
        raise _missing(detail, facts.member_id, position=position)


def _require_ids(run: RunFolder, manifest: Manifest, missing: MissingIds | None) -> None:
    """Only a run that converged is known to have ended its load."""
    if missing is not None and finals_of(manifest):
        more = f" and {missing.count - 1} after it" if missing.count > 1 else ""
        detail = f"{run.history_file.name} does not have operation id={missing.first}{more}, between others of its load"
        raise Broken(Verdict.UNKNOWN, detail, operation=missing.first)


def _named_terms(run: RunFolder, manifest: Manifest, end: int) -> Iterator[tuple[int, int]]:
    """Terms in the recording logs of most members, each with its first position, after the restored part."""
    origin = read_origin(run.path)
    start = -1 if origin is None else origin.position
    counts: Counter[tuple[int, int]] = Counter()
    for member_id in range(manifest.members):
        entries = term_entries(run.member(member_id).recording_log)
        # A term that ends where it begins may never have had a leader.
        counts.update({(term, base) for term, base, term_end in entries if base != term_end})
    for (term, base), count in counts.items():
        if 2 * count > manifest.members and start <= base < end:
            yield term, base


def _require_planned(run: RunFolder, manifest: Manifest) -> None:
    """The record must have each planned fault and command."""
    planned = Counter(manifest.planned_faults) - Counter(fault.name for fault in run.read_faults())
    if planned:
        raise _missing(f"{run.faults_file.name} does not have fault {min(planned)!r}, which was planned")
    planned = Counter(manifest.planned_commands) - Counter(
        _without_options(control.what) for control in run.read_controls()
    )
    if planned:
        raise _missing(f"{run.controls_file.name} does not have {min(planned)!r}, which was planned")


def _without_options(command: str) -> str:
    """`backup start` of `backup start source=LEADER`."""
    return " ".join(word for word in command.split() if "=" not in word)


def _require_snapshots(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> None:
    """A snapshot that a member traced, or that a command saw on it, must be in its recording log."""
    losses = losses_of(run, manifest)
    for facts in traces:
        folder = run.member(facts.member_id)
        expected = {
            position: f"{facts.name}:{event.line}"
            for position, event in facts.snapshots.items()
            if not losses.may_include(facts.member_id, event.ns)
        }
        expected |= _ordered_snapshots(run, facts.member_id, losses)
        for position in sorted(expected.keys() - named_snapshots(folder.recording_log)):
            file = f"{folder.path.name}/{layout.RECORDING_LOG}"
            detail = f"{file} has no snapshot at position {position}, where one was taken ({expected[position]})"
            raise _missing(detail, facts.member_id, position=position)


def _require_marks(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> None:
    """A member that reached an election must have the mark files of all its parts."""
    services = [f"cluster/cluster-mark-service-{number}.dat" for number in range(1 + len(manifest.more_services))]
    losses = losses_of(run, manifest)
    for facts in traces:
        folder = run.member(facts.member_id)
        has_elected = any(
            life.has_started and not losses.may_include(facts.member_id, life.last_ns) for life in facts.lives
        )
        if manifest.system != OWN_SYSTEM or not has_elected:
            continue
        for name in ("cluster/cluster-mark.dat", "archive/archive-mark.dat", *services):
            if not (folder.path / name).exists():
                detail = f"{folder.path.name}/{name} is missing, although the member reached an election"
                raise _missing(detail, facts.member_id)


def _require_valid(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> None:
    """A member that invalidated a snapshot must have reported that after it was taken.

    Outside a scenario an operator may have invalidated it.
    """
    if manifest.system != OWN_SYSTEM or not run.scenario_file.exists():
        return
    origin = read_origin(run.path)
    start = -1 if origin is None else origin.position
    losses = losses_of(run, manifest)
    for facts in traces:
        reported_ns = max(facts.snapshot_failures, default=-1)
        folder = run.member(facts.member_id)
        for record in snapshot_records(folder.recording_log):
            taken = facts.snapshots.get(record.position)
            # Without its trace line, the member may have taken it before it lost files.
            taken_ns = -1 if taken is None else taken.ns
            is_explained = reported_ns > taken_ns or losses.may_include(facts.member_id, taken_ns)
            if not record.is_valid and record.position > start and not is_explained:
                detail = (
                    f"{folder.path.name}/{layout.RECORDING_LOG} has an invalid snapshot at position {record.position}, "
                    f"and {facts.name} has no error about snapshots since"
                )
                raise _missing(detail, facts.member_id, position=record.position)


def _ordered_snapshots(run: RunFolder, member_id: int, losses: Losses) -> dict[int, str]:
    """Positions of the snapshots that commands saw on the member since it lost files, each with file and line."""
    snapshots = {}
    for number, control in enumerate(run.read_controls(), 1):
        seen = control.members.get(str(member_id))
        position = seen.get("snapshot_position") if isinstance(seen, dict) else None
        is_lost = losses.may_include(member_id, control.begin_ns)
        if control.proof.holds and type(position) is int and position > 0 and not is_lost:
            snapshots[position] = f"{run.controls_file.name}:{number}"
    return snapshots


@dataclass(frozen=True, slots=True)
class TakenSnapshots:
    """The positions at which a recording log names a snapshot, of a member or a standby.

    Restored snapshots reach up to `start`. Beyond `sure_from`, some member must have taken each snapshot that the log
    asks for: a member that never ended takes all of them, and a restarted member takes those beyond its newest one,
    from which it replays the log. A position is not beyond `sure_from` if every member may have lost its snapshot
    there, or failed to take it.
    """

    positions: tuple[int, ...]
    start: int
    sure_from: int


def taken_snapshots(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> TakenSnapshots:
    """Read from the recording logs and the traces of all members."""
    members = {member_id: named_snapshots(run.member(member_id).recording_log) for member_id in range(manifest.members)}
    standbys = [path for path in companion_folders(run.path) if path.name.startswith(STANDBY)]
    companions = [named_snapshots(path / layout.RECORDING_LOG) for path in standbys]
    positions = sorted({position for named in (*members.values(), *companions) for position in named})
    origin = read_origin(run.path)
    lossy = losses_of(run, manifest).members
    sure = [
        max(members[facts.member_id], default=-1) if _was_started_again(facts) else -1
        for facts in traces
        if facts.member_id not in lossy and not _has_failed(facts)
    ]
    return TakenSnapshots(tuple(positions), -1 if origin is None else origin.position, min(sure, default=sys.maxsize))


def _has_failed(facts: TraceFacts) -> bool:
    """Whether a snapshot failed in the last process. What an earlier one failed to take, a later one takes."""
    begin_ns = max((life.begin_ns for life in facts.lives if life.component in OF_MODULE), default=0)
    return any(ns >= begin_ns for ns in facts.snapshot_failures)


def _was_started_again(facts: TraceFacts) -> bool:
    return any(life.next_ns is not None for life in facts.lives)


def _require_asked(asked: Iterable[int], manifest: Manifest, taken: TakenSnapshots) -> None:
    """In a run that converged, some member or standby must have each snapshot that the log asks for."""
    begin = max(taken.start, taken.sure_from)
    end = min((final.commit_position for final in finals_of(manifest)), default=-1)
    for position in sorted(asked):
        if not begin < position <= end or position in taken.positions:
            continue
        detail = f"no {layout.RECORDING_LOG} has a snapshot at position {position}, where the log asks for one"
        raise _missing(detail, position=position)


def _check(evidence: Evidence) -> Iterable[Finding]:
    log = evidence.whole_log
    asked = () if log is None else log.events.snapshots
    origin = read_origin(evidence.run.path)
    missing: MissingIds | None = None
    if origin is None or log is not None:
        first_id = 0 if origin is None else _restored_up_to(evidence.placed.entries, origin.position) + 1
        missing = missing_ids(evidence.operations, evidence.manifest, first_id)
    answered = _answered(evidence.placed)
    return [check_absence(evidence.run, evidence.manifest, evidence.traces, asked, answered, missing)]


def _restored_up_to(entries: LogEntries, position: int) -> int:
    """The highest operation id that the run was restored with; -1 for none."""
    return max(islice(entries.ids, bisect_right(entries.positions, position)), default=-1)


def _answered(placed: PlacedHistory) -> dict[int, int]:
    """By term, the last position whose answer a client received."""
    entries, kinds = placed.entries, placed.history.kinds
    of_entries = zip(placed.rows, entries.terms, entries.positions, strict=True)
    return {term: position for row, term, position in of_entries if row >= 0 and IS_OK[kinds[row]]}


ABSENCE: Final = Checker(
    "absence",
    (Promise.EVIDENCE_COMPLETE,),
    OF_LOG | {Source.HISTORY, Source.ORIGIN, Source.SCENARIO, Source.CONTROLS, Source.COMPANIONS},
    _check,
)
