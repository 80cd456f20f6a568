"""The promises about who sent what: each entry is of its term, each operation of the client and session that sent it.

A history names for each operation the client slot that asked and, where it was written down, the cluster session that
took it; the log has the session and the term in the header of each message, and the client wrote down when it was done
with the session. This module knows nothing of files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import Checker, Source, of_whole_log
from upheaval.checkers.evidence.events import StrayEntry
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.witness import LogEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Function, Operation, Outcome, SessionEnd, read_origin
from upheaval_node.types import S


def judge_terms(entries: int, stray: StrayEntry | None) -> list[Result]:
    """One result on so many entries that have a term, of which the first `stray` one is of another."""
    if stray is not None:
        due = "no term has begun" if stray.due is None else f"the log is in term {stray.due}"
        detail = f"{stray.kind} at position {stray.position} is of term {stray.term}, where {due}"
        return [Finding(Promise.ENTRIES_IN_TERM, Verdict.INVALID, detail, position=stray.position)]
    if not entries:
        return [NotApplicable(Promise.ENTRIES_IN_TERM, "the log has no entry with a term")]
    return [Finding(Promise.ENTRIES_IN_TERM, Verdict.VALID, f"{entries} entries")]


@dataclass(frozen=True, slots=True)
class Clients:
    """What a history and the log say of clients: how many, and the first thing of each kind that is wrong."""

    slots: int
    placed: int
    """How many entries of the log lie where the history names a session."""
    again: tuple[Operation, Operation] | None = None
    """One operation of a slot, and the next one, which was invoked before that one was over."""
    elsewhere: tuple[Operation, LogEntry] | None = None
    """An operation, and its entry in another session."""
    overtaken: tuple[Operation, Operation, int] | None = None
    """An operation, and one that its session took later and that lies before it in the log; its position."""
    skipped: tuple[Operation, LogEntry, LogEntry] | None = None
    """An operation that is not in the log, and the entries of its session around it, which are of one term."""
    afterwards: tuple[Operation, SessionEnd] | None = None
    """An operation that was invoked or answered after its client had left the session."""
    unwritten: Operation | None = None
    """One in a session that no client wrote down, where they wrote down all."""


def clients_of(
    operations: Sequence[Operation],
    entries: Iterable[LogEntry],
    ends: Iterable[SessionEnd] = (),
    *,
    all_written_past: int | None = None,
) -> Clients:
    """From a whole history, in the order of its lines, and the operations in log order. Calls are left out.

    `ends` are what clients wrote down of their sessions: of all that took an operation past a position of the log,
    where there is one.
    """
    last_ends: dict[int, SessionEnd] = {}
    for end in sorted(ends, key=lambda end: end.ended_ns):
        last_ends[end.session] = end
    shipped = [operation for operation in operations if operation.f is not Function.CALL]
    by_id = {operation.id: operation for operation in shipped if operation.session is not None}
    latest: dict[int, Operation] = {}
    placed: dict[int, LogEntry] = {}
    elsewhere: tuple[Operation, LogEntry] | None = None
    overtaken: tuple[Operation, Operation, int] | None = None
    for entry in entries:
        operation = by_id.get(entry.id)
        if operation is None or operation.session is None:
            continue
        placed[entry.id] = entry
        if entry.session != operation.session and elsewhere is None:
            elsewhere = operation, entry
        before = latest.get(operation.session)
        if before is not None and operation.invoke_ns < before.invoke_ns and overtaken is None:
            overtaken = operation, before, entry.position
        latest[operation.session] = operation
    slots = len({each.process for each in shipped})
    skipped = _skipped(by_id.values(), placed)
    afterwards = next(((each, end) for each, end in _with_ends(by_id.values(), last_ends) if _is_past(each, end)), None)
    unwritten = None
    if all_written_past is not None:
        written = (
            each for each in by_id.values() if each.id not in placed or placed[each.id].position > all_written_past
        )
        unwritten = next((each for each in written if each.session not in last_ends), None)
    return Clients(slots, len(placed), _again(shipped), elsewhere, overtaken, skipped, afterwards, unwritten)


def _with_ends(
    operations: Iterable[Operation], ends: Mapping[int, SessionEnd]
) -> Iterator[tuple[Operation, SessionEnd]]:
    for operation in operations:
        if operation.session is not None and operation.session in ends:
            yield operation, ends[operation.session]


def _is_past(operation: Operation, end: SessionEnd) -> bool:
    return max(operation.invoke_ns, operation.complete_ns or 0) > end.ended_ns


def _skipped(
    operations: Iterable[Operation], placed: Mapping[int, LogEntry]
) -> tuple[Operation, LogEntry, LogEntry] | None:
    """The one before the entry that lies first.

    A leader takes what one session sends as it was sent: Aeron's `AeronCluster` and its consensus module give up a
    session rather than go on after a gap (since 1.49; pull request 1788). Between terms anything may be missing.
    """
    found: list[tuple[int, int, Operation, LogEntry, LogEntry]] = []
    before: dict[int | None, tuple[int, LogEntry]] = {}
    missing: dict[int | None, Operation] = {}
    for operation in sorted(operations, key=lambda each: each.invoke_ns):
        session, invoke_ns = operation.session, operation.invoke_ns
        entry = placed.get(operation.id)
        if entry is None:
            if operation.outcome is not Outcome.FAIL and session in before and before[session][0] < invoke_ns:
                missing.setdefault(session, operation)
            continue
        gap = missing.pop(session, None)
        if gap is not None and gap.invoke_ns < invoke_ns and before[session][1].term == entry.term:
            found.append((entry.position, gap.invoke_ns, gap, before[session][1], entry))
        before[session] = invoke_ns, entry
    return min(found, key=lambda each: each[:2])[2:] if found else None


def _again(operations: Sequence[Operation]) -> tuple[Operation, Operation] | None:
    """The first pair, by the line of the second one."""
    order = sorted(range(len(operations)), key=lambda index: operations[index].invoke_ns)
    last: dict[int, Operation] = {}
    found: dict[int, Operation] = {}
    for index in order:
        operation = operations[index]
        before = last.get(operation.process)
        if before is not None and is_outstanding(before, operation.invoke_ns):
            found[index] = before
        last[operation.process] = operation
    return None if not found else (found[min(found)], operations[min(found)])


def is_outstanding(operation: Operation, time_ns: int) -> bool:
    """Whether its slot still waited for it then. Nobody knows when one that failed was given up."""
    if operation.outcome is Outcome.FAIL:
        return False
    return operation.complete_ns is None or time_ns < operation.complete_ns


def judge_clients(clients: Clients) -> list[Result]:
    """One result."""
    if clients.again is not None:
        before, operation = clients.again
        slot = f"client slot {operation.process}"
        detail = f"{operation} was invoked while operation id={before.id} of {slot} was outstanding"
        return [_invalid(detail, operation, operation.position)]
    if clients.elsewhere is not None:
        operation, entry = clients.elsewhere
        detail = f"{operation} was sent in session {operation.session} and lies in session {entry.session}"
        return [_invalid(f"{detail} at position {entry.position}", operation, entry.position)]
    if clients.overtaken is not None:
        operation, later, position = clients.overtaken
        detail = f"{operation} at position {position} was invoked before operation id={later.id}"
        return [_invalid(f"{detail} of session {operation.session}, which lies before it", operation, position)]
    if clients.skipped is not None:
        operation, earlier, after = clients.skipped
        around = f"positions {earlier.position} and {after.position} of term {after.term}, between which it was invoked"
        detail = f"{operation} of session {operation.session} is not in the log, which has the session at {around}"
        return [_invalid(detail, operation, after.position)]
    if clients.afterwards is not None:
        operation, end = clients.afterwards
        what = "was invoked" if operation.invoke_ns > end.ended_ns else "was answered"
        detail = f"{operation} {what} in session {end.session} after its client had left it at {end.ended_ns / S:.3f} s"
        return [_invalid(detail, operation, operation.position)]
    if clients.unwritten is not None:
        operation = clients.unwritten
        detail = f"{operation} was sent in session {operation.session}, of which sessions.jsonl says nothing"
        return [_finding(Verdict.UNKNOWN, detail, operation, operation.position)]
    if not clients.slots:
        return [NotApplicable(Promise.CLIENTS_IN_ORDER, "the history has no operation of a shipped service")]
    detail = f"{clients.slots} client slots; {clients.placed} operations lie in the session that took them"
    return [Finding(Promise.CLIENTS_IN_ORDER, Verdict.VALID, detail)]


def _invalid(detail: str, operation: Operation, position: int | None) -> Finding:
    return _finding(Verdict.INVALID, detail, operation, position)


def _finding(verdict: Verdict, detail: str, operation: Operation, position: int | None) -> Finding:
    return Finding(Promise.CLIENTS_IN_ORDER, verdict, detail, position=position, operation=operation.id)


def _check_clients(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    origin = read_origin(evidence.run.path)
    # What a restored run began with was asked for in the sessions of another one.
    begin = 0 if origin is None else origin.position
    past = begin if evidence.has_all_of_clients else None
    return judge_clients(clients_of(evidence.operations, log.entries, evidence.session_ends, all_written_past=past))


TERMS: Final = Checker(
    "terms",
    (Promise.ENTRIES_IN_TERM,),
    frozenset((Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER)),
    of_whole_log((Promise.ENTRIES_IN_TERM,), lambda _, log: judge_terms(log.events.with_term, log.events.stray)),
)
CLIENTS: Final = Checker(
    "clients",
    (Promise.CLIENTS_IN_ORDER,),
    frozenset((Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER))
    | {Source.HISTORY, Source.SESSIONS, Source.ORIGIN},
    of_whole_log((Promise.CLIENTS_IN_ORDER,), _check_clients),
)
