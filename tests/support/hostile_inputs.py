"""Everything that reads bytes of another process, with valid bytes for each, and what makes those hostile.

A `Target` takes any bytes. It may refuse them with the errors that it names and with no others.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from support.archive_world import ArchiveWorld
from support.cluster_parts import PartsWorld
from support.media_world import offer
from support.memory_storage import MemoryStorage
from support.wire_data import golden, vectors
from upheaval_node.archive.block_journal import BlockRecord, read_records
from upheaval_node.archive.catalog import decode_catalog
from upheaval_node.archive.reader import read_recordings
from upheaval_node.client.ingress import parse_received_endpoints
from upheaval_node.cluster.ingress_block import take_run
from upheaval_node.cluster.members import parse_members
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, decode_module_snapshot, encode_module_snapshot
from upheaval_node.cluster.pending_messages import PendingMessages
from upheaval_node.cluster.standby_notices import StandbyNotices
from upheaval_node.counters import Counters
from upheaval_node.errors import DecodeError, PeerError, StorageError, UsageError
from upheaval_node.files import cnc, layout
from upheaval_node.files.error_log import read_errors
from upheaval_node.files.mark_file import read_mark_file
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import archive_mark_messages, cluster_mark_messages, cluster_messages as cm, frames
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.codec import MessageSchema
from upheaval_node.protocol.fragments import FragmentAssembler
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.services.encoding import (
    Operation,
    Request,
    Response,
    Status,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from upheaval_node.service.services.state import Record, read_state, write_state
from upheaval_node.service.snapshots import (
    ServiceSnapshot,
    SessionState,
    StateReader,
    StateWriter,
    decode_snapshot,
    encode_snapshot,
)
from upheaval_node.types import MAX_POSITION, Now

EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x40000000, 0x40000001, 0x7FFFFFFF, 0xFFFFFFFF)
LONGEST = 4096


# --- making bytes hostile ---


def hostile(random: Random, valid: bytes) -> bytes:
    """Valid bytes with a few changes, or bytes that were never valid."""
    if not valid or random.random() < 0.05:
        return random.randbytes(random.randrange(0, 400))
    data = bytearray(valid)
    for _ in range(random.randrange(1, 4)):
        _change(random, data)
    return bytes(data[:LONGEST]) if len(data) > LONGEST > len(valid) else bytes(data)


def _change(random: Random, data: bytearray) -> None:
    if not data:
        data += random.randbytes(random.randrange(1, 32))
        return
    at = random.randrange(len(data))
    match random.randrange(6):
        case 0:
            data[at] ^= 1 << random.randrange(8)
        case 1:
            del data[at:]
        case 2:
            code, size = random.choice((("<H", 2), ("<I", 4), ("<Q", 8)))
            if len(data) >= size:
                value = random.choice(EXTREMES) if random.random() < 0.8 else random.getrandbits(8 * size)
                struct.pack_into(code, data, min(at, len(data) - size), value & ((1 << 8 * size) - 1))
        case 3:
            data[at:] = random.randbytes(random.randrange(0, 64))
        case 4:
            data[at:at] = random.randbytes(random.randrange(1, 16))
        case _:
            other = random.randrange(len(data))
            length = random.randrange(1, 64)
            data[at : at + length] = data[other : other + length]


def other_header(random: Random, message: bytes) -> bytes:
    """A message of another template, version, schema or block length."""
    data = bytearray(message)
    if len(data) >= 8:
        field = random.choice((0, 2, 4, 6))
        struct.pack_into("<H", data, field, random.choice((random.randrange(128), random.choice(EXTREMES) & 0xFFFF)))
    return bytes(data)


# --- who reads ---


@dataclass(frozen=True)
class Target:
    """`weight` is how often it is drawn, less for those that take long."""

    name: str
    valid: tuple[bytes, ...]
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = (DecodeError,)
    weight: int = 10

    def take(self, data: bytes) -> bool:
        """Whether it was read; any error but those that are allowed comes through."""
        try:
            self.read(data)
        except self.errors:
            return False
        return True


def _in_storage(path: str, read: Callable[[MemoryStorage], object]) -> Callable[[bytes], object]:
    def take(data: bytes) -> object:
        storage = MemoryStorage()
        storage.put(path, data)
        return read(storage)

    return take


@cache
def _member() -> PartsWorld:
    """A member that hears of snapshots; what it costs is not what an input costs."""
    return PartsWorld()


def _notice(data: bytes) -> None:
    """What a standby says is kept, and written into the recording log as soon as the log is there."""
    message = cm.SCHEMA.decode(data)
    if not isinstance(message, cm.StandbySnapshot):
        return
    log = RecordingLog(MemoryStorage())
    log.append_term(0, 3, 0, 0)
    notices = StandbyNotices(_member().context, log)
    notices.queue(Now(0, 0), "peer:1", message.snapshots)
    notices.poll(Now(0, 0), MAX_POSITION)
    assert len(log.entries) in (1, 1 + len(message.snapshots))


def _split(data: bytes) -> list[bytes]:
    """Bytes as several messages: each comes after its length."""
    messages, at = [], 0
    while at + 2 <= len(data):
        length = int.from_bytes(data[at : at + 2], "little")
        messages.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return messages


def _joined(messages: list[bytes]) -> bytes:
    return b"".join(len(message).to_bytes(2, "little") + message for message in messages)


def _module_snapshot() -> bytes:
    sessions = [cm.ClusterSession(4, 40, 640, -1, cm.CloseReason.TIMEOUT, 102, "aeron:tcp?endpoint=c:1")]
    snapshot = ModuleSnapshot(
        log_position=4096,
        leadership_term_id=3,
        app_version=1,
        next_session_id=9,
        sessions=sessions,
        timers=[cm.Timer(11, 17)],
        trackers=[],
    )
    return _joined(encode_module_snapshot(snapshot))


def _service_snapshot() -> bytes:
    sessions = (SessionState(7, 102, "aeron:tcp?endpoint=c:1", b"me"), SessionState(2, 103, "aeron:ipc", b""))
    return _joined(encode_snapshot(ServiceSnapshot(4096, 3, cm.ClusterTimeUnit.MILLIS, 1, sessions, (b"one", b""))))


def _state() -> bytes:
    writer = StateWriter(2000)
    write_state(writer, [Record(1, f"key-{number}", bytes([number]) * 30) for number in range(20)])
    return _joined(writer.messages)


def _tracker(data: bytes) -> None:
    record = cm.SCHEMA.decode(data)
    if isinstance(record, cm.PendingMessageTracker):
        PendingMessages(1).load(record, [])


def _assemble(data: bytes) -> None:
    """Each byte begins a fragment: its highest bits are the flags, the lower ones its length."""
    assembler = FragmentAssembler(256)
    position = 0
    while data:
        flags, length = data[0] & 0xC0, data[0] & 0x3F
        message = assembler.on_fragment(flags, memoryview(data)[1 : 1 + length], position, position + 64)
        assert message is None or len(message) <= 256
        position += 64
        data = data[1 + length :]


def _block(data: bytes) -> None:
    """A block has whole frames, which the link has checked; what is in them is the client's."""
    block = bytearray()
    for message in _split(data):
        header = frames.DataHeader(32 + len(message), 0xC0, 1, len(block), 66, 101, 5).pack()
        block += (header + message).ljust((32 + len(message) + 31) & -32, b"\0")
    if block:
        run = take_run(memoryview(block), 0, 7, {}, 0, 1408)
        assert 0 <= run.stop <= len(block)


