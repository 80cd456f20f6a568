"""The figures of one run, computed in this process from its folder: what `measure` prints and the report draws.

Times are nanoseconds since the first thing that the run recorded. A member's state is what its own trace says.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from upheaval.checkers.evidence.events import TimerFired, units_of_ms
from upheaval.checkers.evidence.logs import compare_logs
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.evidence.protocol_events import DEADLY, OF_MODULE, deadly_until_ns
from upheaval.checkers.history.columns import LogEntry
from upheaval.records import (
    AdminCommand,
    ControlRecord,
    Function,
    Manifest,
    Operation,
    Outcome,
    RunFolder,
    TraceEvent,
)
from upheaval_chaos.host_faults import ended_for_memory
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, US, S

TIMERS_SERVICE: Final = "timers"

_BUCKETS: Final = 120
"""Intervals of a run in which answers are counted."""
GAP_NS = S // 4
"""Longer than this without an answer is called unavailable."""
AROUND_NS = 2 * S
"""How much before and after a fault is compared with it."""

CATCHING_UP = ("FOLLOWER_LOG_REPLICATION", "FOLLOWER_CATCHUP_INIT", "FOLLOWER_CATCHUP_AWAIT", "FOLLOWER_CATCHUP")
"""The states of an election in which a member gets the log that it missed."""

DOWN, ELECTION, FOLLOWER, LEADER = "down", "election", "follower", "leader"


@dataclass(frozen=True)
class Span:
    """A state of a member for a time. `term` is that of a leader, as far as it was traced."""

    begin: int
    end: int
    state: str
    term: int | None = None


@dataclass(frozen=True)
class Bucket:
    """What was answered within one interval: how many a second, and how long it took."""

    begin: int
    end: int
    count: int
    p50: float | None
    p99: float | None

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.count * S / (self.end - self.begin)


@dataclass(frozen=True)
class FaultFigures:
    """A fault, and what clients and members saw of it. Latencies are (p50, p99) in nanoseconds."""

    what: str
    where: str
    begin: int
    end: int | None
    evidence: str
    before: tuple[float, float] | None
    during: tuple[float, float] | None
    after: tuple[float, float] | None
    new_leader_ns: int | None
    first_answer_ns: int | None


@dataclass(frozen=True)
class CatchUp:
    """How a member that came back got what it had missed of the log, in bytes of it."""

    member: int
    begin: int
    end: int
    from_position: int
    to_position: int

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return (self.to_position - self.from_position) * S / max(self.end - self.begin, 1)


@dataclass(frozen=True)
class SnapshotFigures:
    """A snapshot that was ordered: when, and how long until every member that ran had it, in nanoseconds."""

    begin: int
    length_ns: int


@dataclass(frozen=True)
class Lateness:
    """How late timers fired, in milliseconds of the cluster's time."""

    count: int
    p50: float
    p99: float
    most: float


@dataclass(frozen=True)
class Figures:
    """Everything about one run."""

    length_ns: int
    load: tuple[int, int]
    counts: dict[str, int]
    rate: float
    latency: tuple[float, float, float] | None
    """p50, p99 and the longest."""
    buckets: list[Bucket]
    gaps: list[tuple[int, int]]
    members: dict[int, list[Span]]
    terms: list[tuple[int, int, int]]
    """When each term was first entered, the term, its leader."""
    faults: list[FaultFigures]
    catch_ups: list[CatchUp]
    snapshots: list[SnapshotFigures]
    timers: Lateness | None
    """None in a run without timers of the service `timers`."""

    def to_fields(self) -> dict[str, Any]:
        """As `upheaval measure --json` prints it: all fields, and the rates that follow from them."""
        fields = asdict(self)
        for name in ("buckets", "catch_ups"):
            for shown, value in zip(fields[name], getattr(self, name), strict=True):
                shown["rate"] = value.rate
        return fields


def snapshot_figures(controls: Iterable[ControlRecord], start: int) -> list[SnapshotFigures]:
    """From the command to the moment in which every member that ran had the snapshot."""
    return [
        SnapshotFigures(control.begin_ns - start, control.end_ns - control.begin_ns)
        for control in controls
        if control.what == AdminCommand.SNAPSHOT and control.proof.holds
    ]


