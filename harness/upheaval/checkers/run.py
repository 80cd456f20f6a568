"""Judges a whole run from its folder alone.

This module puts the checkers together; it needs no cluster, and none has to be alive.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Final

from upheaval.checkers import witness
from upheaval.checkers.absence import TakenSnapshots, check_absence, check_asked_snapshots, taken_snapshots
from upheaval.checkers.backups import check_backups
from upheaval.checkers.binding import check_binding
from upheaval.checkers.bounds import check_bounds
from upheaval.checkers.calls import judge_calls
from upheaval.checkers.client_times import ClientTimes, client_times, is_slow, judge_client_times
from upheaval.checkers.clients import Clients, clients_of, judge_clients, judge_terms
from upheaval.checkers.endings import check_endings
from upheaval.checkers.events import LogEvents, SessionFacts
from upheaval.checkers.failures import check_failures
from upheaval.checkers.faults import admin_commands_proved, faults_proved
from upheaval.checkers.identities import SECURITY_FILE, check_identities
from upheaval.checkers.joining import check_joining
from upheaval.checkers.leaderless import check_leaderless
from upheaval.checkers.leaders import LeaderClaim, one_leader_a_term
from upheaval.checkers.ledger import judge_ledger
from upheaval.checkers.log_time import LeaderClock, judge_time, leader_clocks
from upheaval.checkers.logs import LogFindings, check_logs
from upheaval.checkers.own_model import check_own_model
from upheaval.checkers.positions import (
    TracedPositions,
    acknowledged_past_the_end,
    final_positions,
    finals_of,
    traced_positions,
)
from upheaval.checkers.progress import check_progress
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol import check_protocol
from upheaval.checkers.raised import check_raised
from upheaval.checkers.sealing import check_seal
from upheaval.checkers.sessions import judge_service_messages, judge_sessions
from upheaval.checkers.snapshots import check_snapshots, has_snapshots
from upheaval.checkers.spans import spans_of
from upheaval.checkers.stalls import Stall, excused, longest_stall
from upheaval.checkers.timers import judge_timers
from upheaval.checkers.trace_facts import TraceFacts, facts_of_members
from upheaval.checkers.unchecked import unchecked
from upheaval.checkers.unexplained import check_ends
from upheaval.checkers.verdict import Finding, Report, Verdict, trace_missing
from upheaval.checkers.witness import LogEntry
from upheaval.records import (
    OWN_SYSTEM,
    ControlRecord,
    Function,
    Manifest,
    Operation,
    Outcome,
    RunFolder,
    TraceEvent,
    companion_folders,
    load_companions,
    read_origin,
)
from upheaval_node.trace_kinds import TraceKind

# Fewer acknowledged operations than this show nothing: a run that did almost nothing must not look good.
ACKNOWLEDGED_MIN = 100

_OF_HISTORY = (
    Promise.ACKNOWLEDGED_NOT_LOST,
    Promise.APPLIED_ONCE,
    Promise.LINEARIZABLE,
    Promise.HISTORY_COMPLETE,
)


_OF_FILES: Final[tuple[Callable[[RunFolder, Manifest], Iterable[Finding]], ...]] = (
    check_failures,
    check_binding,
    check_seal,
    check_protocol,
    check_bounds,
)

ROLE_LEADER = "LEADER"
# What only a leader sends to the other members, with its own member id in it.
LEADER_MESSAGES = ("NewLeadershipTerm", "CommitPosition")


def verify_run(path: str | PathLike[str]) -> Report:
    """Check every promise on the run in a folder.

    Raises `UsageError` for a folder that is no run folder or holds a malformed file.
    """
    return verify_folder(RunFolder(path, at_rest=True))


def verify_folder(run: RunFolder) -> Report:
    """The same of a run folder at rest that somebody else has read, too."""
    with no_collector():
        manifest, operations = run.read_manifest(), run.read_history() if run.history_file.exists() else ()
        history = list(operations)
        faults = faults_proved(run.read_faults(), manifest)
        return judge_run(run, history, faults, known_of_files(run, history))


@contextmanager
def no_collector() -> Iterator[None]:
    """Without the collector of cycles: of millions of objects without one it would look at all again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class KnownOfFiles:
    """What the traces and the small files of a run say by themselves, whatever its logs say."""

    controls: tuple[ControlRecord, ...]
    commands: tuple[Finding, ...]
    """On the commands of operators and what came of them."""
    traced: TracedPositions
    findings: tuple[Finding, ...]
    """Those of `judge_files`."""
    clocks: tuple[LeaderClock, ...]
    clients: ClientTimes
    taken: TakenSnapshots


