"""The promises about senders: each entry belongs to its term, each operation to the client and session that sent it.

A history names the client slot of each operation and, if it was recorded, the cluster session that took it. The log has
session and term in the header of each message, and a recording log has the terms of its log. Clients recorded when they
left a session.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.checkers.checker import Checker, Source, of_whole_log
from upheaval.checkers.evidence.events import StrayEntry
from upheaval.checkers.evidence.logs import TermEntry, WitnessLog
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.checkers.evidence.recordings import term_entries
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.spans import MemberSpans
from upheaval.checkers.history.columns import ABSENT, IS_CALL, IS_FAIL, History, LogEntry, PlacedHistory, in_order
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import CLIENTS_CUT, LEADER, Rule, Signature
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import OWN_SYSTEM, Operation, SessionEnd, read_origin
from upheaval_chaos import target
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import NEVER_NS, S

_IMAGE_NS: Final = 10 * S
"""How long an image of Aeron's lives without any message, by its default."""
_ON_ITS_WAY_NS: Final = S


@dataclass(frozen=True, slots=True)
class MisnamedTerm:
    """A term of a member's log, and the term that its recording log has there; None if it has none there."""

    member_id: int
    term: TermEntry
    named: int | None


def judge_terms(entries: int, stray: StrayEntry | None, misnamed: MisnamedTerm | None = None) -> list[Result]:
    """Judge the terms of the log: `entries` entries have a term, and `stray` is the first one with a wrong term."""
    if stray is not None:
        due = "no term has begun" if stray.due is None else f"the log is in term {stray.due}"
        detail = f"{stray.kind} at position {stray.position} is of term {stray.term}, where {due}"
        return [Finding(Promise.ENTRIES_IN_TERM, Verdict.INVALID, detail, position=stray.position)]
    if misnamed is not None:
        member_id, term = misnamed.member_id, misnamed.term
        named = "no term" if misnamed.named is None else f"term {misnamed.named}"
        detail = f"the log of member {member_id} has term {term.leadership_term_id} at position {term.position}, "
        detail += f"where its recording log has {named}"
        return [Finding(Promise.ENTRIES_IN_TERM, Verdict.INVALID, detail, (member_id,), term.position)]
    if not entries:
        return [NotApplicable(Promise.ENTRIES_IN_TERM, "the log has no entry with a term")]
    return [Finding(Promise.ENTRIES_IN_TERM, Verdict.VALID, f"{entries} entries")]


@dataclass(frozen=True, slots=True)
class Clients:
    """What a history and the log show about clients: counts, and the first violation of each kind."""

    slots: int
    placed: int
    """The number of operations in the log whose session the history names."""
    again: tuple[Operation, Operation] | None = None
    """Two operations of a slot; the second was invoked before the first was over."""
    elsewhere: tuple[Operation, LogEntry] | None = None
    """An operation, and its entry in another session."""
    overtaken: tuple[Operation, Operation, int] | None = None
    """An operation, a later one of its session that precedes it in the log, and the log position of the operation."""
    skipped: tuple[Operation, LogEntry, LogEntry] | None = None
    """An operation that is not in the log, and the entries of its session before and after it, both of one term."""
    afterwards: tuple[Operation, SessionEnd] | None = None
    """An operation that was invoked or answered after its client had left the session."""
    unwritten: Operation | None = None
    """An operation in a session that no client recorded, although clients recorded all of theirs."""


