"""Compares the members' logs with each other and with the manifest, and reads the operations out of them.

This module knows the recordings and the cluster's log messages; it knows nothing of histories.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from upheaval.checkers.calls import CallEntry, shown_digest
from upheaval.checkers.events import LogEvents, ServiceMessage, TimerFired
from upheaval.checkers.promises import Promise
from upheaval.checkers.recordings import LogMissing, RecordedLog, Segment, messages
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.checkers.witness import LogEntry
from upheaval.records import FinalPosition, RunFolder, call_digest, decode_credit, decode_operation
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol import session_header


@dataclass(frozen=True, slots=True)
class TermEntry:
    """A leadership term as the log itself announces it."""

    leadership_term_id: int
    leader_member_id: int
    position: int


@dataclass(slots=True)
class WitnessLog:
    """What the longest log of the run says, in log order."""

    entries: list[LogEntry] = field(default_factory=list)
    calls: list[CallEntry] = field(default_factory=list)
    """The messages to a service of a user's own."""
    terms: list[TermEntry] = field(default_factory=list)
    events: LogEvents = field(default_factory=LogEvents)
    member_id: int = -1
    start_position: int = 0
    end_position: int = 0


@dataclass(frozen=True, slots=True)
class LogFindings:
    witness: WitnessLog | None
    """None when no log could be read."""
    findings: tuple[Finding, ...]
    members_terms: Mapping[int, Sequence[TermEntry]]
    """The terms that each readable log announces: a suspect log can contradict the witness."""


@dataclass(slots=True)
class _Reading:
    """One member's log while all of them are read side by side."""

    log: RecordedLog
    segments: Iterator[Segment]
    witness: WitnessLog = field(default_factory=WitnessLog)


def check_logs(run: RunFolder, finals: Sequence[FinalPosition], members: int) -> LogFindings:
    """Read all logs side by side, segment by segment, so that memory does not grow with their length.

    `finals` are the positions of the manifest's converge phase; without them the logs are still read, and compared
    as far as the shortest one reaches, but the findings are unknown at best.
    """
    readings, missing = _open(run, members)
    limit = min((final.commit_position for final in finals), default=-1)
    difference = _compare(readings, limit)
    longest = max(readings, key=lambda reading: reading.log.end_position, default=None)
    complete = _completeness(readings, finals, missing, longest)
    equal = _equality(readings, finals, missing, difference)
    if longest is not None:
        longest.witness.member_id = longest.log.member_id
        longest.witness.start_position = longest.log.start_position
        longest.witness.end_position = longest.log.end_position
    terms = {reading.log.member_id: reading.witness.terms for reading in readings}
    return LogFindings(longest.witness if longest else None, (complete, equal), terms)


def _open(run: RunFolder, members: int) -> tuple[list[_Reading], str | None]:
    readings: list[_Reading] = []
    missing: str | None = None
    for member_id in range(members):
        try:
            log = RecordedLog(run.member(member_id))
            readings.append(_Reading(log, log.segments()))
        except LogMissing as error:
            missing = missing or str(error)
    return readings, missing


def _compare(readings: list[_Reading], limit: int) -> str | None:
    """Read everything; return the first difference at or below `limit` in one line."""
    difference: str | None = None
    pending = list(readings)
    while pending:
        segments: list[tuple[_Reading, Segment]] = []
        for reading in list(pending):
            segment = next(reading.segments, None)
            if segment is None:
                pending.remove(reading)
                continue
            read_entries(segment, reading.witness)
            segments.append((reading, segment))
        for reading, segment in segments[1:]:
            if difference is None:
                difference = _difference(segments[0], (reading, segment), limit)
    return difference


def _difference(left: tuple[_Reading, Segment], right: tuple[_Reading, Segment], limit: int) -> str | None:
    """The first frame at which two members' segments of one base differ, below `limit` (-1: as far as both reach)."""
    (left_reading, a), (right_reading, b) = left, right
    members = f"members {left_reading.log.member_id} and {right_reading.log.member_id}"
    if a.base != b.base:
        return f"{members} have segments at positions {a.base} and {b.base}"
    end = min(a.end, b.end)
    if limit >= 0:
        end = min(end, max(limit - a.base, 0))
    if a.data[:end] == b.data[:end]:
        return None
    for offset in a.offsets:
        length = int.from_bytes(a.data[offset : offset + 4], "little")
        frame_end = offset + (length + 31 & -32)
        if a.data[offset:frame_end] != b.data[offset:frame_end]:
            shown = [describe_frame(segment, offset) for segment in (a, b)]
            return f"{members} differ at position {a.base + offset}: {shown[0]} against {shown[1]}"
    return f"{members} differ behind position {a.base + end}"