def known_of_files(run: RunFolder, operations: Iterable[Operation]) -> KnownOfFiles:
    """Raises `UsageError` for a malformed file."""
    manifest = run.read_manifest()
    traced = traced_positions(run, manifest)
    controls = tuple(run.read_controls())
    commands = (*admin_commands_proved(controls), *check_endings(run, manifest, controls))
    traces = facts_of_members(run, manifest.members)
    return KnownOfFiles(
        controls,
        commands,
        traced,
        tuple(judge_files(run, manifest, traces, operations)),
        leader_clocks(run, manifest.members),
        client_times(run, manifest),
        taken_snapshots(run, manifest, traces),
    )


def judge_run(run: RunFolder, operations: list[Operation], faults: Finding, known: KnownOfFiles) -> Report:
    """Every promise, by what is known already and by the logs. Raises `UsageError` for a malformed file."""
    manifest = run.read_manifest()
    logs = check_logs(run, finals_of(manifest), manifest.members, known.traced)
    findings = [converged(manifest), _enough_traffic(operations), faults, *known.commands]
    findings.append(_leaders(run, manifest, logs))
    past = acknowledged_past_the_end(operations, manifest)
    past_commit = None if logs.witness is None else logs.witness.past_commit
    findings.append(final_positions(manifest, known.traced, logs.ends, logs.bounds, past, past_commit))
    findings += logs.findings
    by_model = _judge_by_model(run, manifest, operations, logs)
    findings.extend(joined(_judge_history(operations, logs), by_model))
    findings.extend(_judge_events(run, manifest, operations, logs, known))
    findings.extend(check_identities(run, manifest, _whole_sessions(logs)))
    witness_id = -1 if logs.witness is None else logs.witness.member_id
    findings.extend(check_backups(run, manifest, finals_of(manifest), operations, witness_id))
    asked = () if logs.witness is None or logs.witness.why_not_whole else logs.witness.events.snapshots
    findings.extend(merged(known.findings, check_asked_snapshots(asked, manifest, known.taken)))
    return Report(str(run.path), tuple(findings), unchecked(findings))


def judge_files(
    run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts], operations: Iterable[Operation]
) -> list[Finding]:
    """The findings that rest on traces and small files of the run, and of its history on times alone."""
    found = [finding for judge in _OF_FILES for finding in judge(run, manifest)]
    spans = [spans_of(run.member(facts.member_id)) for facts in traces]
    found += check_leaderless(run, manifest, traces, spans)
    found += check_joining(run, manifest, traces, spans)
    found += check_progress(run, manifest, traces, operations)
    raised = check_raised(run, traces)
    return [*found, check_absence(run, manifest, traces), check_ends(run, manifest, traces), raised]


def converged(manifest: Manifest) -> Finding:
    """Whether the manifest says that the run ended at one position."""
    converge = manifest.converge
    if converge is None:
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, "the manifest has no converge phase")
    if not converge.reached:
        seen = converge.why or ", ".join(f"{final.member_id}: {final.commit_position}" for final in converge.members)
        detail = f"the members did not reach one position in time: {seen}"
        return Finding(Promise.RUN_CONVERGED, Verdict.TIMEOUT, detail)
    ids = [final.member_id for final in converge.members]
    missing = set(range(manifest.members)) - set(ids)
    if missing:
        detail = f"no final position of member {min(missing)}"
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, detail, members=tuple(sorted(missing)))
    if len(ids) > manifest.members:
        detail = f"expected one final position of each of {manifest.members} members, got those of members {ids}"
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, detail)
    positions = {final.commit_position for final in converge.members}
    if len(positions) > 1:
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, f"the final positions differ: {sorted(positions)}")
    terms = {final.leadership_term_id for final in converge.members}
    if len(terms) > 1:
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, f"the final leadership terms differ: {sorted(terms)}")
    return Finding(Promise.RUN_CONVERGED, Verdict.VALID, f"{manifest.members} members at position {min(positions)}")


def _enough_traffic(operations: list[Operation]) -> Finding:
    unknown = sum(operation.outcome is Outcome.UNKNOWN for operation in operations)
    counts = dict.fromkeys(Function, 0)
    for operation in operations:
        if operation.outcome is Outcome.OK:
            counts[operation.f] += 1
    return traffic(counts, unknown)