def lateness(late_ms: Sequence[float]) -> Lateness | None:
    """Of the timers that fired, how much later than their deadline each did."""
    ordered = sorted(late_ms)
    if not ordered:
        return None
    return Lateness(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])


def late_timers(entries: Iterable[LogEntry], fired: Iterable[TimerFired], time_unit: int) -> list[float]:
    """Milliseconds by which each timer event of the log is later than the deadline that its request gave."""
    unit = units_of_ms(time_unit)
    deadlines = {
        entry.id: entry.timestamp + entry.value
        for entry in entries
        if entry.f is Function.SCHEDULE and isinstance(entry.value, int)
    }
    return [(event.timestamp - deadlines[event.timer_id]) / unit for event in fired if event.timer_id in deadlines]


def _late_timers_of(run: RunFolder, manifest: Manifest) -> list[float]:
    """The log is only read for a run that can have such timers."""
    if manifest.service != TIMERS_SERVICE:
        return []
    log = compare_logs(run, finals_of(manifest), manifest.members, None).witness
    return [] if log is None else late_timers(log.entries, log.events.timers, log.events.time_unit)


def measure_run(run: RunFolder) -> Figures:
    """Raises `UsageError` for a folder that is no run folder or holds a malformed file."""
    manifest = run.read_manifest()
    operations = run.known_operations()
    faults = list(run.read_faults())
    traces = {member: list(run.member(member).traced()) for member in range(manifest.members)}
    start, end = extent_of(operations, faults, traces.values())
    answered = sorted(
        (o.complete_ns - start, o.complete_ns - o.invoke_ns)
        for o in operations
        if o.outcome is Outcome.OK and o.complete_ns is not None
    )
    load = (min((o.invoke_ns for o in operations), default=start) - start, answered[-1][0] if answered else 0)
    latencies = sorted(latency for _, latency in answered)
    terms = _terms(traces.values(), start)
    return Figures(
        length_ns=end - start,
        load=load,
        counts={outcome.value: sum(o.outcome is outcome for o in operations) for outcome in Outcome},
        rate=len(answered) * S / max(load[1] - load[0], 1),
        latency=(percentile(latencies, 0.5), percentile(latencies, 0.99), latencies[-1]) if latencies else None,
        buckets=_buckets(answered, end - start),
        gaps=_gaps(operations, [moment for moment, _ in answered], start, end),
        members={
            member: member_spans(events, start, end, kills_of(member, faults, events))
            for member, events in traces.items()
        },
        terms=terms,
        faults=[_fault_figures(fault, start, answered, terms) for fault in faults],
        catch_ups=catch_ups(traces, start),
        snapshots=snapshot_figures(run.read_controls(), start),
        timers=lateness(_late_timers_of(run, manifest)),
    )