def describe_frame(segment: Segment, offset: int) -> str:
    """What lies at an offset, for people."""
    if offset not in segment.offsets:
        return "no frame"
    found = WitnessLog()
    tail = Segment(segment.base, segment.data, [offset], segment.end)
    try:
        read_entries(tail, found)
    except LogMissing:
        return "a broken frame"
    if found.entries:
        entry = found.entries[0]
        return f"operation id={entry.id} {entry.f} {entry.key} {entry.value!r}"
    if found.calls:
        return f"a call with payload {shown_digest(found.calls[0].digest)}"
    if found.terms:
        return f"leadership term {found.terms[0].leadership_term_id} of member {found.terms[0].leader_member_id}"
    return "another frame"


def read_entries(segment: Segment, witness: WitnessLog) -> None:
    """Append what the messages of a segment say."""
    for end, message in messages(segment):
        if message[:8] == session_header.HEADER_BYTES:
            _read_operation(message, end, witness)
            continue
        try:
            decoded = cm.SCHEMA.decode(message)
        except DecodeError:
            continue
        if isinstance(decoded, cm.NewLeadershipTermEvent):
            witness.terms.append(TermEntry(decoded.leadership_term_id, decoded.leader_member_id, end))
        _read_event(decoded, end, witness.events)


def _read_event(event: object, end: int, events: LogEvents) -> None:
    match event:
        case cm.NewLeadershipTermEvent():
            events.time_unit = max(int(event.time_unit), 0)
        case cm.SessionOpenEvent():
            facts = events.session(event.cluster_session_id)
            facts.opened.append(end)
            facts.principals.append(event.encoded_principal)
        case cm.SessionCloseEvent():
            events.session(event.cluster_session_id).closed.append((end, int(event.close_reason)))
        case cm.TimerEvent():
            events.timers.append(TimerFired(end, event.correlation_id, event.timestamp))
        case cm.ClusterActionRequest():
            if event.action == cm.ClusterAction.SNAPSHOT:
                events.snapshots.append(end)


def _read_operation(message: memoryview | bytes, end: int, witness: WitnessLog) -> None:
    payload = message[session_header.LENGTH :]
    _, session_id, timestamp = session_header.unpack_session_header(message)
    if session_id < 0:
        credit = decode_credit(payload)
        witness.events.service_messages.append(ServiceMessage(end, session_id, timestamp, credit))
        return
    witness.events.session(session_id).add_message(end)
    try:
        operation_id, function, key, value = decode_operation(payload)
    except DecodeError:
        witness.calls.append(CallEntry(end, call_digest(payload)))
        return
    witness.entries.append(LogEntry(end, operation_id, function, key, value, timestamp))


def _completeness(
    readings: list[_Reading], finals: Sequence[FinalPosition], missing: str | None, longest: _Reading | None
) -> Finding:
    by_member = {reading.log.member_id: reading.log for reading in readings}
    for final in finals:
        log = by_member.get(final.member_id)
        if log is not None and log.end_position < final.append_position:
            why = f" ({log.fault})" if log.fault else ""
            detail = (
                f"the log of member {final.member_id} ends at position {log.end_position}, "
                f"its final position is {final.append_position}{why}{_what_follows(longest, log.end_position)}"
            )
            return Finding(Promise.LOGS_COMPLETE, Verdict.INVALID, detail)
    if missing:
        return Finding(Promise.LOGS_COMPLETE, Verdict.UNKNOWN, missing)
    if not finals:
        return Finding(Promise.LOGS_COMPLETE, Verdict.UNKNOWN, "the manifest has no final positions: no converge phase")
    ends = {log.end_position for log in by_member.values()}
    return Finding(Promise.LOGS_COMPLETE, Verdict.VALID, f"{len(by_member)} logs end at {_range(ends)}")


def _what_follows(longest: _Reading | None, position: int) -> str:
    """The first operation that the longest log has behind a position at which another one ends."""
    if longest is None:
        return ""
    entries = longest.witness.entries
    index = bisect_right(entries, position, key=lambda entry: entry.position)
    if index == len(entries):
        return ""
    entry = entries[index]
    return (
        f"; member {longest.log.member_id} goes on with operation id={entry.id} {entry.f} {entry.key} "
        f"at position {entry.position}"
    )


def _equality(
    readings: list[_Reading], finals: Sequence[FinalPosition], missing: str | None, difference: str | None
) -> Finding:
    positions = {final.commit_position for final in finals}
    if difference is not None:
        # Behind the commit position logs may differ; without final positions it is not known where that is.
        return Finding(Promise.LOGS_EQUAL, Verdict.INVALID if finals else Verdict.UNKNOWN, difference)
    if missing:
        return Finding(Promise.LOGS_EQUAL, Verdict.UNKNOWN, missing)
    if not finals:
        return Finding(Promise.LOGS_EQUAL, Verdict.UNKNOWN, "the manifest has no final positions: no converge phase")
    frames = f"{len(readings)} logs compared frame by frame up to position {min(positions)}"
    return Finding(Promise.LOGS_EQUAL, Verdict.VALID, frames)


def _range(positions: set[int]) -> str:
    low, high = min(positions), max(positions)
    return f"position {low}" if low == high else f"positions {low} to {high}"