def traffic(counts: Mapping[Function, int], unknown: int) -> Finding:
    """Whether there were enough acknowledged operations, by function, to judge by."""
    acknowledged = sum(counts.values())
    shown = ", ".join(f"{count} {function}" for function, count in counts.items() if count)
    detail = f"{acknowledged} acknowledged operations ({shown or 'none'}), {unknown} unknown"
    if acknowledged < ACKNOWLEDGED_MIN:
        return Finding(Promise.ENOUGH_TRAFFIC, Verdict.UNKNOWN, f"{detail}: at least {ACKNOWLEDGED_MIN} are needed")
    return Finding(Promise.ENOUGH_TRAFFIC, Verdict.VALID, detail)


def _judge_history(operations: list[Operation], logs: LogFindings) -> list[Finding]:
    if logs.witness is None:
        return unjudgeable("no readable log")
    why = logs.witness.why_not_whole or (None if operations else "no history")
    if why:
        return unjudgeable(why, logs.witness.start_position)
    entries = logs.witness.entries
    calls = [operation for operation in operations if operation.f is Function.CALL]
    shipped = operations if not calls else [operation for operation in operations if operation.f is not Function.CALL]
    by_id = {entry.id: entry for entry in entries}
    of_shipped = [
        witness.acknowledged_not_lost(shipped, by_id, logs.bounds),
        witness.applied_once(shipped, entries),
        witness.linearizable(shipped, entries),
        witness.history_complete(shipped, entries),
    ]
    if not calls:
        return of_shipped
    of_calls = judge_calls(calls, logs.witness.calls)
    return merged(of_shipped, of_calls) if shipped or entries else of_calls


def _judge_by_model(
    run: RunFolder, manifest: Manifest, operations: Sequence[Operation], logs: LogFindings
) -> list[Finding]:
    """By what the user says of his service; none of a log that is not whole."""
    log = logs.witness
    if log is None or log.why_not_whole or not operations:
        return []
    committed = logs.bounds.commit_position
    end = log.end_position if committed is None else min(log.end_position, committed)
    return check_own_model(run, manifest, operations, log.calls, log.member_id, end)


def unjudgeable(why: str, log_start: int = 0) -> list[Finding]:
    """The findings on a history that cannot be judged by the log."""
    return [Finding(promise, Verdict.UNKNOWN, why, position=log_start or None) for promise in _OF_HISTORY]


def _judge_events(
    run: RunFolder, manifest: Manifest, operations: list[Operation], logs: LogFindings, known: KnownOfFiles
) -> list[Finding]:
    """What can be judged only of some runs: time, sessions, messages of services, timers, money, snapshots."""
    log = logs.witness
    if log is None or log.why_not_whole:
        return []
    by_id = {operation.id: operation for operation in operations}
    clients = clients_of(operations, log.entries)
    slow = [operation for operation in operations if is_slow(operation, known.clients)]
    stall = partial(longest_stall, run, manifest.members)
    aside = (clients, known.clocks, known.clients, slow, stall, manifest.system)
    found = judge_events(log.events, by_id, log.entries, *aside)
    return found + check_snapshots(run, manifest, log.member_id, log.end_position)


def judge_snapshots(run: RunFolder, traced: TracedPositions) -> list[Finding]:
    """The findings on snapshots and states alone; none, and nothing is read, where there are no snapshots."""
    manifest = run.read_manifest()
    if not has_snapshots(run, manifest):
        return []
    log = check_logs(run, finals_of(manifest), manifest.members, traced).witness
    if log is None or log.why_not_whole:
        return []
    return check_snapshots(run, manifest, log.member_id, log.end_position)


def judge_by_model(run: RunFolder, traced: TracedPositions) -> list[Finding]:
    """The findings by a model and promises of the user's own alone; none, and nothing is read, where there are none."""
    manifest = run.read_manifest()
    if not manifest.model or not run.history_file.exists():
        return []
    logs = check_logs(run, finals_of(manifest), manifest.members, traced)
    return _judge_by_model(run, manifest, list(run.read_history()), logs)


def judge_identities(run: RunFolder, traced: TracedPositions) -> list[Finding]:
    """The findings on who was let in alone; none, and nothing is read, where everybody is."""
    if not (run.path / SECURITY_FILE).exists():
        return []
    manifest = run.read_manifest()
    logs = check_logs(run, finals_of(manifest), manifest.members, traced)
    return check_identities(run, manifest, _whole_sessions(logs))