def duration(ns: float) -> str:
    """A time for people, with three digits of the unit that suits it; from 100 s on in tenths of seconds."""
    if 99.95 * S <= ns < math.inf:
        minutes, tenths = divmod(round(ns / (S // 10)), 600)
        return f"{minutes} min {tenths / 10:g} s"
    for unit, length in (("s", S), ("ms", MS), ("µs", US)):  # noqa: RUF001 - the micro sign of units
        # What rounds to the unit has it.
        if ns >= 0.9995 * length:
            return f"{ns / length:.3g} {unit}"
    return "0" if ns == 0 else f"{ns:.0f} ns"


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Of sorted values, interpolated between neighbours, as Spark's `percentile` is."""
    place = fraction * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def edges_of(length: int) -> list[int]:
    """The edges of about equal intervals, none of them empty."""
    count = min(_BUCKETS, length)
    return [length * i // count for i in range(count + 1)]


def extent_of(
    operations: Sequence[Operation], faults: Sequence[FaultRecord], traces: Iterable[Sequence[TraceEvent]]
) -> tuple[int, int]:
    """The first and the last moment that a run recorded."""
    moments = [o.invoke_ns for o in operations] + [o.complete_ns for o in operations if o.complete_ns is not None]
    moments += [t for f in faults for t in (f.inject_begin_ns, f.heal_end_ns) if t is not None]
    # The first and the last line need not have them: the clock of a machine that was started anew begins anew.
    # A process that ends before its loop has run once has read no clock, and traces 0.
    dated = [[event.ns for event in events if event.ns] for events in traces]
    moments += [pick(times) for times in dated if times for pick in (min, max)]
    return (min(moments), max(max(moments), min(moments) + 1)) if moments else (0, 1)


def _gaps(operations: Sequence[Operation], answered: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    asked = [o.invoke_ns - start for o in operations]
    unanswered = [o.invoke_ns - start for o in operations if o.outcome is not Outcome.OK]
    at_ends = gaps_at_ends(
        min(asked, default=None),
        (answered[0], answered[-1]) if answered else None,
        max(unanswered, default=None),
        end - start,
    )
    return sorted([*at_ends, *((a, b) for a, b in pairwise(answered) if b - a > GAP_NS)])


def gaps_at_ends(
    first_asked: int | None, answers: tuple[int, int] | None, last_unanswered: int | None, end: int
) -> list[tuple[int, int]]:
    """The times without an answer before the first and after the last of `answers`, or the whole where there is none.

    `first_asked` is when the first request was made, `last_unanswered` when the last one that never got an answer. If
    it was made later than `GAP_NS` before the last answer, clients waited until the end of the run.
    """
    if first_asked is None:
        return []
    if answers is None:
        return [(first_asked, max(end, first_asked + 1))]
    first, last = answers
    is_waiting = last_unanswered is not None and last_unanswered > last - GAP_NS
    return [(a, b) for a, b in ((first_asked, first), (last, end if is_waiting else last)) if b - a > GAP_NS]


def _buckets(answered: Sequence[tuple[int, int]], length: int) -> list[Bucket]:
    edges = edges_of(length)
    buckets = []
    for begin, end in pairwise(edges):
        low = bisect_left(answered, (begin, -1))
        last = end == edges[-1]
        high = len(answered) if last else bisect_left(answered, (end, -1))
        latencies = sorted(latency for _, latency in answered[low:high])
        both = (percentile(latencies, 0.5), percentile(latencies, 0.99)) if latencies else (None, None)
        buckets.append(Bucket(begin, end, high - low, *both))
    return buckets


def _terms(traces: Iterable[Sequence[TraceEvent]], start: int) -> list[tuple[int, int, int]]:
    first: dict[int, tuple[int, int]] = {}
    for events in traces:
        for event in events:
            term, leader = event.fields.get("leadership_term_id"), event.fields.get("leader_member_id")
            if event.event == TraceKind.LEADERSHIP_TERM and type(term) is int and type(leader) is int:
                first[term] = min(first.get(term, (event.ns, leader)), (event.ns, leader))
    return sorted((ns - start, term, leader) for term, (ns, leader) in first.items())


def kills_of(member_id: int, faults: Sequence[FaultRecord], events: Sequence[TraceEvent]) -> list[int]:
    """When faults ended the process of the member's consensus module, which traces no end: at once, or after its last
    event for want of memory.
    """
    kills = [fault.inject_end_ns for fault in faults if has_killed(fault, member_id)]
    for fault in faults:
        if count := ended_for_memory(fault).get(member_id):
            ends = [ns for ns in _silences(events, kills) if fault.inject_begin_ns <= ns <= deadly_until_ns(fault)]
            # Of more of them it is unknown which ones the kernel ended.
            kills += ends if len(ends) <= count else []
    return sorted(kills)


def has_killed(fault: FaultRecord, member_id: int) -> bool:
    """Whether it ended the process of the member's consensus module by the end of its injection."""
    return (
        fault.what in DEADLY
        and member_id in fault.members
        and fault.component in (None, *OF_MODULE)
        and fault.inject_proof is not None
        and fault.inject_proof.holds
    )


def _silences(events: Sequence[TraceEvent], kills: Sequence[int]) -> Iterator[int]:
    """The last moments of processes that traced no end and were not killed."""
    for last, following in zip(events, [*events[1:], None], strict=True):
        if last.event != TraceKind.PROCESS_END and (following is None or following.event == TraceKind.PROCESS_START):
            next_ns = NEVER_NS if following is None else following.ns
            if not any(last.ns <= ns <= next_ns for ns in kills):
                yield last.ns


def member_spans(events: Sequence[TraceEvent], start: int, end: int, kills: Sequence[int] = ()) -> list[Span]:
    """The states of a member one after the other, from the start of the run to its end.

    A process that traces no end is down from the next of the `kills` on. Without one it is down from its last event on
    if another process was started, and else runs until the end of the run.
    """
    spans: list[Span] = []
    since, state, role, closed = start, DOWN, FOLLOWER, False
    term: int | None = None
    last = start

    def change(ns: int, new: str) -> None:
        nonlocal since, state
        if new != state:
            if ns > since:
                spans.append(Span(since - start, ns - start, state, term if state == LEADER else None))
            since, state = ns, new

    for event in events:
        if event.event == TraceKind.PROCESS_START:
            change(_killed(kills, last, event.ns, last), DOWN)
            role, closed = FOLLOWER, False
            change(event.ns, ELECTION)
        elif event.event == TraceKind.PROCESS_END:
            change(event.ns, DOWN)
        elif event.event == TraceKind.ELECTION_STATE:
            closed = event.fields.get("state") == "CLOSED"
            change(event.ns, role if closed or role == LEADER else ELECTION)
        elif event.event == TraceKind.ROLE:
            role = str(event.fields.get("new")).lower()
            change(event.ns, role if closed or role == LEADER else ELECTION)
        entered = event.fields.get("leadership_term_id")
        if event.event == TraceKind.LEADERSHIP_TERM and type(entered) is int:
            term = entered
        last = event.ns
    change(_killed(kills, last, end, end), DOWN)
    if end > since:
        spans.append(Span(since - start, end - start, state))
    return spans


def _killed(kills: Sequence[int], begin: int, end: int, otherwise: int) -> int:
    """The first kill between an event of a process and the next one of its member."""
    return next((ns for ns in kills if begin <= ns <= end), otherwise)


def catch_ups(traces: Mapping[int, Iterable[TraceEvent]], start: int) -> list[CatchUp]:
    """Each time a member caught up, in the order in which they began. Times are since `start`."""
    catch_ups = [one for member, events in traces.items() for one in _catch_ups_of(member, events, start)]
    return sorted(catch_ups, key=lambda one: (one.begin, one.member))


def _catch_ups_of(member: int, events: Iterable[TraceEvent], start: int) -> Iterator[CatchUp]:
    since: tuple[int, int] | None = None
    for event in events:
        if event.event == TraceKind.PROCESS_START:
            since = None
        position = event.fields.get("append_position")
        if event.event != TraceKind.ELECTION_STATE or type(position) is not int:
            continue
        if event.fields.get("state") in CATCHING_UP:
            since = since or (event.ns - start, position)
        elif since is not None:
            if position > since[1]:
                yield CatchUp(member, since[0], event.ns - start, since[1], position)
            since = None


def _fault_figures(
    fault: FaultRecord, start: int, answered: Sequence[tuple[int, int]], terms: Sequence[tuple[int, int, int]]
) -> FaultFigures:
    begin = fault.inject_begin_ns - start
    end = None if fault.heal_end_ns is None else fault.heal_end_ns - start
    healed = answered[-1][0] + 1 if end is None and answered else end or begin
    newer = next((moment for moment, _, _ in terms if begin < moment <= max(healed, begin)), None)
    answer = None
    if newer is not None:
        index = bisect_right(answered, (newer, 1 << 62))
        answer = answered[index][0] - begin if index < len(answered) else None
    return FaultFigures(
        fault.what,
        fault.where,
        begin,
        end,
        fault.evidence,
        _between(answered, begin - AROUND_NS, begin),
        _between(answered, begin, healed),
        None if end is None else _between(answered, end, end + AROUND_NS),
        None if newer is None else newer - begin,
        answer,
    )


def _between(answered: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[float, float] | None:
    within = answered[bisect_left(answered, (begin, -1)) : bisect_left(answered, (end, -1))]
    latencies = sorted(latency for _, latency in within)
    return (percentile(latencies, 0.5), percentile(latencies, 0.99)) if latencies else None
