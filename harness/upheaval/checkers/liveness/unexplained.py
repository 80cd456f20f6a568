"""The promise that faults and commands explain every end of a process and every error.

Judged by the traces, by the faults and commands of the run, and by the output of the members' processes. Errors are
distinguished by kind, never by text. This module knows no cluster.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.positions import completed_ns
from upheaval.checkers.evidence.protocol_events import DEADLY, OF_MODULE
from upheaval.checkers.evidence.stalls import stalled_within
from upheaval.checkers.evidence.trace_facts import ProcessLife, TracedError, TraceFacts, facts_of_members
from upheaval.checkers.evidence.troubles import CUT_SHORT
from upheaval.checkers.promises import Promise
from upheaval.checkers.services.raised import SERVICE_ERROR
from upheaval.checkers.signature import MARK_IN_ACTIVATION, Rule, Signature
from upheaval.checkers.verdict import Broken, Finding, Verdict, with_all
from upheaval.records import ENDINGS, FORCED_END, OWN_SYSTEM, Manifest, RunFolder, companion_folders
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.file_faults import LOSING, FileFaultKind
from upheaval_chaos.host_faults import LONGEST_JUMP_MS, HostFaultKind, ended_for_memory
from upheaval_chaos.record import FaultRecord
from upheaval_node.files import layout, mark_file
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, S

_SIMULATED: Final = "simulated"
_DEFECT: Final = 1
"""The status of a process with a defect."""
_IN_ORDER: Final = frozenset({0, CUT_SHORT})
"""The statuses of an ordered end, which may have taken too long and been cut short."""
_ORDERS: Final = frozenset({"stop", "restart"})
"""The kinds of faults that order processes to end."""
_OF_ENVIRONMENT: Final = frozenset({2, 3, 4, 5})
"""Ends that the machine or the member's configuration explains: an invalid setting, an address in use, no disk."""
_OF_MEMBER: Final = frozenset({6, 7, 9})
"""Ends caused by another part of the member or of its cluster."""

_ENDING: Final = DEADLY | {"stop", "restart"}
"""The kinds of faults that end processes. An orderly stop that takes too long becomes a kill."""
_HARMLESS_LATER: Final = frozenset({"kill", "stop", "restart", "memory-limit"})
"""Those after which the next process must start."""
_BREAKING: Final = _ENDING | {"pause", "cpu-limit", "memory-limit", "disk-full", "disk-slow"}
"""The kinds of faults that take away what a member needs to run."""
_OF_FILES: Final = _ENDING | {"disk-full", "disk-slow"}
"""The kinds of faults that may leave torn, missing or wrong bytes in a member's files."""
_GRACE_NS: Final = 10 * S
"""How long after a fault its members may still fail because of it."""

_STARVING_NS: Final = 5 * S
"""Stalls of a member of Aeron, within 10 s, after which one of its components may take another for dead."""

_ERROR_GRACE_NS: Final = 30 * S
"""How long after a disturbance errors may still follow from it: longer than any time-out except that of a canvass."""

_REBOOT_MS: Final = LONGEST_JUMP_MS + 1000
"""The wall clock moves further than this beside the monotonic one only across a reboot of the machine."""

_ORDINARY: Final = frozenset({"election", "commit position", "session", "node control", "tools"})
"""Kinds of errors that members are built to live with, or that operators cause."""
_ORDINARY_PREFIXES: Final = ("ingress-peer-", "tls-peer-", "certificates not read", "credentials ", "backup", "WARN ")
"""Prefixes of errors that strangers or operators cause, and of Aeron's warnings."""
_UNFORESEEN: Final = "unforeseen "
"""The prefix of the kind of an exception in a member of Aeron that is not one of Aeron's own."""
_SEVERE: Final = ("FATAL ", "ERROR ", _UNFORESEEN)
"""The prefixes of the kinds of Aeron's errors that may end a member; the class of the exception follows."""
_ARCHIVE: Final = "archive"
_SERVICE_EGRESS: Final = re.compile(r"service-\d+-egress")
_STORED: Final = frozenset({"catalog", "recovery", "delete", "damage", "log entry"})
"""Damage that a member reports in its own files."""

_ACTIVE_MARK: Final = "active mark file detected"
"""In the message of the exception by which Aeron refuses a mark file that it takes for another process's."""
_MARKS: Final = (layout.ARCHIVE_MARK, f"{layout.CLUSTER_DIRECTORY}/cluster-mark*.dat")

