"""Compares the members' logs with each other and with the manifest, and reads the operations.

This module knows the recordings and the cluster's log messages; it knows nothing of histories.
"""

import contextlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Final

from upheaval.checkers.evidence.events import EntryKind, LogEvents, ServiceMessage, TimerFired
from upheaval.checkers.evidence.log_messages import decode_message, is_session_message, template_id
from upheaval.checkers.evidence.losses import purged_starts
from upheaval.checkers.evidence.positions import LogBounds, TracedPositions, bounds_of
from upheaval.checkers.evidence.recordings import (
    FLAG_BEGIN,
    FLAG_END,
    LogMissing,
    RecordedLog,
    Segment,
    frame_end,
    messages,
)
from upheaval.checkers.history.calls import CallEntry, shown_digest
from upheaval.checkers.history.columns import EntryBlock, LogEntries, LogEntry
from upheaval.records import FinalPosition, Json, RunFolder, call_digest, decode_credit, decode_operation
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm, session_header


@dataclass(frozen=True, slots=True)
class TermEntry:
    """A leadership term as the log announces it."""

    leadership_term_id: int
    leader_member_id: int
    position: int


Frame = LogEntry | CallEntry | TermEntry | str
"""The content of a frame; text for a frame of any other kind."""
NO_FRAME: Final = "no frame"
OTHER_FRAME: Final = "another frame"
UNREADABLE: Final = "unreadable"
"""The name of the field with the reason why a message cannot be read."""
_WHOLE: Final = FLAG_BEGIN | FLAG_END
_FRAME_HEADER: Final = struct.Struct("<iiiiiiq")
_SESSION_SIGN: Final = session_header.CLUSTER_SESSION_ID_OFFSET + 7
"""The byte of a session message that has the sign of its session id. Services have negative ids."""
_NEGATIVE: Final = 0x80
_TERM_BEGINS: Final = struct.pack("<HH", cm.NewLeadershipTermEvent.TEMPLATE_ID, cm.SCHEMA.table.schema_id)
"""In the header of each message that announces a term, and elsewhere by chance."""
_MESSAGES_OF_A_BLOCK: Final = 64
"""Small, because messages may be long."""

TIMED_EVENTS: Final = (
    cm.NewLeadershipTermEvent,
    cm.SessionOpenEvent,
    cm.SessionCloseEvent,
    cm.TimerEvent,
    cm.ClusterActionRequest,
)
"""The cluster's own entries that have the leadership term and the cluster time of their writing."""


@dataclass(slots=True)
class WitnessLog:
    """The content of the longest log of the run up to the commit position, in log order."""

    entries: LogEntries = field(default_factory=lambda: LogEntries.of(()))
    calls: list[CallEntry] = field(default_factory=list)
    """The messages to a custom service."""
    terms: list[TermEntry] = field(default_factory=list)
    events: LogEvents = field(default_factory=LogEvents)
    member_id: int = -1
    start_position: int = 0
    end_position: int = 0
    past_commit: int | None = None
    """The end of the first client message past the commit position."""
    unreadable: tuple[int, str] | None = None
    """The end of the first message that cannot be read, and why."""

    @property
    def why_not_whole(self) -> str | None:
        """Why the log does not have everything; None if it does."""
        return why_not_whole(self.start_position, self.unreadable)


def why_not_whole(start_position: int, unreadable: tuple[int, str] | None) -> str | None:
    """Why a log does not have everything, by where it begins and its first message that cannot be read."""
    if start_position > 0:
        return f"the log begins at position {start_position}: what came before it is gone"
    if unreadable is None:
        return None
    end, why = unreadable
    return f"the log has a message that cannot be read, up to position {end}: {why}"


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a member's log ends, and why if it ends at something that is no frame."""

    position: int
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """The first member whose log cannot be read, and why."""

    member_id: int
    why: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two members' logs; `what` describes it for a reader."""

    members: tuple[int, int]
    position: int
    what: str
    operation: int | None = None

    def __str__(self) -> str:
        return f"members {self.members[0]} and {self.members[1]} {self.what}"


