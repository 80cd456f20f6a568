"""Folders of nodes for the tool: files as members leave them, made in memory and put on disk."""

from functools import cache
from pathlib import Path

from support.archive_world import ArchiveWorld
from support.media_world import offer
from support.memory_storage import MemoryStorage
from upheaval_node.cluster.module_snapshot import ModuleSnapshot, TrackerState, encode_module_snapshot
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader, MarkFile
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.protocol.message import with_values
from upheaval_node.tool.__main__ import execute, parse
from upheaval_node.tool.answer import Answer

NOW_MS = 1 << 40
MODULE = ClusterMarkHeader(
    component_type=ClusterComponentType.CONSENSUS_MODULE,
    pid=4711,
    archive_stream_id=10,
    service_stream_id=104,
    consensus_module_stream_id=105,
    ingress_stream_id=101,
    member_id=2,
    service_id=-1,
    cluster_id=0,
    aeron_directory="/nowhere/aeron",
    control_channel="aeron:ipc?term-length=128k",
)
SERVICE = with_values(MODULE, component_type=ClusterComponentType.CONTAINER, service_id=0, aeron_directory="")


def tool(folder: Path, *words: str) -> Answer:
    """A command as the command line carries it out."""
    return execute(parse([str(folder), *words]))


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def mark_content(header: ClusterMarkHeader, *errors: tuple[int, str]) -> bytes:
    """A mark file whose component ended in an orderly way."""
    storage = MemoryStorage()
    mark = MarkFile(storage, layout.CLUSTER_MARK, header, now_ms=NOW_MS)
    for epoch_ms, text in errors:
        mark.error_log.record(epoch_ms, text)
    mark.signal_ready(NOW_MS)
    mark.signal_terminated()
    # The rest of the error buffer is zeros, and a mebibyte of them.
    return storage.content(layout.CLUSTER_MARK)[: 8192 + 4096]


@cache
def log_content(*, snapshots: int = 2) -> bytes:
    """Two terms, and snapshots of module and service at 640, 1280, ...; recordings 0 (log), 1, 2, ..."""
    storage = MemoryStorage()
    log = RecordingLog(storage)
    log.append_term(0, 0, 0, 1000)
    for number in range(snapshots):
        for service_id in (0, -1):
            log.append_snapshot(1 + 2 * number - service_id, 0, 0, 640 * (number + 1), 1100 + number, service_id)
    log.append_term(0, 1, 8192, 2000)
    return storage.content(layout.RECORDING_LOG)


def reversed_records(content: bytes) -> bytes:
    return b"".join(reversed([content[at : at + 64] for at in range(0, len(content), 64)]))


def snapshot_messages(*, is_whole: bool = True) -> list[bytes]:
    """What a module's snapshot with a session, a timer and a message of its service consists of."""
    tracker = cm.PendingMessageTracker(
        next_service_session_id=8, log_service_session_id=7, pending_message_capacity=4096, service_id=0
    )
    pending = cm.SCHEMA.encode(cm.SessionMessageHeader(leadership_term_id=0, cluster_session_id=7, timestamp=5))
    snapshot = ModuleSnapshot(
        log_position=640,
        leadership_term_id=0,
        app_version=3,
        next_session_id=9,
        sessions=[cm.ClusterSession(4, 40, 320, -1, cm.CloseReason.TIMEOUT, 102, "aeron:tcp?endpoint=c:1")],
        timers=[cm.Timer(11, 17)],
        trackers=[TrackerState(tracker, [pending + b"hello"])],
    )
    messages = encode_module_snapshot(snapshot)
    return messages if is_whole else messages[:-1]


@cache
def archive_files(*, is_whole: bool = True) -> dict[str, bytes]:
    """The files of an archive: 0 is a log that was never stopped, 1 and 2 snapshots of service and module."""
    world = ArchiveWorld()
    member = world.member()
    streams = (([b"entry"] * 20, 100), ([b"state"], 106), (snapshot_messages(is_whole=is_whole), 107))
    for recording_id, (messages, stream_id) in enumerate(streams):
        publication = member.driver.add_publication("aeron:ipc?term-length=64k", stream_id)
        world.call(member.client.start_recording("aeron:ipc", stream_id))
        world.settle()
        offer(world, publication, *messages)
        if recording_id:
            world.call(member.client.stop_recording_by_identity(recording_id))
        world.settle()
    return {name: member.storage.content(f"archive/{name}") for name in member.storage.names("archive")}


def make_node(folder: Path, *, is_whole: bool = True) -> Path:
    """The folder of a member that is down: marks, a recording log with one snapshot, and the recordings."""
    put(folder / layout.CLUSTER_MARK, mark_content(MODULE))
    put(folder / layout.service_mark(0), mark_content(SERVICE))
    put(folder / layout.RECORDING_LOG, log_content(snapshots=1))
    for name, content in archive_files(is_whole=is_whole).items():
        put(folder / layout.ARCHIVE_DIRECTORY / name, content)
    return folder