def _counters(data: bytes) -> None:
    count = max(len(data) // 512, 1)
    metadata = bytearray(data.ljust(count * 512, b"\0"))[: count * 512]
    counters = Counters(memoryview(bytearray(count * 128)), memoryview(metadata))
    for counter_id in counters.allocated_ids():
        assert len(counters.label(counter_id)) <= 380
        counters.key(counter_id)


def _counter_metadata() -> bytes:
    """The metadata of two counters."""
    metadata = bytearray(1024)
    counters = Counters(memoryview(bytearray(256)), memoryview(metadata))
    for type_id in (200, 201):
        counters.allocate(type_id, b"key", "a label")
    return bytes(metadata)


@cache
def _archive_files() -> dict[str, bytes]:
    """The folder of an archive with a recording of two segments."""
    world = ArchiveWorld()
    member = world.member()
    publication = member.driver.add_publication("aeron:ipc?term-length=64k", 100)
    world.call(member.client.start_recording("aeron:ipc", 100))
    world.settle()
    for number in range(20):
        offer(world, publication, bytes([number + 1]) * 500)
    world.call(member.client.stop_recording_by_identity(0))
    world.settle()
    return {name: member.storage.content(f"archive/{name}") for name in member.storage.names("archive")}


def _recordings(damaged: str) -> Callable[[bytes], object]:
    """Everything of the archive is as it should be but one file."""

    def take(data: bytes) -> None:
        storage = MemoryStorage()
        for name, content in _archive_files().items():
            storage.put(f"archive/{name}", content[:16384])
        storage.put(f"archive/{damaged}", data)
        for recording in read_recordings(storage):
            assert sum(1 for _ in recording.messages()) <= 1000

    return take


def _message_targets() -> list[Target]:
    by_schema: dict[str, tuple[MessageSchema, list[bytes]]] = {}
    for vector in vectors():
        by_schema.setdefault(vector.schema.table.name, (vector.schema, []))[1].append(vector.encoded)
    found = []
    for name, (schema, encoded) in by_schema.items():
        found.append(Target(f"{name} messages", tuple(encoded), schema.decode, weight=60))
        found.append(Target(f"{name} values", tuple(encoded), schema.raw.decode, weight=30))
    return found


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("latin-1"))