@dataclass(frozen=True, slots=True)
class ComparedLogs:
    """The members' logs: the one to judge by, the end of each, and the first difference."""

    witness: WitnessLog | None
    """None if no log could be read."""
    logs: Mapping[int, LogEnd]
    """The end of each readable log, by member."""
    missing: Missing | None
    difference: Difference | None
    members_terms: Mapping[int, Sequence[TermEntry]]
    """The terms that each readable log announces. A suspect log can contradict the witness."""
    bounds: LogBounds

    @property
    def ends(self) -> Mapping[int, int]:
        """The end of each member's recording, if it has one."""
        return {member_id: end.position for member_id, end in self.logs.items()}


@dataclass(slots=True)
class _Reading:
    """One member's log, while all are read side by side."""

    log: RecordedLog
    segments: Iterator[Segment]
    terms: list[TermEntry] = field(default_factory=list)


def compare_logs(
    run: RunFolder, finals: Sequence[FinalPosition], members: int, traced: TracedPositions | None
) -> ComparedLogs:
    """Compare all logs side by side, then read the longest one, of equal ones one whose files no fault changed.

    A log that begins later, where a proved purge let it begin, is compared from there on.

    They are read segment by segment, so memory does not grow with their length. `finals` are the final positions of the
    manifest; without them the logs are compared as far as the shortest one reaches. The witness ends at the commit
    position, for which `traced` is needed.
    """
    readings, missing = _open(run, members)
    limit = bounds_of(finals, traced, {}, members).commit_position
    difference = _compare(readings, limit if finals else None, purged_starts(run, members))
    ends = {reading.log.member_id: LogEnd(reading.log.end_position, reading.log.fault) for reading in readings}
    positions = {member_id: end.position for member_id, end in ends.items()}
    bounds = bounds_of(finals, traced, positions, members)
    longest = max(readings, key=lambda reading: _fitness(reading.log, traced, bounds.commit_position), default=None)
    witness = _witness(run, longest.log, bounds.commit_position) if longest else None
    terms = {reading.log.member_id: reading.terms for reading in readings}
    return ComparedLogs(witness, ends, missing, difference, terms, bounds)


def _fitness(log: RecordedLog, traced: TracedPositions | None, committed: int | None) -> tuple[int, int, int, bool]:
    """The greatest belongs to the log that is read. Of those that have all that is committed, it begins first."""
    end = log.end_position
    reached = end if committed is None else min(end, committed)
    return reached, -log.start_position, end, traced is None or log.member_id not in traced.replaced


def _open(run: RunFolder, members: int) -> tuple[list[_Reading], Missing | None]:
    readings: list[_Reading] = []
    missing: Missing | None = None
    for member_id in range(members):
        try:
            log = RecordedLog(run.member(member_id), twin=readings[0].log if readings else None)
            readings.append(_Reading(log, log.segments()))
        except LogMissing as error:
            missing = missing or Missing(member_id, str(error))
    return readings, missing


def _compare(readings: list[_Reading], limit: int | None, purged: Mapping[int, Set[int]]) -> Difference | None:
    """Read all frames and terms. Returns the first difference at or below `limit`.

    A log joins the others where a purge let it begin, which is in `purged` by member.
    """
    difference: Difference | None = None
    first = min((reading.log.start_position for reading in readings), default=0)
    late = [
        reading for reading in readings if first < reading.log.start_position in purged.get(reading.log.member_id, ())
    ]
    pending = [reading for reading in readings if reading not in late]
    while pending or late:
        # Where no other log reaches a later one, the next ones begin.
        reached = [reading.log.end_position for reading in pending] or [min(one.log.start_position for one in late)]
        for reading in list(late):
            if reading.log.start_position <= max(reached):
                late.remove(reading)
                pending.append(reading)
        segments: list[tuple[_Reading, Segment]] = []
        for reading in list(pending):
            segment = next(reading.segments, None)
            if segment is None:
                pending.remove(reading)
            else:
                segments.append((reading, segment))
        terms: dict[tuple[int, bytes], list[TermEntry]] = {}
        for reading, segment in segments:
            same = segment.base, segment.data
            if same not in terms:
                terms[same] = list(_terms(segment))
            reading.terms += terms[same]
        for reading, segment in segments[1:]:
            if difference is None:
                difference = _difference(segments[0], (reading, segment), limit)
    return difference


