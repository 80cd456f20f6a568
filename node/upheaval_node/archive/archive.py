"""The archive of a member: serves clients and runs recordings, replays and replications.

A single agent does all work in its duty cycle and never blocks. The first duty cycle repairs what an unclean stop left:
recordings without a stop position get one, and their torn tails are cut off. The handlers of requests are in
`requests`.
"""

import struct
from random import Random
from typing import Final

from upheaval_node.archive import channels
from upheaval_node.archive.archive_context import DAMAGE, ArchiveContext
from upheaval_node.archive.catalog import Catalog, RecordingEntry
from upheaval_node.archive.checksums import checksum_named
from upheaval_node.archive.codes import ErrorCode, RequestError
from upheaval_node.archive.control_session import ControlSession, SessionState
from upheaval_node.archive.deletions import Deletions
from upheaval_node.archive.recorder import Recorder
from upheaval_node.archive.recovery import cut_after, recover, remove_deleted
from upheaval_node.archive.replayer import Replayer
from upheaval_node.archive.replication import ReplicationParams, ReplicationSession, ReplicationState
from upheaval_node.archive.requests import Requests
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segment_operations import SegmentOperations
from upheaval_node.bell import Bell
from upheaval_node.counters import (
    ARCHIVE_CONTROL_SESSION,
    ARCHIVE_CONTROL_SESSIONS,
    ARCHIVE_ERRORS,
    ARCHIVE_RECORDING_SESSIONS,
    ARCHIVE_REPLAY_SESSIONS,
    Counter,
    Counters,
)
from upheaval_node.errors import DamageError, DecodeError, NodeError, UsageError
from upheaval_node.media.api import Image, Media, Message, Publication, Subscription
from upheaval_node.peer_faults import PeerFaults
from upheaval_node.ports import ErrorSink, Storage
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.constants import ARCHIVE_CONTROL_STREAM_ID, ARCHIVE_LOCAL_CONTROL_CHANNEL
from upheaval_node.settings import ArchiveSettings
from upheaval_node.types import NEVER_NS, NOT_YET, NULL_POSITION, Now

# The most requests taken from a control stream in one duty cycle.
REQUEST_LIMIT: Final = 16
# More clients than any cluster has: more sessions than these are a client's fault.
MAX_CONTROL_SESSIONS: Final = 128
MAX_REPLICATIONS: Final = 64
MAX_CLIENT_INFO: Final = 256


class _CountedErrors:
    """Counts errors on their way to the sink."""

    def __init__(self, errors: ErrorSink, counter: Counter) -> None:
        self._errors = errors
        self._counter = counter

    def report(self, now: Now, kind: str, text: str) -> None:
        self._counter.increment()
        self._errors.report(now, kind, text)


def _totals(counters: Counters, archive_id: int) -> list[Counter]:
    """Allocate the counters of errors, control sessions, recordings and replays, in this order."""
    key = struct.pack("<q", archive_id)
    return [
        counters.allocate(type_id, key, f"{name} - archiveId={archive_id}")
        for type_id, name in (
            (ARCHIVE_ERRORS, "Archive Errors"),
            (ARCHIVE_CONTROL_SESSIONS, "Archive Control Sessions"),
            (ARCHIVE_RECORDING_SESSIONS, "Archive Recording Sessions"),
            (ARCHIVE_REPLAY_SESSIONS, "Archive Replay Sessions"),
        )
    ]


