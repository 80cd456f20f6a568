"""Builds logs with sessions, timers, messages of services and snapshots by hand, for the promises about these.

`EventLog` writes what a cluster would, entry by entry, with a fresh copy of the service beside it; a test then breaks
one thing. The snapshots are recordings in the members' archives, as `support.built_runs` writes the log.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path

from support.built_runs import (
    INITIAL_TERM_ID,
    SEGMENT_LENGTH,
    TERM_LENGTH,
    BuiltRun,
    LogBuilder,
    new_term,
    trace_line,
)
from upheaval.checkers.states.replay import LoggedMessage, Replay
from upheaval.records import Function, Json, Manifest, Operation, Outcome, RunFolder, encode_operation
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.services import encoding
from upheaval_node.types import MAX_POSITION

FIRST_NUMBER = -(1 << 63) + 1
CHANNEL = "aeron:tcp?endpoint=client:1"
STEP_MS = 10
SEVERAL = 8


@dataclass
class Snapshot:
    """One member's recordings of one snapshot: of its service, then of its module."""

    position: int
    service: list[bytes]
    module: list[bytes]


@dataclass
class EventLog:
    """Entries with positions and timestamps as they are added; `run` makes a run of all members with this log."""

    service: str
    messages: list[bytes] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    snapshots: dict[int, list[Snapshot]] = field(default_factory=dict)
    time: int = 1000
    number: int = FIRST_NUMBER
    opened: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._builder = LogBuilder()
        self._replay = Replay(self.service)
        self.add(new_term(0, 0))

    def add(self, message: bytes) -> int:
        """Any entry; returns its position."""
        self.messages.append(message)
        position = self._builder.append(message)
        self._replay.apply(LoggedMessage(position, message))
        return position

    def tick(self, milliseconds: int = STEP_MS) -> int:
        self.time += milliseconds
        return self.time

    # --- entries ---

    def open(self, session_id: int = 1) -> int:
        event = cm.SessionOpenEvent(0, 7, session_id, self.tick(), 3, CHANNEL, b"")
        self.opened[session_id] = self.add(cm.SCHEMA.encode(event))
        return self.opened[session_id]

    def close(self, session_id: int = 1, reason: int = cm.CloseReason.CLIENT_ACTION) -> int:
        return self.add(cm.SCHEMA.encode(cm.SessionCloseEvent(0, session_id, self.tick(), reason)))

    def ask(self, function: Function, key: str = "", value: Json = None, result: Json = None, session: int = 1) -> int:
        """A request and its answer in the history; returns its operation id."""
        operation_id = len(self.operations)
        payload = encode_operation(operation_id, function, key, value)
        position = self.add(pack_session_header(0, session, self.tick()) + payload)
        ns = operation_id * 1000
        self.operations.append(
            Operation(operation_id, 0, function, key, value, ns, ns + 500, Outcome.OK, result, position)
        )
        return operation_id

    def credit(self, transfer_id: int, account: str, amount: int) -> int:
        """What the ledger offers for a transfer."""
        request = encoding.Request(transfer_id, encoding.Operation.CREDIT, account, struct.pack("<q", amount))
        message = pack_session_header(0, self.number, self.tick()) + encoding.encode_request(request)
        self.number += 1
        return self.add(message)

    def fire(self, timer_id: int, at: int | None = None) -> int:
        self.time = self.time if at is None else at
        return self.add(cm.SCHEMA.encode(cm.TimerEvent(0, timer_id, self.time)))

    def snapshot(self) -> int:
        """The entry that asks for one, and what each member records then."""
        action = cm.ClusterActionRequest(0, 0, self.tick(), cm.ClusterAction.SNAPSHOT, 0)
        position = self.add(cm.SCHEMA.encode(action))
        state = self._replay.state()
        for member_id in range(3):
            service = [_mark(2, position, cm.SnapshotMark.BEGIN)]
            service += [cm.SCHEMA.encode(cm.ClientSession(each, 3, CHANNEL, b"")) for each in state.sessions]
            service += [_mark(2, position, cm.SnapshotMark.END), *state.messages]
            next_number, next_session = FIRST_NUMBER + state.offered, max(self.opened, default=0) + 1
            module = [_mark(1, position, cm.SnapshotMark.BEGIN)]
            module.append(cm.SCHEMA.encode(cm.ConsensusModule(next_session, next_number, self.number - 1, 4096)))
            module += [
                cm.SCHEMA.encode(cm.ClusterSession(each, 7, self.opened[each], -1, NULL_INT32, 3, CHANNEL))
                for each in state.sessions
            ]
            module += [cm.SCHEMA.encode(cm.Timer(timer_id, deadline)) for timer_id, deadline in state.timers]
            module.append(cm.SCHEMA.encode(cm.PendingMessageTracker(next_number, self.number - 1, 4096, 0)))
            module += [
                pack_session_header(0, self.number + index, MAX_POSITION) + payload
                for index, payload in enumerate(state.pending)
            ]
            module.append(_mark(1, position, cm.SnapshotMark.END))
            self.snapshots.setdefault(member_id, []).append(Snapshot(position, service, module))
        return position

    # --- the run ---

    def write(self, path: Path) -> RunFolder:
        built = BuiltRun(operations=self.operations, payloads=[list(self.messages) for _ in range(3)])
        built.manifest = Manifest("run-1", "process", 3, "test", 0, service=self.service)
        built.traces = [[trace_line(0, 0)], [trace_line(1, 0, "FOLLOWER")], [trace_line(2, 0, "FOLLOWER")]]
        run = built.write(path)
        for member_id, snapshots in self.snapshots.items():
            for number, snapshot in enumerate(snapshots):
                folder = run.member(member_id).path
                _record(folder, 20 + 2 * number, snapshot.position, 0, snapshot.service)
                _record(folder, 21 + 2 * number, snapshot.position, -1, snapshot.module)
        return run