def clients_of(
    placed: PlacedHistory, ends: Iterable[SessionEnd] = (), *, all_written_past: int | None = None
) -> Clients:
    """Compare a whole history with the operations of the log. Calls are left out.

    `ends` are the sessions that clients recorded. `all_written_past` is the log position after which every session that
    took an operation was recorded; None if clients did not record all sessions.
    """
    last_ends: dict[int | None, SessionEnd] = {}
    given_twice: set[int | None] = set()
    for written in sorted(ends, key=lambda end: end.ended_ns):
        known = last_ends.get(written.session)
        if known is not None and known.leadership_term_id != written.leadership_term_id:
            given_twice.add(written.session)
        last_ends[written.session] = written
    history, entries = placed.history, placed.entries
    calls = map(IS_CALL.__getitem__, history.kinds)
    processes = {process for process, is_call in zip(history.processes.codes, calls, strict=True) if not is_call}
    again, skipped = _again_and_skipped(placed, given_twice)
    afterwards: tuple[Operation, SessionEnd] | None = None
    unwritten: Operation | None = None
    count = 0
    sessions = history.sessions.values
    of_sessions = [None if session is None else last_ends.get(session) for session in sessions]
    for row, (kind, code, index) in enumerate(zip(history.kinds, history.sessions.codes, placed.lasts, strict=True)):
        if sessions[code] is None or IS_CALL[kind]:
            continue
        end = of_sessions[code]
        count += index >= 0
        if end is not None and afterwards is None and _last_ns(history, row) > end.ended_ns:
            afterwards = history.at(row), end
        if all_written_past is None or unwritten is not None or end is not None:
            continue
        if index < 0 or entries.positions[index] > all_written_past:
            unwritten = history.at(row)
    elsewhere, overtaken = _elsewhere_and_overtaken(placed)
    return Clients(len(processes), count, again, elsewhere, overtaken, skipped, afterwards, unwritten)


def _session_of(history: History, row: int) -> int | None:
    """The session of an operation on a shipped service; None for a call or an unknown session."""
    return None if IS_CALL[history.kinds[row]] else history.sessions[row]


def _last_ns(history: History, row: int) -> int:
    completed = history.completed[row]
    return max(history.invoked[row], 0 if completed == ABSENT else completed)


def _elsewhere_and_overtaken(
    placed: PlacedHistory,
) -> tuple[tuple[Operation, LogEntry] | None, tuple[Operation, Operation, int] | None]:
    history, entries = placed.history, placed.entries
    latest: dict[int, int] = {}
    elsewhere: tuple[Operation, LogEntry] | None = None
    overtaken: tuple[Operation, Operation, int] | None = None
    for index, row in enumerate(placed.rows):
        session = None if row < 0 else _session_of(history, row)
        if session is None:
            continue
        if entries.sessions[index] != session and elsewhere is None:
            elsewhere = history.at(row), entries.at(index)
        before = latest.get(session)
        if before is not None and history.invoked[row] < history.invoked[before] and overtaken is None:
            overtaken = history.at(row), history.at(before), entries.positions[index]
        latest[session] = row
    return elsewhere, overtaken


