"""The requests that an archive serves and no component of a node makes."""

from typing import Any

from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.media.api import Media
from upheaval_node.protocol import archive_messages as am
from upheaval_node.types import NULL_VALUE


class RequestingClient:
    """An archive client that can make every request. It is none itself: a class that is compiled has no heirs here."""

    def __init__(self, media: Media, **arguments: Any) -> None:
        self._client = ArchiveClient(media, **arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def stop_all_replays(self, recording_id: int = NULL_VALUE) -> PendingCall:
        """End the replays of one recording, of all with -1."""
        return self._client.request(am.StopAllReplaysRequest(recording_id=recording_id))

    def detach_segments(self, recording_id: int, new_start_position: int) -> PendingCall:
        """Begin at a later segment; the files before it stay."""
        return self._client.request(
            am.DetachSegmentsRequest(recording_id=recording_id, new_start_position=new_start_position)
        )

    def delete_detached_segments(self, recording_id: int) -> PendingCall:
        """Answers the number of files before the start; a DELETE signal follows when they are gone."""
        return self._client.request(am.DeleteDetachedSegmentsRequest(recording_id=recording_id))

    def purge_segments(self, recording_id: int, new_start_position: int) -> PendingCall:
        """Detach and delete in one; answers the number of files."""
        return self._client.request(
            am.PurgeSegmentsRequest(recording_id=recording_id, new_start_position=new_start_position)
        )

    def attach_segments(self, recording_id: int) -> PendingCall:
        """Begin at the first of the segment files before the start; answers how many there were."""
        return self._client.request(am.AttachSegmentsRequest(recording_id=recording_id))

    def migrate_segments(self, src_recording_id: int, dst_recording_id: int) -> PendingCall:
        """Move the segments of a stopped recording to one that it adjoins; answers how many."""
        return self._client.request(
            am.MigrateSegmentsRequest(src_recording_id=src_recording_id, dst_recording_id=dst_recording_id)
        )

    def stop_position(self, recording_id: int) -> PendingCall:
        """Answers -1 while the recording is active."""
        return self._client.request(am.StopPositionRequest(recording_id=recording_id))

    def recording_position(self, recording_id: int) -> PendingCall:
        """Answers -1 while the recording is not active."""
        return self._client.request(am.RecordingPositionRequest(recording_id=recording_id))

    def max_recorded_position(self, recording_id: int) -> PendingCall:
        """The recording position of an active recording, the stop position of a stopped one."""
        return self._client.request(am.MaxRecordedPositionRequest(recording_id=recording_id))

    def list_recordings_for_uri(
        self, from_recording_id: int, count: int, channel_fragment: str, stream_id: int
    ) -> PendingCall:
        """The same for recordings of that stream whose channel contains the fragment."""
        return self._client.request(
            am.ListRecordingsForUriRequest(
                from_recording_id=from_recording_id,
                record_count=count,
                stream_id=stream_id,
                channel=channel_fragment,
            ),
            descriptors=count,
        )

    def list_recording_subscriptions(
        self, pseudo_index: int, count: int, channel_fragment: str = "", stream_id: int | None = None
    ) -> PendingCall:
        """What is being recorded or waited for, from the `pseudo_index`-th match on."""
        return self._client.request(
            am.ListRecordingSubscriptionsRequest(
                pseudo_index=pseudo_index,
                subscription_count=count,
                apply_stream_id=stream_id is not None,
                stream_id=0 if stream_id is None else stream_id,
                channel=channel_fragment,
            ),
            descriptors=count,
        )

    def update_channel(self, recording_id: int, channel: str) -> PendingCall:
        """Have a recording found under another channel."""
        return self._client.request(am.UpdateChannelRequest(recording_id=recording_id, channel=channel))

    def find_last_matching_recording(
        self, min_recording_id: int, channel_fragment: str, stream_id: int, session_id: int
    ) -> PendingCall:
        """Answers the highest matching recording id, or -1."""
        return self._client.request(
            am.FindLastMatchingRecordingRequest(
                min_recording_id=min_recording_id,
                session_id=session_id,
                stream_id=stream_id,
                channel=channel_fragment,
            )
        )