def _terms(segment: Segment) -> Iterator[TermEntry]:
    if _TERM_BEGINS not in segment.data:
        return
    for end, message in messages(segment):
        if not is_session_message(message):
            with contextlib.suppress(DecodeError):
                decoded = decode_message(message)
                if isinstance(decoded, cm.NewLeadershipTermEvent):
                    yield TermEntry(decoded.leadership_term_id, decoded.leader_member_id, end)


def _witness(run: RunFolder, log: RecordedLog, committed: int | None) -> WitnessLog:
    """The committed content of a log that has been read. A live one may have grown since."""
    witness = WitnessLog(member_id=log.member_id, start_position=log.start_position, end_position=log.end_position)
    end = log.end_position if committed is None else committed

    def read(into: WitnessLog) -> Iterator[EntryBlock]:
        for segment in RecordedLog(run.member(log.member_id)).segments():
            yield from read_blocks(segment, into, end)
            if segment.base + segment.end >= log.end_position:
                break

    witness.entries = LogEntries(read(witness), lambda: read(WitnessLog()))
    return witness


def _difference(
    left: tuple[_Reading, Segment], right: tuple[_Reading, Segment], limit: int | None
) -> Difference | None:
    """The first frame below `limit` that differs in two members' segments of one base (None: as far as both reach)."""
    (left_reading, a), (right_reading, b) = left, right
    members = (left_reading.log.member_id, right_reading.log.member_id)
    if a.base != b.base:
        return Difference(members, min(a.base, b.base), f"have segments at positions {a.base} and {b.base}")
    end = min(a.end, b.end)
    if limit is not None:
        end = min(end, max(limit - a.base, 0))
    if a.data[:end] == b.data[:end]:
        return None
    for offset in a.offsets:
        frame = slice(offset, frame_end(a, offset))
        if a.data[frame] != b.data[frame]:
            one, other = (Shown(frame_at(segment, offset), frame_facts(segment, offset)) for segment in (a, b))
            return differing_frames(members, a.base + offset, one, other)
    return Difference(members, a.base + end, f"differ after position {a.base + end}")


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of a frame, with the fields of header and message to distinguish frames of equal content."""

    frame: Frame
    facts: Mapping[str, Json]


def differing_frames(members: tuple[int, int], position: int, one: Shown, other: Shown) -> Difference:
    """The difference of two members' frames at a position."""
    operation = next((shown.frame.id for shown in (one, other) if isinstance(shown.frame, LogEntry)), None)
    texts = described(one.frame), described(other.frame)
    what = f"{texts[0]} against {texts[1]}"
    if texts[0] == texts[1]:
        what = f"{texts[0]}, {_differing_fact(one.facts, other.facts)}"
    return Difference(members, position, f"differ at position {position}: {what}", operation)


def _differing_fact(one: Mapping[str, Json], other: Mapping[str, Json]) -> str:
    for name in one:
        if one[name] != other.get(name):
            return f"with {name} {one[name]} against {other.get(name)}"
    return "with other bytes"


def header_facts(length: int, flags: int, kind: int, stream_id: int, term_id: int, reserved: int) -> dict[str, Json]:
    """The header fields that can differ at one position; `kind` is the frame type."""
    names = ("length", "flags", "type", "stream id", "term id", "reserved value")
    return dict(zip(names, (length, flags, kind, stream_id, term_id, reserved), strict=True))


