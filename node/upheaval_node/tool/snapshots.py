"""describe-latest-cm-snapshot: every message of the newest valid snapshot of the consensus module.

Source: Aeron Cluster, ConsensusModuleSnapshotPrinter. Messages are read from the archive's files; Aeron's tool has the
archive replay them. Bytes that a terminal cannot show are dots here.
"""

from collections.abc import Sequence
from typing import Final

from upheaval_node.archive.reader import RecordedMessage, Recording
from upheaval_node.errors import NodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.describe import fields_of
from upheaval_node.protocol.message import Message
from upheaval_node.tool.answer import SUCCESS, Answer, ToolFault, Value, failure
from upheaval_node.tool.marks import find_mark
from upheaval_node.tool.node import Node
from upheaval_node.tool.recording_logs import LogFile, newest_set, read_recording
from upheaval_node.types import FRAME_HEADER_LENGTH

NOT_FOUND: Final = "Snapshot not found"

_TIME_UNITS: Final = {
    cm.ClusterTimeUnit.MILLIS: "MILLISECONDS",
    cm.ClusterTimeUnit.MICROS: "MICROSECONDS",
    cm.ClusterTimeUnit.NANOS: "NANOSECONDS",
    NULL_INT32: "MILLISECONDS",
}
_ROW: Final = 16


def describe_latest_snapshot(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001 - as all commands
    """Fails when there is no snapshot. Raises `ToolFault` for one that cannot be read whole."""
    entries = newest_set(LogFile(node).entries)
    if not entries:
        return failure(NOT_FOUND)
    entry = entries[-1]
    mark = find_mark(node)
    member_id = -1 if mark is None else mark.header.member_id
    recording = read_recording(node, entry.recording_id)
    lines: list[str] = []
    messages: list[Value] = []
    try:
        is_whole = _show(recording, lines, messages)
    except NodeError as error:
        raise ToolFault(f"recording {entry.recording_id} cannot be read: {error}") from error
    if not is_whole:
        raise ToolFault(f"snapshot ended unexpectedly: recording {entry.recording_id} ends at {recording.end_position}")
    length = recording.end_position
    head = f"Consensus Module Snapshot End: memberId={member_id}"
    lines.append(f"{head} recordingId={entry.recording_id} length={length}")
    values: dict[str, Value] = {"memberId": member_id, "recordingId": entry.recording_id, "length": length}
    return Answer(lines, {**values, "messages": messages}, SUCCESS)


def _show(recording: Recording, lines: list[str], messages: list[Value]) -> bool:
    """Append the messages to `lines` and `messages`. Returns whether the snapshot is complete."""
    for recorded in recording.messages():
        message = cm.SCHEMA.decode(recorded.payload)
        if message is None:
            continue
        messages.append({"message": type(message).__name__, **fields_of(message)})
        lines += _shown(message, recorded, recording.entry.term_length)
        if isinstance(message, cm.SnapshotMarker) and message.mark == cm.SnapshotMark.END:
            return True
    return False


def _shown(message: Message, recorded: RecordedMessage, term_length: int) -> list[str]:
    length = len(recorded.payload)
    match message:
        case cm.SnapshotMarker() if message.mark == cm.SnapshotMark.BEGIN:
            unit = _TIME_UNITS.get(message.time_unit, str(message.time_unit))
            return [f"Snapshot: appVersion={message.app_version} timeUnit={unit}"]
        case cm.SnapshotMarker() if message.mark == cm.SnapshotMark.END:
            offset = recorded.position % term_length + FRAME_HEADER_LENGTH
            return [f"End Snapshot, offset={offset}, length={length}", *hex_dump(recorded.payload), ""]
        case cm.ConsensusModule():
            names = ("nextSessionId", "nextServiceSessionId", "logServiceSessionId", "pendingMessageCapacity")
            return [f"Consensus Module State: {_fields(message, names)}", *hex_dump(recorded.payload), ""]
        case cm.ClusterSession():
            names = ("clusterSessionId", "correlationId", "openedLogPosition", "timeOfLastActivity")
            tail = _fields(message, ("responseStreamId", "responseChannel"))
            return [f"Cluster Session: {_fields(message, names)} closeReason={_reason(message)} {tail}"]
        case cm.Timer():
            return [f"Timer: {_fields(message, ('correlationId', 'deadline'))}"]
        case cm.PendingMessageTracker():
            names = ("nextServiceSessionId", "logServiceSessionId", "pendingMessageCapacity", "serviceId")
            return [f"Pending Message Tracker: {_fields(message, names)}"]
        case cm.SessionMessageHeader():
            return [f"Pending Message: length={length} clusterSessionId={message.cluster_session_id}"]
        case _:
            return []


def _fields(message: Message, names: Sequence[str]) -> str:
    values = fields_of(message)
    return " ".join(f"{name}={values[name]}" for name in names)


def _reason(session: cm.ClusterSession) -> str:
    reason = session.close_reason
    return reason.name if isinstance(reason, cm.CloseReason) else "NULL_VAL"


def hex_dump(content: bytes) -> list[str]:
    """Rows of 16 bytes: offset, hexadecimal bytes, and text."""
    rows = []
    for start in range(0, len(content), _ROW):
        row = content[start : start + _ROW]
        shown = "".join(f" {byte:02x}" for byte in row) + "   " * (_ROW - len(row))
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:06}: {shown}   |   {text}")
    return rows
