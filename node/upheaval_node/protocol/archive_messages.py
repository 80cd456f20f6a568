"""Messages of schema 101, version 14. Generated: do not edit.

Made from archive-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

# A constructor fills them by `set_field`, which mypy does not take for the value of a final field.
# mypy: disable-error-code="misc"

from enum import IntEnum
from typing import Final

from upheaval_node.protocol.codec import NULL_INT8, NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message, set_field
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


class ControlResponse(Message):
    """Template 1 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    relevant_id: Final[int]
    code: Final[ControlResponseCode | int]
    version: Final[int]
    error_message: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "relevant_id", "code", "version", "error_message",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, relevant_id: int = NULL_INT64,
        code: ControlResponseCode | int = NULL_INT32, version: int = 0, error_message: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "relevant_id", relevant_id)
        set_field(self, "code", code)
        set_field(self, "version", version)
        set_field(self, "error_message", error_message)


class CloseSessionRequest(Message):
    """Template 3 of schema 101."""

    control_session_id: Final[int]
    __match_args__ = (
        "control_session_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)


class StartRecordingRequest(Message):
    """Template 4 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    stream_id: Final[int]
    source_location: Final[SourceLocation | int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "stream_id", "source_location", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, stream_id: int = NULL_INT32,
        source_location: SourceLocation | int = NULL_INT32, channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "source_location", source_location)
        set_field(self, "channel", channel)


class StopRecordingRequest(Message):
    """Template 5 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    stream_id: Final[int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "stream_id", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, stream_id: int = NULL_INT32,
        channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "channel", channel)


class ReplayRequest(Message):
    """Template 6 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    position: Final[int]
    length: Final[int]
    replay_stream_id: Final[int]
    file_io_max_length: Final[int]
    replay_token: Final[int]
    replay_channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "position", "length", "replay_stream_id",
        "file_io_max_length", "replay_token", "replay_channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        position: int = NULL_INT64, length: int = NULL_INT64, replay_stream_id: int = NULL_INT32,
        file_io_max_length: int = NULL_INT32, replay_token: int = NULL_INT64, replay_channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "position", position)
        set_field(self, "length", length)
        set_field(self, "replay_stream_id", replay_stream_id)
        set_field(self, "file_io_max_length", file_io_max_length)
        set_field(self, "replay_token", replay_token)
        set_field(self, "replay_channel", replay_channel)


class StopReplayRequest(Message):
    """Template 7 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    replay_session_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "replay_session_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        replay_session_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "replay_session_id", replay_session_id)


class ListRecordingsRequest(Message):
    """Template 8 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    from_recording_id: Final[int]
    record_count: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "from_recording_id", "record_count",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        from_recording_id: int = NULL_INT64, record_count: int = NULL_INT32,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "from_recording_id", from_recording_id)
        set_field(self, "record_count", record_count)


class ListRecordingsForUriRequest(Message):
    """Template 9 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    from_recording_id: Final[int]
    record_count: Final[int]
    stream_id: Final[int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "from_recording_id", "record_count", "stream_id", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        from_recording_id: int = NULL_INT64, record_count: int = NULL_INT32, stream_id: int = NULL_INT32,
        channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "from_recording_id", from_recording_id)
        set_field(self, "record_count", record_count)
        set_field(self, "stream_id", stream_id)
        set_field(self, "channel", channel)


class ListRecordingRequest(Message):
    """Template 10 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class ExtendRecordingRequest(Message):
    """Template 11 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    stream_id: Final[int]
    source_location: Final[SourceLocation | int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "stream_id", "source_location", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        stream_id: int = NULL_INT32, source_location: SourceLocation | int = NULL_INT32, channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "source_location", source_location)
        set_field(self, "channel", channel)


class RecordingPositionRequest(Message):
    """Template 12 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class TruncateRecordingRequest(Message):
    """Template 13 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    position: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "position",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        position: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "position", position)


