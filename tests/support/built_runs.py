"""Builds run folders in code: real recordings in segment files, catalog, recording log, history, traces, manifest.

The bytes are written from the file formats, without the node's archive, so that a fault of the archive cannot hide
a fault of the checkers.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from upheaval.checkers.history.model import Model
from upheaval.records import (
    WORKBENCH,
    Converge,
    FinalPosition,
    Function,
    Json,
    Manifest,
    Operation,
    Outcome,
    RunFolder,
    call_digest,
    encode_operation,
)
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.fragments import append_message, framed_length, padding_header
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import S

TERM_LENGTH = 64 * 1024
SEGMENT_LENGTH = 128 * 1024
INITIAL_TERM_ID = 0x7FFFFFFF  # the second term wraps around
MAX_PAYLOAD = 1376
NEW_TERM_TEMPLATE = b"\x18\0"


class LogBuilder:
    """A log of whole messages: `messages` are payloads in order, `build` lays them out as frames."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.position = 0
        self.padding: list[int] = []

    def append(self, payload: bytes) -> int:
        """Add a message and return its end position."""
        need = framed_length(len(payload), MAX_PAYLOAD)
        rest = TERM_LENGTH - self.position % TERM_LENGTH
        if need > rest:
            header = padding_header(length=rest, **self._where())
            self.blocks.append(header + bytes(rest - len(header)))
            self.position += rest
        block = bytearray()
        append_message(block, [payload], max_payload_length=MAX_PAYLOAD, **self._where())
        self.blocks.append(bytes(block))
        self.position += len(block)
        return self.position

    def _where(self) -> dict[str, int]:
        term = INITIAL_TERM_ID + self.position // TERM_LENGTH
        return {
            "term_offset": self.position % TERM_LENGTH,
            "session_id": 0,
            "stream_id": 100,
            "term_id": (term + 0x80000000 & 0xFFFFFFFF) - 0x80000000,
        }


@dataclass
class BuiltRun:
    """A run before it is written. Change anything, then `write`."""

    operations: list[Operation] = field(default_factory=list)
    payloads: list[list[bytes]] = field(default_factory=lambda: [[], [], []])
    traces: list[list[str]] = field(default_factory=lambda: [[], [], []])
    manifest: Manifest = field(default_factory=lambda: Manifest("run-1", "process", 3, "test", 0))
    faults: list[FaultRecord] = field(default_factory=list)
    converged: bool = True
    recording_ids: tuple[int, int, int] = (0, 3, 7)
    end_positions: list[int] = field(default_factory=list)

    def write(self, path: Path) -> RunFolder:
        run = RunFolder(path)
        run.create(self.manifest)
        for member_id, payloads in enumerate(self.payloads):
            log = LogBuilder()
            for payload in payloads:
                log.append(payload)
            self.end_positions.append(log.position)
            folder = run.member(member_id)
            content = b"".join(log.blocks)
            terms = terms_of(payloads)
            write_log(folder.path, self.recording_ids[member_id], content, session_id=100 + member_id, terms=terms)
        self.write_beside_logs(run)
        with run.history_writer() as history:
            for operation in self.operations:
                history.add(operation)
        return run

    def write_beside_logs(self, run: RunFolder) -> None:
        """Write traces, final positions and faults; `payloads` have the terms, `end_positions` where the logs end."""
        told = term_line(1, 2, min(self.end_positions), terms_of(self.payloads[0]).get(1, 0))
        for member_id, trace in enumerate(self.traces):
            lines = trace if member_id else [*trace, told]
            if trace and "process-start" not in trace[0]:
                lines = [START_LINE, *lines]
            terms = terms_of(self.payloads[member_id])
            last_ns = max((json.loads(line)["ts"] for line in lines), default=1)
            ending = end_lines(self.end_positions[member_id], terms, last_ns) if trace and self.converged else []
            run.member(member_id).trace.write_text("".join(line + "\n" for line in [*lines, *ending]))
        if self.converged:
            members = tuple(FinalPosition(i, end, end, 0) for i, end in enumerate(self.end_positions))
            run.write_manifest(replace(self.manifest, converge=Converge(True, CONVERGED_NS, members)))
        for fault in self.faults:
            run.add_fault(fault)