def _file_targets() -> list[Target]:
    node_state = bytes.fromhex(golden()["nodeStateFirst64Hex"])
    log = bytes.fromhex(golden()["recordingLogHex"])
    mark = bytes.fromhex(golden()["clusterMarkFirst136Hex"]).ljust(8192, b"\0")
    archive_mark = bytes.fromhex(golden()["archiveMarkFirst136Hex"]).ljust(8192, b"\0")
    catalog = next(content for name, content in _archive_files().items() if name.endswith("catalog"))[:2048]
    segment_name = next(name for name in _archive_files() if name.endswith(".rec"))
    header = bytearray(cnc.CncLayout().header(start_timestamp_ms=1, pid=7))
    header[:4] = cnc.ready_version()
    journal = b"".join(BlockRecord(n, n * 64, n * 64 + 64, 64, n).pack() for n in range(8))
    cluster_mark, archive_header = cluster_mark_messages.MarkFileHeader, archive_mark_messages.MarkFileHeader
    path = layout.CLUSTER_MARK
    return [
        Target("recording log", (log,), _in_storage(layout.RECORDING_LOG, RecordingLog)),
        Target("node state", (node_state, node_state.ljust(4096, b"\0")), _in_storage(layout.NODE_STATE, NodeState)),
        Target("cluster mark", (mark,), _in_storage(path, lambda s: read_mark_file(s, path, cluster_mark)), weight=3),
        Target(
            "archive mark",
            (archive_mark,),
            _in_storage(path, lambda s: read_mark_file(s, path, archive_header)),
            weight=3,
        ),
        Target("cnc header", (bytes(header),), cnc.read_header),
        Target("error log", (struct.pack("<iiqq", 30, 1, 1, 1) + b"failed" + bytes(2),), read_errors),
        Target("counters", (_counter_metadata(),), _counters),
        Target("block journal", (journal,), read_records, errors=()),
        Target("catalog", (catalog,), decode_catalog),
        Target("catalog of recordings", (catalog,), _recordings("archive.catalog"), (DecodeError, StorageError), 1),
        Target(
            "segment of a recording",
            (_archive_files()[segment_name][:16384],),
            _recordings(segment_name),
            (DecodeError, StorageError),
            1,
        ),
    ]


@cache
def targets() -> tuple[Target, ...]:
    setup = frames.Setup(64, 5, 6, 7, 8, 65536, 1408).pack()
    data = frames.DataHeader(64, 0xC0, 1, 0, 6, 7, 5).pack() + bytes(32)
    run = _joined([pack_session_header(7, 1, 0) + bytes(32), pack_session_header(7, 2, 0) + b"x"])
    request = encode_request(Request(7, Operation.WRITE, "key", b"value"))
    response = encode_response(Response(7, Operation.READ_LIST, Status.OK, 96, values=(b"one", b"two")))
    snapshots_of_standby = [cm.StandbySnapshotSnapshot(each + 1, 3, 0, 4096, 7, each, "s:5") for each in (0, -1)]
    notice = cm.SCHEMA.encode(cm.StandbySnapshot(5, 768, 108, tuple(snapshots_of_standby), "aeron:tcp?endpoint=s:1"))
    tracker = cm.SCHEMA.encode(cm.PendingMessageTracker(-(1 << 63) + (1 << 56) + 1, -(1 << 63) + (1 << 56), 64, 1))
    snapshots = (DecodeError, PeerError)
    return (
        *_message_targets(),
        *_file_targets(),
        Target("setup", (setup,), frames.unpack_setup),
        Target("status", (frames.StatusMessage(6, 7, 5, 0, 1 << 16, 9).pack(),), frames.unpack_status),
        Target("response setup", (frames.ResponseSetup(6, 7, 9).pack(),), frames.unpack_response_setup),
        Target("data header", (data,), frames.unpack_data_header),
        Target("frames", (data * 3,), lambda each: list(frames.walk(each))),
        Target("fragments", (b"\x83abc\x03def\x43ghi",), _assemble, errors=()),
        Target("ingress block", (run,), _block, errors=()),
        Target("channel", (b"aeron:tcp?endpoint=a:1|alias=x",), _text(Channel.parse), (UsageError,)),
        Target("members", (b"0,a:1,a:2,a:3,a:4,a:5|1,b:1,b:2,b:3,b:4,b:5",), _text(parse_members), (UsageError,)),
        Target("endpoints", (b"0=a:1,1=b:1",), _text(parse_received_endpoints), (PeerError,)),
        Target("request", (request,), decode_request),
        Target("response", (response,), decode_response),
        Target("state", (_state(),), lambda each: list(read_state(StateReader(_split(each))))),
        Target("module snapshot", (_module_snapshot(),), lambda each: decode_module_snapshot(_split(each)), snapshots),
        Target("service snapshot", (_service_snapshot(),), lambda each: decode_snapshot(_split(each)), snapshots),
        Target("tracker", (tracker,), _tracker, snapshots),
        Target("notice of a standby", (notice,), _notice, weight=2),
    )
