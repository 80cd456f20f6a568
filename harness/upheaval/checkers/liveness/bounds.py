"""The promise about time-outs: a leader keeps sending heartbeats, and no member gives another up too early or too late.

Judged by the members' traces and configuration. The processes of a host share a monotonic clock. A bound counts only
while nothing explains a miss: a quorum of members ran all the time, was in a term, had no fault, and received no admin
command. This module knows nothing of logs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.protocol_events import OF_LEADER, quorum_of
from upheaval.checkers.evidence.stalls import excused_by, explained, longest_stall
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.evidence.troubles import (
    MARGIN_NS,
    Trouble,
    calm_times,
    failover_ns,
    fault_troubles,
    same_quorum,
    timeouts_of,
    troubles,
)
from upheaval.checkers.liveness.detection import Contact, Lapse
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict, raise_latest
from upheaval.records import OWN_SYSTEM, Json, Manifest, RunFolder, TraceEvent
from upheaval_chaos.target import LinkFaultKind
from upheaval_node.trace_kinds import ElectionCause, TraceKind
from upheaval_node.types import MS

SILENCE_NS: Final = 100 * MS
"""Shorter than any heartbeat time-out. Shorter silences are not recorded."""

_SILENCES: Final = frozenset(ElectionCause)


@dataclass(slots=True)
class _Leadership:
    """A term that a member led, from the end of its election, and the gaps between its heartbeats."""

    leadership_term_id: int
    member_id: int
    begin_ns: int
    last_ns: int
    silences: list[tuple[int, int, int]] = field(default_factory=list)
    """The gaps longer than `SILENCE_NS`: begin, end, and the trace line that ends each."""

    def record(self, event: TraceEvent) -> None:
        """Record a heartbeat, or the end of the leadership."""
        if event.ns - self.last_ns >= SILENCE_NS:
            self.silences.append((self.last_ns, event.ns, event.line))
        self.last_ns = event.ns


@dataclass(slots=True)
class _Member:
    """What the trace of one member shows."""

    member_id: int
    led: list[_Leadership] = field(default_factory=list)
    ready: list[tuple[int, int]] = field(default_factory=list)
    """The times in which a process of the member ran and had joined a term."""
    gave_up: list[tuple[TraceEvent, tuple[int, ...]]] = field(default_factory=list)
    """Elections that it began because others were silent, and when it had last heard from each member of the term."""
    _leads: _Leadership | None = None
    _is_ready: bool = False
    _component: Json = None
    """The process that holds the consensus module."""
    _last: TraceEvent | None = None
    """The last trace line of that process."""
    _entered: tuple[Json, Json] = (None, None)
    """Its current term and that term's leader."""
    _heard_ns: dict[Json, int] = field(default_factory=dict)
    """When it last heard from its leader, or from each of its followers."""
    _reported: dict[Json, tuple[Json, int]] = field(default_factory=dict)
    """The term and time of the last position that each follower reported to it, in an election too."""
    restarts_clock: bool = False
    """Whether a follower's time-out begins again when it joins a term."""
    _joined_ns: int | None = None
    """When it began to follow its leader."""
    contact: Contact | None = None

    def add(self, event: TraceEvent) -> None:
        """Take the next trace line."""
        if self.contact is not None:
            self.contact.add(event)
        match event.event:
            case TraceKind.PROCESS_START:
                self.close()
            case TraceKind.LEADERSHIP_TERM if event.fields.get("source") == "election":
                self._enter(event)
            case TraceKind.ELECTION_STATE | TraceKind.CLUSTER_END:
                if event.fields.get("reason") in _SILENCES:
                    self.gave_up.append((event, self._signs_of_life(event.fields.get("reason"))))
                self._leave(event)
            case TraceKind.MODULE_STATE if event.fields.get("new") in ("TERMINATING", "CLOSED"):
                self._leave(event)
            case TraceKind.SEND if self._leads is not None and event.fields.get("message") == "CommitPosition":
                self._leads.record(event)
            case TraceKind.RECEIVE if event.fields.get("message") in OF_LEADER:
                if (event.fields.get("leadership_term_id"), event.fields.get("leader_member_id")) == self._entered:
                    self._heard_ns[self._entered[1]] = event.ns
            case TraceKind.RECEIVE if event.fields.get("message") == "AppendPosition":
                follower, term = event.fields.get("follower_member_id"), event.fields.get("leadership_term_id")
                self._reported[follower] = term, event.ns
                if self._leads is not None and term == self._leads.leadership_term_id:
                    self._heard_ns[follower] = event.ns
        if self._is_ready:
            self.ready[-1] = self.ready[-1][0], event.ns
        if event.fields.get("component") == self._component:
            self._last = event

    def close(self) -> None:
        """End the trace of a process. A killed process may have been silent up to its last line."""
        if self._leads is not None and self._last is not None and self._last.event != TraceKind.PROCESS_END:
            self._leads.record(self._last)
        self._leads, self._is_ready, self._joined_ns = None, False, None
        self._reported.clear()

    def _enter(self, event: TraceEvent) -> None:
        if not self._is_ready:
            self._is_ready = True
            self.ready.append((event.ns, event.ns))
        term = event.fields.get("leadership_term_id")
        self._component = event.fields.get("component")
        self._entered, self._heard_ns = (term, event.fields.get("leader_member_id")), {}
        self._joined_ns = event.ns if self.restarts_clock else None
        if event.fields.get("leader_member_id") == self.member_id and isinstance(term, int):
            self._leads = _Leadership(term, self.member_id, event.ns, event.ns)
            self.led.append(self._leads)
            # Followers report already before the election ends.
            self._heard_ns = {follower: ns for follower, (of, ns) in self._reported.items() if of == term}

    def _signs_of_life(self, cause: Json) -> tuple[int, ...]:
        """When it had last heard from each member of the term. Joining is a sign of life of the leader."""
        heard_ns = tuple(self._heard_ns.values())
        if cause != ElectionCause.LEADER_SILENT or self._joined_ns is None:
            return heard_ns
        return *heard_ns, self._joined_ns

    def _leave(self, event: TraceEvent) -> None:
        if self._leads is not None and event.fields.get("state") != "CLOSED":
            self._leads.record(event)
            self._leads = None


