"""The handlers of the archive's control requests: a table from message class to handler.

Handlers check the request, call recorder, replayer, catalog or replications, and answer the session. Sessions, images
and time are the archive's business.
"""

from collections.abc import Callable
from typing import Protocol

from upheaval_node.archive import channels
from upheaval_node.archive.archive_context import ArchiveContext
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.codes import ErrorCode, RequestError, unknown_recording
from upheaval_node.archive.control_session import ControlSession
from upheaval_node.archive.listing import Listing
from upheaval_node.archive.recorder import Recorder, RecordingSubscription
from upheaval_node.archive.replayer import Replayer, ReplayParams
from upheaval_node.archive.replication import ReplicationParams
from upheaval_node.archive.responses import Requester
from upheaval_node.archive.segment_operations import SegmentOperations
from upheaval_node.archive.truncation import truncate
from upheaval_node.errors import NodeError, StorageError
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.archive_messages import ControlResponseCode, SourceLocation
from upheaval_node.protocol.message import Message
from upheaval_node.types import NULL_POSITION, NULL_VALUE


class Replications(Protocol):
    """Starts and stops replications. Both methods raise `RequestError`."""

    def start_replication(self, requester: Requester, params: ReplicationParams) -> int:
        """Begin to copy a recording of another archive; returns the replication id."""

    def stop_replication(self, replication_id: int) -> None:
        """End a replication by its id."""