def _again_and_skipped(
    placed: PlacedHistory, given_twice: Container[int | None]
) -> tuple[tuple[Operation, Operation] | None, tuple[Operation, LogEntry, LogEntry] | None]:
    """The pair for `Clients.again` with the earliest second operation by history line, and the gap for
    `Clients.skipped` with the lowest position after it.

    A leader takes the messages of a session in the order in which they were sent: `AeronCluster` and the consensus
    module close a session rather than go on after a gap (since 1.49; pull request 1788). Anything may be missing
    between terms.

    A leader that loses its term may have given an id to a session that its cluster never committed, and a later leader
    gives it again. Of such an id only the slots count that have an operation in the log: the others may be those of the
    client whose session no log has.
    """
    history, entries = placed.history, placed.entries
    kinds, invoked, completed, lasts = history.kinds, history.invoked, history.completed, placed.lasts
    processes, sessions, session_codes = history.processes.codes, history.sessions.values, history.sessions.codes
    of_log = {
        (sessions[session_codes[row]], processes[row])
        for row, index in enumerate(lasts)
        if index >= 0 and sessions[session_codes[row]] in given_twice
    }
    last: dict[int, int] = {}
    again: tuple[int, int] | None = None
    before: dict[int, int] = {}
    missing: dict[int, int] = {}
    skipped: tuple[int, int, int, int, int] | None = None
    for row in in_order(invoked):
        kind = kinds[row]
        if IS_CALL[kind]:
            continue
        process, invoked_ns = processes[row], invoked[row]
        previous = last.get(process)
        if previous is not None and not IS_FAIL[kinds[previous]]:
            # For a failed one the history lacks the time of its failure.
            completed_ns = completed[previous]
            if (completed_ns == ABSENT or invoked_ns < completed_ns) and (again is None or row < again[0]):
                again = row, previous
        last[process] = row
        session, index = sessions[session_codes[row]], lasts[row]
        if session is None:
            continue
        if index < 0:
            is_of_log = session not in given_twice or (session, process) in of_log
            if is_of_log and not IS_FAIL[kind] and session in before and invoked[before[session]] < invoked_ns:
                missing.setdefault(session, row)
            continue
        gap = missing.pop(session, None)
        if gap is not None and invoked[gap] < invoked_ns:
            around = lasts[before[session]]
            if entries.terms[around] == entries.terms[index]:
                candidate = entries.positions[index], invoked[gap], gap, around, index
                skipped = candidate if skipped is None or candidate[:2] < skipped[:2] else skipped
        before[session] = row
    return (
        None if again is None else (history.at(again[1]), history.at(again[0])),
        None if skipped is None else (history.at(skipped[2]), entries.at(skipped[3]), entries.at(skipped[4])),
    )


def cuts_of(faults: Iterable[FaultRecord], members: Sequence[MemberSpans]) -> list[tuple[int, int]]:
    """When a leader was cut off from clients, or paused, for longer than an image lives without any message."""
    cuts: list[tuple[int, int]] = []
    for fault in faults:
        end_ns = NEVER_NS if fault.heal_end_ns is None else fault.heal_end_ns
        if end_ns - fault.inject_end_ns < _IMAGE_NS:
            continue
        # A message is on its way for a while after its client has recorded it.
        begin_ns = fault.inject_begin_ns - _ON_ITS_WAY_NS
        led = [span for member in members if _keeps_clients_from(fault, member.member_id) for span in member.led]
        cuts += [(max(begin_ns, span.begin_ns), min(end_ns, span.end_ns)) for span in led]
    return cuts


def _keeps_clients_from(fault: FaultRecord, member_id: int) -> bool:
    if fault.what == MemberFaultKind.PAUSE:
        # The module reads what clients send, whatever a service does. The archive's process has the media driver.
        return member_id in fault.members and fault.component in (None, "archive", *OF_MODULE)
    return fault.what == target.LinkFaultKind.BLACKHOLE and str(target.Link(target.CLIENTS, member_id)) in fault.links