def check_bounds(run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts]) -> list[Result]:
    """Judge the time-outs of a run."""
    members = list(_read(run, manifest))
    if manifest.members < 2:
        return [NotApplicable(Promise.BOUNDS_KEPT, "a single member exchanges no heartbeats")]
    if not any(member.led for member in members):
        return [NotApplicable(Promise.BOUNDS_KEPT, "no trace shows a member that led")]
    judge = _Judge(manifest, members, list(troubles(run, traces)))
    try:
        finding = Finding(Promise.BOUNDS_KEPT, Verdict.VALID, judge.shown())
    except Broken as broken:
        finding = broken.finding(Promise.BOUNDS_KEPT)
    contacts = [member.contact for member in members if member.contact is not None]
    recovery_ns = failover_ns(timeouts_of(manifest))
    late = sorted(
        _late_detections(run, traces, contacts, recovery_ns), key=lambda finding: finding.late_ms, reverse=True
    )
    if finding.late_ms:
        finding = excused_by(finding, longest_stall(run, manifest.members))
    return [max((finding, *late), key=lambda finding: finding.verdict)]


def _read(run: RunFolder, manifest: Manifest) -> Iterator[_Member]:
    for member_id in range(manifest.members):
        folder = run.member(member_id)
        if folder.trace.exists():
            contact = None
            if manifest.system == OWN_SYSTEM and manifest.members > 1:
                # Members of Aeron have other duties that delay them.
                timeouts = timeouts_of(manifest)
                allowed_ns = timeouts.leader_heartbeat_ns + MARGIN_NS
                contact = Contact(member_id, quorum_of(manifest.members) - 1, allowed_ns, timeouts.termination_ns)
            # The clock of a member of Aeron may go on.
            member = _Member(member_id, contact=contact, restarts_clock=manifest.system == OWN_SYSTEM)
            for event in folder.read_trace():
                member.add(event)
            member.close()
            if contact is not None:
                contact.end()
            yield member


def _late_detections(
    run: RunFolder, traces: Sequence[TraceFacts], contacts: Sequence[Contact], recovery_ns: int
) -> Iterator[Finding]:
    """The lapses of members while only links had faults, or that went on after a member had recovered from others.
    Unknown if stalls of the member's loop explain one.
    """
    faults = (fault for fault in run.read_faults() if fault.what not in set(LinkFaultKind))
    others = list(fault_troubles(faults, traces))
    others += [Trouble(control.begin_ns, control.end_ns) for control in run.read_controls()]
    for contact in contacts:
        for lapse in contact.lapses:
            meanwhile = [other for other in others if lapse.begin_ns - MARGIN_NS <= other.end_ns]
            for since_ns, until_ns in calm_times(meanwhile, lapse.member_id, lapse.begin_ns, lapse.end_ns, recovery_ns):
                if until_ns - since_ns > lapse.allowed_ns:
                    finding = _late(replace(lapse, begin_ns=since_ns, end_ns=until_ns))
                    yield explained(finding, contact.stalls, since_ns, until_ns, "it")


