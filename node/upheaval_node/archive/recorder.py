"""The recordings of an archive: the subscriptions that record, and a recording session for each image on them.

Serves start, extend and stop requests and reports the outcome to their requesters. Replays and listings are handled
elsewhere.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from upheaval_node.archive import channels
from upheaval_node.archive.archive_context import ArchiveContext
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.checksums import checksum_named
from upheaval_node.archive.codes import ErrorCode, RequestError, unknown_recording
from upheaval_node.archive.recording import RecordingSession, RecordingSessionState
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segments import SegmentWriter, remove_segments
from upheaval_node.counters import (
    RECORDING_POSITION,
    Counter,
    recording_position_key,
    recording_position_label,
)
from upheaval_node.errors import NodeError, StorageError
from upheaval_node.media.api import Image, Subscription
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now

# The most recording subscriptions: more are a client's fault.
MAX_SUBSCRIPTIONS: Final = 1000


@dataclass(slots=True, eq=False)
class RecordingSubscription:
    """A start or extend request that waits for streams or records them."""

    id: int
    key: str
    stripped_channel: str
    original_channel: str
    stream_id: int
    auto_stop: bool
    requester: Requester
    extends: RecordingEntry | None
    subscription: Subscription | None = None
    arrivals: deque[Image] = field(default_factory=deque)
    sessions: list[RecordingSession] = field(default_factory=list)


class Recorder:
    """Raises `RequestError` for requests that cannot be served, `StorageError` when the disk fails."""

    def __init__(self, context: ArchiveContext) -> None:
        self._context = context
        self._checksum = checksum_named(context.settings.record_checksum)
        self._subscriptions: dict[int, RecordingSubscription] = {}
        self._sessions: dict[int, RecordingSession] = {}
        # The requesters of sessions that wind down after their subscription has ended.
        self._orphans: dict[int, tuple[Requester, int]] = {}
        # Recordings whose files are being changed, and which must not be extended meanwhile.
        self.busy: set[int] = set()

    # --- queries ---

    def session(self, recording_id: int) -> RecordingSession | None:
        """The session that records `recording_id` at present, or None."""
        return self._sessions.get(recording_id)

    @property
    def active_count(self) -> int:
        """How many recordings are in progress."""
        return len(self._sessions)

    def subscriptions(self) -> list[RecordingSubscription]:
        """The recording subscriptions in the order of their start."""
        return list(self._subscriptions.values())

    def subscription(self, subscription_id: int) -> RecordingSubscription | None:
        """The recording subscription with that id, or None."""
        return self._subscriptions.get(subscription_id)

    # --- requests ---

    def start(
        self, requester: Requester, channel: str, stream_id: int, *, is_local: bool, auto_stop: bool
    ) -> RecordingSubscription:
        """Record every stream that appears on the channel, each as its own recording."""
        return self._subscribe(requester, channel, stream_id, is_local=is_local, auto_stop=auto_stop, extends=None)

    def extend(
        self,
        requester: Requester,
        recording_id: int,
        channel: str,
        stream_id: int,
        *,
        is_local: bool,
        auto_stop: bool,
    ) -> RecordingSubscription:
        """Extend a stopped recording when a stream appears at its stop position."""
        entry = self._context.catalog.get(recording_id)
        if entry is None:
            raise unknown_recording(recording_id)
        if entry.stream_id != stream_id:
            raise RequestError(
                f"cannot extend recording {recording_id} with streamId={stream_id}, it has {entry.stream_id}",
                ErrorCode.UNKNOWN_RECORDING,
            )
        self.check_inactive(recording_id, "extend")
        return self._subscribe(requester, channel, stream_id, is_local=is_local, auto_stop=auto_stop, extends=entry)

    def check_inactive(self, recording_id: int, action: str) -> None:
        """Raise `RequestError` while the recording is active or its files are being deleted."""
        if recording_id in self._sessions:
            raise RequestError(f"cannot {action} active recording {recording_id}", ErrorCode.ACTIVE_RECORDING)
        self.check_not_deleting(recording_id)

    def check_not_deleting(self, recording_id: int) -> None:
        """Raise `RequestError` while files of the recording are being deleted."""
        if recording_id in self.busy:
            raise RequestError(f"another delete operation in progress for recording id: {recording_id}")

    def stop_channel(self, channel: str, stream_id: int) -> None:
        """End the recording subscription of this channel and stream, and its recordings."""
        key = channels.recording_key(stream_id, channels.strip(channels.parse(channel)))
        for subscription in list(self._subscriptions.values()):
            if subscription.key == key:
                self._end_subscription(subscription)
                return
        raise RequestError(
            f"no recording found for streamId={stream_id} channel={channel}", ErrorCode.UNKNOWN_SUBSCRIPTION
        )

    def stop_subscription(self, subscription_id: int) -> None:
        """End a recording subscription and its recordings."""
        subscription = self._subscriptions.get(subscription_id)
        if subscription is None:
            raise RequestError(
                f"no recording subscription found for subscriptionId={subscription_id}",
                ErrorCode.UNKNOWN_SUBSCRIPTION,
            )
        self._end_subscription(subscription)

    def stop_recording(self, recording_id: int) -> bool:
        """Stop one recording; returns whether it was active. Its subscription ends with its last recording."""
        session = self._sessions.get(recording_id)
        if session is None:
            return False
        for subscription in list(self._subscriptions.values()):
            if subscription.sessions == [session]:
                self._end_subscription(subscription)
                return True
        session.stop()
        return True

    def _subscribe(
        self,
        requester: Requester,
        channel_text: str,
        stream_id: int,
        *,
        is_local: bool,
        auto_stop: bool,
        extends: RecordingEntry | None,
    ) -> RecordingSubscription:
        limit = self._context.settings.max_recordings
        if len(self._sessions) >= limit or len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise RequestError(f"max concurrent recordings reached {limit}", ErrorCode.MAX_RECORDINGS)
        channel = channels.parse(channel_text)
        stripped = channels.strip(channel)
        key = channels.recording_key(stream_id, stripped)
        if any(subscription.key == key for subscription in self._subscriptions.values()):
            raise RequestError(
                f"recording exists for streamId={stream_id} channel={stripped}", ErrorCode.ACTIVE_SUBSCRIPTION
            )
        listen = stripped.as_spy() if is_local and stripped.media != "ipc" else stripped
        recording = RecordingSubscription(
            id=NULL_VALUE,
            key=key,
            stripped_channel=str(stripped),
            original_channel=channel_text,
            stream_id=stream_id,
            auto_stop=auto_stop,
            requester=requester,
            extends=extends,
        )
        media = self._context.media
        subscription = media.add_subscription(str(listen), stream_id, on_available=recording.arrivals.append)
        recording.subscription = subscription
        recording.id = subscription.registration_id
        self._subscriptions[recording.id] = recording
        return recording

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Begin recordings for new images, record what arrived, and report stopped recordings to their requesters."""
        work = 0
        for subscription in list(self._subscriptions.values()) if self._subscriptions else ():
            while subscription.arrivals:
                work += 1
                self._arrived(now, subscription, subscription.arrivals.popleft())
        ended: list[RecordingSession] = []
        for session in self._sessions.values():
            work += session.do_work(now)
            if session.state == RecordingSessionState.STOPPED:
                ended.append(session)
        for session in ended:
            self._ended(now, session)
        return work

    @property
    def is_settled(self) -> bool:
        """Whether another turn would find nothing to record."""
        return all(session.is_settled for session in self._sessions.values())

    def close(self, now: Now) -> None:
        """Stop all recordings. Blocks until they are durable."""
        for session in list(self._sessions.values()):
            session.stop_now(now)
            self._ended(now, session)
        for subscription in list(self._subscriptions.values()):
            self._end_subscription(subscription)

    def _arrived(self, now: Now, subscription: RecordingSubscription, image: Image) -> None:
        try:
            self._start_session(now, subscription, image)
        except NodeError as error:
            code = error.code if isinstance(error, RequestError) else ErrorCode.GENERIC
            self._context.errors.report(now, "recording", f"{subscription.stripped_channel}: {error}")
            subscription.requester.error(str(error), code)
            image.reject(str(error))
            # An image without a consumer would hold back its publisher.
            if not subscription.sessions:
                self._end_subscription(subscription)

    def _start_session(self, now: Now, subscription: RecordingSubscription, image: Image) -> None:
        limit = self._context.settings.max_recordings
        if len(self._sessions) >= limit:
            raise RequestError(f"max concurrent recordings reached {limit}", ErrorCode.MAX_RECORDINGS)
        if subscription.extends is None:
            entry = self._new_entry(now, subscription, image)
            signal = RecordingSignal.START
        else:
            entry = subscription.extends
            self._check_extension(entry, image)
            signal = RecordingSignal.EXTEND
        writer = SegmentWriter(
            self._context.storage,
            self._context.directory,
            entry,
            image.join_position,
            self._context.sync_level,
            checksum=self._checksum,
        )
        if subscription.extends is not None:
            try:
                self._context.catalog.record_extended(
                    entry,
                    control_session_id=subscription.requester.sink.control_session_id,
                    correlation_id=subscription.requester.correlation_id,
                    session_id=image.session_id,
                )
            except StorageError:
                writer.close(is_whole=False)
                raise
        session = self._open_session(subscription, entry, image, writer)
        subscription.sessions.append(session)
        self._sessions[entry.recording_id] = session
        subscription.requester.signal(signal, entry.recording_id, subscription.id, image.join_position)

    def _open_session(
        self, subscription: RecordingSubscription, entry: RecordingEntry, image: Image, writer: SegmentWriter
    ) -> RecordingSession:
        archive_id = self._context.archive_id

        def make_counter() -> Counter:
            return self._context.counters.allocate(
                RECORDING_POSITION,
                recording_position_key(entry.recording_id, image.session_id, image.source_identity, archive_id),
                recording_position_label(
                    entry.recording_id,
                    image.session_id,
                    image.stream_id,
                    subscription.stripped_channel,
                    archive_id,
                ),
                image.join_position,
            )

        return RecordingSession(
            entry,
            image,
            catalog=self._context.catalog,
            writer=writer,
            make_counter=make_counter,
            sync_level=self._context.sync_level,
            io_max_length=self._context.settings.io_max_length,
        )

    def _new_entry(self, now: Now, subscription: RecordingSubscription, image: Image) -> RecordingEntry:
        # Files under the next id can only be leftovers of a recording whose catalog entry was lost in a power cut.
        context = self._context
        removed = remove_segments(context.storage, context.directory, context.catalog.next_recording_id)
        if removed and context.sync_level > 0:
            # A second power cut that brought them back would show their frames as durable ones of this recording.
            context.storage.sync_directory(context.directory)
        return self._context.catalog.add(
            RecordingEntry(
                recording_id=NULL_VALUE,
                start_timestamp=now.epoch_ms,
                stop_timestamp=NULL_VALUE,
                start_position=image.join_position,
                stop_position=NULL_POSITION,
                initial_term_id=image.initial_term_id,
                segment_length=max(self._context.settings.segment_length, image.term_length),
                term_length=image.term_length,
                mtu=image.mtu,
                session_id=image.session_id,
                stream_id=image.stream_id,
                stripped_channel=subscription.stripped_channel,
                original_channel=subscription.original_channel,
                source_identity=image.source_identity,
            )
        )

    def _check_extension(self, entry: RecordingEntry, image: Image) -> None:
        if self._context.catalog.get(entry.recording_id) is not entry:
            raise unknown_recording(entry.recording_id)
        self.check_inactive(entry.recording_id, "extend")
        for name, ours, theirs in (
            ("position", entry.stop_position, image.join_position),
            ("initialTermId", entry.initial_term_id, image.initial_term_id),
            ("termBufferLength", entry.term_length, image.term_length),
            ("mtuLength", entry.mtu, image.mtu),
        ):
            if ours != theirs:
                raise RequestError(
                    f"cannot extend recording {entry.recording_id}: {name} of the stream is {theirs}, not {ours}",
                    ErrorCode.INVALID_EXTENSION,
                )

    def _ended(self, now: Now, session: RecordingSession) -> None:
        del self._sessions[session.recording_id]
        if not session.image.is_closed:
            # An image without a consumer would hold back its publisher.
            session.image.reject(session.error or "the recording was stopped")
        for subscription in list(self._subscriptions.values()):
            if session in subscription.sessions:
                subscription.sessions.remove(session)
                self._report_end(now, subscription.requester, subscription.id, session)
                if subscription.auto_stop and not subscription.sessions:
                    self._end_subscription(subscription)
                return
        requester, subscription_id = self._orphans.pop(session.recording_id)
        self._report_end(now, requester, subscription_id, session)

    def _report_end(self, now: Now, requester: Requester, subscription_id: int, session: RecordingSession) -> None:
        if session.error is not None:
            self._context.errors.report(now, "recording", f"recording {session.recording_id}: {session.error}")
            requester.error(session.error)
        requester.signal(RecordingSignal.STOP, session.recording_id, subscription_id, session.position)

    def _end_subscription(self, recording: RecordingSubscription) -> None:
        self._subscriptions.pop(recording.id, None)
        for session in recording.sessions:
            session.stop()
            self._orphans[session.recording_id] = (recording.requester, recording.id)
        if recording.subscription is not None:
            recording.subscription.close()