def judge_clients(clients: Clients, cuts: Iterable[tuple[int, int]] = ()) -> list[Result]:
    """Judge the clients of a run. `cuts`, in which their leader did not hear them, explain no gap, but mark it."""
    if clients.again is not None:
        before, operation = clients.again
        slot = f"client slot {operation.process}"
        detail = f"{operation} was invoked while operation id={before.id} of {slot} was outstanding"
        return [_invalid(detail, operation, operation.position)]
    if clients.elsewhere is not None:
        operation, entry = clients.elsewhere
        detail = f"{operation} was sent in session {operation.session} and is in session {entry.session}"
        return [_invalid(f"{detail} at position {entry.position}", operation, entry.position)]
    if clients.overtaken is not None:
        operation, later, position = clients.overtaken
        detail = f"{operation} at position {position} was invoked before operation id={later.id}"
        return [_invalid(f"{detail} of session {operation.session}, which is before it", operation, position)]
    if clients.skipped is not None:
        operation, earlier, after = clients.skipped
        around = f"positions {earlier.position} and {after.position} of term {after.term}, between which it was invoked"
        detail = f"{operation} of session {operation.session} is not in the log, which has the session at {around}"
        sent_ns = operation.invoke_ns
        was_cut = any(begin_ns <= sent_ns <= end_ns for begin_ns, end_ns in cuts)
        gap = Signature(Rule.SESSION_GAP, role=LEADER, entry=CLIENTS_CUT if was_cut else "")
        when_ns = sent_ns, sent_ns
        return [replace(_invalid(detail, operation, after.position), signature=gap, when_ns=when_ns)]
    if clients.afterwards is not None:
        operation, end = clients.afterwards
        what = "was invoked" if operation.invoke_ns > end.ended_ns else "was answered"
        left = f"{end.ended_ns / S:.3f} s of the machine's clock"
        detail = f"{operation} {what} in session {end.session} after its client had left it at {left}"
        return [_invalid(detail, operation, operation.position)]
    if clients.unwritten is not None:
        operation = clients.unwritten
        detail = f"{operation} was sent in session {operation.session}, which sessions.jsonl does not have"
        return [_finding(Verdict.UNKNOWN, detail, operation, operation.position)]
    if not clients.slots:
        return [NotApplicable(Promise.CLIENTS_IN_ORDER, "the history has no operation of a shipped service")]
    detail = f"{clients.slots} client slots; {clients.placed} operations are in the session that took them"
    return [Finding(Promise.CLIENTS_IN_ORDER, Verdict.VALID, detail)]


def _invalid(detail: str, operation: Operation, position: int | None) -> Finding:
    return _finding(Verdict.INVALID, detail, operation, position)


def _finding(verdict: Verdict, detail: str, operation: Operation, position: int | None) -> Finding:
    return Finding(Promise.CLIENTS_IN_ORDER, verdict, detail, position=position, operation=operation.id)


def _check_clients(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:  # noqa: ARG001 - of every check by the log
    origin = read_origin(evidence.run.path)
    # A restored run begins with operations that were sent in sessions of the original run.
    begin = 0 if origin is None else origin.position
    past = begin if evidence.has_all_of_clients else None
    cuts = cuts_of(evidence.run.read_faults(), evidence.spans)
    return judge_clients(clients_of(evidence.placed, evidence.session_ends, all_written_past=past), cuts)


def _check_terms(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    return judge_terms(log.events.with_term, log.events.stray, next(_misnamed_terms(evidence), None))


def _misnamed_terms(evidence: Evidence) -> Iterator[MisnamedTerm]:
    """The terms in committed logs of our node that recording logs have elsewhere or not at all.

    Backups of Aeron, and so members restored from them, need not name every term. The files of a member that lost power
    at sync level 0 are of different moments.
    """
    manifest = evidence.manifest
    if manifest.system != OWN_SYSTEM:
        return
    powerless = losses_of(evidence.run, manifest).powerless
    for final in evidence.finals:
        if final.member_id in powerless:
            continue
        entries = term_entries(evidence.run.member(final.member_id).recording_log)
        named = sorted((begin, number) for number, begin, _ in entries)
        for term in evidence.logs.members_terms.get(final.member_id, ()):
            # Its first entry ends at this position. A term that begins there is a later one.
            before = bisect_left(named, (term.position,))
            there = named[before - 1][1] if before else None
            if term.position <= final.commit_position and there != term.leadership_term_id:
                yield MisnamedTerm(final.member_id, term, there)


TERMS: Final = Checker(
    "terms",
    (Promise.ENTRIES_IN_TERM,),
    frozenset((Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER)),
    of_whole_log((Promise.ENTRIES_IN_TERM,), _check_terms),
)
CLIENTS: Final = Checker(
    "clients",
    (Promise.CLIENTS_IN_ORDER,),
    frozenset((Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER))
    | {Source.HISTORY, Source.SESSIONS, Source.ORIGIN},
    of_whole_log((Promise.CLIENTS_IN_ORDER,), _check_clients),
)