class StopRecordingSubscriptionRequest(Message):
    """Template 14 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    subscription_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "subscription_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        subscription_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "subscription_id", subscription_id)


class StopPositionRequest(Message):
    """Template 15 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class FindLastMatchingRecordingRequest(Message):
    """Template 16 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    min_recording_id: Final[int]
    session_id: Final[int]
    stream_id: Final[int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "min_recording_id", "session_id", "stream_id", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        min_recording_id: int = NULL_INT64, session_id: int = NULL_INT32, stream_id: int = NULL_INT32,
        channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "min_recording_id", min_recording_id)
        set_field(self, "session_id", session_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "channel", channel)


class ListRecordingSubscriptionsRequest(Message):
    """Template 17 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    pseudo_index: Final[int]
    subscription_count: Final[int]
    apply_stream_id: Final[bool]
    stream_id: Final[int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "pseudo_index", "subscription_count", "apply_stream_id", "stream_id",
        "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, pseudo_index: int = NULL_INT32,
        subscription_count: int = NULL_INT32, apply_stream_id: bool = False, stream_id: int = NULL_INT32,
        channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "pseudo_index", pseudo_index)
        set_field(self, "subscription_count", subscription_count)
        set_field(self, "apply_stream_id", apply_stream_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "channel", channel)


class BoundedReplayRequest(Message):
    """Template 18 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    position: Final[int]
    length: Final[int]
    limit_counter_id: Final[int]
    replay_stream_id: Final[int]
    file_io_max_length: Final[int]
    replay_token: Final[int]
    replay_channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "position", "length", "limit_counter_id",
        "replay_stream_id", "file_io_max_length", "replay_token", "replay_channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        position: int = NULL_INT64, length: int = NULL_INT64, limit_counter_id: int = NULL_INT32,
        replay_stream_id: int = NULL_INT32, file_io_max_length: int = NULL_INT32, replay_token: int = NULL_INT64,
        replay_channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "position", position)
        set_field(self, "length", length)
        set_field(self, "limit_counter_id", limit_counter_id)
        set_field(self, "replay_stream_id", replay_stream_id)
        set_field(self, "file_io_max_length", file_io_max_length)
        set_field(self, "replay_token", replay_token)
        set_field(self, "replay_channel", replay_channel)


class StopAllReplaysRequest(Message):
    """Template 19 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class CatalogHeader(Message):
    """Template 20 of schema 101."""

    version: Final[int]
    length: Final[int]
    next_recording_id: Final[int]
    alignment: Final[int]
    reserved: Final[int]
    __match_args__ = (
        "version", "length", "next_recording_id", "alignment", "reserved",
    )
    __slots__ = __match_args__

    def __init__(
        self, version: int = NULL_INT32, length: int = NULL_INT32, next_recording_id: int = NULL_INT64,
        alignment: int = NULL_INT32, reserved: int = NULL_INT8,
    ) -> None:
        set_field(self, "version", version)
        set_field(self, "length", length)
        set_field(self, "next_recording_id", next_recording_id)
        set_field(self, "alignment", alignment)
        set_field(self, "reserved", reserved)


class RecordingDescriptorHeader(Message):
    """Template 21 of schema 101."""

    length: Final[int]
    state: Final[RecordingState | int]
    checksum: Final[int]
    reserved: Final[int]
    __match_args__ = (
        "length", "state", "checksum", "reserved",
    )
    __slots__ = __match_args__

    def __init__(
        self, length: int = NULL_INT32, state: RecordingState | int = NULL_INT32, checksum: int = NULL_INT32,
        reserved: int = NULL_INT8,
    ) -> None:
        set_field(self, "length", length)
        set_field(self, "state", state)
        set_field(self, "checksum", checksum)
        set_field(self, "reserved", reserved)