class Requests:
    """Serves requests; every failure becomes an ERROR response."""

    def __init__(
        self,
        context: ArchiveContext,
        recorder: Recorder,
        replayer: Replayer,
        segments: SegmentOperations,
        replications: Replications,
    ) -> None:
        self._context = context
        self._recorder = recorder
        self._replayer = replayer
        self._segments = segments
        self._replications = replications

    def serve(self, session: ControlSession, message: Message) -> None:
        """Serve a request of an active session. Never raises, whatever the peer sent."""
        if isinstance(message, am.KeepAliveRequest):
            return
        if isinstance(message, am.CloseSessionRequest):
            session.abort("closed by the client")
            return
        correlation_id: object = getattr(message, "correlation_id", None)
        if not isinstance(correlation_id, int):
            session.abort(f"{type(message).__name__} is not a request")
            return
        handler = _HANDLERS.get(type(message))
        try:
            if handler is None:
                raise RequestError(f"{type(message).__name__} is not supported by this archive")
            handler(self, session, message)
        except RequestError as error:
            session.send_error(correlation_id, str(error), error.code)
        except StorageError as failure:
            session.send_error(correlation_id, str(failure), ErrorCode.STORAGE_SPACE)
        except NodeError as refusal:
            session.send_error(correlation_id, str(refusal))

    # --- recordings ---

    def _start(self, session: ControlSession, message: am.StartRecordingRequest | am.StartRecordingRequest2) -> None:
        recording = self._recorder.start(
            Requester(session, message.correlation_id),
            message.channel,
            message.stream_id,
            is_local=message.source_location == SourceLocation.LOCAL,
            auto_stop=isinstance(message, am.StartRecordingRequest2) and message.auto_stop,
        )
        session.send_ok(message.correlation_id, recording.id)

    def _extend(self, session: ControlSession, message: am.ExtendRecordingRequest | am.ExtendRecordingRequest2) -> None:
        recording = self._recorder.extend(
            Requester(session, message.correlation_id),
            message.recording_id,
            message.channel,
            message.stream_id,
            is_local=message.source_location == SourceLocation.LOCAL,
            auto_stop=isinstance(message, am.ExtendRecordingRequest2) and message.auto_stop,
        )
        session.send_ok(message.correlation_id, recording.id)

    def _stop_channel(self, session: ControlSession, message: am.StopRecordingRequest) -> None:
        self._recorder.stop_channel(message.channel, message.stream_id)
        session.send_ok(message.correlation_id)

    def _stop_subscription(self, session: ControlSession, message: am.StopRecordingSubscriptionRequest) -> None:
        self._recorder.stop_subscription(message.subscription_id)
        session.send_ok(message.correlation_id)

    def _stop_identity(self, session: ControlSession, message: am.StopRecordingByIdentityRequest) -> None:
        self._entry(message.recording_id)
        session.send_ok(message.correlation_id, int(self._recorder.stop_recording(message.recording_id)))

    def _truncate(self, session: ControlSession, message: am.TruncateRecordingRequest) -> None:
        requester = Requester(session, message.correlation_id)
        entry = self._entry(message.recording_id)
        truncate(self._context, self._recorder, self._replayer, requester, entry, message.position)

    # --- segments ---

    def _purge(self, session: ControlSession, message: am.PurgeRecordingRequest) -> None:
        requester = Requester(session, message.correlation_id)
        self._segments.purge_recording(requester, self._entry(message.recording_id))

    def _detach(self, session: ControlSession, message: am.DetachSegmentsRequest) -> None:
        requester = Requester(session, message.correlation_id)
        self._segments.detach(requester, self._entry(message.recording_id), message.new_start_position)

    def _delete_detached(self, session: ControlSession, message: am.DeleteDetachedSegmentsRequest) -> None:
        requester = Requester(session, message.correlation_id)
        self._segments.delete_detached(requester, self._entry(message.recording_id))

    def _purge_segments(self, session: ControlSession, message: am.PurgeSegmentsRequest) -> None:
        requester = Requester(session, message.correlation_id)
        self._segments.purge_segments(requester, self._entry(message.recording_id), message.new_start_position)

    def _attach(self, session: ControlSession, message: am.AttachSegmentsRequest) -> None:
        requester = Requester(session, message.correlation_id)
        self._segments.attach(requester, self._entry(message.recording_id))

    def _migrate(self, session: ControlSession, message: am.MigrateSegmentsRequest) -> None:
        requester = Requester(session, message.correlation_id)
        source, target = self._entry(message.src_recording_id), self._entry(message.dst_recording_id)
        self._segments.migrate(requester, source, target)

    # --- positions and listings ---

    def _entry(self, recording_id: int) -> RecordingEntry:
        entry = self._context.catalog.get(recording_id)
        if entry is None:
            raise unknown_recording(recording_id)
        return entry

    def _start_position(self, session: ControlSession, message: am.StartPositionRequest) -> None:
        session.send_ok(message.correlation_id, self._entry(message.recording_id).start_position)

    def _stop_position(self, session: ControlSession, message: am.StopPositionRequest) -> None:
        session.send_ok(message.correlation_id, self._entry(message.recording_id).stop_position)

    def _recording_position(self, session: ControlSession, message: am.RecordingPositionRequest) -> None:
        self._entry(message.recording_id)
        active = self._recorder.session(message.recording_id)
        session.send_ok(message.correlation_id, NULL_POSITION if active is None else active.position)

    def _max_position(self, session: ControlSession, message: am.MaxRecordedPositionRequest) -> None:
        entry = self._entry(message.recording_id)
        active = self._recorder.session(message.recording_id)
        session.send_ok(message.correlation_id, entry.stop_position if active is None else active.position)

    def _archive(self, session: ControlSession, message: am.ArchiveIdRequest) -> None:
        session.send_ok(message.correlation_id, self._context.archive_id)

    def _list_one(self, session: ControlSession, message: am.ListRecordingRequest) -> None:
        _check_no_listing(session)
        entry = self._context.catalog.get(message.recording_id)
        if entry is None:
            session.send_unknown(message.correlation_id, ControlResponseCode.RECORDING_UNKNOWN, message.recording_id)
        else:
            session.send(self._context.catalog.descriptor_message(entry, session.id, message.correlation_id))

    def _list(self, session: ControlSession, message: am.ListRecordingsRequest) -> None:
        self._start_listing(session, message, lambda _: True)

    def _list_for_uri(self, session: ControlSession, message: am.ListRecordingsForUriRequest) -> None:
        stream_id, fragment = message.stream_id, message.channel
        self._start_listing(
            session, message, lambda entry: entry.stream_id == stream_id and fragment in entry.original_channel
        )

    def _start_listing(
        self,
        session: ControlSession,
        message: am.ListRecordingsRequest | am.ListRecordingsForUriRequest,
        matches: Callable[[RecordingEntry], bool],
    ) -> None:
        _check_no_listing(session)
        correlation_id = message.correlation_id

        def send(entry: RecordingEntry) -> bool:
            message = self._context.catalog.descriptor_message(entry, session.id, correlation_id)
            return session.has_room and session.send(message)

        def unknown() -> None:
            code = ControlResponseCode.RECORDING_UNKNOWN
            session.send_unknown(correlation_id, code, self._context.catalog.next_recording_id)

        session.listing = Listing(
            self._context.catalog.entries_from(message.from_recording_id),
            message.record_count,
            matches=matches,
            send=send,
            unknown=unknown,
        )

    def _list_subscriptions(self, session: ControlSession, message: am.ListRecordingSubscriptionsRequest) -> None:
        _check_no_listing(session)
        correlation_id = message.correlation_id
        subscriptions = [
            subscription
            for subscription in self._recorder.subscriptions()
            if message.channel in subscription.stripped_channel
            and (not message.apply_stream_id or subscription.stream_id == message.stream_id)
        ]

        def send(subscription: RecordingSubscription) -> bool:
            descriptor = am.RecordingSubscriptionDescriptor(
                control_session_id=session.id,
                correlation_id=correlation_id,
                subscription_id=subscription.id,
                stream_id=subscription.stream_id,
                stripped_channel=subscription.stripped_channel,
            )
            return session.has_room and session.send(am.SCHEMA.encode(descriptor))

        session.listing = Listing(
            iter(subscriptions[message.pseudo_index :] if message.pseudo_index >= 0 else ()),
            message.subscription_count,
            matches=lambda _: True,
            send=send,
            unknown=lambda: session.send_unknown(correlation_id, ControlResponseCode.SUBSCRIPTION_UNKNOWN, 0),
        )

    def _update_channel(self, session: ControlSession, message: am.UpdateChannelRequest) -> None:
        _check_no_listing(session)
        correlation_id, recording_id = message.correlation_id, message.recording_id
        entry = self._context.catalog.get(recording_id)
        if entry is None:
            session.send_unknown(correlation_id, ControlResponseCode.RECORDING_UNKNOWN, recording_id)
            return
        stripped = channels.strip(channels.parse(message.channel))
        self._context.catalog.record_channel(entry, message.channel, str(stripped))
        requester = Requester(session, correlation_id)

        def forced(error: Exception | None) -> None:
            if error is None:
                requester.ok()
            else:
                requester.error(f"recording {recording_id}: {error}", ErrorCode.STORAGE_SPACE)

        self._context.catalog.force(forced)

    def _find_last(self, session: ControlSession, message: am.FindLastMatchingRecordingRequest) -> None:
        if message.min_recording_id < 0:
            raise unknown_recording(message.min_recording_id)
        last_id = NULL_VALUE
        for entry in self._context.catalog.entries_from(message.min_recording_id):
            if (entry.session_id, entry.stream_id) == (message.session_id, message.stream_id) and (
                message.channel in entry.original_channel
            ):
                last_id = max(last_id, entry.recording_id)
        session.send_ok(message.correlation_id, last_id)

    # --- replays and replications ---

    def _replay(self, session: ControlSession, message: am.ReplayRequest | am.BoundedReplayRequest) -> None:
        counter_id = message.limit_counter_id if isinstance(message, am.BoundedReplayRequest) else NULL_VALUE
        params = ReplayParams(
            recording_id=message.recording_id,
            position=message.position,
            length=message.length,
            channel=message.replay_channel,
            stream_id=message.replay_stream_id,
            file_io_max_length=message.file_io_max_length,
            limit_counter_id=counter_id,
        )
        requester = Requester(session, message.correlation_id)
        session.send_ok(message.correlation_id, self._replayer.start(requester, params))

    def _stop_replay(self, session: ControlSession, message: am.StopReplayRequest) -> None:
        self._replayer.stop(message.replay_session_id)
        session.send_ok(message.correlation_id)

    def _stop_all_replays(self, session: ControlSession, message: am.StopAllReplaysRequest) -> None:
        self._replayer.stop_all(message.recording_id)
        session.send_ok(message.correlation_id)

    def _replicate(self, session: ControlSession, message: am.ReplicateRequest) -> None:
        if message.live_destination:
            raise RequestError("replication with a live destination is not supported by this archive")
        params = ReplicationParams(
            src_recording_id=message.src_recording_id,
            dst_recording_id=message.dst_recording_id,
            stop_position=NULL_POSITION,
            src_control_channel=message.src_control_channel,
            src_control_stream_id=message.src_control_stream_id,
        )
        requester = Requester(session, message.correlation_id)
        session.send_ok(message.correlation_id, self._replications.start_replication(requester, params))

    def _replicate2(self, session: ControlSession, message: am.ReplicateRequest2) -> None:
        tags = (message.channel_tag_id, message.subscription_tag_id)
        if message.live_destination or tags != (NULL_VALUE, NULL_VALUE):
            raise RequestError("replication with a live destination or tags is not supported by this archive")
        params = ReplicationParams(
            src_recording_id=message.src_recording_id,
            dst_recording_id=message.dst_recording_id,
            stop_position=message.stop_position,
            src_control_channel=message.src_control_channel,
            src_control_stream_id=message.src_control_stream_id,
            src_response_channel=message.src_response_channel,
            replication_channel=message.replication_channel,
            replication_session_id=message.replication_session_id,
        )
        requester = Requester(session, message.correlation_id)
        session.send_ok(message.correlation_id, self._replications.start_replication(requester, params))

    def _stop_replication(self, session: ControlSession, message: am.StopReplicationRequest) -> None:
        self._replications.stop_replication(message.replication_id)
        session.send_ok(message.correlation_id)