def _mark(kind: int, position: int, mark: cm.SnapshotMark) -> bytes:
    return cm.SCHEMA.encode(cm.SnapshotMarker(kind, position, 0, 0, mark, cm.ClusterTimeUnit.MILLIS, 1))


def _record(folder: Path, recording_id: int, position: int, service_id: int, messages: list[bytes]) -> None:
    """One more recording: in the catalog, as a segment, and in the recording log."""
    log = LogBuilder()
    for message in messages:
        log.append(message)
    content = b"".join(log.blocks).ljust(SEGMENT_LENGTH, b"\0")
    (folder / "archive" / f"{recording_id}-0.rec").write_bytes(content)
    catalog = folder / "archive" / "archive.catalog"
    stream_id = 107 if service_id < 0 else 106
    lengths = (SEGMENT_LENGTH, TERM_LENGTH, 1408)
    descriptor = struct.pack(
        "<qqqqqqqiiiiii", 0, 0, recording_id, 1, -1, 0, -1, INITIAL_TERM_ID, *lengths, 1, stream_id
    )
    descriptor = (descriptor + struct.pack("<III", 0, 0, 0)).ljust(128 - 32, b"\0")
    known = bytearray(catalog.read_bytes())
    offset = 32
    while int.from_bytes(known[offset : offset + 4], "little"):
        offset += 32 + int.from_bytes(known[offset : offset + 4], "little")
    entry = struct.pack("<ii24x", len(descriptor), 1) + descriptor
    known[offset : offset + len(entry)] = entry
    catalog.write_bytes(known)
    with (folder / "cluster" / "recording.log").open("ab") as stream:
        stream.write(struct.pack("<qqqqqii16x", recording_id, 0, 0, position, 1, service_id, 1))


# --- good logs ---


def ledger_log() -> EventLog:
    """Two accounts, transfers to and fro, a read after each, snapshots in between."""
    log = EventLog("ledger")
    log.open()
    balances = {"a": 100, "b": 100}
    for number in range(2 * SEVERAL):
        source, target = ("a", "b") if number % 3 else ("b", "a")
        transfer = log.ask(Function.TRANSFER, source, [target, 5], True)
        balances[source] -= 5
        log.ask(Function.BALANCES, result=[["", 5], *([name, balances[name]] for name in sorted(balances))])
        if number == SEVERAL:
            log.snapshot()
        log.credit(transfer, target, 5)
        balances[target] += 5
        log.tick(50)
    log.snapshot()
    return log


def timers_log() -> EventLog:
    """Timers that fire in time, one that is cancelled, one that is still pending."""
    log = EventLog("timers")
    log.open()
    fired: list[Json] = []
    for _ in range(2 * SEVERAL):
        timer = log.ask(Function.SCHEDULE, "g", 100, log.time + 110)
        deadline = log.time + 100
        log.tick(50)
        log.ask(Function.FIRED, "g", result=list(fired))
        log.fire(timer, at=deadline + 3)
        fired.append([timer, deadline, deadline + 3, 1])
    cancelled = log.ask(Function.SCHEDULE, "g", 5000, log.time + 5010)
    log.ask(Function.CANCEL, "", cancelled, True)
    log.ask(Function.SCHEDULE, "g", 50_000, log.time + 50_010)
    log.snapshot()
    return log


def workbench_log() -> EventLog:
    log = EventLog("workbench")
    log.open()
    for number in range(SEVERAL):
        log.ask(Function.WRITE, "r", number)
        log.ask(Function.APPEND, "l", number)
        if number == 2:
            log.snapshot()
    log.ask(Function.WRITE, "other", 1)
    log.snapshot()
    return log