def terms_of(payloads: Sequence[bytes]) -> dict[int, int]:
    """Where each leadership term begins, as the log says."""
    found: dict[int, int] = {}
    for payload in payloads:
        if payload[2:4] == NEW_TERM_TEMPLATE:
            event = cm.SCHEMA.decode(payload)
            assert isinstance(event, cm.NewLeadershipTermEvent)
            found.setdefault(event.leadership_term_id, event.term_base_log_position)
    return found


def write_log(
    folder: Path, recording_id: int, log: bytes, *, session_id: int, terms: Mapping[int, int] | None = None
) -> None:
    """Write catalog, segments and recording log of one member."""
    write_catalog(folder, recording_id, terms or {0: 0})
    data = with_session(log, session_id)
    for base in range(0, len(data) + 1, SEGMENT_LENGTH):
        write_segment(folder, recording_id, base, data[base : base + SEGMENT_LENGTH])


def write_segment(folder: Path, recording_id: int, base: int, frames: bytes) -> Path:
    """Write one segment of a member's log, with zeros after its last frame."""
    path = folder / "archive" / f"{recording_id}-{base}.rec"
    path.write_bytes(frames.ljust(SEGMENT_LENGTH, b"\0"))
    return path


def write_catalog(folder: Path, recording_id: int, terms: Mapping[int, int]) -> None:
    """Write catalog and recording log of one member."""
    (folder / "archive").mkdir(parents=True)
    (folder / "cluster").mkdir()
    descriptor = struct.pack(
        "<qqqqqqqiiiiii", 0, 0, recording_id, 1, -1, 0, -1, INITIAL_TERM_ID, SEGMENT_LENGTH, TERM_LENGTH, 1408, 1, 100
    )
    descriptor = (descriptor + struct.pack("<III", 0, 0, 0)).ljust(128 - 32, b"\0")
    other = struct.pack("<ii24x", len(descriptor), 1) + struct.pack("<qqq", 0, 0, 99).ljust(len(descriptor), b"\0")
    header = struct.pack("<iiqi12x", 196864, 32, 100, 64)
    catalog = header + other + struct.pack("<ii24x", len(descriptor), 1) + descriptor
    (folder / "archive" / "archive.catalog").write_bytes(catalog.ljust(4096, b"\0"))
    snapshot = struct.pack("<qqqqqii16x", 55, 0, 0, 0, 1, -1, 1)
    bases = sorted(terms.items())
    ends = [base for _, base in bases[1:]] + [-1]
    records = [
        struct.pack("<qqqqqii16x", recording_id, term, base, end, 1, -1, 0)
        for (term, base), end in zip(bases, ends, strict=True)
    ]
    (folder / "cluster" / "recording.log").write_bytes(snapshot + b"".join(records))


def with_session(log: bytes, session_id: int) -> bytes:
    """The same frames under another session id, as another leader's publication would have recorded them."""
    data = bytearray(log)
    offset = 0
    while offset < len(data):
        struct.pack_into("<i", data, offset + 12, session_id)
        offset += struct.unpack_from("<i", data, offset)[0] + 31 & -32
    return bytes(data)


def session_message(payload: bytes, term: int = 0) -> bytes:
    return pack_session_header(term, 1, 1000) + payload


def new_term(term: int, leader: int, base: int = 0) -> bytes:
    return cm.SCHEMA.encode(
        cm.NewLeadershipTermEvent(
            leadership_term_id=term,
            log_position=base,
            timestamp=1,
            term_base_log_position=base,
            leader_member_id=leader,
            log_session_id=1,
            time_unit=0,
            app_version=1,
        )
    )


