"""Snapshots of a service: its sessions, followed by the messages of the application.

Layout (Aeron Cluster: service snapshot, stream 106): SnapshotMarker BEGIN of type 2, one ClientSession per session in
order of ids, SnapshotMarker END, then the application's messages up to the end of the recording. The state is taken
within one callback, at one log position; writing it takes as long as the archive needs. Knows nothing of acks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.whole_recordings import read_recording, write_recording
from upheaval_node.counters import Counters
from upheaval_node.errors import DecodeError, PeerError, UsageError
from upheaval_node.media.api import Media
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.constants import (
    REPLAY_STREAM_ID,
    SERVICE_ARCHIVE_RESPONSE_STREAM_ID,
    SERVICE_SNAPSHOT_STREAM_ID,
)
from upheaval_node.protocol.frames import max_message_length
from upheaval_node.settings import ClusterSettings
from upheaval_node.steps import StepGenerator
from upheaval_node.types import Now, Position, SessionId, TermId

SERVICE_SNAPSHOT_TYPE: Final = 2


@dataclass(frozen=True, slots=True)
class SessionState:
    """One client session in a snapshot."""

    id: SessionId
    response_stream_id: int
    response_channel: str
    encoded_principal: bytes


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """The content of a snapshot. `state` holds the application's messages."""

    log_position: Position
    leadership_term_id: TermId
    time_unit: cm.ClusterTimeUnit
    app_version: int
    sessions: tuple[SessionState, ...]
    state: tuple[bytes, ...]


class StateWriter:
    """Implements `api.SnapshotPublication`: takes every message at once, so that the callback need not wait."""

    def __init__(self, max_length: int) -> None:
        self.max_message_length = max_length
        self.messages: list[bytes] = []
        self._position = 0

    def offer(self, *parts: Buffer) -> int:
        """Keep a message. Raises `UsageError` when it is longer than `max_message_length`."""
        message = b"".join(parts)
        if len(message) > self.max_message_length:
            raise UsageError(f"snapshot message of {len(message)} bytes, limit is {self.max_message_length}")
        self.messages.append(message)
        self._position += max(len(message), 1)
        return self._position


class StateReader:
    """Implements `api.SnapshotImage`."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = iter(messages)

    def read(self) -> bytes | None:
        """The next message of the application, None at the end of the recording."""
        return next(self._messages, None)


def longest_message(settings: ClusterSettings) -> int:
    """The length in bytes of the longest message of a snapshot under these settings."""
    return max_message_length(settings.snapshot_term_length)


def encode_snapshot(snapshot: ServiceSnapshot) -> list[bytes]:
    """Encode the messages of the recording. Sessions are ordered by id, so that equal states have equal bytes."""

    def marker(mark: cm.SnapshotMark) -> bytes:
        return cm.SCHEMA.encode(
            cm.SnapshotMarker(
                type_id=SERVICE_SNAPSHOT_TYPE,
                log_position=snapshot.log_position,
                leadership_term_id=snapshot.leadership_term_id,
                index=0,
                mark=mark,
                time_unit=snapshot.time_unit,
                app_version=snapshot.app_version,
            )
        )

    sessions = [
        cm.SCHEMA.encode(
            cm.ClientSession(
                cluster_session_id=session.id,
                response_stream_id=session.response_stream_id,
                response_channel=session.response_channel,
                encoded_principal=session.encoded_principal,
            )
        )
        for session in sorted(snapshot.sessions, key=lambda session: session.id)
    ]
    return [marker(cm.SnapshotMark.BEGIN), *sessions, marker(cm.SnapshotMark.END), *snapshot.state]


def decode_snapshot(messages: Iterable[bytes]) -> ServiceSnapshot:
    """Decode a snapshot. Raises `DecodeError` unless it begins with a whole service section."""
    begin: cm.SnapshotMarker | None = None
    sessions: list[SessionState] = []
    remaining = iter(messages)
    for message in remaining:
        decoded = cm.SCHEMA.decode(message)
        match decoded:
            case cm.SnapshotMarker():
                if decoded.type_id != SERVICE_SNAPSHOT_TYPE:
                    raise DecodeError(f"snapshot of type {decoded.type_id} is not one of a service")
                if decoded.mark == cm.SnapshotMark.BEGIN:
                    if begin is not None:
                        raise DecodeError("snapshot has a second beginning")
                    begin = decoded
                elif decoded.mark == cm.SnapshotMark.END:
                    if begin is None:
                        raise DecodeError("snapshot ends before it begins")
                    return _snapshot(begin, sessions, remaining)
            case cm.ClientSession():
                sessions.append(
                    SessionState(
                        decoded.cluster_session_id,
                        decoded.response_stream_id,
                        decoded.response_channel,
                        decoded.encoded_principal,
                    )
                )
            case _:
                continue
    raise DecodeError("snapshot of a service has no end")


def _snapshot(begin: cm.SnapshotMarker, sessions: list[SessionState], state: Iterable[bytes]) -> ServiceSnapshot:
    has_unit = begin.time_unit != NULL_INT32
    if has_unit and begin.time_unit not in list(cm.ClusterTimeUnit):
        raise DecodeError(f"snapshot in time unit {begin.time_unit}")
    return ServiceSnapshot(
        log_position=begin.log_position,
        leadership_term_id=begin.leadership_term_id,
        time_unit=cm.ClusterTimeUnit(begin.time_unit) if has_unit else cm.ClusterTimeUnit.MILLIS,
        app_version=begin.app_version,
        sessions=tuple(sessions),
        state=tuple(state),
    )


class SnapshotStore:
    """The archive of one service, with a new connection for each snapshot written or read."""

    def __init__(self, media: Media, counters: Counters, settings: ClusterSettings, service_id: int) -> None:
        self._media = media
        self._counters = counters
        self._settings = settings
        self._service_id = service_id
        self._archive: ArchiveClient | None = None

    def do_work(self, now: Now) -> int:
        """Run the connection to the archive, if there is one."""
        return 0 if self._archive is None else self._archive.do_work(now)

    def write(self, snapshot: ServiceSnapshot) -> StepGenerator[int]:
        """Record the snapshot. The steps end with the recording id when the archive has all of it."""
        archive = yield from self._connect()
        try:
            channel = Channel("ipc", {"alias": "snapshot", "term-length": str(self._settings.snapshot_term_length)})
            written = yield from write_recording(
                self._media,
                self._counters,
                archive,
                str(channel),
                SERVICE_SNAPSHOT_STREAM_ID,
                encode_snapshot(snapshot),
            )
        finally:
            self.close()
        return written.recording_id

    def read(self, recording_id: int) -> StepGenerator[ServiceSnapshot]:
        """Replay a recording and decode it. Raises `DecodeError` when it is not a whole service snapshot."""
        archive = yield from self._connect()
        try:
            messages, _ = yield from read_recording(self._media, archive, recording_id, REPLAY_STREAM_ID)
        finally:
            self.close()
        return decode_snapshot(messages)

    def close(self) -> None:
        """Close the connection to the archive, which ends its requests."""
        archive, self._archive = self._archive, None
        if archive is not None:
            archive.close()

    def _connect(self) -> StepGenerator[ArchiveClient]:
        settings = self._settings
        archive = self._archive = ArchiveClient(
            self._media,
            response_stream_id=settings.cluster_id * 100 + SERVICE_ARCHIVE_RESPONSE_STREAM_ID + self._service_id,
            name=f"clustered-service-{self._service_id}",
        )
        while not archive.is_connected:
            if archive.is_closed:
                raise PeerError(f"no archive: {archive.error}")
            yield
        return archive