class RecordingDescriptor(Message):
    """Template 22 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    start_timestamp: Final[int]
    stop_timestamp: Final[int]
    start_position: Final[int]
    stop_position: Final[int]
    initial_term_id: Final[int]
    segment_file_length: Final[int]
    term_buffer_length: Final[int]
    mtu_length: Final[int]
    session_id: Final[int]
    stream_id: Final[int]
    stripped_channel: Final[str]
    original_channel: Final[str]
    source_identity: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "start_timestamp", "stop_timestamp",
        "start_position", "stop_position", "initial_term_id", "segment_file_length", "term_buffer_length",
        "mtu_length", "session_id", "stream_id", "stripped_channel", "original_channel", "source_identity",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        start_timestamp: int = NULL_INT64, stop_timestamp: int = NULL_INT64, start_position: int = NULL_INT64,
        stop_position: int = NULL_INT64, initial_term_id: int = NULL_INT32, segment_file_length: int = NULL_INT32,
        term_buffer_length: int = NULL_INT32, mtu_length: int = NULL_INT32, session_id: int = NULL_INT32,
        stream_id: int = NULL_INT32, stripped_channel: str = "", original_channel: str = "",
        source_identity: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "start_timestamp", start_timestamp)
        set_field(self, "stop_timestamp", stop_timestamp)
        set_field(self, "start_position", start_position)
        set_field(self, "stop_position", stop_position)
        set_field(self, "initial_term_id", initial_term_id)
        set_field(self, "segment_file_length", segment_file_length)
        set_field(self, "term_buffer_length", term_buffer_length)
        set_field(self, "mtu_length", mtu_length)
        set_field(self, "session_id", session_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "stripped_channel", stripped_channel)
        set_field(self, "original_channel", original_channel)
        set_field(self, "source_identity", source_identity)


class RecordingSubscriptionDescriptor(Message):
    """Template 23 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    subscription_id: Final[int]
    stream_id: Final[int]
    stripped_channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "subscription_id", "stream_id", "stripped_channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        subscription_id: int = NULL_INT64, stream_id: int = NULL_INT32, stripped_channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "subscription_id", subscription_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "stripped_channel", stripped_channel)


class RecordingSignalEvent(Message):
    """Template 24 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    subscription_id: Final[int]
    position: Final[int]
    signal: Final[RecordingSignal | int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "subscription_id", "position", "signal",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        subscription_id: int = NULL_INT64, position: int = NULL_INT64, signal: RecordingSignal | int = NULL_INT32,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "subscription_id", subscription_id)
        set_field(self, "position", position)
        set_field(self, "signal", signal)


class ReplicateRequest(Message):
    """Template 50 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    src_recording_id: Final[int]
    dst_recording_id: Final[int]
    src_control_stream_id: Final[int]
    src_control_channel: Final[str]
    live_destination: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "src_recording_id", "dst_recording_id", "src_control_stream_id",
        "src_control_channel", "live_destination",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        src_recording_id: int = NULL_INT64, dst_recording_id: int = NULL_INT64,
        src_control_stream_id: int = NULL_INT32, src_control_channel: str = "", live_destination: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "src_recording_id", src_recording_id)
        set_field(self, "dst_recording_id", dst_recording_id)
        set_field(self, "src_control_stream_id", src_control_stream_id)
        set_field(self, "src_control_channel", src_control_channel)
        set_field(self, "live_destination", live_destination)


class StopReplicationRequest(Message):
    """Template 51 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    replication_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "replication_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        replication_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "replication_id", replication_id)


class StartPositionRequest(Message):
    """Template 52 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class DetachSegmentsRequest(Message):
    """Template 53 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    new_start_position: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "new_start_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        new_start_position: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "new_start_position", new_start_position)


class DeleteDetachedSegmentsRequest(Message):
    """Template 54 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class PurgeSegmentsRequest(Message):
    """Template 55 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    new_start_position: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "new_start_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        new_start_position: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "new_start_position", new_start_position)


class AttachSegmentsRequest(Message):
    """Template 56 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class MigrateSegmentsRequest(Message):
    """Template 57 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    src_recording_id: Final[int]
    dst_recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "src_recording_id", "dst_recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        src_recording_id: int = NULL_INT64, dst_recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "src_recording_id", src_recording_id)
        set_field(self, "dst_recording_id", dst_recording_id)


class AuthConnectRequest(Message):
    """Template 58 of schema 101."""

    correlation_id: Final[int]
    response_stream_id: Final[int]
    version: Final[int]
    response_channel: Final[str]
    encoded_credentials: Final[bytes]
    client_info: Final[str]
    __match_args__ = (
        "correlation_id", "response_stream_id", "version", "response_channel", "encoded_credentials", "client_info",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, response_stream_id: int = NULL_INT32, version: int = 0,
        response_channel: str = "", encoded_credentials: bytes = b"", client_info: str = "",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "version", version)
        set_field(self, "response_channel", response_channel)
        set_field(self, "encoded_credentials", encoded_credentials)
        set_field(self, "client_info", client_info)


class Challenge(Message):
    """Template 59 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    version: Final[int]
    encoded_challenge: Final[bytes]
    __match_args__ = (
        "control_session_id", "correlation_id", "version", "encoded_challenge",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, version: int = 0,
        encoded_challenge: bytes = b"",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "version", version)
        set_field(self, "encoded_challenge", encoded_challenge)