def session_open(session_id: int = 1, term: int = 0) -> bytes:
    return cm.SCHEMA.encode(cm.SessionOpenEvent(term, 7, session_id, 1000, 3, "aeron:tcp?endpoint=a:1", b""))


CONVERGED_NS = 10**12
"""When the final positions of a run were read."""
START_LINE = '{"ts":1,"component":"all","event":"process-start"}'
"""What the trace of each process begins with."""


def end_lines(position: int, terms: Mapping[int, int], ns: int = 1) -> list[str]:
    """What the trace of a member tells of a run whose log ends there: each term, and that position."""
    entered = [
        f'"event":"leadership_term","leadership_term_id":{term},"term_base_log_position":{base},"log_position":{base}'
        for term, base in sorted(terms.items())
    ]
    lines = [*entered, f'"event":"service-ack","log_position":{position}']
    return [f'{{"ts":{ns},"component":"all",{line}}}' for line in lines]


def end_processes(run: RunFolder) -> None:
    """The process of each member tells that it has ended in order, after the run converged."""
    for member_id in range(run.read_manifest().members):
        with run.member(member_id).trace.open("a") as trace:
            trace.write(f'{{"ts":{CONVERGED_NS + 1},"component":"all","event":"process-end","status":0}}\n')


def trace_line(member: int, term: int, role: str = "LEADER") -> str:
    told = f'"event":"role","new":"{role}","role":"{role}","leadership_term_id":{term}'
    return f'{{"ts":1,"component":"all","member":{member},{told}}}'


def term_line(term: int, leader: int, committed: int, base: int = 0) -> str:
    """The leader of a term tells the member also up to where the log is committed."""
    return (
        f'{{"ts":1,"component":"all","event":"receive","message":"NewLeadershipTerm","leadership_term_id":{term},'
        f'"leader_member_id":{leader},"log_position":{base},"term_base_log_position":{base},'
        f'"commit_position":{committed}}}'
    )


def draw_operation(random: Random, number: int) -> tuple[Function, str, Json]:
    """An operation on one of four keys; written and appended values are unique, so that a wrong read shows."""
    key = f"k{random.randrange(4)}"
    function = random.choice(WORKBENCH)
    value: Json = None
    if function in (Function.WRITE, Function.APPEND, Function.ECHO):
        value = number
    elif function is Function.CAS:
        value = [random.randrange(max(number, 1)), number]
    return function, key, value


