"""Messages of schema 100, version 2. Generated: do not edit.

Made from archive-mark-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

# A constructor fills them by `set_field`, which mypy does not take for the value of a final field.
# mypy: disable-error-code="misc"

from typing import Final

from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message, set_field
from upheaval_node.protocol.schema import load_schema


class MarkFileHeader(Message):
    """Template 200 of schema 100."""

    version: Final[int]
    activity_timestamp: Final[int]
    start_timestamp: Final[int]
    pid: Final[int]
    control_stream_id: Final[int]
    local_control_stream_id: Final[int]
    events_stream_id: Final[int]
    header_length: Final[int]
    error_buffer_length: Final[int]
    archive_id: Final[int]
    control_channel: Final[str]
    local_control_channel: Final[str]
    events_channel: Final[str]
    aeron_directory: Final[str]
    __match_args__ = (
        "version", "activity_timestamp", "start_timestamp", "pid", "control_stream_id", "local_control_stream_id",
        "events_stream_id", "header_length", "error_buffer_length", "archive_id", "control_channel",
        "local_control_channel", "events_channel", "aeron_directory",
    )
    __slots__ = __match_args__

    def __init__(
        self, version: int = NULL_INT32, activity_timestamp: int = NULL_INT64, start_timestamp: int = NULL_INT64,
        pid: int = NULL_INT64, control_stream_id: int = NULL_INT32, local_control_stream_id: int = NULL_INT32,
        events_stream_id: int = NULL_INT32, header_length: int = 0, error_buffer_length: int = 0,
        archive_id: int = -1, control_channel: str = "", local_control_channel: str = "", events_channel: str = "",
        aeron_directory: str = "",
    ) -> None:
        set_field(self, "version", version)
        set_field(self, "activity_timestamp", activity_timestamp)
        set_field(self, "start_timestamp", start_timestamp)
        set_field(self, "pid", pid)
        set_field(self, "control_stream_id", control_stream_id)
        set_field(self, "local_control_stream_id", local_control_stream_id)
        set_field(self, "events_stream_id", events_stream_id)
        set_field(self, "header_length", header_length)
        set_field(self, "error_buffer_length", error_buffer_length)
        set_field(self, "archive_id", archive_id)
        set_field(self, "control_channel", control_channel)
        set_field(self, "local_control_channel", local_control_channel)
        set_field(self, "events_channel", events_channel)
        set_field(self, "aeron_directory", aeron_directory)


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("archive-mark-codecs"), globals())