def _check_no_listing(session: ControlSession) -> None:
    if session.listing is not None:
        raise RequestError("active listing already in progress", ErrorCode.ACTIVE_LISTING)


# Each handler takes exactly the message class of its key, which the type of the table cannot say.
_HANDLERS: dict[type[Message], Callable[..., None]] = {
    am.StartRecordingRequest: Requests._start,
    am.StartRecordingRequest2: Requests._start,
    am.ExtendRecordingRequest: Requests._extend,
    am.ExtendRecordingRequest2: Requests._extend,
    am.StopRecordingRequest: Requests._stop_channel,
    am.StopRecordingSubscriptionRequest: Requests._stop_subscription,
    am.StopRecordingByIdentityRequest: Requests._stop_identity,
    am.TruncateRecordingRequest: Requests._truncate,
    am.PurgeRecordingRequest: Requests._purge,
    am.DetachSegmentsRequest: Requests._detach,
    am.DeleteDetachedSegmentsRequest: Requests._delete_detached,
    am.PurgeSegmentsRequest: Requests._purge_segments,
    am.AttachSegmentsRequest: Requests._attach,
    am.MigrateSegmentsRequest: Requests._migrate,
    am.StartPositionRequest: Requests._start_position,
    am.StopPositionRequest: Requests._stop_position,
    am.RecordingPositionRequest: Requests._recording_position,
    am.MaxRecordedPositionRequest: Requests._max_position,
    am.ArchiveIdRequest: Requests._archive,
    am.ListRecordingRequest: Requests._list_one,
    am.ListRecordingsRequest: Requests._list,
    am.ListRecordingsForUriRequest: Requests._list_for_uri,
    am.FindLastMatchingRecordingRequest: Requests._find_last,
    am.ListRecordingSubscriptionsRequest: Requests._list_subscriptions,
    am.UpdateChannelRequest: Requests._update_channel,
    am.ReplayRequest: Requests._replay,
    am.BoundedReplayRequest: Requests._replay,
    am.StopReplayRequest: Requests._stop_replay,
    am.StopAllReplaysRequest: Requests._stop_all_replays,
    am.ReplicateRequest: Requests._replicate,
    am.ReplicateRequest2: Requests._replicate2,
    am.StopReplicationRequest: Requests._stop_replication,
}