def frame_facts(segment: Segment, offset: int) -> dict[str, Json]:
    """The fields of the frame at an offset; empty where no frame begins."""
    if offset not in segment.offsets:
        return {}
    length, kind, _, _, stream_id, term_id, reserved = _FRAME_HEADER.unpack_from(segment.data, offset)
    facts = header_facts(length, kind >> 8 & 0xFF, kind >> 16, stream_id, term_id, reserved)
    if kind >> 8 & _WHOLE == _WHOLE:
        for _, message in messages(Segment(segment.base, segment.data, [offset], segment.end)):
            facts.update(message_facts(message))
    return facts


def message_facts(message: bytes) -> dict[str, Json]:
    """The fields of a message of the log, by their names in the schema.

    A session's message has the fields of its header; one that the ledger offered also has transfer, account and amount.
    A message that cannot be read has the reason.
    """
    if is_session_message(message):
        term_id, session_id, timestamp = session_header.unpack_session_header(message)
        facts: dict[str, Json] = {
            "leadership_term_id": term_id,
            "cluster_session_id": session_id,
            "timestamp": timestamp,
        }
        if session_id < 0:
            credit = decode_credit(message[session_header.LENGTH :])
            facts["credit"] = None if credit is None else [credit.transfer_id, credit.account, credit.amount]
        return facts
    try:
        decoded = decode_message(message)
    except DecodeError as error:
        return {UNREADABLE: str(error)}
    if decoded is None:
        return {}
    shown = {name: getattr(decoded, name) for name in decoded.__match_args__}
    fields: dict[str, Json] = json.loads(json.dumps(shown, default=_shown))
    return fields


def _shown(value: object) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def frame_at(segment: Segment, offset: int) -> Frame:
    """The entry or call whose frame begins at an offset, or a description of what is there."""
    if offset not in segment.offsets:
        return NO_FRAME
    witness = WitnessLog()
    tail = Segment(segment.base, segment.data, [offset], segment.end)
    try:
        entries = list(read_entries(tail, witness))
    except LogMissing:
        return "a broken frame"
    frames: list[Frame] = [*entries, *witness.calls, *witness.terms]
    return frames[0] if frames else OTHER_FRAME


def entry_at(segment: Segment, offset: int) -> str:
    """The record at an offset for people: an operation, or a message of the cluster with its name and term."""
    frame = frame_at(segment, offset)
    if frame != OTHER_FRAME:
        return described(frame)
    for _, message in messages(Segment(segment.base, segment.data, [offset], segment.end)):
        with contextlib.suppress(DecodeError):
            decoded = None if is_session_message(message) else decode_message(message)
            term = getattr(decoded, "leadership_term_id", None)
            return OTHER_FRAME if term is None else f"{type(decoded).__name__} of term {term}"
    return OTHER_FRAME


def described(frame: Frame) -> str:
    """The content of a frame for people."""
    match frame:
        case LogEntry():
            return str(frame) if frame.value is None else f"{frame} {frame.value!r}"
        case CallEntry():
            return f"a call with payload {shown_digest(frame.digest)}"
        case TermEntry():
            return f"leadership term {frame.leadership_term_id} of member {frame.leader_member_id}"
    return frame


def read_entries(segment: Segment, witness: WitnessLog) -> Iterator[LogEntry]:
    """The operations of a segment. Other messages go to the witness."""
    return chain.from_iterable(read_blocks(segment, witness))


def read_blocks(segment: Segment, witness: WitnessLog, committed: int | None = None) -> Iterator[EntryBlock]:
    """The operations of a segment in blocks. Other messages go to the witness; past the commit position only those of
    terms do.
    """
    requests: list[tuple[int, bytes]] = []
    for end, message in messages(segment):
        is_proof = committed is None or end <= committed
        if is_proof and is_session_message(message) and message[_SESSION_SIGN] < _NEGATIVE:
            requests.append((end, message))
            if len(requests) == _MESSAGES_OF_A_BLOCK:
                yield _take_requests(requests, witness)
            continue
        if requests:
            yield _take_requests(requests, witness)
        _take_other(message, end, witness, is_proof=is_proof)
    if requests:
        yield _take_requests(requests, witness)


