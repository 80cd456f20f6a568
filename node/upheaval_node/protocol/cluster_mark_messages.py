"""Messages of schema 110, version 2. Generated: do not edit.

Made from cluster-mark-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.schema import load_schema
from upheaval_node.types import MemberId, TermId


class ClusterComponentType(IntEnum):
    UNKNOWN = 0
    CONSENSUS_MODULE = 1
    CONTAINER = 2
    BACKUP = 3
    STANDBY = 4


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarkFileHeader(Message):
    """Template 200 of schema 110."""

    version: int = NULL_INT32
    component_type: ClusterComponentType | int = NULL_INT32
    activity_timestamp: int = NULL_INT64
    start_timestamp: int = NULL_INT64
    pid: int = NULL_INT64
    candidate_term_id: TermId = TermId(NULL_INT64)
    archive_stream_id: int = NULL_INT32
    service_stream_id: int = NULL_INT32
    consensus_module_stream_id: int = NULL_INT32
    ingress_stream_id: int = NULL_INT32
    member_id: MemberId = MemberId(NULL_INT32)
    service_id: int = NULL_INT32
    header_length: int = NULL_INT32
    error_buffer_length: int = NULL_INT32
    cluster_id: int = NULL_INT32
    aeron_directory: str = ""
    control_channel: str = ""
    ingress_channel: str = ""
    service_name: str = ""
    authenticator: str = ""
    services_cluster_dir: str = ""


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("cluster-mark-codecs"), globals())