class Archive:
    """An agent that serves the archive control protocol on `aeron:ipc` and on its network control channel.

    Raises `StorageError` and `DecodeError` when its folder cannot be used; `UsageError` for a bad channel.
    """

    def __init__(
        self,
        media: Media,
        storage: Storage,
        counters: Counters,
        settings: ArchiveSettings,
        random: Random,
        errors: ErrorSink,
        *,
        control_channel: str | None = None,
        archive_id: int,
        directory: str = "archive",
    ) -> None:
        self.archive_id: Final = archive_id
        self._counts = _totals(counters, archive_id)
        self._faults = PeerFaults(errors, "control-peer")
        self._checksum = checksum_named(settings.record_checksum)
        catalog = Catalog(
            storage,
            directory,
            capacity=settings.catalog_capacity,
            sync_level=settings.file_sync_level,
            checksum=self._checksum,
        )
        counted = _CountedErrors(errors, self._counts[0])
        context = ArchiveContext(media, storage, counters, catalog, settings, counted, archive_id, directory)
        self._context = context
        self._recorder = Recorder(context)
        self._replayer = Replayer(context, self._recorder)
        self._deletions = Deletions(context, self._recorder)
        segments = SegmentOperations(context, self._recorder, self._replayer, self._deletions)
        self._requests = Requests(context, self._recorder, self._replayer, segments, self)
        self._sessions: dict[int, ControlSession] = {}
        self._session_counters: dict[int, Counter] = {}
        self._replications: dict[int, ReplicationSession] = {}
        self._random = random
        self._next_id = self._random.getrandbits(31)
        self._now = NOT_YET
        self._is_recovered = False
        self.is_closed = False
        self._control: list[Subscription] = [
            media.add_subscription(channel, ARCHIVE_CONTROL_STREAM_ID)
            for channel in (ARCHIVE_LOCAL_CONTROL_CHANNEL, control_channel)
            if channel is not None
        ]

    @property
    def bell(self) -> Bell | None:
        """The doorbell that its media and the counters that bound its replays ring."""
        return self._replayer.bell

    @bell.setter
    def bell(self, bell: Bell | None) -> None:
        self._replayer.bell = bell

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """One duty cycle; the first one repairs what an unclean stop left."""
        if self.is_closed:
            return 0
        self._now = now
        if not self._is_recovered:
            self._is_recovered = True
            self._recover(now)
        work = 0
        for control in self._control:
            work += control.poll(self._on_request, REQUEST_LIMIT)
        recorded = self._recorder.do_work(now)
        work += recorded
        work += self._replayer.do_work(now)
        work += self._run_replications(now)
        work += self._deletions.do_work(now)
        work += self._run_sessions(now)
        if work:
            self._count()
            bell = self._replayer.bell
            if bell is not None:
                bell.is_settled = work == recorded and self._recorder.is_settled
        return work

    def next_deadline_ns(self) -> int:
        """The earliest time-out of a session, replay or replication; at once while files are being deleted."""
        if self.is_closed:
            return NEVER_NS
        if not self._is_recovered or not self._deletions.is_idle:
            return self._now.ns
        deadline = self._replayer.next_deadline_ns()
        for session in self._sessions.values():
            deadline = min(deadline, session.next_deadline_ns())
        for replication in self._replications.values():
            deadline = min(deadline, replication.next_deadline_ns())
        return deadline

    def close(self) -> None:
        """Close in order. Blocks until the stop positions are durable."""
        if self.is_closed:
            return
        for replication in self._replications.values():
            replication.stop()
        self._replications.clear()
        self._replayer.close()
        self._recorder.close(self._now)
        for session in self._sessions.values():
            session.abort("the archive ends")
        self._sessions.clear()
        for control in self._control:
            control.close()
        self._context.catalog.close()
        for counter in (*self._counts, *self._session_counters.values()):
            counter.close()
        self.is_closed = True

    def _recover(self, now: Now) -> None:
        context = self._context
        for problem in context.catalog.problems:
            context.errors.report(now, "catalog", problem)
        level = context.sync_level
        remove_deleted(context.storage, context.directory, context.catalog.deleted_ids())
        recovered: list[RecordingEntry] = []
        for entry in context.catalog.entries():
            if entry.stop_position == NULL_POSITION:
                try:
                    recovery = recover(context.storage, context.directory, entry, level, checksum=self._checksum)
                except DamageError as damage:
                    text = f"recording {entry.recording_id}: {damage}"
                    context.errors.report(now, DAMAGE, text)
                    raise DamageError(text) from damage
                if recovery.cut is not None:
                    text = f"recording {entry.recording_id} was cut at {recovery.stop_position}: {recovery.cut}"
                    context.errors.report(now, "recovery", text)
                context.catalog.record_stopped(entry, recovery.stop_position, now.epoch_ms)
                recovered.append(entry)
        if recovered:
            context.catalog.sync()
        for entry in recovered:
            cut_after(context.storage, context.directory, entry, level)

    def _run_sessions(self, now: Now) -> int:
        work = 0
        for session in list(self._sessions.values()):
            work += session.do_work(now)
            if session.state == SessionState.DONE:
                del self._sessions[session.id]
                self._session_counters.pop(session.id).close()
                work += 1
        return work

    def _run_replications(self, now: Now) -> int:
        work = 0
        for replication in list(self._replications.values()):
            work += replication.do_work(now)
            if replication.state == ReplicationState.DONE:
                del self._replications[replication.id]
                work += 1
        return work

    def _count(self) -> None:
        _, sessions, recordings, replays = self._counts
        sessions.set(len(self._sessions))
        recordings.set(self._recorder.active_count)
        replays.set(self._replayer.active_count)

    # --- requests ---

    def _on_request(self, fragment: Message) -> None:
        try:
            request = am.SCHEMA.decode(fragment.payload)
        except DecodeError as error:
            self._drop(fragment.image, f"malformed request: {error}")
            return
        if isinstance(request, am.AuthConnectRequest):
            self._connect(fragment.image, request)
            return
        session_id: object = getattr(request, "control_session_id", None)
        session = self._sessions.get(session_id) if isinstance(session_id, int) else None
        if session is None or session.image.correlation_id != fragment.image.correlation_id:
            name = "unknown message" if request is None else type(request).__name__
            self._report(fragment.image, f"{name} for unknown session {session_id}")
            return
        assert request is not None
        session.activate()
        self._requests.serve(session, request)

    def _connect(self, image: Image, request: am.AuthConnectRequest) -> None:
        if len(self._sessions) >= MAX_CONTROL_SESSIONS:
            self._drop(image, "too many control sessions")
            return
        try:
            channel = channels.control_response(request.response_channel, self._context.settings.control_term_length)
            publication = self._context.media.add_publication(channel, request.response_stream_id)
            session_id = self._take_id()
            self._session_counters[session_id] = self._session_counter(session_id, request, publication)
        except NodeError as error:
            self._drop(image, f"connect with an unusable response channel: {error}")
            return
        settings = self._context.settings
        session = ControlSession(session_id, request, image=image, publication=publication, settings=settings)
        self._sessions[session.id] = session

    def _session_counter(self, session_id: int, request: am.AuthConnectRequest, publication: Publication) -> Counter:
        """Allocate the counter that names the client of a session (Aeron archive: counters)."""
        key = struct.pack("<qq", self.archive_id, session_id)
        # Long labels lose their end, so the client's text is cut: it must not push the archive id out.
        info = request.client_info[:MAX_CLIENT_INFO]
        label = f"control-session: {info} - archiveId={self.archive_id}"
        try:
            return self._context.counters.allocate(
                ARCHIVE_CONTROL_SESSION, key, label, session_id, reference_id=publication.registration_id
            )
        except UsageError:
            publication.close()
            raise

    def _drop(self, image: Image, reason: str) -> None:
        """Close the stream of a client that broke the protocol, and with it the client's sessions."""
        self._report(image, reason)
        for session in self._sessions.values():
            if session.image.correlation_id == image.correlation_id:
                session.abort(reason)
        image.reject(reason)

    def _report(self, image: Image, text: str) -> None:
        """Count a client's fault. Each kind of fault is reported once per client."""
        self._counts[0].increment()
        self._faults.note(self._now, image.source_identity, text)

    def _take_id(self) -> int:
        taken = self._next_id
        self._next_id += 1
        return taken

    # --- requests.Replications ---

    def start_replication(self, requester: Requester, params: ReplicationParams) -> int:
        """Begin to copy a recording from another archive. Raises `RequestError`, `UsageError`."""
        if len(self._replications) >= MAX_REPLICATIONS:
            raise RequestError(f"more than {MAX_REPLICATIONS} replications")
        if params.dst_recording_id >= 0:
            if self._context.catalog.get(params.dst_recording_id) is None:
                raise RequestError(
                    f"unknown destination recording id {params.dst_recording_id}", ErrorCode.UNKNOWN_RECORDING
                )
            self._recorder.check_inactive(params.dst_recording_id, "replicate to")
        replication = ReplicationSession(
            self._take_id(),
            requester,
            params,
            self._context,
            self._recorder,
        )
        self._replications[replication.id] = replication
        return replication.id

    def stop_replication(self, replication_id: int) -> None:
        """Raises `RequestError` for an unknown id."""
        replication = self._replications.get(replication_id)
        if replication is None:
            raise RequestError(f"unknown replication id {replication_id}", ErrorCode.UNKNOWN_REPLICATION)
        replication.stop()
