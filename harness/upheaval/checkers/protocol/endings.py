"""The promise that a cluster that was ordered to end (SHUTDOWN, ABORT) ends as a whole, at one log position.

Judged by what the members left: traces (`cluster-end`, `service-terminate`, `process-end`) and recording logs, the
recordings of members that did not start again, and the first election of those that did. The commands and faults of the
run count, too: a fault may kill a member that has ended but whose process still runs. This module knows no cluster.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.protocol_events import OF_MODULE, deadly_until_ns, is_deadly
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog, term_entries
from upheaval.checkers.evidence.troubles import CUT_SHORT, Trouble, timeouts_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.ending_acks import Life, problems
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict, trace_missing
from upheaval.records import (
    ENDINGS,
    OWN_SYSTEM,
    AdminCommand,
    ControlRecord,
    Manifest,
    RunFolder,
    TraceEvent,
)
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, NULL_POSITION, S

_MESSAGES: Final = frozenset((TraceKind.SEND, TraceKind.RECEIVE))
_NUMBERS_OF_END: Final = ("log_position", "leadership_term_id", "requested_term_id", "services")
_TURN_NS: Final = S
"""A trace line has the time at which its process began the turn, which may be before the command that it took."""


def check_endings(run: RunFolder, manifest: Manifest, controls: Sequence[ControlRecord]) -> list[Result]:
    """Judge the orderly ends of a run."""
    commands = [control for control in controls if control.what in ENDINGS and control.proof.holds]
    traces = [run.member(member_id).trace for member_id in range(manifest.members)]
    if not commands and not any(map(_names_an_end, traces)):
        return [NotApplicable(Promise.ENDS_AT_ONE_POSITION, "no admin command ended the cluster")]
    missing = [member_id for member_id, trace in enumerate(traces) if not trace.exists()]
    if missing:
        return [trace_missing(Promise.ENDS_AT_ONE_POSITION, missing[-1])]
    lives: list[Life] = []
    latest: set[int] = set()
    try:
        for member_id in range(manifest.members):
            of_member = _lives(member_id, run.member(member_id).read_trace())
            if of_member and of_member[-1].has_ended:
                latest.add(id(of_member[-1]))
            lives.extend(life for life in of_member if life.has_ended)
        groups = _by_term(lives)
        _require_one_position(groups)
        faults = list(run.read_faults())
        if manifest.system == OWN_SYSTEM:
            _require_acks(groups, manifest, faults)
        for life in lives:
            _require_orderly(life, is_killed=any(_kills(fault, life) for fault in faults))
            wipes = [fault for fault in faults if _wipes(fault, life)]
            if not wipes:
                _require_recorded(run, life)
            if id(life) in latest:
                if not wipes:
                    _require_log_end(run, life)
            elif not any(fault.inject_begin_ns <= (life.next_ns or NEVER_NS) for fault in wipes):
                _require_began_there(life, manifest.system)
        _require_ordered(commands, groups)
        if manifest.system == OWN_SYSTEM:
            _require_announced(groups, manifest.members)
    except Broken as broken:
        return [broken.finding(Promise.ENDS_AT_ONE_POSITION)]
    if not groups:
        return [NotApplicable(Promise.ENDS_AT_ONE_POSITION, "no admin command ended the cluster")]
    shown = "; ".join(
        f"members {', '.join(str(life.member_id) for life in group)} at {group[0].position}" for group in groups
    )
    return [Finding(Promise.ENDS_AT_ONE_POSITION, Verdict.VALID, shown)]


def _names_an_end(trace: Path) -> bool:
    """Whether the trace mentions the end of a cluster. A cheap test, since traces are long and most runs end no
    cluster.
    """
    if not trace.exists():
        return False
    with trace.open("rb") as stream:
        return any(TraceKind.CLUSTER_END.encode() in line for line in stream)


def _lives(member_id: int, events: Iterable[TraceEvent]) -> list[Life]:
    """The starts of a member, in order. Raises `Broken` (unknown) for an end without its numbers or its start."""
    lives: list[Life] = []
    for event in events:
        fields = event.fields
        component = str(fields.get("component", ""))
        if event.event == TraceKind.PROCESS_START and component in OF_MODULE:
            if lives:
                lives[-1].next_ns = event.ns
            lives.append(Life(member_id, module=component))
        elif not lives:
            if event.event == TraceKind.CLUSTER_END:
                raise _unreadable_end(member_id, event, "the start of its process")
        elif event.event == TraceKind.ELECTION_STATE and len(lives) > 1 and lives[-2].next_append is None:
            lives[-2].next_append = event.number("append_position")
        elif event.event == TraceKind.SERVICE_TERMINATE:
            lives[-1].ends.setdefault(event.number("service_id"), []).append(event.number("log_position"))
        elif event.event in _MESSAGES:
            lives[-1].acks.look_at(event)
        elif event.event == TraceKind.CLUSTER_END:
            _end(lives[-1], event)
        elif event.event == TraceKind.PROCESS_END:
            lives[-1].statuses[component] = event.number("status")
    return lives


def _end(life: Life, event: TraceEvent) -> None:
    for name in _NUMBERS_OF_END:
        if type(event.fields.get(name)) is not int:
            raise _unreadable_end(life.member_id, event, name)
    life.ended_ns = event.ns
    life.position = event.number("log_position")
    if not life.has_ended:
        raise _unreadable_end(life.member_id, event, "a position")
    life.term_id = event.number("leadership_term_id")
    life.requested_term_id = event.number("requested_term_id")
    life.services = event.number("services")


def _unreadable_end(member_id: int, event: TraceEvent, lacks: str) -> Broken:
    detail = f"member-{member_id}/trace.jsonl:{event.line} is {event.event!r} without {lacks}"
    return Broken(Verdict.UNKNOWN, detail, members=(member_id,))


def _by_term(lives: Iterable[Life]) -> list[list[Life]]:
    """Group the lives by the term of the leader that ordered the end. A leader orders at most one end in its term."""
    groups: dict[int, list[Life]] = {}
    for life in lives:
        groups.setdefault(life.requested_term_id, []).append(life)
    return [groups[term] for term in sorted(groups)]


def _require_one_position(groups: Iterable[Sequence[Life]]) -> None:
    for group in groups:
        first = group[0]
        for life in group:
            if life.position != first.position:
                detail = (
                    f"in term {life.requested_term_id} member {first.member_id} ended at {first.position}, "
                    f"member {life.member_id} at {life.position}"
                )
                both = (first.member_id, life.member_id)
                raise Broken(Verdict.INVALID, detail, members=both, position=life.position)


def _require_acks(groups: Iterable[Sequence[Life]], manifest: Manifest, faults: Sequence[FaultRecord]) -> None:
    timeout_ns = timeouts_of(manifest).termination_ns
    troubled = [Trouble(fault.inject_begin_ns, fault.heal_end_ns or NEVER_NS, fault.members) for fault in faults]
    for group in groups:
        ended = {life.member_id: life for life in group}
        for member_id, what in problems(ended, manifest.members, timeout_ns, troubled):
            raise ended[member_id].broken(what)


def _require_announced(groups: Iterable[Sequence[Life]], members: int) -> None:
    """Check that the leader is known, if all members ended. Without its announcement no acknowledgement is judged."""
    for group in groups:
        announcers = (life for life in group if life.acks.term == life.requested_term_id >= 0)
        if len({life.member_id for life in group}) == members > 1 and not any(announcers):
            detail = f"no trace has the announcement of the end in term {group[0].requested_term_id}"
            raise Broken(Verdict.UNKNOWN, detail, position=group[0].position)


def _kills(fault: FaultRecord, life: Life) -> bool:
    """Whether the fault hit the member after its orderly end and before its next start."""
    is_hit = is_deadly(fault, life.member_id) and fault.component in (None, life.module)
    healed_ns = fault.inject_end_ns if fault.heal_begin_ns is None else fault.heal_begin_ns
    last_ns = max(healed_ns, deadly_until_ns(fault))
    is_then = last_ns >= life.ended_ns and (life.next_ns is None or fault.inject_begin_ns <= life.next_ns)
    return fault.is_proved and is_hit and is_then


def _wipes(fault: FaultRecord, life: Life) -> bool:
    """Whether the files that the member has now are not those of this life."""
    is_wiped = fault.is_proved and fault.what == FileFaultKind.WIPE and life.member_id in fault.members
    return is_wiped and fault.inject_end_ns >= life.ended_ns


def _require_orderly(life: Life, *, is_killed: bool) -> None:
    for service_id in range(life.services):
        ends = life.ends.get(service_id, [])
        if len(ends) != 1:
            raise life.broken(f"notified service {service_id} of its end {len(ends)} times")
        if ends[0] != life.position:
            raise life.broken(f"notified service {service_id} of its end at {ends[0]}")
    for component, status in life.statuses.items():
        if status != 0:
            raise life.broken(f"ended process {component!r} with status {status}", _verdict_on([status]))
    if life.module not in life.statuses and not is_killed:
        raise life.broken("recorded no exit status", Verdict.UNKNOWN)


def _verdict_on(statuses: Iterable[object]) -> Verdict:
    """A machine that is too busy may cut an orderly end short; any other status but 0 is none of an orderly end."""
    return Verdict.UNKNOWN if {0, CUT_SHORT}.issuperset(statuses) else Verdict.INVALID


def _require_recorded(run: RunFolder, life: Life) -> None:
    """Check that the recording log has the end of the term at the end position."""
    terms = term_entries(run.member(life.member_id).recording_log)
    if not terms:
        raise life.broken("has no recording log", Verdict.UNKNOWN)
    recorded = {term: position for term, _, position in terms}
    # Aeron's members leave the end of the last term open on shutdown.
    ends = {life.position} if run.read_manifest().system == OWN_SYSTEM else {life.position, NULL_POSITION}
    if life.term_id in recorded and recorded[life.term_id] not in ends:
        raise life.broken(f"has the end of term {life.term_id} at {recorded[life.term_id]} in its recording log")
    if life.term_id not in recorded:
        raise life.broken(f"does not have term {life.term_id} in its recording log")


def _require_log_end(run: RunFolder, life: Life) -> None:
    """Check that the log of a member that did not start again ended exactly there."""
    try:
        log_end = RecordedLog(run.member(life.member_id)).read_to_end()
    except LogMissing as error:
        raise Broken(Verdict.UNKNOWN, str(error), members=(life.member_id,)) from error
    if log_end != life.position:
        raise life.broken(f"has a log that ends at {log_end}")


def _require_began_there(life: Life, system: str) -> None:
    """Check that a member that started again has the log that it had at its end."""
    if system == OWN_SYSTEM and life.next_append not in (None, life.position):
        raise life.broken(f"was started again at {(life.next_ns or 0) // MS} ms with a log up to {life.next_append}")


def _require_ordered(commands: Iterable[ControlRecord], groups: Sequence[Sequence[Life]]) -> None:
    """Check that each effective command ended all members that ran when it was given, by the order of one leader."""
    rest = iter(groups)
    for command in commands:
        members = {int(member) for member in command.members if member.isdigit()}
        group = next((lives for lives in rest if members & {life.member_id for life in lives}), None)
        if group is None:
            ids = ", ".join(map(str, sorted(members))) or "none"
            detail = f"no trace shows the {command.what} of members {ids}"
            raise Broken(Verdict.UNKNOWN, detail, members=tuple(sorted(members)))
        absent = members - {life.member_id for life in group}
        if absent:
            at = group[0].position
            detail = f"member {min(absent)} did not end with the others at {at} ({command.what})"
            raise Broken(Verdict.INVALID, detail, members=tuple(sorted(absent)), position=at)
        for life in group:
            if life.member_id in members and not command.begin_ns - _TURN_NS <= life.ended_ns <= command.end_ns:
                raise life.broken(
                    f"did so at {life.ended_ns // MS} ms: the {command.what} was given at {command.begin_ns // MS} ms "
                    f"and had taken effect by {command.end_ns // MS} ms"
                )
        for member in sorted(members):
            _require_seen(command, member, group[0].position)


def _require_seen(command: ControlRecord, member: int, position: int) -> None:
    seen = command.members[str(member)]
    if not isinstance(seen, dict):
        return
    statuses = seen.get("exit_statuses")
    if isinstance(statuses, list) and any(statuses):
        detail = f"member {member} ended with statuses {statuses} ({command.what})"
        raise Broken(_verdict_on(statuses), detail, members=(member,), position=position)
    if command.what == AdminCommand.SHUTDOWN and seen.get("snapshot_position") != position:
        detail = f"member {member} ended at {position}, with its last snapshot at {seen.get('snapshot_position')}"
        raise Broken(Verdict.INVALID, detail, members=(member,), position=position)


ENDINGS_CHECKER: Final = Checker(
    "endings",
    (Promise.ENDS_AT_ONE_POSITION,),
    OF_LOG | {Source.CONTROLS},
    lambda evidence: check_endings(evidence.run, evidence.manifest, evidence.controls),
)
