"""Messages of schema 100, version 2. Generated: do not edit.

Made from archive-mark-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

from dataclasses import dataclass
from typing import Final

from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.schema import load_schema


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarkFileHeader(Message):
    """Template 200 of schema 100."""

    version: int = NULL_INT32
    activity_timestamp: int = NULL_INT64
    start_timestamp: int = NULL_INT64
    pid: int = NULL_INT64
    control_stream_id: int = NULL_INT32
    local_control_stream_id: int = NULL_INT32
    events_stream_id: int = NULL_INT32
    header_length: int = 0
    error_buffer_length: int = 0
    archive_id: int = -1
    control_channel: str = ""
    local_control_channel: str = ""
    events_channel: str = ""
    aeron_directory: str = ""


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("archive-mark-codecs"), globals())