def _take_other(message: bytes, end: int, witness: WitnessLog, *, is_proof: bool) -> None:
    """Take a message that is no client's, or that is past the commit position."""
    if is_session_message(message):
        if is_proof:
            _read_service_message(message, end, witness.events)
        elif witness.past_commit is None and session_header.unpack_session_header(message)[1] >= 0:
            witness.past_commit = end
        return
    try:
        decoded = decode_message(message)
    except DecodeError as error:
        if is_proof and witness.unreadable is None:
            witness.unreadable = end, str(error)
        return
    if isinstance(decoded, cm.NewLeadershipTermEvent):
        witness.terms.append(TermEntry(decoded.leadership_term_id, decoded.leader_member_id, end))
    if is_proof:
        _read_event(decoded, message, end, witness.events)


def _read_event(event: object, message: bytes, end: int, events: LogEvents) -> None:
    events.entries += 1
    if isinstance(event, TIMED_EVENTS):
        events.add_time(event.leadership_term_id, end, event.timestamp)
        begins = isinstance(event, cm.NewLeadershipTermEvent)
        events.add_term(type(event).__name__, end, event.leadership_term_id, begins=begins)
    match event:
        case cm.NewLeadershipTermEvent():
            events.time_unit = max(int(event.time_unit), 0)
        case cm.SessionOpenEvent():
            facts = events.session(event.cluster_session_id)
            facts.add_open(end, event.leadership_term_id, event.timestamp)
            facts.principals.append(event.encoded_principal)
            events.add_active(EntryKind.OPEN, end)
        case cm.SessionCloseEvent():
            facts = events.session(event.cluster_session_id)
            facts.add_close(end, int(event.close_reason), event.leadership_term_id, event.timestamp)
            events.add_active(EntryKind.CLOSE, end)
        case cm.TimerEvent():
            events.timers.append(TimerFired(end, event.correlation_id, event.timestamp))
            events.add_active(EntryKind.TIMER, end)
        case cm.ClusterActionRequest():
            events.add_action(end, event.action, event.flags)
        case cm.MembershipChangeEvent():
            # Aeron wrote them when clusters could change their members.
            pass
        case _:
            events.add_strange(end, template_id(message), None if event is None else type(event).__name__)


def _read_service_message(message: bytes, end: int, events: LogEvents) -> None:
    term_id, number, timestamp = session_header.unpack_session_header(message)
    events.entries += 1
    events.add_time(term_id, end, timestamp)
    events.add_term("ServiceMessage", end, term_id)
    credit = decode_credit(message[session_header.LENGTH :])
    events.service_messages.append(ServiceMessage(end, number, timestamp, credit, events.requests))
    events.add_active(EntryKind.SERVICE_MESSAGE, end)


def _take_requests(requests: list[tuple[int, bytes]], witness: WitnessLog) -> EntryBlock:
    """Take messages of clients that follow each other. Returns the operations; calls go to the witness."""
    ends, contents = zip(*requests, strict=True)
    terms, sessions, timestamps = zip(*map(session_header.unpack_session_header, contents), strict=True)
    requests.clear()
    witness.events.add_requests(ends, terms, sessions, timestamps)
    columns = ends, timestamps, sessions, terms
    operations = []
    are_operations = []
    for end, message, timestamp, session_id, term_id in zip(ends, contents, *columns[1:], strict=True):
        payload = message[session_header.LENGTH :]
        try:
            operations.append(decode_operation(payload))
            are_operations.append(True)
        except DecodeError:
            witness.calls.append(CallEntry(end, call_digest(payload), session_id, term_id, timestamp))
            are_operations.append(False)
    if not operations:
        return EntryBlock()
    positions, timestamps, sessions, terms = (tuple(compress(column, are_operations)) for column in columns)
    ids, functions, keys, values = zip(*operations, strict=True)
    return EntryBlock(positions, ids, functions, keys, values, timestamps, sessions, terms)