_TRACEBACK: Final = b"Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class _Window:
    """When a fault was in effect, and for which member."""

    what: str
    members: tuple[int, ...]
    component: str | None
    begin_ns: int
    end_ns: int
    heal_begin_ns: int = NEVER_NS
    ended: Mapping[int, int] = field(default_factory=dict)
    """How many processes of which members the kernel ended, by its counts."""
    is_counted: bool = True
    """Whether these counts are those at its end."""


def check_ends(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> Finding:
    """The worst of what nothing explains, with the rest of its verdict: each may have another cause."""
    windows = [*(_window(fault) for fault in run.read_faults()), *_forced_ends(run)]
    orders = list(_orders(run))
    disturbances = list(_disturbances(run, traces))
    lives = [life for facts in traces for life in facts.lives]
    moved = losses_of(run, manifest).moved
    violations = [
        *_tracebacks(run, manifest),
        *(
            _starved(_with_signature(broken, life, facts, run), life, facts, manifest)
            for facts in traces
            for life in facts.lives
            if (broken := _unexplained_end(life, lives, manifest, windows, orders))
        ),
        *(
            broken
            for facts in traces
            for error in facts.errors
            if (
                broken := _with_place(
                    _unexplained(error, facts, windows, disturbances, has_moved=facts.member_id in moved),
                    error,
                    run,
                )
            )
        ),
    ]
    findings = [broken.finding(Promise.NO_UNEXPLAINED_END) for broken in violations]
    if findings:
        return with_all(findings)
    ends = sum(life.status is not None or life.next_ns is not None for facts in traces for life in facts.lives)
    errors = sum(len(facts.errors) for facts in traces)
    detail = f"{ends} ends of processes and {errors} kinds of errors are explained"
    return Finding(Promise.NO_UNEXPLAINED_END, Verdict.VALID, detail)


def has_failed_member(run: RunFolder) -> bool:
    """Whether a member that had been in an election has ended by itself, for a reason that is not its machine's.

    False for a folder without a manifest. Raises `UsageError` for a malformed trace.
    """
    if not run.manifest_file.is_file():
        return False
    traces = facts_of_members(run, run.read_manifest().members)
    lives = [life for facts in traces for life in facts.lives if life.has_started and life.status is not None]
    return any(life.status not in _IN_ORDER | _OF_ENVIRONMENT for life in lives)


def _with_signature(broken: Broken, life: ProcessLife, facts: TraceFacts, run: RunFolder) -> Broken:
    """Mark a refused start, and whether a mark file is why, which has remained in activation; and the end of a member
    that had started, with the error that it reported last.
    """
    if _is_refused(life):
        is_for_mark = _ACTIVE_MARK in life.reason and _stays_in_activation(life, facts, run)
        broken.signature = Signature(Rule.REFUSED_START, entry=MARK_IN_ACTIVATION if is_for_mark else "")
    elif life.status in _OF_MEMBER | {_DEFECT} and life.has_started:
        of_life = [error for error in facts.errors if error.component == life.component and life.has_line(error.line)]
        causes = [error for error in of_life if error.kind.startswith(_SEVERE)]
        entry, where = (causes[-1].kind.partition(" ")[2], causes[-1].where) if causes else ("", "")
        role, state = _standing_at(causes[-1].line if causes else life.end_line, life.member_id, run)
        broken.signature = Signature(Rule.UNEXPECTED_END, role, state, entry=entry, where=where)
    return broken


def _starved(broken: Broken, life: ProcessLife, facts: TraceFacts, manifest: Manifest) -> Broken:
    """The end of a member of Aeron by itself; unknown if stalls were long enough for its components to lose each other.

    They miss each other's signs of life after 10 s, which a stall of the machine does to all of them. What raised an
    error when it took a message (`on...`) missed nothing.
    """
    if manifest.system == OWN_SYSTEM or life.status not in _OF_MEMBER or _is_refused(life):
        return broken
    if broken.signature is not None and broken.signature.where.partition(".")[2].startswith("on"):
        return broken
    stalled_ns = stalled_within(facts.stalls, life.last_ns - _GRACE_NS, life.last_ns)
    if stalled_ns < _STARVING_NS:
        return broken
    detail = f"{broken}; it recorded stalls of {stalled_ns // MS} ms before, which may explain it"
    members = (life.member_id,)
    return Broken(Verdict.UNKNOWN, detail, members=members, signature=broken.signature, when_ns=broken.when_ns)


def _with_place(broken: Broken | None, error: TracedError, run: RunFolder) -> Broken | None:
    """Mark an exception that is not one of Aeron's own with the role and election state that the member had."""
    if broken is not None and error.kind.startswith(_UNFORESEEN):
        role, state = _standing_at(error.line, error.member_id, run)
        entry = error.kind.removeprefix(_UNFORESEEN)
        broken.signature = Signature(Rule.UNFORESEEN, role, state, entry=entry, where=error.where)
    return broken


def _standing_at(line: int, member_id: int, run: RunFolder) -> tuple[str, str]:
    """The role and election state that the member had before that line of its trace."""
    role = state = ""
    for event in run.member(member_id).read_trace():
        if event.line >= line:
            break
        if event.event == TraceKind.ROLE:
            role = str(event.fields.get("new", ""))
        elif event.event == TraceKind.ELECTION_STATE:
            state = str(event.fields.get("state", ""))
    return role, state


def _stays_in_activation(life: ProcessLife, facts: TraceFacts, run: RunFolder) -> bool:
    """Whether a mark file of the member still says that its owner is starting. No start after that one has read it as
    free, or the mark is of a later start.
    """
    later = (other for other in facts.lives if other.begin_ns > life.begin_ns)
    if any(other.has_started and not _is_refused(other) for other in later):
        return False
    marks = run.member(life.member_id).path
    return any(map(_is_in_activation, (path for name in _MARKS for path in marks.glob(name))))


def _is_in_activation(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            owner = mark_file.owner_of(stream.read(mark_file.OWNER_LENGTH))
    except OSError:
        return False
    return owner.activity_timestamp_ms == mark_file.ACTIVATION_IN_PROGRESS


def _window(fault: FaultRecord) -> _Window:
    # A limit that is not lifted may end processes at any time; what ended at the injection of another fault stays so.
    unhealed_ns = NEVER_NS if fault.what == HostFaultKind.MEMORY_LIMIT else fault.inject_end_ns
    end_ns = unhealed_ns if fault.heal_end_ns is None else fault.heal_end_ns
    # The harness tries links before it cuts them, by connections that members see.
    asked_ns = fault.inject_begin_ns if fault.asked_ns is None else fault.asked_ns
    heal_begin_ns = NEVER_NS if fault.heal_begin_ns is None else fault.heal_begin_ns
    is_counted = fault.heal_proof is not None and fault.heal_proof.holds
    times = asked_ns, end_ns, heal_begin_ns
    return _Window(fault.what, fault.members, fault.component, *times, ended_for_memory(fault), is_counted)


def _forced_ends(run: RunFolder) -> Iterator[_Window]:
    """Processes that the harness itself killed. To the members that is a kill like any other."""
    for control in run.read_controls():
        if control.what == FORCED_END:
            members = tuple(int(member) for member in control.members if member.isdigit())
            yield _Window(MemberFaultKind.KILL, members, None, control.begin_ns, control.end_ns)


def _orders(run: RunFolder) -> Iterator[_Window]:
    """What orders processes to end: faults, forced ends, and commands that end the cluster."""
    for fault in run.read_faults():
        if fault.what in _ORDERS:
            yield _window(fault)
    for control in run.read_controls():
        if control.what in (*ENDINGS, FORCED_END):
            members = tuple(int(member) for member in control.members if member.isdigit())
            yield _Window(control.what, members, None, control.begin_ns, control.end_ns)


# --- ends ---


def _unexplained_end(
    life: ProcessLife,
    lives: Sequence[ProcessLife],
    manifest: Manifest,
    windows: Iterable[_Window],
    orders: Iterable[_Window],
) -> Broken | None:
    who = f"member-{life.member_id}/trace.jsonl"
    whose = f"process {life.component!r} of member {life.member_id}"
    hits = [window for window in windows if life.member_id in window.members]
    if life.status is None:
        return _silent_end(life, lives, manifest, hits)
    if life.status in _IN_ORDER:
        return _unordered_end(life, lives, manifest, orders)
    reason = f" ({life.reason})" if life.reason else ""
    detail = f"{who}:{life.end_line}: {whose} ended with status {life.status}{reason}, and no fault explains it"
    verdict = Verdict.UNKNOWN if life.status in _OF_ENVIRONMENT else Verdict.INVALID
    can_be_explained = life.status in _OF_ENVIRONMENT | _OF_MEMBER
    if _is_refused(life):
        hits = [hit for hit in hits if hit.what not in _HARMLESS_LATER or life.begin_ns < hit.heal_begin_ns]
    is_hit = any(_lasts(hit, life.last_ns) for hit in hits) or _refuses_damage(life, hits)
    if can_be_explained and (_is_ordered(life, manifest) or is_hit):
        return None
    return Broken(verdict, detail, members=(life.member_id,), when_ns=(life.last_ns, life.last_ns))


def _silent_end(
    life: ProcessLife, lives: Sequence[ProcessLife], manifest: Manifest, hits: Sequence[_Window]
) -> Broken | None:
    """The finding on a process that recorded no end. `hits` are the faults of its member."""
    # Collecting a run ends all its processes, except simulated ones.
    goes_on = manifest.sealed is None or manifest.runtime == _SIMULATED
    if (life.next_ns is None and goes_on) or _is_rebooted(life, lives):
        return None
    # A fault calls all services of a member `service`; their processes have numbers.
    names = (None, life.component, life.component.partition("-")[0])
    deadly = [hit for hit in hits if hit.what in _ENDING and hit.component in names]
    if any(_has_silenced(hit, life) for hit in deadly):
        return None
    short = [hit for hit in hits if hit.what == HostFaultKind.MEMORY_LIMIT and _has_silenced(hit, life)]
    if any(_is_as_counted(hit, life, lives, deadly) for hit in short):
        return None
    if life.next_ns is None and any(
        hit.what == HostFaultKind.DISK_FULL and life.last_ns <= hit.end_ns + _GRACE_NS for hit in hits
    ):
        return None
    whose = f"member-{life.member_id}/trace.jsonl:{life.line}: process {life.component!r} of member {life.member_id}"
    when = "before the run ended" if life.next_ns is None else "and was started again"
    detail, verdict = f"{whose} recorded no end {when}, and no fault ended it", Verdict.INVALID
    if any(not hit.is_counted for hit in short):
        detail += "; its memory was limited, and how many processes the kernel ended was not read"
        verdict = Verdict.UNKNOWN
    elif life.next_ns is not None and _was_whole_cluster_down(life.last_ns, life.next_ns, lives, manifest.members):
        detail += "; all members were down and started again, as after a harness that ended them by force"
        verdict = Verdict.UNKNOWN
    return Broken(verdict, detail, members=(life.member_id,), when_ns=(life.last_ns, life.last_ns))


def _is_ordered(life: ProcessLife, manifest: Manifest) -> bool:
    """Whether the trace shows that something ordered the process to end.

    The end of a service counts in our node, where a service may end its member, unless a component failed. Aeron's
    module ends its services when an error ends it, too: there only the module's own state shows an order. The process
    of a service ends with that of its module, which is judged itself.
    """
    is_of_service = manifest.system == OWN_SYSTEM or life.component not in OF_MODULE
    return life.is_ending or (is_of_service and life.is_service_ending and not life.has_failed)


def _unordered_end(
    life: ProcessLife, lives: Sequence[ProcessLife], manifest: Manifest, orders: Iterable[_Window]
) -> Broken | None:
    """The finding on a process that ended as if ordered, without an order, before the run did.

    A user who ends a whole cluster leaves no record, and a campaign records only the ends that all members reached.
    """
    end_ns = completed_ns(manifest)
    is_over = life.next_ns is None and (end_ns == 0 or life.last_ns >= end_ns)
    if is_over or _ends_with_cluster(life, lives) or _follows_module(life, lives) or _is_rebooted(life, lives):
        return None
    given = (order for order in orders if life.member_id in order.members)
    if any(order.begin_ns <= life.last_ns <= order.end_ns + _GRACE_NS for order in given):
        return None
    if life.next_ns is not None and _was_whole_cluster_down(life.last_ns, life.next_ns, lives, manifest.members):
        return None
    who = f"member-{life.member_id}/trace.jsonl:{life.end_line}"
    whose = f"process {life.component!r} of member {life.member_id}"
    detail = f"{who}: {whose} ended with status {life.status}, and nothing ordered it to"
    return Broken(Verdict.INVALID, detail, members=(life.member_id,), when_ns=(life.last_ns, life.last_ns))


def _ends_with_cluster(life: ProcessLife, lives: Iterable[ProcessLife]) -> bool:
    """Whether the consensus module of the member was ending with its cluster, in any of its processes."""
    ends = (other.cluster_end_ns for other in lives if other.member_id == life.member_id)
    return any(end_ns is not None and end_ns <= life.last_ns <= end_ns + _GRACE_NS for end_ns in ends)


def _follows_module(life: ProcessLife, lives: Iterable[ProcessLife]) -> bool:
    """Whether it is the archive of a split member, and ended after the module, whose own end is judged, and before the
    next module.
    """
    if life.component != _ARCHIVE:
        return False
    modules = (other for other in lives if other.member_id == life.member_id and other.component in OF_MODULE)
    return any(
        module.status is not None
        and 0 <= life.last_ns - module.last_ns <= _GRACE_NS
        and (module.next_ns is None or life.last_ns <= module.next_ns)
        for module in modules
    )


def _is_refused(life: ProcessLife) -> bool:
    """Whether a member with all its files failed to start before any time-out of a start.

    The mark file of a service may refuse a member whose module is in its first election.
    """
    is_prompt = life.last_ns - life.begin_ns < _GRACE_NS and not life.has_started
    is_of_module = life.component in OF_MODULE and life.status in _OF_MEMBER
    return is_of_module and (is_prompt or _ACTIVE_MARK in life.reason)


def _refuses_damage(life: ProcessLife, hits: Iterable[_Window]) -> bool:
    """Whether a member failed to start, however late, with files that a fault had damaged and none has wiped since."""
    earlier = [hit for hit in hits if hit.what in LOSING and hit.begin_ns <= life.begin_ns]
    last = max(earlier, key=lambda hit: hit.begin_ns, default=None)
    return last is not None and last.what == FileFaultKind.DAMAGE and not life.has_started


def _is_rebooted(life: ProcessLife, lives: Iterable[ProcessLife]) -> bool:
    """Whether the machine rebooted before the next process: its monotonic clock restarted, too.

    The wall clock alone moves when it is set, or after a pause of the whole machine. Then other processes run on
    from before the gap until after it, which no process does across a reboot of its machine.
    """
    before, after = life.booted_ms, life.next_booted_ms
    if before is None or after is None or _is_same_boot(before, after):
        return False
    return not any(_spans_gap(other, life) for other in lives if other.member_id != life.member_id)


def _is_same_boot(one_ms: int | None, other_ms: int | None) -> bool:
    return one_ms is not None and other_ms is not None and abs(one_ms - other_ms) <= _REBOOT_MS


def _spans_gap(other: ProcessLife, life: ProcessLife) -> bool:
    """Whether a process of the same machine ran before the end of `life` and after the next start.

    Times of a machine's monotonic clock compare only within one boot. So its last line must have either the wall clock
    of the next start, or a later moment than the next start by both clocks.
    """
    if not _is_same_boot(other.booted_at_begin_ms, life.booted_ms) or other.begin_ns > life.last_ns:
        return False
    if _is_same_boot(other.booted_ms, life.next_booted_ms):
        return True
    if other.booted_ms is None or life.next_booted_ms is None or life.next_ns is None:
        return False
    is_later = other.booted_ms + other.last_ns // MS > life.next_booted_ms + life.next_ns // MS
    return is_later and other.last_ns > life.next_ns


def _was_whole_cluster_down(begin_ns: int, end_ns: int, lives: Sequence[ProcessLife], members: int) -> bool:
    """Whether at some moment no process of the cluster ran, and every member was started again after it."""
    for moment_ns in {life.last_ns for life in lives if begin_ns <= life.last_ns < end_ns}:
        is_down = not any(life.begin_ns <= moment_ns < life.last_ns for life in lives)
        if is_down and len({life.member_id for life in lives if life.begin_ns > moment_ns}) == members:
            return True
    return False


def _has_silenced(window: _Window, life: ProcessLife) -> bool:
    """Whether the fault was in effect between the last line of a process that recorded no end and the start of the next
    one, if any.
    """
    is_begun = life.next_ns is None or window.begin_ns <= life.next_ns
    return life.status is None and is_begun and life.last_ns <= window.end_ns


def _is_as_counted(window: _Window, life: ProcessLife, lives: Iterable[ProcessLife], deadly: Sequence[_Window]) -> bool:
    """Whether the kernel ended as many processes of the member as recorded no end and no other fault ended."""
    silenced = [
        other
        for other in lives
        if other.member_id == life.member_id
        and _has_silenced(window, other)
        and not any(_has_silenced(hit, other) for hit in deadly)
    ]
    return len(silenced) <= window.ended.get(life.member_id, 0)


def _lasts(window: _Window, ns: int) -> bool:
    return window.what in _BREAKING and window.begin_ns <= ns <= window.end_ns + _GRACE_NS


# --- errors ---


def _disturbances(run: RunFolder, traces: Iterable[TraceFacts]) -> Iterator[tuple[int, int]]:
    """When the cluster was disturbed, its machine stalled it, or one of its processes was down."""
    for fault in run.read_faults():
        yield _window(fault).begin_ns, NEVER_NS if fault.heal_end_ns is None else fault.heal_end_ns
    for control in run.read_controls():
        yield control.begin_ns, control.end_ns
    for facts in traces:
        yield from facts.stalls
        for life in facts.lives:
            # A process that ends in order closes its connections before it reports the end.
            begin_ns = life.last_ns - (0 if life.status is None else _GRACE_NS)
            if life.next_ns is not None or life.status is not None:
                yield begin_ns, NEVER_NS if life.next_ns is None else life.next_ns


def _unexplained(
    error: TracedError,
    facts: TraceFacts,
    windows: Iterable[_Window],
    disturbances: Iterable[tuple[int, int]],
    *,
    has_moved: bool,
) -> Broken | None:
    kind = error.kind
    if kind in _ORDINARY or kind.startswith(_ORDINARY_PREFIXES) or _SERVICE_EGRESS.fullmatch(kind):
        return None
    if SERVICE_ERROR.fullmatch(kind):
        # Another promise judges this.
        return None
    where = f"{facts.name}:{error.line}: member {error.member_id} reported"
    if kind.startswith(_UNFORESEEN):
        place = f" in {error.where}" if error.where else ""
        detail = f"{where} an unexpected exception: {kind.removeprefix(_UNFORESEEN)}{place}"
        return Broken(Verdict.INVALID, detail, members=(error.member_id,), when_ns=(error.ns, error.ns))
    if kind in _STORED:
        is_explained = has_moved or any(
            (window.what in _OF_FILES or error.member_id in window.ended)
            and error.member_id in window.members
            and window.begin_ns <= error.ns
            for window in windows
        )
        # An ordered end that was not cut short leaves no torn file.
        is_explained |= any(
            life.next_ns is not None and life.status != 0 and life.last_ns <= error.ns for life in facts.lives
        )
    else:
        # At a start the other members may not run yet.
        is_explained = not error.is_in_term or any(
            begin_ns <= error.ns <= end_ns + _ERROR_GRACE_NS for begin_ns, end_ns in disturbances
        )
    if is_explained:
        return None
    detail = f"{where} an error of kind {kind!r} that no fault explains"
    return Broken(Verdict.UNKNOWN, detail, members=(error.member_id,), when_ns=(error.ns, error.ns))


# --- output ---


def _tracebacks(run: RunFolder, manifest: Manifest) -> Iterator[Broken]:
    members = [(run.member(member_id).path, (member_id,)) for member_id in range(manifest.members)]
    others = [(path, ()) for path in companion_folders(run.path)]
    for folder, ids in (*members, *others):
        for path in sorted(folder.glob("*.log")):
            line = _line_with_traceback(path)
            if line:
                detail = f"{folder.name}/{path.name}:{line}: a traceback of an unexpected failure"
                yield Broken(Verdict.INVALID, detail, members=ids)


def _line_with_traceback(path: Path) -> int:
    """The line number of the first traceback; 0 without one."""
    with path.open("rb") as stream:
        return next((number for number, line in enumerate(stream, 1) if _TRACEBACK in line), 0)


UNEXPLAINED: Final = Checker(
    "unexplained",
    (Promise.NO_UNEXPLAINED_END,),
    frozenset({Source.TRACES, Source.OUTPUT, Source.FAULTS, Source.CONTROLS, Source.COMPANIONS}),
    lambda evidence: [check_ends(evidence.run, evidence.manifest, evidence.traces)],
)