def _late(lapse: Lapse) -> Finding:
    member_id, silent_ns, allowed_ns = lapse.member_id, lapse.end_ns - lapse.begin_ns, lapse.allowed_ns
    role, whom = ("leader", "a quorum") if lapse.is_leader else ("follower", "its leader")
    detail = (
        f"member {member_id} stayed a {role} for {silent_ns // MS} ms without hearing from {whom} "
        f"(member-{member_id}/trace.jsonl:{lapse.line}; allowed: {allowed_ns // MS} ms)"
    )
    late_ms = -(-(silent_ns - allowed_ns) // MS)
    when_ns = (lapse.begin_ns, lapse.end_ns)
    return Finding(Promise.BOUNDS_KEPT, Verdict.INVALID, detail, members=(member_id,), late_ms=late_ms, when_ns=when_ns)


class _Judge:
    def __init__(self, manifest: Manifest, members: Sequence[_Member], troubles: Sequence[Trouble]) -> None:
        self._members = members
        self._troubles = troubles
        self._missed: list[Broken] = []
        self._quorum = quorum_of(manifest.members)
        timeouts = timeouts_of(manifest)
        self._heartbeat_ns = timeouts.leader_heartbeat_ns
        self._disconnect_ns = timeouts.leader_disconnect_ns or timeouts.leader_heartbeat_ns
        self._failover_ns = failover_ns(timeouts)
        self._well = [
            (member.member_id, *calm)
            for member in members
            for begin_ns, end_ns in member.ready
            for calm in calm_times(troubles, member.member_id, begin_ns, end_ns, self._failover_ns)
        ]

    def shown(self) -> str:
        """Summarise the bounds that held. Raises `Broken` for the first that did not."""
        led = [leadership for member in self._members for leadership in member.led]
        silences = [ns for leadership in led for ns in self._silences(leadership)]
        for member in self._members:
            for event, heard_ns in member.gave_up:
                self._require_silence(member.member_id, event, heard_ns)
        raise_latest(self._missed)
        return (
            f"leaders of {len(led)} terms were never silent for more than {max(silences, default=SILENCE_NS) // MS} ms "
            f"(allowed: {self._heartbeat_ns // MS} ms)"
        )

    def _silences(self, leadership: _Leadership) -> Iterator[int]:
        """The lengths of the silences that nothing explains, and that are allowed."""
        for begin_ns, end_ns, line in leadership.silences:
            for since_ns, until_ns in self._unexplained(leadership.member_id, begin_ns, end_ns):
                if until_ns - since_ns <= self._heartbeat_ns:
                    yield until_ns - since_ns
                else:
                    self._miss(leadership, line, since_ns, until_ns)

    def _unexplained(self, leader_id: int, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        """The parts of an interval in which the leader had no fault, and a quorum was well."""
        meanwhile = [trouble for trouble in self._troubles if begin_ns <= trouble.end_ns]
        for its_begin_ns, its_end_ns in calm_times(meanwhile, leader_id, begin_ns, end_ns, self._failover_ns):
            for since_ns, until_ns, _ in same_quorum(self._well, self._quorum, its_begin_ns, its_end_ns):
                yield since_ns, until_ns

    def _require_silence(self, member_id: int, event: TraceEvent, heard_ns: Sequence[int]) -> None:
        """A follower may give up a leader, or a leader its quorum, only after its time-out by its own clock."""
        cause = event.fields["reason"]
        is_leader = cause == ElectionCause.FOLLOWERS_SILENT
        is_cut_off = cause == ElectionCause.LEADER_DISCONNECTED
        timeout_ns = self._disconnect_ns if is_cut_off else self._heartbeat_ns
        # The leader, or enough followers to make a quorum with this member.
        needed = self._quorum - 1 if is_leader else 1
        if len(heard_ns) < needed:
            return
        silent_ns = event.ns - sorted(heard_ns, reverse=True)[needed - 1]
        if silent_ns < timeout_ns:
            whom, what = "a quorum" if is_leader else "its leader", "disconnected" if is_cut_off else "silent"
            detail = (
                f"member {member_id} began an election because {whom} was {what}; it had heard from {whom} only "
                f"{silent_ns // MS} ms before (member-{member_id}/trace.jsonl:{event.line}; time-out: "
                f"{timeout_ns // MS} ms)"
            )
            when_ns = (event.ns - silent_ns, event.ns)
            raise Broken(Verdict.INVALID, detail, members=(member_id,), when_ns=when_ns)

    def _miss(self, leadership: _Leadership, line: int, begin_ns: int, end_ns: int) -> None:
        member_id, silence_ns = leadership.member_id, end_ns - begin_ns
        detail = (
            f"member {member_id} sent no heartbeat for {silence_ns // MS} ms while it led term "
            f"{leadership.leadership_term_id} (member-{member_id}/trace.jsonl:{line}; "
            f"allowed: {self._heartbeat_ns // MS} ms)"
        )
        late_ms = -(-(silence_ns - self._heartbeat_ns) // MS)
        when_ns = (begin_ns, end_ns)
        self._missed.append(Broken(Verdict.INVALID, detail, members=(member_id,), late_ms=late_ms, when_ns=when_ns))


BOUNDS: Final = Checker(
    "bounds",
    (Promise.BOUNDS_KEPT,),
    frozenset({Source.TRACES, Source.FAULTS, Source.CONTROLS}),
    lambda evidence: check_bounds(evidence.run, evidence.manifest, evidence.traces),
)
