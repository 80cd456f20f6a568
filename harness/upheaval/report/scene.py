"""What the browser draws of a run, as one JSON object of columns: members, faults, orders, operations, messages.

Nothing here judges: the page shows it beside what the checkers found. Times are nanoseconds since the first thing that
the run recorded.
"""

import json
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

from upheaval.checkers.evidence.logs import compare_logs, entry_at
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.evidence.recordings import FLAG_BEGIN, FLAG_END, TYPE_DATA, LogMissing, RecordedLog
from upheaval.checkers.history.placed_calls import place_calls
from upheaval.checkers.verdict import Finding
from upheaval.records import (
    ControlRecord,
    Function,
    Json,
    Manifest,
    Operation,
    Outcome,
    Payloads,
    RunFolder,
    TraceEvent,
    answer_bytes,
    messages_of,
)
from upheaval.report.elections import Election
from upheaval.report.figures import Figures, extent_of
from upheaval.report.moments import COMMIT, Moment
from upheaval.report.requests import payloads_at
from upheaval.report.turning_points import turning_points
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS

OPERATIONS_SHOWN: Final = 100_000
"""Of a run with more, those of note (`_of_note`) and an even sample of the others."""
MESSAGES_SHOWN: Final = 20_000
"""Of a run with more, reports of positions are left out: the charts of positions show them."""
POINTS_OF_MEMBER: Final = 4_000
TEXT_SHOWN: Final = 200
"""Characters of a value or a result."""
_REPORTS: Final = ("AppendPosition", COMMIT)
_OMITTED: Final = frozenset(("ts", "epoch_ms", "member", "component", "pid", "run", "event", "message", "to", "from"))

_NOTHING_BROKEN: Final[Mapping[Finding, Moment]] = MappingProxyType({})

Scene = dict[str, Any]


