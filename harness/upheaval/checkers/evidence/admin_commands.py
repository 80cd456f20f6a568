"""The promise that every admin command of a run took effect, by its proof, the log and the traces.

The operator's side records what it observed of the members. The log has an entry for each change, and each trace has a
line when the member's module changes its state. A contradiction makes the result unknown, as for faults: then it is not
known what happened to the cluster. This module knows no cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.events import OrderedAction
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.spans import MemberSpans
from upheaval.checkers.evidence.trace_facts import ModuleMove, TraceFacts, has_failed, ran_through
from upheaval.checkers.evidence.troubles import Trouble, fault_troubles
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import ENDINGS, AdminCommand, ControlRecord, read_origin
from upheaval_node.types import MS

AROUND_NS: Final = 100 * MS
"""A trace line has the time at which the duty cycle began, which may precede the command that it handled."""
_ENTRIES: Final[Mapping[str, AdminCommand]] = {
    AdminCommand.SNAPSHOT: AdminCommand.SNAPSHOT,
    AdminCommand.SHUTDOWN: AdminCommand.SNAPSHOT,
    AdminCommand.SUSPEND: AdminCommand.SUSPEND,
    AdminCommand.RESUME: AdminCommand.RESUME,
    AdminCommand.STANDBY_SNAPSHOT: AdminCommand.STANDBY_SNAPSHOT,
}
"""The log entries of each command. An abort, and commands to single nodes, leave none."""
_STATES: Final[Mapping[str, tuple[str | None, str]]] = {
    AdminCommand.SNAPSHOT: (None, "SNAPSHOT"),
    AdminCommand.SUSPEND: (None, "SUSPENDED"),
    AdminCommand.RESUME: ("SUSPENDED", "ACTIVE"),
}
"""The state of each module before (None: any) and after a command."""
_OF_ALL: Final = (*_STATES, AdminCommand.STANDBY_SNAPSHOT, AdminCommand.REPLICATE_STANDBY_SNAPSHOT)
"""The commands, besides those that end the cluster, whose records have every member that ran."""
_SEEN: Final[Mapping[str, str]] = {AdminCommand.SUSPEND: "SUSPENDED", AdminCommand.RESUME: "ACTIVE"}


@dataclass(frozen=True, slots=True)
class CommandEvidence:
    """Evidence of commands apart from their records.

    `actions` are the orders in a whole log, None without one; those up to `restored` belong to another run.
    `has_all_commands`: every order is recorded, as in the run of a scenario.
    """

    actions: Sequence[OrderedAction] | None = None
    restored: int = -1
    has_all_commands: bool = False
    traces: Sequence[TraceFacts] = ()
    troubles: Sequence[Trouble] = ()
    spans: Sequence[MemberSpans] = field(default_factory=tuple)


def admin_commands_proved(controls: Sequence[ControlRecord], evidence: CommandEvidence) -> list[Result]:
    """Unknown when an admin command has no proof of its effect, or evidence contradicts it."""
    promise = Promise.ADMIN_COMMANDS_PROVED
    unproved = next((control for control in controls if not control.proof.holds), None)
    if unproved is not None:
        return [Finding(promise, Verdict.UNKNOWN, f"{unproved.what}: {unproved.proof}")]
    try:
        for line, control in enumerate(controls, 1):
            _require_record(line, control)
            _require_leader(line, control, evidence.spans)
            _require_all_listed(line, control, evidence)
            _require_moves(line, control, evidence.traces)
        logged = [action for action in evidence.actions or () if action.position > evidence.restored]
        if evidence.actions is not None:
            _require_suspended(evidence.actions, evidence.traces)
            _require_entries(controls, logged, has_all_commands=evidence.has_all_commands)
    except Broken as broken:
        return [broken.finding(promise)]
    if not controls:
        ordered = f", and the log orders a {logged[0].what} at position {logged[0].position}" if logged else ""
        return [NotApplicable(promise, f"no admin command was recorded{ordered}")]
    return [Finding(promise, Verdict.VALID, "; ".join(f"{control.what}: {control.proof}" for control in controls))]


def _broken(line: int, control: ControlRecord, what: str, *members: int, position: int | None = None) -> Broken:
    detail = f"the {control.what} of controls.jsonl:{line} {what}"
    return Broken(Verdict.UNKNOWN, detail, members=members, position=position)


def _require_record(line: int, control: ControlRecord) -> None:
    """The record ends after it begins, and has the resulting state of each member."""
    if control.end_ns < control.begin_ns:
        early_ms = (control.begin_ns - control.end_ns) // MS
        raise _broken(line, control, f"ended {early_ms} ms before it began")
    wanted = _SEEN.get(control.what)
    for member, seen in control.members.items():
        state = seen.get("module_state") if isinstance(seen, dict) else None
        if wanted is not None and state != wanted:
            ids = [int(member)] if member.isdigit() else []
            raise _broken(line, control, f"left member {member} {state}, expected {wanted}", *ids)


def _require_leader(line: int, control: ControlRecord, spans: Sequence[MemberSpans]) -> None:
    """If the traces have leaders, the member that took the command was one."""
    leader = control.leader
    if leader < 0 or not any(member.led for member in spans):
        return
    led = spans[leader].led if leader < len(spans) else ()
    if any(span.begin_ns <= control.end_ns and control.begin_ns - AROUND_NS <= span.end_ns for span in led):
        return
    when = f"from {control.begin_ns // MS} to {control.end_ns // MS} ms"
    detail = f"was taken by member {leader}, which led at no time {when} (member-{leader}/trace.jsonl)"
    raise _broken(line, control, detail, leader)


def _require_all_listed(line: int, control: ControlRecord, evidence: CommandEvidence) -> None:
    """The record has each member that ran throughout, or ran when the command was to end it, and had no fault."""
    begin_ns, end_ns = control.begin_ns, control.end_ns
    if control.what in ENDINGS:
        end_ns = begin_ns + AROUND_NS
    elif control.what not in _OF_ALL:
        return
    for facts in evidence.traces:
        if str(facts.member_id) in control.members:
            continue
        life = next((life for life in facts.lives if ran_through(life, begin_ns, end_ns)), None)
        hit = any(trouble.hits(facts.member_id, begin_ns, end_ns) for trouble in evidence.troubles)
        if life is not None and not hit:
            where = f"{facts.name}:{life.line}"
            raise _broken(line, control, f"leaves out member {facts.member_id}, which ran ({where})", facts.member_id)


def _require_moves(line: int, control: ControlRecord, traces: Iterable[TraceFacts]) -> None:
    """The module of each observed member that ran throughout changed its state during the command."""
    if control.what not in _STATES:
        return
    wanted_old, wanted_new = _STATES[control.what]
    for facts in traces:
        is_seen = str(facts.member_id) in control.members
        if not is_seen or not facts.module_moves or not _ran_through(facts, control):
            continue
        moves = [move for move in facts.module_moves if move.new == wanted_new and wanted_old in (None, move.old)]
        if not any(_is_within(move, control) for move in moves):
            middle_ns = (control.begin_ns + control.end_ns) // 2
            nearest = min(moves, key=lambda move: abs(move.ns - middle_ns), default=None)
            when = "never" if nearest is None else f"at {nearest.ns // MS} ms ({facts.name}:{nearest.line})"
            detail = (
                f"lasted from {control.begin_ns // MS} to {control.end_ns // MS} ms, and the module of member "
                f"{facts.member_id} became {wanted_new} {when}"
            )
            raise _broken(line, control, detail, facts.member_id)


def _require_suspended(actions: Iterable[OrderedAction], traces: Iterable[TraceFacts]) -> None:
    """No module is suspended unless the log orders that."""
    if any(action.what == AdminCommand.SUSPEND for action in actions):
        return
    for facts in traces:
        move = next((move for move in facts.module_moves if move.new == "SUSPENDED"), None)
        if move is not None:
            detail = (
                f"the module of member {facts.member_id} was suspended at {move.ns // MS} ms ({facts.name}:"
                f"{move.line}), which the log never orders"
            )
            raise Broken(Verdict.UNKNOWN, detail, members=(facts.member_id,))


def _ran_through(facts: TraceFacts, control: ControlRecord) -> bool:
    """Whether one process ran through the command, without a failed snapshot by then."""
    begin_ns, end_ns = control.begin_ns, control.end_ns
    return any(
        ran_through(life, begin_ns, end_ns) and not has_failed(life, facts.snapshot_failures, end_ns)
        for life in facts.lives
    )


def _is_within(move: ModuleMove, control: ControlRecord) -> bool:
    return control.begin_ns - AROUND_NS <= move.ns <= control.end_ns + AROUND_NS


def _require_entries(
    controls: Sequence[ControlRecord], actions: Sequence[OrderedAction], *, has_all_commands: bool
) -> None:
    """Each command has its log entry, in order. If all commands are recorded, each entry has its command."""
    left = list(actions)
    commands = sorted(enumerate(controls, 1), key=lambda pair: pair[1].begin_ns)
    for line, control in commands:
        what = _ENTRIES.get(control.what)
        if what is None:
            continue
        positions = _positions(control) if control.what == AdminCommand.SNAPSHOT else None
        entry = next(
            (action for action in left if action.what == what and (not positions or action.position in positions)), None
        )
        if entry is None and control.what == AdminCommand.SHUTDOWN:
            # Another promise checks that it left a snapshot, and where.
            continue
        if entry is None:
            where = f" at position {min(positions)}" if positions else ""
            position = min(positions) if positions else None
            raise _broken(
                line, control, f"took effect, but the log has no entry that orders a {what}{where}", position=position
            )
        before = left[: left.index(entry)]
        if has_all_commands and before:
            raise _unordered(before[0])
        left = left[left.index(entry) + 1 :]
    if has_all_commands and left:
        raise _unordered(left[0])


def _unordered(entry: OrderedAction) -> Broken:
    detail = f"the log orders a {entry.what} at position {entry.position}, and controls.jsonl has no such command"
    return Broken(Verdict.UNKNOWN, detail, position=entry.position)


def _positions(control: ControlRecord) -> set[int]:
    """The positions of the resulting snapshot."""
    positions = (seen.get("snapshot_position") for seen in control.members.values() if isinstance(seen, dict))
    return {position for position in positions if type(position) is int}


def _check(evidence: Evidence) -> list[Result]:
    run, log = evidence.run, evidence.whole_log
    origin = read_origin(run.path)
    restored = -1 if origin is None else origin.position
    # Outside a scenario an operator may have used the tool, which records nothing.
    has_all = run.scenario_file.exists() and evidence.is_over
    actions = None if log is None else log.events.actions
    faults = list(fault_troubles(evidence.faults, evidence.traces))
    of_commands = CommandEvidence(actions, restored, has_all, evidence.traces, faults, evidence.spans)
    return admin_commands_proved(evidence.controls, of_commands)


COMMANDS: Final = Checker(
    "admin-commands",
    (Promise.ADMIN_COMMANDS_PROVED,),
    OF_LOG | {Source.ORIGIN, Source.SCENARIO, Source.CONTROLS},
    _check,
)
