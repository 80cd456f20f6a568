"""The promise that each fault was in effect when its record claims: other evidence agrees with its window.

The injector writes the windows, and they excuse late events, so a wrong window hides a broken bound. Other evidence
shows when a fault was in effect: traces of processes that died, paused or came back, and messages that crossed a cut
link. A contradiction makes the result unknown, because then it is not known when the fault was in effect. For slow
links and disks, and for limited processors and memory, there is no other evidence.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.alone import times_alone
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.evidence.protocol_events import ENDING, OF_LEADER, OF_MODULE, deadly_until_ns, is_deadly
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import ProcessLife
from upheaval.checkers.evidence.troubles import AROUND_NS, AT_ONCE, STARTED, lives_hit
from upheaval.checkers.history.columns import IS_OK
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import ENDINGS, FORCED_END, OWN_SYSTEM, Manifest, TraceEvent
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.file_faults import FileFaultKind, was_down
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import DatagramFaultKind, LinkFaultKind
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, S

SILENT_NS: Final = 2 * S
"""A process of a cluster writes a line more often than this while another member runs, because of heartbeats."""

STILL_NS: Final = 50 * MS
"""How far the lines of a paused process may be off: each has the time at which its duty cycle began."""
_PATIENCE_NS: Final = 2 * S
"""A process that takes longer to end may have been killed."""
_INCARNATION: Final = re.compile(r"\bmember-(\d+)/\d+\b")
"""A process in the proofs of the simulation."""
_PROCESS: Final = re.compile(r"\bprocess (\d+)\b")
_STATED: Final = re.compile(r" ([\w,-]+) (<->|->) ([\w,-]+)(?: |$)")
_MEMBER: Final = re.compile(r"\bmember-(\d+)\b")
_START_AT_ONCE: Final = frozenset({HostFaultKind.WRONG_BYTES})
"""The kinds whose injection ends a process and starts the next one, on a changed disk."""
_OF_PROCESSES: Final = frozenset({*STARTED, MemberFaultKind.PAUSE})
_DELAYING: Final = frozenset({MemberFaultKind.PAUSE, HostFaultKind.CPU_LIMIT, HostFaultKind.MEMORY_LIMIT})
"""The kinds that keep a process from reading what it has received."""
_CUTS: Final = frozenset({LinkFaultKind.BLACKHOLE, LinkFaultKind.RESET})
_ENDS: Final = re.compile(r"(\d+)->(\d+)\b")
"""Sender and receiver, in the text of a link between members."""
_OF_LINKS: Final = frozenset({*LinkFaultKind, *DatagramFaultKind})
_KINDS: Final = frozenset({*MemberFaultKind, *HostFaultKind, *FileFaultKind, *_OF_LINKS})
_OF_FOLLOWER: Final = frozenset({"CanvassPosition", "AppendPosition", "CatchupPosition", "Vote", "TerminationAck"})


def check_windows(evidence: Evidence) -> list[Result]:
    """The first fault whose window is contradicted, or that all agree."""
    faults = evidence.faults
    if not faults:
        return [NotApplicable(Promise.FAULTS_IN_TIME, "there were no faults")]
    judge = _Judge(evidence)
    try:
        bound = sum(judge.look_at(fault) for fault in faults)
    except Broken as broken:
        return [broken.finding(Promise.FAULTS_IN_TIME)]
    detail = f"{bound} of {len(faults)} faults were active when traces and messages show them; no other is contradicted"
    return [Finding(Promise.FAULTS_IN_TIME, Verdict.VALID, detail)]


class _Judge:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._manifest: Manifest = evidence.manifest

    def look_at(self, fault: FaultRecord) -> bool:
        """Whether anything but its record shows when it was in effect. Raises `Broken` for a contradiction."""
        self._require_order(fault)
        is_bound = not fault.was_unseen and self._look_at_evidence(fault)
        _require_kind(fault)
        _require_statement(fault)
        return is_bound

    def _look_at_evidence(self, fault: FaultRecord) -> bool:
        is_bound = self._look_at_window(fault)
        self._require_own_processes(fault)
        self._require_operations(fault)
        return is_bound

    def _look_at_window(self, fault: FaultRecord) -> bool:
        if fault.what in AT_ONCE:
            self._require_deaths(fault)
        if fault.what in ENDING:
            self._require_alive(fault)
        if fault.what == MemberFaultKind.PAUSE:
            self._require_still(fault)
        if fault.what == MemberFaultKind.STOP:
            self._require_ends(fault)
        if fault.what in STARTED:
            self._require_starts(fault)
        if fault.what in _CUTS:
            return self._require_cut(fault)
        return fault.what in _OF_PROCESSES

    def _require_order(self, fault: FaultRecord) -> None:
        """Injection, end and heal must follow each other within the run."""
        asked_ns = fault.inject_begin_ns if fault.asked_ns is None else fault.asked_ns
        moments = {"asked_ns": asked_ns, "inject_begin_ns": fault.inject_begin_ns, "inject_end_ns": fault.inject_end_ns}
        if fault.heal_begin_ns is not None and fault.heal_end_ns is not None:
            moments |= {"heal_begin_ns": fault.heal_begin_ns, "heal_end_ns": fault.heal_end_ns}
        for (earlier, one_ns), (later, other_ns) in pairwise(moments.items()):
            if other_ns < one_ns:
                raise _contradicted(fault, f"{later} is {(one_ns - other_ns) / MS:.0f} ms before {earlier}")
        if (fault.heal_begin_ns is None) != (fault.heal_end_ns is None):
            raise _contradicted(fault, "it has one of heal_begin_ns and heal_end_ns")
        others = [member_id for member_id in fault.members if not 0 <= member_id < self._manifest.members]
        if others:
            raise _contradicted(fault, f"there is no member {others[0]}")
        converge = self._manifest.converge
        if converge is not None and converge.reached and list(moments.values())[-1] > converge.completed_ns:
            raise _contradicted(fault, "the run had converged before it was over")
        first_ns = min((life.begin_ns for facts in self._evidence.traces for life in facts.lives), default=0)
        if fault.inject_begin_ns < first_ns:
            raise _contradicted(fault, "it began before the first process of the run")

    def _require_operations(self, fault: FaultRecord) -> None:
        """The counts of acknowledged operations at injection and heal must not exceed the final one."""
        acknowledged = self._acknowledged
        counts = {"inject_operations": fault.inject_operations, "heal_operations": fault.heal_operations}
        for name, count in counts.items():
            if acknowledged and count is not None and count > acknowledged:
                raise _contradicted(fault, f"{name} is {count}, history.jsonl has {acknowledged} acknowledged ones")

    @cached_property
    def _acknowledged(self) -> int:
        return sum(IS_OK[kind] for kind in self._evidence.operations.kinds)

    def _require_own_processes(self, fault: FaultRecord) -> None:
        """The processes in its proofs must belong to its members."""
        proofs = [proof.evidence for proof in (fault.inject_proof, fault.heal_proof) if proof is not None]
        named = {int(member) for text in proofs for member in _INCARNATION.findall(text)}
        if fault.what in _OF_PROCESSES and not named <= set(fault.members):
            member_id = min(named - set(fault.members))
            raise _contradicted(fault, f"its proof names a process of member {member_id}", *fault.members, member_id)
        pids = {int(pid) for text in proofs for pid in _PROCESS.findall(text)}
        for facts in self._evidence.traces if fault.what in _OF_PROCESSES else ():
            others = {life.pid for life in facts.lives} & pids
            if facts.member_id not in fault.members and others:
                where = f"process {min(others)} of member {facts.member_id} ({facts.name})"
                raise _contradicted(fault, f"its proof names {where}", *fault.members, facts.member_id)

    def _require_ends(self, fault: FaultRecord) -> None:
        """A process that was ordered to end, and ended at once, must have traced its end."""
        if self._manifest.system != OWN_SYSTEM or fault.inject_end_ns - fault.inject_begin_ns > _PATIENCE_NS:
            return
        for member_id in fault.members:
            for life in self._lives(fault, member_id):
                is_hit = life.begin_ns < fault.inject_begin_ns <= life.last_ns + AROUND_NS
                if is_hit and life.status is None and life.last_ns <= fault.inject_end_ns + AROUND_NS:
                    where = f"member-{member_id}/trace.jsonl:{life.line}"
                    what = f"process {life.component!r} was ordered to end, and recorded no end ({where})"
                    raise _contradicted(fault, what, member_id)

    def _lives(self, fault: FaultRecord, member_id: int) -> list[ProcessLife]:
        return lives_hit(fault, self._evidence.traces[member_id])

    def _require_deaths(self, fault: FaultRecord) -> None:
        """A killed process must write nothing more."""
        for member_id in fault.members:
            for life in self._lives(fault, member_id):
                # An injection that takes long may overlap the start of the process that it ends.
                is_meanwhile = life.begin_ns < fault.inject_end_ns and not self._is_started_otherwise(fault, life)
                is_hit = life.begin_ns < fault.inject_begin_ns or is_meanwhile
                if is_hit and life.last_ns > fault.inject_end_ns + AROUND_NS:
                    late_ms = (life.last_ns - fault.inject_end_ns) // MS
                    what = f"process {life.component!r}, which began before it, wrote a line {late_ms} ms after it"
                    raise _contradicted(fault, f"{what} (member-{member_id}/trace.jsonl)", member_id)

    def _require_alive(self, fault: FaultRecord) -> None:
        """A process that a fault ended must have written shortly before: otherwise it may have ended by itself."""
        for member_id in fault.members:
            running = [life for life in self._lives(fault, member_id) if life.begin_ns < fault.inject_begin_ns]
            last = max(
                (life for life in running if life.component in OF_MODULE), key=lambda life: life.last_ns, default=None
            )
            if last is None or last.status is not None:
                continue
            if _found_down(fault, member_id) and not self._ended_otherwise(fault, last):
                what = f"it found member {member_id} down, and nothing explains the end of process {last.component!r}"
                raise _contradicted(fault, f"{what} (member-{member_id}/trace.jsonl:{last.line})", member_id)
            # A process that is starting has no heartbeats yet, and reads a snapshot for as long as it takes.
            if not last.has_started or not self._is_heard(member_id):
                continue
            if fault.inject_begin_ns - self._silent_until(fault, last) > SILENT_NS:
                early_ms = (fault.inject_begin_ns - last.last_ns) // MS
                what = f"member {member_id} had written nothing for {early_ms} ms before"
                raise _contradicted(fault, f"{what} (member-{member_id}/trace.jsonl)", member_id)

    def _is_heard(self, member_id: int) -> bool:
        """Whether the trace of the member has messages: then a live process writes lines all the time."""
        return self._manifest.members > 1 and bool(self._received[member_id][0])

    def _silent_until(self, fault: FaultRecord, last: ProcessLife) -> int:
        """Up to when other faults, commands, stalls and the absence of all other members, one after the other, explain
        that the member wrote nothing after its last process. What ended that explains it for ever.
        """
        traces = self._evidence.traces
        others = [other for other in self._evidence.faults if other is not fault]
        spans = [*traces[last.member_id].stalls, *times_alone(traces, others, last.member_id)]
        for other in others:
            if last.member_id in other.members:
                is_end = is_deadly(other, last.member_id, ENDING) and deadly_until_ns(other) >= last.begin_ns
                end_ns = NEVER_NS if is_end or other.heal_end_ns is None else other.heal_end_ns
                spans.append((other.inject_begin_ns, end_ns))
        for control in self._evidence.controls:
            is_end = control.what in (*ENDINGS, FORCED_END) and control.end_ns >= last.begin_ns
            spans.append((control.begin_ns, NEVER_NS if is_end else control.end_ns))
        return _last_of_chain(spans, last.last_ns, SILENT_NS)

    def _ended_otherwise(self, fault: FaultRecord, life: ProcessLife) -> bool:
        """Whether another fault or a command may have ended the process before."""
        ends = [
            (other.inject_begin_ns, deadly_until_ns(other))
            for other in self._evidence.faults
            if other is not fault
            and life.member_id in other.members
            and (is_deadly(other, life.member_id, ENDING) or other.what == HostFaultKind.DISK_FULL)
        ]
        ends += [(one.end_ns, one.end_ns) for one in self._evidence.controls if one.what in (*ENDINGS, FORCED_END)]
        return any(first_ns <= fault.inject_begin_ns and life.begin_ns <= last_ns for first_ns, last_ns in ends)

    def _require_still(self, fault: FaultRecord) -> None:
        """A paused process must write nothing until it is resumed, unless another fault ended it and started the next
        one.
        """
        until_ns = fault.heal_begin_ns
        if until_ns is None:
            return
        for member_id in fault.members:
            others = {
                life.pid
                for life in self._lives(fault, member_id)
                if life.begin_ns > fault.inject_end_ns and self._is_started_otherwise(fault, life)
            }
            for event in self._events(member_id, fault.inject_end_ns + STILL_NS, until_ns - STILL_NS):
                component = str(event.fields.get("component", ""))
                is_of_fault = fault.component in (None, component, component.partition("-")[0])
                if is_of_fault and event.fields.get("pid") not in others:
                    where = f"member-{member_id}/trace.jsonl:{event.line}"
                    late_ms = (event.ns - fault.inject_end_ns) // MS
                    raise _contradicted(
                        fault, f"member {member_id} wrote a line {late_ms} ms later ({where})", member_id
                    )

    def _require_starts(self, fault: FaultRecord) -> None:
        """A process that was ended must not run before the heal. After it one must, if the run converged."""
        if fault.heal_begin_ns is None and self._manifest.is_script:
            # An exact script starts members by a statement, which leaves no record.
            return
        healed_ns = NEVER_NS if fault.heal_begin_ns is None else fault.heal_begin_ns
        for member_id in fault.members:
            for life in self._lives(fault, member_id):
                is_early = fault.inject_end_ns + AROUND_NS < life.begin_ns < healed_ns - AROUND_NS
                if is_early and not self._is_started_otherwise(fault, life):
                    early_ms = (healed_ns - life.begin_ns) // MS
                    when = "and it was never healed" if healed_ns == NEVER_NS else f"{early_ms} ms before it was healed"
                    where = f"member-{member_id}/trace.jsonl:{life.line}"
                    raise _contradicted(fault, f"a process began {when} ({where})", member_id)
            is_final = any(final.member_id == member_id for final in finals_of(self._manifest))
            is_back = any(life.begin_ns >= fault.inject_begin_ns for life in self._lives(fault, member_id))
            if is_final and fault.is_proved and fault.heal_begin_ns is not None and not is_back:
                what = f"it was healed, and no process began after it (member-{member_id}/trace.jsonl)"
                raise _contradicted(fault, what, member_id)

    def _is_started_otherwise(self, fault: FaultRecord, life: ProcessLife) -> bool:
        """Whether a command, or the injection or heal of another fault, started the process."""
        others = [other for other in self._evidence.faults if other is not fault and life.member_id in other.members]
        healed = [
            (other.heal_begin_ns or other.inject_begin_ns, other.heal_end_ns or other.inject_end_ns) for other in others
        ]
        healed += [(other.inject_begin_ns, other.inject_end_ns) for other in others if other.what in _START_AT_ONCE]
        commands = [(control.begin_ns, control.end_ns) for control in self._evidence.controls]
        return any(begin_ns <= life.begin_ns <= end_ns + AROUND_NS for begin_ns, end_ns in [*healed, *commands])

    def _require_cut(self, fault: FaultRecord) -> bool:
        """No message that a member received in the window may have crossed a cut link."""
        until_ns = fault.heal_begin_ns
        cut = {ends for text in fault.links if (ends := _ends_of(text))}
        strangers = {end for ends in cut for end in ends} - set(fault.members)
        if strangers:
            raise _contradicted(fault, f"its links are also of member {min(strangers)}")
        if until_ns is None:
            return False
        for source, target in sorted(cut):
            moments, senders, lines = self._received[target]
            begin_ns = self._has_read_until(target, fault.inject_end_ns)
            for index in range(bisect_left(moments, begin_ns), bisect_left(moments, until_ns)):
                if senders[index] == source:
                    late_ms = (moments[index] - fault.inject_end_ns) // MS
                    where = f"member-{target}/trace.jsonl:{lines[index]}"
                    what = f"member {target} received a message of member {source} {late_ms} ms later"
                    raise _contradicted(fault, f"{what} ({where})", source, target)
        return bool(cut)

    def _has_read_until(self, member_id: int, ns: int) -> int:
        """When it must have read what it had received by then: a process that was paused, limited or stalled reads it
        when it goes on.
        """
        paused = (fault for fault in self._evidence.faults if fault.what in _DELAYING)
        spans = [
            (fault.inject_begin_ns, NEVER_NS if fault.heal_end_ns is None else fault.heal_end_ns)
            for fault in paused
            if member_id in fault.members
        ]
        return _last_of_chain([*spans, *self._evidence.traces[member_id].stalls], ns, AROUND_NS) + AROUND_NS

    @cached_property
    def _received(self) -> Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]]:
        """For each member, when it received messages of which member, and the trace lines."""
        received = []
        for member_id in range(self._manifest.members):
            rows = [
                (event.ns, sender, event.line)
                for event in self._all_events[member_id]
                if event.event == TraceKind.RECEIVE and (sender := _sender(event)) is not None
            ]
            columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
            received.append((columns[0], columns[1], columns[2]))
        return received

    @cached_property
    def _all_events(self) -> Sequence[Sequence[TraceEvent]]:
        folders = [self._evidence.run.member(member_id) for member_id in range(self._manifest.members)]
        return [list(folder.traced()) for folder in folders]

    def _events(self, member_id: int, begin_ns: int, end_ns: int) -> Iterator[TraceEvent]:
        return (event for event in self._all_events[member_id] if begin_ns < event.ns < end_ns)


def _found_down(fault: FaultRecord, member_id: int) -> bool:
    return fault.inject_proof is not None and was_down(member_id) in fault.inject_proof.evidence


def _last_of_chain(spans: Iterable[tuple[int, int]], begin_ns: int, apart_ns: int) -> int:
    """The end of the last of the spans that follow each other and a moment by no more than that; the moment for
    none.
    """
    until_ns = begin_ns
    for since_ns, end_ns in sorted(spans):
        if since_ns <= until_ns + apart_ns:
            until_ns = max(until_ns, end_ns)
    return until_ns


def _require_kind(fault: FaultRecord) -> None:
    """Its kind must be a known one, because nothing else is checked of the others; a fault of links must have links."""
    if fault.what not in _KINDS:
        raise _contradicted(fault, "there is no such kind of fault")
    if fault.what in _OF_LINKS and not fault.links:
        raise _contradicted(fault, "it names no link")


def _require_statement(fault: FaultRecord) -> None:
    """Its kind, and its links between members, must be those that were ordered."""
    if fault.statement and fault.statement.split()[0] != fault.what:
        raise _contradicted(fault, f"it was ordered as {fault.statement!r}")
    stated = _STATED.search(fault.statement)
    if stated is None or fault.what not in _OF_LINKS:
        return
    sources, targets = ({int(member_id) for member_id in _MEMBER.findall(names)} for names in (stated[1], stated[3]))
    ordered = {(source, target) for source in sources for target in targets if source != target}
    if stated[2] == "<->":
        ordered |= {(target, source) for source, target in ordered}
    hit = {(int(ends[1]), int(ends[2])) for text in fault.links if (ends := _ENDS.match(text))}
    for source, target in sorted(hit ^ ordered):
        did = "hit" if (source, target) in hit else "did not hit"
        raise _contradicted(fault, f"it was ordered as {fault.statement!r}, and {did} link {source}->{target}")


def _ends_of(link: str) -> tuple[int, int] | None:
    """Sender and receiver of a link's messages; None for a link of clients, of another channel, or of some
    connections.
    """
    ends, _, channel = link.partition("/")
    source, _, target = ends.partition("->")
    is_cut = source.isdigit() and target.isdigit() and channel in ("", "consensus")
    return (int(source), int(target)) if is_cut else None


def _sender(event: TraceEvent) -> int | None:
    fields: Mapping[str, object] = event.fields
    message = fields.get("message")
    if message in OF_LEADER:
        sender = fields.get("leader_member_id")
    elif message in _OF_FOLLOWER:
        sender = fields.get("follower_member_id", fields.get("member_id"))
    else:
        sender = fields.get("candidate_member_id") if message == "RequestVote" else None
    return sender if type(sender) is int else None


def _contradicted(fault: FaultRecord, what: str, *members: int) -> Broken:
    detail = f"fault {fault.name or fault.what!r}, {fault.what} of {fault.where}: {what}"
    return Broken(Verdict.UNKNOWN, detail, members=members or fault.members)


FAULT_WINDOWS: Final = Checker(
    "fault-windows",
    (Promise.FAULTS_IN_TIME,),
    frozenset({Source.FAULTS, Source.CONTROLS, Source.TRACES, Source.HISTORY}),
    check_windows,
)
