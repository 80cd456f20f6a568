"""The content of a consensus module's snapshot, as a value and as encoded messages.

Layout (Aeron Cluster: consensus module snapshot, stream 107): SnapshotMarker BEGIN of type 1, ConsensusModule, one
ClusterSession per session, one Timer per timer, for each service a PendingMessageTracker and its messages,
SnapshotMarker END. Pure functions; knows neither streams nor archives.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from upheaval_node.cluster.pending_messages import service_of
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.types import Position, TermId

MODULE_SNAPSHOT_TYPE: Final = 1
SERVICE_SNAPSHOT_TYPE: Final = 2

_CLOSE_REASONS: Final = frozenset((NULL_INT32, *cm.CloseReason))


@dataclass(slots=True)
class TrackerState:
    """The pending messages of one service: its PendingMessageTracker, and the messages with their headers."""

    record: cm.PendingMessageTracker
    messages: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class ModuleSnapshot:
    """The state of a module at `log_position`. Times are cluster times; `trackers` are in the order of service ids."""

    log_position: Position
    leadership_term_id: TermId
    app_version: int
    next_session_id: int = 1
    time_unit: int = cm.ClusterTimeUnit.MILLIS
    sessions: list[cm.ClusterSession] = field(default_factory=list)
    timers: list[cm.Timer] = field(default_factory=list)
    trackers: list[TrackerState] = field(default_factory=list)


def encode_module_snapshot(snapshot: ModuleSnapshot) -> list[bytes]:
    """Encode the messages of the recording, in Aeron's order."""
    encode = cm.SCHEMA.encode
    first = snapshot.trackers[0].record if snapshot.trackers else None
    state = cm.ConsensusModule(
        next_session_id=snapshot.next_session_id,
        next_service_session_id=0 if first is None else first.next_service_session_id,
        log_service_session_id=0 if first is None else first.log_service_session_id,
        pending_message_capacity=0 if first is None else first.pending_message_capacity,
    )
    messages = [encode(_marker(snapshot, cm.SnapshotMark.BEGIN)), encode(state)]
    messages += [encode(session) for session in snapshot.sessions]
    messages += [encode(timer) for timer in snapshot.timers]
    for tracker in snapshot.trackers:
        messages += [encode(tracker.record), *tracker.messages]
    messages.append(encode(_marker(snapshot, cm.SnapshotMark.END)))
    return messages


def _marker(snapshot: ModuleSnapshot, mark: cm.SnapshotMark) -> cm.SnapshotMarker:
    return cm.SnapshotMarker(
        type_id=MODULE_SNAPSHOT_TYPE,
        log_position=snapshot.log_position,
        leadership_term_id=snapshot.leadership_term_id,
        index=0,
        mark=mark,
        time_unit=snapshot.time_unit,
        app_version=snapshot.app_version,
    )


def decode_module_snapshot(messages: Iterable[bytes]) -> ModuleSnapshot:
    """Decode a whole snapshot; messages after its end are ignored. Raises `DecodeError` if it is incomplete or
    malformed.
    """
    remaining = iter(messages)
    snapshot = _begin(remaining)
    for message in remaining:
        decoded = cm.SCHEMA.decode(message)
        match decoded:
            case cm.SnapshotMarker():
                if _mark_of(decoded) == cm.SnapshotMark.BEGIN:
                    raise DecodeError("snapshot begins twice")
                if decoded.mark == cm.SnapshotMark.END:
                    return snapshot
            case cm.ConsensusModule():
                snapshot.next_session_id = decoded.next_session_id
            case cm.ClusterSession():
                if decoded.close_reason not in _CLOSE_REASONS:
                    raise DecodeError(f"session {decoded.cluster_session_id} closes for {decoded.close_reason}")
                snapshot.sessions.append(decoded)
            case cm.Timer():
                snapshot.timers.append(decoded)
            case cm.PendingMessageTracker():
                snapshot.trackers.append(TrackerState(decoded))
            case cm.SessionMessageHeader():
                _add_pending(snapshot, decoded, message)
            case _:
                # ClusterMembers of older releases, among others.
                continue
    raise DecodeError("snapshot of the consensus module has no end")


def check_service_snapshot(messages: Iterable[bytes], log_position: Position, leadership_term_id: TermId) -> None:
    """Raise `DecodeError` unless the messages begin with a complete section of the service's container."""
    has_begun = False
    for message in messages:
        decoded = cm.SCHEMA.decode(message)
        if not isinstance(decoded, cm.SnapshotMarker):
            if not has_begun:
                break
            continue
        if decoded.type_id != SERVICE_SNAPSHOT_TYPE:
            raise DecodeError(f"snapshot of type {decoded.type_id} is none of a service")
        if (decoded.log_position, decoded.leadership_term_id) != (log_position, leadership_term_id):
            raise DecodeError(f"snapshot of a service of term {decoded.leadership_term_id} at {decoded.log_position}")
        if decoded.mark == cm.SnapshotMark.END and has_begun:
            return
        has_begun = True
    raise DecodeError("snapshot of a service has no beginning or no end")


def _begin(messages: Iterable[bytes]) -> ModuleSnapshot:
    for message in messages:
        decoded = cm.SCHEMA.decode(message)
        if isinstance(decoded, cm.SnapshotMarker) and _mark_of(decoded) == cm.SnapshotMark.BEGIN:
            unit = cm.ClusterTimeUnit.MILLIS if decoded.time_unit == NULL_INT32 else decoded.time_unit
            return ModuleSnapshot(decoded.log_position, decoded.leadership_term_id, decoded.app_version, time_unit=unit)
        break
    raise DecodeError("snapshot of the consensus module does not begin with its marker")


def _mark_of(marker: cm.SnapshotMarker) -> int:
    if marker.type_id != MODULE_SNAPSHOT_TYPE:
        raise DecodeError(f"snapshot of type {marker.type_id} is none of the consensus module")
    return marker.mark


def _add_pending(snapshot: ModuleSnapshot, header: cm.SessionMessageHeader, message: bytes) -> None:
    service_id = service_of(header.cluster_session_id)
    for tracker in snapshot.trackers:
        if tracker.record.service_id == service_id:
            tracker.messages.append(message)
            return
    raise DecodeError(f"snapshot has a message of service {service_id}, but nothing else of it")