def scene_of(
    run: RunFolder,
    manifest: Manifest,
    figures: Figures,
    elections: Sequence[Election],
    broken: Mapping[Finding, Moment] = _NOTHING_BROKEN,
) -> Scene:
    """`broken` has the moments of broken promises, as far as known.

    Raises `UsageError` for a run folder that cannot be read.
    """
    operations = run.known_operations()
    operations.sort(key=lambda operation: operation.invoke_ns)
    folders = [run.member(member_id) for member_id in range(manifest.members)]
    traces = {folder.member_id: list(folder.traced()) for folder in folders}
    start, _ = extent_of(operations, list(run.read_faults()), traces.values())
    seen = [(member_id, event) for member_id, event in messages_of(run) if member_id in traces]
    traced = [(member_id, event) for member_id, events in traces.items() for event in events]
    events = sorted(traced + seen, key=lambda entry: entry[1].ns)
    messages = [entry for entry in events if entry[1].event in (TraceKind.SEND, TraceKind.RECEIVE)]
    shown = [operations[index] for index in _chosen(operations, start, figures)]
    # Elections count from the first event of the members.
    first_event = min((event.ns for _, event in traced + seen if event.ns), default=start) - start
    positions = positions_of(events, start)
    frames = _frames(run, manifest, operations, shown)
    return {
        "length": figures.length_ns,
        "epoch_ms": _epoch_ms(events, start) if manifest.created else None,
        "members": [
            _member(member_id, events, start, figures, positions.get(member_id, []))
            for member_id, events in traces.items()
        ],
        "terms": figures.terms,
        "faults": [
            {"what": f"{fault.what} {fault.where}", "begin": fault.begin, "end": fault.end, "evidence": fault.evidence}
            for fault in figures.faults
        ],
        "breaks": [
            {
                "what": finding.promise.sentence,
                "begin": moment.begin,
                "end": moment.ns,
                "evidence": finding.evidence,
                "operation": finding.operation,
            }
            for finding, moment in broken.items()
        ],
        "orders": _orders(list(run.read_controls()), traces, start),
        "elections": [
            {
                "what": f"election {election.number}: member {election.candidate_id} for term {election.term_id}, "
                f"{election.outcome}",
                "begin": election.begin_ns + first_event,
                "end": None if election.end_ns is None else election.end_ns + first_event,
            }
            for election in elections
        ],
        "buckets": [[(bucket.begin + bucket.end) // 2, bucket.p50, bucket.p99] for bucket in figures.buckets],
        "operations": _operations(shown, start) | _texts(run, manifest, shown, frames["end"]),
        "counts": {
            "kind": Counter(operation.f.value for operation in operations),
            "outcome": Counter(operation.outcome.value for operation in operations),
        },
        "answers": _answers(operations, start),
        "frames": frames,
        **_messages(messages, start),
    }


def _epoch_ms(events: Iterable[tuple[int, TraceEvent]], start: int) -> float | None:
    """The wall clock at the start of the run, by the first event that says it; None without one."""
    dated = ((event.ns, event.fields.get("epoch_ms")) for _, event in events if event.ns)
    return next((epoch_ms - (ns - start) / MS for ns, epoch_ms in dated if isinstance(epoch_ms, int)), None)


def _member(
    member_id: int,
    events: Sequence[TraceEvent],
    start: int,
    figures: Figures,
    positions: Sequence[tuple[int, int, int]],
) -> Scene:
    states, stalls = [], []
    for event in events:
        stall_ns = event.fields.get("stall_ns")
        if event.event == TraceKind.ELECTION_STATE:
            states.append([event.ns - start, str(event.fields.get("state")), str(event.fields.get("reason") or "")])
        elif event.event == TraceKind.LOOP_STALL and isinstance(stall_ns, int):
            stalls.append([max(event.ns - start - stall_ns, 0), event.ns - start])
    return {
        "id": member_id,
        "spans": [[span.begin, span.end, span.state, span.term] for span in figures.members.get(member_id, [])],
        "states": states,
        "stalls": stalls,
        "positions": _thinned(positions),
    }


def positions_of(events: Iterable[tuple[int, TraceEvent]], start: int) -> dict[int, list[tuple[int, int, int]]]:
    """Of each member, when it recorded which position of its log, and how far that was from the largest one before."""
    positions: dict[int, list[tuple[int, int, int]]] = {}
    largest = 0
    for member_id, event in events:
        before = positions.setdefault(member_id, [])
        position = _position(event, before[-1][1] if before else 0)
        if position is None:
            continue
        largest = max(largest, position)
        if not before or before[-1][1:] != (position, largest - position):
            before.append((event.ns - start, position, largest - position))
    return positions


def _position(event: TraceEvent, last: int) -> int | None:
    """How far a member says that its log reaches; of a leader, how far it is committed, which is never taken back."""
    position: Json = None
    if event.event == TraceKind.ELECTION_STATE:
        position = event.fields.get("append_position")
    elif event.event == TraceKind.SEND and event.fields.get("message") in _REPORTS:
        position = event.fields.get("log_position")
        if event.fields.get("message") == COMMIT and type(position) is int and position < last:
            return None
    return position if type(position) is int and position >= 0 else None


def _thinned(points: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Of many, in each interval the first one and the one that is furthest from the others' position."""
    if len(points) <= POINTS_OF_MEMBER:
        return list(points)
    thinned: list[tuple[int, int, int]] = []
    edges = [len(points) * index // (POINTS_OF_MEMBER // 2) for index in range(POINTS_OF_MEMBER // 2 + 1)]
    for begin, end in pairwise(edges):
        worst = max(range(begin, end), key=lambda index: points[index][2])
        thinned += [points[index] for index in sorted({begin, worst})]
    return thinned


def _orders(
    controls: Sequence[ControlRecord], traces: Mapping[int, Sequence[TraceEvent]], start: int
) -> Sequence[Scene]:
    """Admin commands, and what members did without one."""
    marks = [(one.begin_ns, one.end_ns, one.what, str(one.proof)) for one in controls]
    marks += [(one.begin_ns, one.end_ns, str(one), one.evidence) for one in turning_points(traces, controls)]
    return [
        {"what": what, "begin": begin_ns - start, "end": end_ns - start, "evidence": evidence}
        for begin_ns, end_ns, what, evidence in sorted(marks, key=itemgetter(0))
    ]


def _chosen(operations: Sequence[Operation], start: int, figures: Figures) -> Sequence[int]:
    """Which of the operations, in the order of their beginnings, are in the page."""
    everything = range(len(operations))
    if len(operations) <= OPERATIONS_SHOWN:
        return everything
    noted = _of_note(operations, start, figures)
    others = [index for index in everything if index not in noted]
    return sorted([*noted, *_evenly(others, OPERATIONS_SHOWN - len(noted))])


def _of_note(operations: Sequence[Operation], start: int, figures: Figures) -> set[int]:
    """Unknown and failed operations, the slowest ones, those next to a begin or an end of a fault: a quarter of the
    page for each at most.
    """
    quarter = OPERATIONS_SHOWN // 4
    open_ones = [index for index, operation in enumerate(operations) if operation.outcome is not Outcome.OK]
    latencies = [
        0 if operation.complete_ns is None else operation.complete_ns - operation.invoke_ns for operation in operations
    ]
    noted = {*_evenly(open_ones, quarter), *nlargest(quarter, range(len(operations)), key=latencies.__getitem__)}
    begins = [operation.invoke_ns - start for operation in operations]
    edges = _evenly([at for fault in figures.faults for at in (fault.begin, fault.end) if at is not None], quarter)
    for at in edges:
        place, near = bisect_left(begins, at), max(quarter // len(edges) // 2, 1)
        noted.update(range(max(place - near, 0), min(place + near, len(operations))))
    return noted


def _evenly(values: Sequence[int], count: int) -> Sequence[int]:
    return values if len(values) <= count else [values[len(values) * index // count] for index in range(count)]


def _answers(operations: Sequence[Operation], start: int) -> Scene:
    """When operations were acknowledged, `each` by `each`: of all of them, whether they are in the page or not."""
    ends = sorted(o.complete_ns - start for o in operations if o.outcome is Outcome.OK and o.complete_ns is not None)
    step = -(-len(ends) // OPERATIONS_SHOWN) or 1
    return {"each": step, "at": ends[step // 2 :: step]}


def _operations(operations: Sequence[Operation], start: int) -> Scene:
    """In the order of their beginnings."""
    return {
        "id": [operation.id for operation in operations],
        "slot": [operation.process for operation in operations],
        "kind": [operation.f.value for operation in operations],
        "outcome": [operation.outcome.value for operation in operations],
        "begin": [operation.invoke_ns - start for operation in operations],
        "end": [None if operation.complete_ns is None else operation.complete_ns - start for operation in operations],
        "key": [operation.key for operation in operations],
        "session": [operation.session for operation in operations],
    }


def _texts(run: RunFolder, manifest: Manifest, shown: Sequence[Operation], ends: Sequence[int | None]) -> Scene:
    """What was sent and answered: of a call as its run shows payloads, where the log has the request."""
    payloads = Payloads.of(run)
    of_calls = {end for operation, end in zip(shown, ends, strict=True) if operation.f is Function.CALL and end}
    sent = payloads_at(run, range(manifest.members), of_calls)
    values, results = [], []
    for operation, end in zip(shown, ends, strict=True):
        value, result = operation.value, operation.result
        if operation.f is Function.CALL:
            value = payloads.text(sent[end]) if end in sent else value
            result = payloads.text(answer_bytes(result)) if isinstance(result, str) else result
        values.append(_shown(value))
        results.append(_shown(result))
    return {"value": values, "result": results}


def _shown(value: Json) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]} .."


# --- frames ---


@dataclass(frozen=True, slots=True)
class _Frames:
    """What a member's log has at the ends of messages: where each begins, and the CRC-32 of its frames; and what else
    is where an operation that is in no log was acknowledged.
    """

    by_end: Mapping[int, tuple[int, int]]
    instead: Mapping[int, str] = field(default_factory=dict)
    why_none: str = ""


def _frames(run: RunFolder, manifest: Manifest, operations: Sequence[Operation], shown: Sequence[Operation]) -> Scene:
    """Where each operation that is shown ends in the log, null for one that is in none; what the first member that has
    it has there, and what the others have otherwise. Of one that was acknowledged and is in no log: what each member
    has at the position of the answer.
    """
    positions = _positions_in_log(run, manifest, operations)
    ends = [positions.get(operation.id) for operation in shown]
    answered = {
        index: operation.position for index, operation in enumerate(shown) if ends[index] is None and operation.position
    }
    wanted = frozenset(end for end in ends if end is not None)
    elsewhere = frozenset(answered.values())
    logs = {member_id: _frames_of(run, member_id, wanted, elsewhere) for member_id in range(manifest.members)}
    usual = [
        None if end is None else next((log.by_end[end] for log in logs.values() if end in log.by_end), None)
        for end in ends
    ]
    return {
        "end": ends,
        "usual": usual,
        "others": {
            member_id: {
                index: log.by_end.get(end)
                for index, end in enumerate(ends)
                if end is not None and log.by_end.get(end) != usual[index]
            }
            for member_id, log in logs.items()
            if not log.why_none
        },
        "answered": answered,
        "instead": {
            member_id: {index: log.instead[end] for index, end in answered.items() if end in log.instead}
            for member_id, log in logs.items()
        },
        "unreadable": {member_id: log.why_none for member_id, log in logs.items() if log.why_none},
    }


def _positions_in_log(run: RunFolder, manifest: Manifest, operations: Sequence[Operation]) -> dict[int, int]:
    """By the ids in the log."""
    witness = compare_logs(run, finals_of(manifest), manifest.members, None).witness
    if witness is None:
        return {}
    by_id = dict(zip(witness.entries.ids, witness.entries.positions, strict=True))
    calls = place_calls(
        [operation for operation in operations if operation.f is Function.CALL], witness.calls
    ).by_position
    return by_id | {operation.id: position for position, operation in calls.items()}


def _frames_of(run: RunFolder, member_id: int, wanted: frozenset[int], elsewhere: frozenset[int]) -> _Frames:
    frames: dict[int, tuple[int, int]] = {}
    instead: dict[int, str] = {}
    try:
        for segment in RecordedLog(run.member(member_id)).segments():
            words = memoryview(segment.data).cast("i")
            begin = 0
            for offset, following in pairwise([*segment.offsets, segment.end]):
                version_flags_type = words[(offset >> 2) + 1]
                flags, kind = version_flags_type >> 8, version_flags_type >> 16
                if kind == TYPE_DATA and flags & FLAG_BEGIN:
                    begin = offset
                end = segment.base + following
                if kind == TYPE_DATA and flags & FLAG_END and end in wanted:
                    frames[end] = (segment.base + begin, zlib.crc32(segment.data[begin:following]))
                if end in elsewhere:
                    instead[end] = entry_at(segment, offset)
    except LogMissing as missing:
        return _Frames({}, why_none=str(missing))
    return _Frames(frames, instead)


# --- messages ---


def _messages(messages: Sequence[tuple[int, TraceEvent]], start: int) -> Scene:
    """Those that consensus modules sent and received, in order; `left_out` of them are not there."""
    shown = list(messages)
    if len(shown) > MESSAGES_SHOWN:
        shown = [entry for entry in messages if entry[1].fields.get("message") not in _REPORTS][:MESSAGES_SHOWN]
    return {
        "messages": {
            "at": [event.ns - start for _, event in shown],
            "member": [member_id for member_id, _ in shown],
            "event": [event.event for _, event in shown],
            "name": [str(event.fields.get("message")) for _, event in shown],
            "to": [event.fields.get("to") for _, event in shown],
            "fields": [_fields_text(event.fields) for _, event in shown],
        },
        "left_out": len(messages) - len(shown),
    }


def _fields_text(fields: Mapping[str, Json]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items() if name not in _OMITTED)
