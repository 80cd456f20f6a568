"""Messages of schema 101, version 14. Generated: do not edit.

Made from archive-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node.protocol.codec import NULL_INT8, NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.schema import load_schema


class ControlResponseCode(IntEnum):
    OK = 0
    ERROR = 1
    RECORDING_UNKNOWN = 2
    SUBSCRIPTION_UNKNOWN = 3


class SourceLocation(IntEnum):
    LOCAL = 0
    REMOTE = 1


class RecordingSignal(IntEnum):
    START = 0
    STOP = 1
    EXTEND = 2
    REPLICATE = 3
    MERGE = 4
    SYNC = 5
    DELETE = 6
    REPLICATE_END = 7


class RecordingState(IntEnum):
    INVALID = 0
    VALID = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ControlResponse(Message):
    """Template 1 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    relevant_id: int = NULL_INT64
    code: ControlResponseCode | int = NULL_INT32
    version: int = 0
    error_message: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CloseSessionRequest(Message):
    """Template 3 of schema 101."""

    control_session_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StartRecordingRequest(Message):
    """Template 4 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    stream_id: int = NULL_INT32
    source_location: SourceLocation | int = NULL_INT32
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopRecordingRequest(Message):
    """Template 5 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    stream_id: int = NULL_INT32
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplayRequest(Message):
    """Template 6 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    position: int = NULL_INT64
    length: int = NULL_INT64
    replay_stream_id: int = NULL_INT32
    file_io_max_length: int = NULL_INT32
    replay_token: int = NULL_INT64
    replay_channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopReplayRequest(Message):
    """Template 7 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    replay_session_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListRecordingsRequest(Message):
    """Template 8 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    from_recording_id: int = NULL_INT64
    record_count: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListRecordingsForUriRequest(Message):
    """Template 9 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    from_recording_id: int = NULL_INT64
    record_count: int = NULL_INT32
    stream_id: int = NULL_INT32
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListRecordingRequest(Message):
    """Template 10 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtendRecordingRequest(Message):
    """Template 11 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    stream_id: int = NULL_INT32
    source_location: SourceLocation | int = NULL_INT32
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingPositionRequest(Message):
    """Template 12 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TruncateRecordingRequest(Message):
    """Template 13 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    position: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopRecordingSubscriptionRequest(Message):
    """Template 14 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    subscription_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopPositionRequest(Message):
    """Template 15 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FindLastMatchingRecordingRequest(Message):
    """Template 16 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    min_recording_id: int = NULL_INT64
    session_id: int = NULL_INT32
    stream_id: int = NULL_INT32
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListRecordingSubscriptionsRequest(Message):
    """Template 17 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    pseudo_index: int = NULL_INT32
    subscription_count: int = NULL_INT32
    apply_stream_id: bool = False
    stream_id: int = NULL_INT32
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoundedReplayRequest(Message):
    """Template 18 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    position: int = NULL_INT64
    length: int = NULL_INT64
    limit_counter_id: int = NULL_INT32
    replay_stream_id: int = NULL_INT32
    file_io_max_length: int = NULL_INT32
    replay_token: int = NULL_INT64
    replay_channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopAllReplaysRequest(Message):
    """Template 19 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CatalogHeader(Message):
    """Template 20 of schema 101."""

    version: int = NULL_INT32
    length: int = NULL_INT32
    next_recording_id: int = NULL_INT64
    alignment: int = NULL_INT32
    reserved: int = NULL_INT8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingDescriptorHeader(Message):
    """Template 21 of schema 101."""

    length: int = NULL_INT32
    state: RecordingState | int = NULL_INT32
    checksum: int = NULL_INT32
    reserved: int = NULL_INT8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingDescriptor(Message):
    """Template 22 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    start_timestamp: int = NULL_INT64
    stop_timestamp: int = NULL_INT64
    start_position: int = NULL_INT64
    stop_position: int = NULL_INT64
    initial_term_id: int = NULL_INT32
    segment_file_length: int = NULL_INT32
    term_buffer_length: int = NULL_INT32
    mtu_length: int = NULL_INT32
    session_id: int = NULL_INT32
    stream_id: int = NULL_INT32
    stripped_channel: str = ""
    original_channel: str = ""
    source_identity: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingSubscriptionDescriptor(Message):
    """Template 23 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    subscription_id: int = NULL_INT64
    stream_id: int = NULL_INT32
    stripped_channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingSignalEvent(Message):
    """Template 24 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    subscription_id: int = NULL_INT64
    position: int = NULL_INT64
    signal: RecordingSignal | int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicateRequest(Message):
    """Template 50 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    src_recording_id: int = NULL_INT64
    dst_recording_id: int = NULL_INT64
    src_control_stream_id: int = NULL_INT32
    src_control_channel: str = ""
    live_destination: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopReplicationRequest(Message):
    """Template 51 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    replication_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StartPositionRequest(Message):
    """Template 52 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DetachSegmentsRequest(Message):
    """Template 53 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    new_start_position: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeleteDetachedSegmentsRequest(Message):
    """Template 54 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PurgeSegmentsRequest(Message):
    """Template 55 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    new_start_position: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttachSegmentsRequest(Message):
    """Template 56 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MigrateSegmentsRequest(Message):
    """Template 57 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    src_recording_id: int = NULL_INT64
    dst_recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AuthConnectRequest(Message):
    """Template 58 of schema 101."""

    correlation_id: int = NULL_INT64
    response_stream_id: int = NULL_INT32
    version: int = 0
    response_channel: str = ""
    encoded_credentials: bytes = b""
    client_info: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Challenge(Message):
    """Template 59 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    version: int = 0
    encoded_challenge: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChallengeResponse(Message):
    """Template 60 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    encoded_credentials: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeepAliveRequest(Message):
    """Template 61 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TaggedReplicateRequest(Message):
    """Template 62 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    src_recording_id: int = NULL_INT64
    dst_recording_id: int = NULL_INT64
    channel_tag_id: int = NULL_INT64
    subscription_tag_id: int = NULL_INT64
    src_control_stream_id: int = NULL_INT32
    src_control_channel: str = ""
    live_destination: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StartRecordingRequest2(Message):
    """Template 63 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    stream_id: int = NULL_INT32
    source_location: SourceLocation | int = NULL_INT32
    auto_stop: bool = False
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtendRecordingRequest2(Message):
    """Template 64 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    stream_id: int = NULL_INT32
    source_location: SourceLocation | int = NULL_INT32
    auto_stop: bool = False
    channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopRecordingByIdentityRequest(Message):
    """Template 65 of schema 101."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplicateRequest2(Message):
    """Template 66 of schema 101, since version 6."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    src_recording_id: int = NULL_INT64
    dst_recording_id: int = NULL_INT64
    stop_position: int = NULL_INT64
    channel_tag_id: int = NULL_INT64
    subscription_tag_id: int = NULL_INT64
    src_control_stream_id: int = NULL_INT32
    file_io_max_length: int = NULL_INT32
    replication_session_id: int = NULL_INT32
    src_control_channel: str = ""
    live_destination: str = ""
    replication_channel: str = ""
    encoded_credentials: bytes = b""
    src_response_channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MaxRecordedPositionRequest(Message):
    """Template 67 of schema 101, since version 9."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArchiveIdRequest(Message):
    """Template 68 of schema 101, since version 9."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingStarted(Message):
    """Template 101 of schema 101."""

    recording_id: int = NULL_INT64
    start_position: int = NULL_INT64
    session_id: int = NULL_INT32
    stream_id: int = NULL_INT32
    channel: str = ""
    source_identity: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingProgress(Message):
    """Template 102 of schema 101."""

    recording_id: int = NULL_INT64
    start_position: int = NULL_INT64
    position: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordingStopped(Message):
    """Template 103 of schema 101."""

    recording_id: int = NULL_INT64
    start_position: int = NULL_INT64
    stop_position: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PurgeRecordingRequest(Message):
    """Template 104 of schema 101, since version 5."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplayTokenRequest(Message):
    """Template 105 of schema 101, since version 10."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ping(Message):
    """Template 106 of schema 101, since version 11."""

    control_session_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UpdateChannelRequest(Message):
    """Template 107 of schema 101, since version 13."""

    control_session_id: int = NULL_INT64
    correlation_id: int = NULL_INT64
    recording_id: int = NULL_INT64
    channel: str = ""


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("archive-codecs"), globals())