class ChallengeResponse(Message):
    """Template 60 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    encoded_credentials: Final[bytes]
    __match_args__ = (
        "control_session_id", "correlation_id", "encoded_credentials",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        encoded_credentials: bytes = b"",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "encoded_credentials", encoded_credentials)


class KeepAliveRequest(Message):
    """Template 61 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)


class TaggedReplicateRequest(Message):
    """Template 62 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    src_recording_id: Final[int]
    dst_recording_id: Final[int]
    channel_tag_id: Final[int]
    subscription_tag_id: Final[int]
    src_control_stream_id: Final[int]
    src_control_channel: Final[str]
    live_destination: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "src_recording_id", "dst_recording_id", "channel_tag_id",
        "subscription_tag_id", "src_control_stream_id", "src_control_channel", "live_destination",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        src_recording_id: int = NULL_INT64, dst_recording_id: int = NULL_INT64, channel_tag_id: int = NULL_INT64,
        subscription_tag_id: int = NULL_INT64, src_control_stream_id: int = NULL_INT32,
        src_control_channel: str = "", live_destination: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "src_recording_id", src_recording_id)
        set_field(self, "dst_recording_id", dst_recording_id)
        set_field(self, "channel_tag_id", channel_tag_id)
        set_field(self, "subscription_tag_id", subscription_tag_id)
        set_field(self, "src_control_stream_id", src_control_stream_id)
        set_field(self, "src_control_channel", src_control_channel)
        set_field(self, "live_destination", live_destination)


class StartRecordingRequest2(Message):
    """Template 63 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    stream_id: Final[int]
    source_location: Final[SourceLocation | int]
    auto_stop: Final[bool]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "stream_id", "source_location", "auto_stop", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, stream_id: int = NULL_INT32,
        source_location: SourceLocation | int = NULL_INT32, auto_stop: bool = False, channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "source_location", source_location)
        set_field(self, "auto_stop", auto_stop)
        set_field(self, "channel", channel)


