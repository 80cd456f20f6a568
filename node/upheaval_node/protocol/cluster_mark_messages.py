"""Messages of schema 110, version 2. Generated: do not edit.

Made from cluster-mark-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

# A constructor fills them by `set_field`, which mypy does not take for the value of a final field.
# mypy: disable-error-code="misc"

from enum import IntEnum
from typing import Final

from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message, set_field
from upheaval_node.protocol.schema import load_schema
from upheaval_node.types import MemberId, TermId


class ClusterComponentType(IntEnum):
    UNKNOWN = 0
    CONSENSUS_MODULE = 1
    CONTAINER = 2
    BACKUP = 3
    STANDBY = 4


class MarkFileHeader(Message):
    """Template 200 of schema 110."""

    version: Final[int]
    component_type: Final[ClusterComponentType | int]
    activity_timestamp: Final[int]
    start_timestamp: Final[int]
    pid: Final[int]
    candidate_term_id: Final[TermId]
    archive_stream_id: Final[int]
    service_stream_id: Final[int]
    consensus_module_stream_id: Final[int]
    ingress_stream_id: Final[int]
    member_id: Final[MemberId]
    service_id: Final[int]
    header_length: Final[int]
    error_buffer_length: Final[int]
    cluster_id: Final[int]
    aeron_directory: Final[str]
    control_channel: Final[str]
    ingress_channel: Final[str]
    service_name: Final[str]
    authenticator: Final[str]
    services_cluster_dir: Final[str]
    __match_args__ = (
        "version", "component_type", "activity_timestamp", "start_timestamp", "pid", "candidate_term_id",
        "archive_stream_id", "service_stream_id", "consensus_module_stream_id", "ingress_stream_id", "member_id",
        "service_id", "header_length", "error_buffer_length", "cluster_id", "aeron_directory", "control_channel",
        "ingress_channel", "service_name", "authenticator", "services_cluster_dir",
    )
    __slots__ = __match_args__

    def __init__(
        self, version: int = NULL_INT32, component_type: ClusterComponentType | int = NULL_INT32,
        activity_timestamp: int = NULL_INT64, start_timestamp: int = NULL_INT64, pid: int = NULL_INT64,
        candidate_term_id: TermId = TermId(NULL_INT64), archive_stream_id: int = NULL_INT32,
        service_stream_id: int = NULL_INT32, consensus_module_stream_id: int = NULL_INT32,
        ingress_stream_id: int = NULL_INT32, member_id: MemberId = MemberId(NULL_INT32),
        service_id: int = NULL_INT32, header_length: int = NULL_INT32, error_buffer_length: int = NULL_INT32,
        cluster_id: int = NULL_INT32, aeron_directory: str = "", control_channel: str = "",
        ingress_channel: str = "", service_name: str = "", authenticator: str = "", services_cluster_dir: str = "",
    ) -> None:
        set_field(self, "version", version)
        set_field(self, "component_type", component_type)
        set_field(self, "activity_timestamp", activity_timestamp)
        set_field(self, "start_timestamp", start_timestamp)
        set_field(self, "pid", pid)
        set_field(self, "candidate_term_id", candidate_term_id)
        set_field(self, "archive_stream_id", archive_stream_id)
        set_field(self, "service_stream_id", service_stream_id)
        set_field(self, "consensus_module_stream_id", consensus_module_stream_id)
        set_field(self, "ingress_stream_id", ingress_stream_id)
        set_field(self, "member_id", member_id)
        set_field(self, "service_id", service_id)
        set_field(self, "header_length", header_length)
        set_field(self, "error_buffer_length", error_buffer_length)
        set_field(self, "cluster_id", cluster_id)
        set_field(self, "aeron_directory", aeron_directory)
        set_field(self, "control_channel", control_channel)
        set_field(self, "ingress_channel", ingress_channel)
        set_field(self, "service_name", service_name)
        set_field(self, "authenticator", authenticator)
        set_field(self, "services_cluster_dir", services_cluster_dir)


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("cluster-mark-codecs"), globals())