def _whole_sessions(logs: LogFindings) -> Mapping[int, SessionFacts] | None:
    """None without a whole log."""
    return None if logs.witness is None or logs.witness.why_not_whole else logs.witness.events.sessions


def judge_backups(run: RunFolder, traced: TracedPositions) -> list[Finding]:
    """The finding on backups and on what was restored alone; none, and nothing is read, where there are neither."""
    if not (companion_folders(run.path) or load_companions(run.path) or read_origin(run.path)):
        return []
    manifest = run.read_manifest()
    log = check_logs(run, finals_of(manifest), manifest.members, traced).witness
    operations = list(run.read_history()) if run.history_file.exists() else []
    return check_backups(run, manifest, finals_of(manifest), operations, -1 if log is None else log.member_id)


def judge_events(
    events: LogEvents,
    operations: Mapping[int, Operation],
    entries: Sequence[LogEntry],
    clients: Clients,
    clocks: Sequence[LeaderClock],
    known: ClientTimes,
    slow: Iterable[Operation],
    stall: Callable[[], Stall | None],
    system: str,
) -> list[Finding]:
    """From what the longest log says beside the operations of clients, and from these.

    `slow` are the operations whose answers took too long.
    What missed a bound on time by no more than the members' longest `stall` is unknown.
    """
    elections = () if system == OWN_SYSTEM else events.times.values()
    found = [
        *judge_time(events.times, clocks, events.time_unit),
        *judge_sessions(events.sessions),
        *judge_terms(events.with_term, events.stray),
        *judge_clients(clients),
        *judge_client_times(known, slow, events, clocks),
        *judge_service_messages(events.service_messages),
        *judge_timers(operations, entries, events.timers, events.time_unit, elections),
        *judge_ledger(operations, entries, events.service_messages, events.time_unit),
    ]
    return excused(found, stall)


def merged(of_shipped: Iterable[Finding], of_calls: Iterable[Finding]) -> list[Finding]:
    """Findings on the operations of shipped services and on calls, one for each promise: the worse one of two."""
    others = {finding.promise: finding for finding in of_calls}
    found = []
    for finding in of_shipped:
        other = others.get(finding.promise, finding)
        if finding.verdict is other.verdict and finding is not other:
            found.append(replace(finding, detail=f"{finding.detail}; {other.detail}"))
        else:
            found.append(max(finding, other, key=lambda one: one.verdict))
    return found


def joined(found: Sequence[Finding], more: Sequence[Finding]) -> list[Finding]:
    """Findings that may be on the same promises: one for each, the worst one."""
    whole = list(found)
    for finding in more:
        known = any(finding.promise == other.promise for other in whole)
        whole = merged(whole, [finding]) if known else [*whole, finding]
    return whole


def _leaders(run: RunFolder, manifest: Manifest, logs: LogFindings) -> Finding:
    for member_id in range(manifest.members):
        if not run.member(member_id).trace.exists():
            found = one_leader_a_term(_claims(run, manifest, logs))
            if found.verdict is Verdict.INVALID:
                return found
            return trace_missing(Promise.ONE_LEADER_A_TERM, member_id)
    return one_leader_a_term(_claims(run, manifest, logs))


def _claims(run: RunFolder, manifest: Manifest, logs: LogFindings) -> Iterator[LeaderClaim]:
    for member_id, terms in logs.members_terms.items():
        for term in terms:
            source = f"log of member {member_id} at position {term.position}"
            yield LeaderClaim(term.leadership_term_id, term.leader_member_id, source)
    for member_id in range(manifest.members):
        folder = run.member(member_id)
        if folder.trace.exists():
            for event in folder.read_trace():
                yield from _traced_claim(member_id, event)


def _traced_claim(member_id: int, event: TraceEvent) -> Iterator[LeaderClaim]:
    """A member that says that it leads a term, whatever the event is, or a leader's message that names its sender."""
    fields = event.fields
    term = fields.get("leadership_term_id")
    if type(term) is not int:
        return
    if fields.get("role") == ROLE_LEADER:
        yield LeaderClaim(term, member_id, _source(member_id, event))
    leader = fields.get("leader_member_id")
    is_announced = event.event == TraceKind.LEADERSHIP_TERM or fields.get("message") in LEADER_MESSAGES
    if is_announced and type(leader) is int:
        yield LeaderClaim(term, leader, _source(member_id, event))


def _source(member_id: int, event: TraceEvent) -> str:
    return f"member-{member_id}/trace.jsonl:{event.line}"