def good_run(count: int = 400, *, seed: int = 1, slots: int = 8, echo_length: int = 0) -> BuiltRun:
    """A run in which everything is as it should be: overlapping operations, a change of leader in the middle.

    Every twentieth operation has no answer; half of those reached the log.
    """
    random = Random(seed)
    model = Model()
    run = BuiltRun()
    log = LogBuilder()
    messages = [new_term(0, 0), session_open()]
    for message in messages:
        log.append(message)
    free_at = [0] * slots
    processes = list(range(slots))
    for number in range(count):
        if number == count // 2:
            messages.append(new_term(1, 2, log.position))
            log.append(messages[-1])
        function, key, value = draw_operation(random, number)
        if echo_length and number % 7 == 0:
            function, value = Function.ECHO, "x" * echo_length
        moment = number * 1000
        slot = random.choice([slot for slot in range(slots) if free_at[slot] <= moment])
        invoke = max(free_at[slot], moment - random.randrange(3000))
        complete = moment + random.randrange(3000)
        free_at[slot] = complete + 1
        outcome = Outcome.UNKNOWN if number % 20 == 19 else Outcome.OK
        position: int | None = None
        result: Json = None
        if outcome is Outcome.OK or number % 40 == 19:
            payload = encode_operation(number, function, key, value)
            messages.append(session_message(payload, int(number >= count // 2)))
            position = log.append(messages[-1])
            result = model.apply(function, key, value)
            result = list(result) if isinstance(result, list) else result
        known = outcome is Outcome.OK
        run.operations.append(
            Operation(
                id=number,
                process=processes[slot],
                f=function,
                key=key,
                value=value,
                invoke_ns=invoke,
                complete_ns=complete if known else None,
                outcome=outcome,
                result=result if known else None,
                position=position if known else None,
            )
        )
        if not known:
            processes[slot] += slots
    run.payloads = [list(messages) for _ in range(3)]
    run.traces = [
        [trace_line(0, 0), trace_line(0, 1, "FOLLOWER")],
        [trace_line(1, 0, "FOLLOWER")],
        [trace_line(2, 0, "FOLLOWER"), trace_line(2, 1)],
    ]
    return run


def without_answers(answered: int) -> BuiltRun:
    """A run of 40 requests in which only the first ones got an answer; its last trace line is 3 s later."""
    run = good_run(40)
    run.operations = [
        replace(o, complete_ns=None, outcome=Outcome.UNKNOWN, result=None, position=None) if i >= answered else o
        for i, o in enumerate(sorted(run.operations, key=lambda o: o.invoke_ns))
    ]
    run.traces[0].append(json.dumps({"ts": 3 * S, "event": "send"}))
    return run


def built_calls(count: int = 200, *, beside_operations: bool = False) -> BuiltRun:
    """A good run of calls to a service of a user's own; the first two have the same payload.

    Every twentieth has no answer; half of those reached the log.
    """
    run = good_run() if beside_operations else good_run(0)
    messages = list(run.payloads[0])
    first = len(run.operations)
    for number in range(count):
        payload = f"deposit {max(number, 1)}".encode()
        outcome = Outcome.UNKNOWN if number % 20 == 19 else Outcome.OK
        if outcome is Outcome.OK or number % 40 == 19:
            messages.append(session_message(payload, int(beside_operations)))
        begin = 10**9 + number * 1000
        end = begin + 500 if outcome is Outcome.OK else None
        digest = call_digest(payload)
        run.operations.append(
            Operation(first + number, first + number, Function.CALL, "deposit", digest, begin, end, outcome, None, None)
        )
    run.payloads = [list(messages) for _ in range(3)]
    return run


def operation_index(run: BuiltRun, wanted: Callable[[Operation], bool], *, after: int = 0) -> int:
    """The first operation from `after` on that is acknowledged and as wanted."""
    for index, operation in enumerate(run.operations):
        if index >= after and operation.outcome is Outcome.OK and wanted(operation):
            return index
    raise LookupError("no such operation in this run")


def payload_index(payloads: Sequence[bytes], operation_id: int) -> int:
    """The index of an operation among the messages of a log."""
    marker = struct.pack("<q", operation_id)
    for index, payload in enumerate(payloads):
        if payload[32:40] == marker and payload[2:4] == b"\x01\x00":
            return index
    raise LookupError(f"operation {operation_id} is not in this log")


def lost_operation(path: Path) -> int:
    """A run from whose logs an acknowledged operation is gone: its id. A kill begins before and a pause after it."""
    built = good_run()
    index = operation_index(built, lambda o: o.outcome is Outcome.OK, after=150)
    lost = built.operations[index]
    for member_id, payloads in enumerate(built.payloads):
        built.payloads[member_id] = [entry for entry in payloads if lost.id.to_bytes(8, "little") not in entry]
    kill, pause = lost.invoke_ns - 2_000, lost.invoke_ns + 90_000
    built.faults = [
        FaultRecord("kill", "member-0", kill, kill + 10, kill + 9_000, kill + 9_010, Proof(True, "gone")),
        FaultRecord("pause", "member-1", pause, pause + 10, pause + 900, pause + 910, Proof(True, "stopped")),
    ]
    built.manifest = replace(built.manifest, planted="commit-without-a-quorum")
    built.write(path)
    return lost.id