class ExtendRecordingRequest2(Message):
    """Template 64 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    stream_id: Final[int]
    source_location: Final[SourceLocation | int]
    auto_stop: Final[bool]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "stream_id", "source_location", "auto_stop",
        "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        stream_id: int = NULL_INT32, source_location: SourceLocation | int = NULL_INT32, auto_stop: bool = False,
        channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "source_location", source_location)
        set_field(self, "auto_stop", auto_stop)
        set_field(self, "channel", channel)


class StopRecordingByIdentityRequest(Message):
    """Template 65 of schema 101."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class ReplicateRequest2(Message):
    """Template 66 of schema 101, since version 6."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    src_recording_id: Final[int]
    dst_recording_id: Final[int]
    stop_position: Final[int]
    channel_tag_id: Final[int]
    subscription_tag_id: Final[int]
    src_control_stream_id: Final[int]
    file_io_max_length: Final[int]
    replication_session_id: Final[int]
    src_control_channel: Final[str]
    live_destination: Final[str]
    replication_channel: Final[str]
    encoded_credentials: Final[bytes]
    src_response_channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "src_recording_id", "dst_recording_id", "stop_position",
        "channel_tag_id", "subscription_tag_id", "src_control_stream_id", "file_io_max_length",
        "replication_session_id", "src_control_channel", "live_destination", "replication_channel",
        "encoded_credentials", "src_response_channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
        src_recording_id: int = NULL_INT64, dst_recording_id: int = NULL_INT64, stop_position: int = NULL_INT64,
        channel_tag_id: int = NULL_INT64, subscription_tag_id: int = NULL_INT64,
        src_control_stream_id: int = NULL_INT32, file_io_max_length: int = NULL_INT32,
        replication_session_id: int = NULL_INT32, src_control_channel: str = "", live_destination: str = "",
        replication_channel: str = "", encoded_credentials: bytes = b"", src_response_channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "src_recording_id", src_recording_id)
        set_field(self, "dst_recording_id", dst_recording_id)
        set_field(self, "stop_position", stop_position)
        set_field(self, "channel_tag_id", channel_tag_id)
        set_field(self, "subscription_tag_id", subscription_tag_id)
        set_field(self, "src_control_stream_id", src_control_stream_id)
        set_field(self, "file_io_max_length", file_io_max_length)
        set_field(self, "replication_session_id", replication_session_id)
        set_field(self, "src_control_channel", src_control_channel)
        set_field(self, "live_destination", live_destination)
        set_field(self, "replication_channel", replication_channel)
        set_field(self, "encoded_credentials", encoded_credentials)
        set_field(self, "src_response_channel", src_response_channel)


class MaxRecordedPositionRequest(Message):
    """Template 67 of schema 101, since version 9."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class ArchiveIdRequest(Message):
    """Template 68 of schema 101, since version 9."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)


class RecordingStarted(Message):
    """Template 101 of schema 101."""

    recording_id: Final[int]
    start_position: Final[int]
    session_id: Final[int]
    stream_id: Final[int]
    channel: Final[str]
    source_identity: Final[str]
    __match_args__ = (
        "recording_id", "start_position", "session_id", "stream_id", "channel", "source_identity",
    )
    __slots__ = __match_args__

    def __init__(
        self, recording_id: int = NULL_INT64, start_position: int = NULL_INT64, session_id: int = NULL_INT32,
        stream_id: int = NULL_INT32, channel: str = "", source_identity: str = "",
    ) -> None:
        set_field(self, "recording_id", recording_id)
        set_field(self, "start_position", start_position)
        set_field(self, "session_id", session_id)
        set_field(self, "stream_id", stream_id)
        set_field(self, "channel", channel)
        set_field(self, "source_identity", source_identity)


class RecordingProgress(Message):
    """Template 102 of schema 101."""

    recording_id: Final[int]
    start_position: Final[int]
    position: Final[int]
    __match_args__ = (
        "recording_id", "start_position", "position",
    )
    __slots__ = __match_args__

    def __init__(
        self, recording_id: int = NULL_INT64, start_position: int = NULL_INT64, position: int = NULL_INT64,
    ) -> None:
        set_field(self, "recording_id", recording_id)
        set_field(self, "start_position", start_position)
        set_field(self, "position", position)


class RecordingStopped(Message):
    """Template 103 of schema 101."""

    recording_id: Final[int]
    start_position: Final[int]
    stop_position: Final[int]
    __match_args__ = (
        "recording_id", "start_position", "stop_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, recording_id: int = NULL_INT64, start_position: int = NULL_INT64, stop_position: int = NULL_INT64,
    ) -> None:
        set_field(self, "recording_id", recording_id)
        set_field(self, "start_position", start_position)
        set_field(self, "stop_position", stop_position)


class PurgeRecordingRequest(Message):
    """Template 104 of schema 101, since version 5."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class ReplayTokenRequest(Message):
    """Template 105 of schema 101, since version 10."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)


class Ping(Message):
    """Template 106 of schema 101, since version 11."""

    control_session_id: Final[int]
    __match_args__ = (
        "control_session_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "control_session_id", control_session_id)


class UpdateChannelRequest(Message):
    """Template 107 of schema 101, since version 13."""

    control_session_id: Final[int]
    correlation_id: Final[int]
    recording_id: Final[int]
    channel: Final[str]
    __match_args__ = (
        "control_session_id", "correlation_id", "recording_id", "channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, control_session_id: int = NULL_INT64, correlation_id: int = NULL_INT64, recording_id: int = NULL_INT64,
        channel: str = "",
    ) -> None:
        set_field(self, "control_session_id", control_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "recording_id", recording_id)
        set_field(self, "channel", channel)


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("archive-codecs"), globals())
