"""Messages of schema 111, version 17. Generated: do not edit.

Made from cluster-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

# A constructor fills them by `set_field`, which mypy does not take for the value of a final field.
# mypy: disable-error-code="misc"

from enum import IntEnum
from typing import Final

from upheaval_node.protocol.codec import NULL_UINT8, NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import GroupEntry, Message, set_field
from upheaval_node.protocol.schema import load_schema
from upheaval_node.types import MemberId, Position, SessionId, TermId


class EventCode(IntEnum):
    OK = 0
    ERROR = 1
    REDIRECT = 2
    AUTHENTICATION_REJECTED = 3
    CLOSED = 4


class CloseReason(IntEnum):
    CLIENT_ACTION = 0
    SERVICE_ACTION = 1
    TIMEOUT = 2


class ClusterAction(IntEnum):
    SUSPEND = 0
    RESUME = 1
    SNAPSHOT = 2


class SnapshotMark(IntEnum):
    BEGIN = 0
    SECTION = 1
    END = 2


class ChangeType(IntEnum):
    JOIN = 0
    QUIT = 1


class ClusterTimeUnit(IntEnum):
    MILLIS = 0
    MICROS = 1
    NANOS = 2


class AdminRequestType(IntEnum):
    SNAPSHOT = 0


class AdminResponseCode(IntEnum):
    OK = 0
    ERROR = 1
    UNAUTHORISED_ACCESS = 2


class SessionMessageHeader(Message):
    """Template 1 of schema 111."""

    leadership_term_id: Final[TermId]
    cluster_session_id: Final[SessionId]
    timestamp: Final[int]
    __match_args__ = (
        "leadership_term_id", "cluster_session_id", "timestamp",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), cluster_session_id: SessionId = SessionId(NULL_INT64),
        timestamp: int = NULL_INT64,
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "timestamp", timestamp)


class SessionEvent(Message):
    """Template 2 of schema 111."""

    cluster_session_id: Final[SessionId]
    correlation_id: Final[int]
    leadership_term_id: Final[TermId]
    leader_member_id: Final[MemberId]
    code: Final[EventCode | int]
    version: Final[int]
    leader_heartbeat_timeout_ns: Final[int]
    detail: Final[str]
    __match_args__ = (
        "cluster_session_id", "correlation_id", "leadership_term_id", "leader_member_id", "code", "version",
        "leader_heartbeat_timeout_ns", "detail",
    )
    __slots__ = __match_args__

    def __init__(
        self, cluster_session_id: SessionId = SessionId(NULL_INT64), correlation_id: int = NULL_INT64,
        leadership_term_id: TermId = TermId(NULL_INT64), leader_member_id: MemberId = MemberId(NULL_INT32),
        code: EventCode | int = NULL_INT32, version: int = 0, leader_heartbeat_timeout_ns: int = NULL_INT64,
        detail: str = "",
    ) -> None:
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "code", code)
        set_field(self, "version", version)
        set_field(self, "leader_heartbeat_timeout_ns", leader_heartbeat_timeout_ns)
        set_field(self, "detail", detail)


class SessionConnectRequest(Message):
    """Template 3 of schema 111."""

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


class SessionCloseRequest(Message):
    """Template 4 of schema 111."""

    leadership_term_id: Final[TermId]
    cluster_session_id: Final[SessionId]
    __match_args__ = (
        "leadership_term_id", "cluster_session_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), cluster_session_id: SessionId = SessionId(NULL_INT64),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "cluster_session_id", cluster_session_id)


class SessionKeepAlive(Message):
    """Template 5 of schema 111."""

    leadership_term_id: Final[TermId]
    cluster_session_id: Final[SessionId]
    __match_args__ = (
        "leadership_term_id", "cluster_session_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), cluster_session_id: SessionId = SessionId(NULL_INT64),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "cluster_session_id", cluster_session_id)


class NewLeaderEvent(Message):
    """Template 6 of schema 111."""

    leadership_term_id: Final[TermId]
    cluster_session_id: Final[SessionId]
    leader_member_id: Final[MemberId]
    ingress_endpoints: Final[str]
    __match_args__ = (
        "leadership_term_id", "cluster_session_id", "leader_member_id", "ingress_endpoints",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), cluster_session_id: SessionId = SessionId(NULL_INT64),
        leader_member_id: MemberId = MemberId(NULL_INT32), ingress_endpoints: str = "",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "ingress_endpoints", ingress_endpoints)


class Challenge(Message):
    """Template 7 of schema 111."""

    correlation_id: Final[int]
    cluster_session_id: Final[SessionId]
    encoded_challenge: Final[bytes]
    __match_args__ = (
        "correlation_id", "cluster_session_id", "encoded_challenge",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, cluster_session_id: SessionId = SessionId(NULL_INT64),
        encoded_challenge: bytes = b"",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "encoded_challenge", encoded_challenge)


class ChallengeResponse(Message):
    """Template 8 of schema 111."""

    correlation_id: Final[int]
    cluster_session_id: Final[SessionId]
    encoded_credentials: Final[bytes]
    __match_args__ = (
        "correlation_id", "cluster_session_id", "encoded_credentials",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, cluster_session_id: SessionId = SessionId(NULL_INT64),
        encoded_credentials: bytes = b"",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "encoded_credentials", encoded_credentials)


class TimerEvent(Message):
    """Template 20 of schema 111."""

    leadership_term_id: Final[TermId]
    correlation_id: Final[int]
    timestamp: Final[int]
    __match_args__ = (
        "leadership_term_id", "correlation_id", "timestamp",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), correlation_id: int = NULL_INT64,
        timestamp: int = NULL_INT64,
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "timestamp", timestamp)


class SessionOpenEvent(Message):
    """Template 21 of schema 111."""

    leadership_term_id: Final[TermId]
    correlation_id: Final[int]
    cluster_session_id: Final[SessionId]
    timestamp: Final[int]
    response_stream_id: Final[int]
    response_channel: Final[str]
    encoded_principal: Final[bytes]
    __match_args__ = (
        "leadership_term_id", "correlation_id", "cluster_session_id", "timestamp", "response_stream_id",
        "response_channel", "encoded_principal",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), correlation_id: int = NULL_INT64,
        cluster_session_id: SessionId = SessionId(NULL_INT64), timestamp: int = NULL_INT64,
        response_stream_id: int = NULL_INT32, response_channel: str = "", encoded_principal: bytes = b"",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "timestamp", timestamp)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "response_channel", response_channel)
        set_field(self, "encoded_principal", encoded_principal)


class SessionCloseEvent(Message):
    """Template 22 of schema 111."""

    leadership_term_id: Final[TermId]
    cluster_session_id: Final[SessionId]
    timestamp: Final[int]
    close_reason: Final[CloseReason | int]
    __match_args__ = (
        "leadership_term_id", "cluster_session_id", "timestamp", "close_reason",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), cluster_session_id: SessionId = SessionId(NULL_INT64),
        timestamp: int = NULL_INT64, close_reason: CloseReason | int = NULL_INT32,
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "timestamp", timestamp)
        set_field(self, "close_reason", close_reason)


class ClusterActionRequest(Message):
    """Template 23 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    timestamp: Final[int]
    action: Final[ClusterAction | int]
    flags: Final[int]
    __match_args__ = (
        "leadership_term_id", "log_position", "timestamp", "action", "flags",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        timestamp: int = NULL_INT64, action: ClusterAction | int = NULL_INT32, flags: int = NULL_INT32,
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "action", action)
        set_field(self, "flags", flags)


class NewLeadershipTermEvent(Message):
    """Template 24 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    timestamp: Final[int]
    term_base_log_position: Final[Position]
    leader_member_id: Final[MemberId]
    log_session_id: Final[int]
    time_unit: Final[ClusterTimeUnit | int]
    app_version: Final[int]
    __match_args__ = (
        "leadership_term_id", "log_position", "timestamp", "term_base_log_position", "leader_member_id",
        "log_session_id", "time_unit", "app_version",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        timestamp: int = NULL_INT64, term_base_log_position: Position = Position(NULL_INT64),
        leader_member_id: MemberId = MemberId(NULL_INT32), log_session_id: int = NULL_INT32,
        time_unit: ClusterTimeUnit | int = NULL_INT32, app_version: int = 0,
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "term_base_log_position", term_base_log_position)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "log_session_id", log_session_id)
        set_field(self, "time_unit", time_unit)
        set_field(self, "app_version", app_version)


class MembershipChangeEvent(Message):
    """Template 25 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    timestamp: Final[int]
    leader_member_id: Final[MemberId]
    cluster_size: Final[int]
    change_type: Final[ChangeType | int]
    member_id: Final[MemberId]
    cluster_members: Final[str]
    __match_args__ = (
        "leadership_term_id", "log_position", "timestamp", "leader_member_id", "cluster_size", "change_type",
        "member_id", "cluster_members",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        timestamp: int = NULL_INT64, leader_member_id: MemberId = MemberId(NULL_INT32),
        cluster_size: int = NULL_INT32, change_type: ChangeType | int = NULL_INT32,
        member_id: MemberId = MemberId(NULL_INT32), cluster_members: str = "",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "cluster_size", cluster_size)
        set_field(self, "change_type", change_type)
        set_field(self, "member_id", member_id)
        set_field(self, "cluster_members", cluster_members)


class AdminRequest(Message):
    """Template 26 of schema 111."""

    leadership_term_id: Final[TermId]
    cluster_session_id: Final[SessionId]
    correlation_id: Final[int]
    request_type: Final[AdminRequestType | int]
    payload: Final[bytes]
    __match_args__ = (
        "leadership_term_id", "cluster_session_id", "correlation_id", "request_type", "payload",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), cluster_session_id: SessionId = SessionId(NULL_INT64),
        correlation_id: int = NULL_INT64, request_type: AdminRequestType | int = NULL_INT32, payload: bytes = b"",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "request_type", request_type)
        set_field(self, "payload", payload)


class AdminResponse(Message):
    """Template 27 of schema 111."""

    cluster_session_id: Final[SessionId]
    correlation_id: Final[int]
    request_type: Final[AdminRequestType | int]
    response_code: Final[AdminResponseCode | int]
    message: Final[str]
    payload: Final[bytes]
    __match_args__ = (
        "cluster_session_id", "correlation_id", "request_type", "response_code", "message", "payload",
    )
    __slots__ = __match_args__

    def __init__(
        self, cluster_session_id: SessionId = SessionId(NULL_INT64), correlation_id: int = NULL_INT64,
        request_type: AdminRequestType | int = NULL_INT32, response_code: AdminResponseCode | int = NULL_INT32,
        message: str = "", payload: bytes = b"",
    ) -> None:
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "request_type", request_type)
        set_field(self, "response_code", response_code)
        set_field(self, "message", message)
        set_field(self, "payload", payload)


class CloseSession(Message):
    """Template 30 of schema 111."""

    cluster_session_id: Final[SessionId]
    __match_args__ = (
        "cluster_session_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, cluster_session_id: SessionId = SessionId(NULL_INT64),
    ) -> None:
        set_field(self, "cluster_session_id", cluster_session_id)


class ScheduleTimer(Message):
    """Template 31 of schema 111."""

    correlation_id: Final[int]
    deadline: Final[int]
    __match_args__ = (
        "correlation_id", "deadline",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, deadline: int = NULL_INT64,
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "deadline", deadline)


class CancelTimer(Message):
    """Template 32 of schema 111."""

    correlation_id: Final[int]
    __match_args__ = (
        "correlation_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "correlation_id", correlation_id)


class ServiceAck(Message):
    """Template 33 of schema 111."""

    log_position: Final[Position]
    timestamp: Final[int]
    ack_id: Final[int]
    relevant_id: Final[int]
    service_id: Final[int]
    __match_args__ = (
        "log_position", "timestamp", "ack_id", "relevant_id", "service_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_position: Position = Position(NULL_INT64), timestamp: int = NULL_INT64, ack_id: int = NULL_INT64,
        relevant_id: int = NULL_INT64, service_id: int = NULL_INT32,
    ) -> None:
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "ack_id", ack_id)
        set_field(self, "relevant_id", relevant_id)
        set_field(self, "service_id", service_id)


class ClusterMembersQuery(Message):
    """Template 34 of schema 111."""

    correlation_id: Final[int]
    extended: Final[bool]
    __match_args__ = (
        "correlation_id", "extended",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, extended: bool = False,
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "extended", extended)


class RemoveMember(Message):
    """Template 35 of schema 111, deprecated since version 12."""

    member_id: Final[MemberId]
    is_passive: Final[bool]
    __match_args__ = (
        "member_id", "is_passive",
    )
    __slots__ = __match_args__

    def __init__(
        self, member_id: MemberId = MemberId(NULL_INT32), is_passive: bool = False,
    ) -> None:
        set_field(self, "member_id", member_id)
        set_field(self, "is_passive", is_passive)


class JoinLog(Message):
    """Template 40 of schema 111."""

    log_position: Final[Position]
    max_log_position: Final[Position]
    member_id: Final[MemberId]
    log_session_id: Final[int]
    log_stream_id: Final[int]
    is_startup: Final[bool]
    role: Final[int]
    is_standby: Final[bool]
    log_channel: Final[str]
    __match_args__ = (
        "log_position", "max_log_position", "member_id", "log_session_id", "log_stream_id", "is_startup", "role",
        "is_standby", "log_channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_position: Position = Position(NULL_INT64), max_log_position: Position = Position(NULL_INT64),
        member_id: MemberId = MemberId(NULL_INT32), log_session_id: int = NULL_INT32,
        log_stream_id: int = NULL_INT32, is_startup: bool = False, role: int = NULL_INT32, is_standby: bool = False,
        log_channel: str = "",
    ) -> None:
        set_field(self, "log_position", log_position)
        set_field(self, "max_log_position", max_log_position)
        set_field(self, "member_id", member_id)
        set_field(self, "log_session_id", log_session_id)
        set_field(self, "log_stream_id", log_stream_id)
        set_field(self, "is_startup", is_startup)
        set_field(self, "role", role)
        set_field(self, "is_standby", is_standby)
        set_field(self, "log_channel", log_channel)


class ClusterMembersResponse(Message):
    """Template 41 of schema 111."""

    correlation_id: Final[int]
    leader_member_id: Final[MemberId]
    active_members: Final[str]
    passive_followers: Final[str]
    __match_args__ = (
        "correlation_id", "leader_member_id", "active_members", "passive_followers",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, leader_member_id: MemberId = MemberId(NULL_INT32),
        active_members: str = "", passive_followers: str = "",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "active_members", active_members)
        set_field(self, "passive_followers", passive_followers)


class ServiceTerminationPosition(Message):
    """Template 42 of schema 111."""

    log_position: Final[Position]
    ack_required: Final[bool]
    __match_args__ = (
        "log_position", "ack_required",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_position: Position = Position(NULL_INT64), ack_required: bool = False,
    ) -> None:
        set_field(self, "log_position", log_position)
        set_field(self, "ack_required", ack_required)


class ClusterMembersExtendedResponseActiveMember(GroupEntry):
    """Entry of the group `ClusterMembersExtendedResponse.activeMembers`."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    time_of_last_append_ns: Final[int]
    member_id: Final[MemberId]
    ingress_endpoint: Final[str]
    consensus_endpoint: Final[str]
    log_endpoint: Final[str]
    catchup_endpoint: Final[str]
    archive_endpoint: Final[str]
    __match_args__ = (
        "leadership_term_id", "log_position", "time_of_last_append_ns", "member_id", "ingress_endpoint",
        "consensus_endpoint", "log_endpoint", "catchup_endpoint", "archive_endpoint",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        time_of_last_append_ns: int = NULL_INT64, member_id: MemberId = MemberId(NULL_INT32),
        ingress_endpoint: str = "", consensus_endpoint: str = "", log_endpoint: str = "", catchup_endpoint: str = "",
        archive_endpoint: str = "",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "time_of_last_append_ns", time_of_last_append_ns)
        set_field(self, "member_id", member_id)
        set_field(self, "ingress_endpoint", ingress_endpoint)
        set_field(self, "consensus_endpoint", consensus_endpoint)
        set_field(self, "log_endpoint", log_endpoint)
        set_field(self, "catchup_endpoint", catchup_endpoint)
        set_field(self, "archive_endpoint", archive_endpoint)


class ClusterMembersExtendedResponsePassiveMember(GroupEntry):
    """Entry of the group `ClusterMembersExtendedResponse.passiveMembers`."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    time_of_last_append_ns: Final[int]
    member_id: Final[MemberId]
    ingress_endpoint: Final[str]
    consensus_endpoint: Final[str]
    log_endpoint: Final[str]
    catchup_endpoint: Final[str]
    archive_endpoint: Final[str]
    __match_args__ = (
        "leadership_term_id", "log_position", "time_of_last_append_ns", "member_id", "ingress_endpoint",
        "consensus_endpoint", "log_endpoint", "catchup_endpoint", "archive_endpoint",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        time_of_last_append_ns: int = NULL_INT64, member_id: MemberId = MemberId(NULL_INT32),
        ingress_endpoint: str = "", consensus_endpoint: str = "", log_endpoint: str = "", catchup_endpoint: str = "",
        archive_endpoint: str = "",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "time_of_last_append_ns", time_of_last_append_ns)
        set_field(self, "member_id", member_id)
        set_field(self, "ingress_endpoint", ingress_endpoint)
        set_field(self, "consensus_endpoint", consensus_endpoint)
        set_field(self, "log_endpoint", log_endpoint)
        set_field(self, "catchup_endpoint", catchup_endpoint)
        set_field(self, "archive_endpoint", archive_endpoint)


class ClusterMembersExtendedResponse(Message):
    """Template 43 of schema 111."""

    correlation_id: Final[int]
    current_time_ns: Final[int]
    leader_member_id: Final[MemberId]
    member_id: Final[MemberId]
    active_members: Final[tuple[ClusterMembersExtendedResponseActiveMember, ...]]
    passive_members: Final[tuple[ClusterMembersExtendedResponsePassiveMember, ...]]
    __match_args__ = (
        "correlation_id", "current_time_ns", "leader_member_id", "member_id", "active_members", "passive_members",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, current_time_ns: int = NULL_INT64,
        leader_member_id: MemberId = MemberId(NULL_INT32), member_id: MemberId = MemberId(NULL_INT32),
        active_members: tuple[ClusterMembersExtendedResponseActiveMember, ...] = (),
        passive_members: tuple[ClusterMembersExtendedResponsePassiveMember, ...] = (),
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "current_time_ns", current_time_ns)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "member_id", member_id)
        set_field(self, "active_members", active_members)
        set_field(self, "passive_members", passive_members)


class CanvassPosition(Message):
    """Template 50 of schema 111."""

    log_leadership_term_id: Final[TermId]
    log_position: Final[Position]
    leadership_term_id: Final[TermId]
    follower_member_id: Final[MemberId]
    protocol_version: Final[int]
    __match_args__ = (
        "log_leadership_term_id", "log_position", "leadership_term_id", "follower_member_id", "protocol_version",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        leadership_term_id: TermId = TermId(NULL_INT64), follower_member_id: MemberId = MemberId(NULL_INT32),
        protocol_version: int = 0,
    ) -> None:
        set_field(self, "log_leadership_term_id", log_leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "follower_member_id", follower_member_id)
        set_field(self, "protocol_version", protocol_version)


class RequestVote(Message):
    """Template 51 of schema 111."""

    log_leadership_term_id: Final[TermId]
    log_position: Final[Position]
    candidate_term_id: Final[TermId]
    candidate_member_id: Final[MemberId]
    protocol_version: Final[int]
    __match_args__ = (
        "log_leadership_term_id", "log_position", "candidate_term_id", "candidate_member_id", "protocol_version",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        candidate_term_id: TermId = TermId(NULL_INT64), candidate_member_id: MemberId = MemberId(NULL_INT32),
        protocol_version: int = 0,
    ) -> None:
        set_field(self, "log_leadership_term_id", log_leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "candidate_term_id", candidate_term_id)
        set_field(self, "candidate_member_id", candidate_member_id)
        set_field(self, "protocol_version", protocol_version)


class Vote(Message):
    """Template 52 of schema 111."""

    candidate_term_id: Final[TermId]
    log_leadership_term_id: Final[TermId]
    log_position: Final[Position]
    candidate_member_id: Final[MemberId]
    follower_member_id: Final[MemberId]
    vote: Final[bool]
    __match_args__ = (
        "candidate_term_id", "log_leadership_term_id", "log_position", "candidate_member_id", "follower_member_id",
        "vote",
    )
    __slots__ = __match_args__

    def __init__(
        self, candidate_term_id: TermId = TermId(NULL_INT64), log_leadership_term_id: TermId = TermId(NULL_INT64),
        log_position: Position = Position(NULL_INT64), candidate_member_id: MemberId = MemberId(NULL_INT32),
        follower_member_id: MemberId = MemberId(NULL_INT32), vote: bool = False,
    ) -> None:
        set_field(self, "candidate_term_id", candidate_term_id)
        set_field(self, "log_leadership_term_id", log_leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "candidate_member_id", candidate_member_id)
        set_field(self, "follower_member_id", follower_member_id)
        set_field(self, "vote", vote)


class NewLeadershipTerm(Message):
    """Template 53 of schema 111."""

    log_leadership_term_id: Final[TermId]
    next_leadership_term_id: Final[TermId]
    next_term_base_log_position: Final[Position]
    next_log_position: Final[Position]
    leadership_term_id: Final[TermId]
    term_base_log_position: Final[Position]
    log_position: Final[Position]
    leader_recording_id: Final[int]
    timestamp: Final[int]
    leader_member_id: Final[MemberId]
    log_session_id: Final[int]
    app_version: Final[int]
    is_startup: Final[bool]
    commit_position: Final[Position]
    __match_args__ = (
        "log_leadership_term_id", "next_leadership_term_id", "next_term_base_log_position", "next_log_position",
        "leadership_term_id", "term_base_log_position", "log_position", "leader_recording_id", "timestamp",
        "leader_member_id", "log_session_id", "app_version", "is_startup", "commit_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_leadership_term_id: TermId = TermId(NULL_INT64),
        next_leadership_term_id: TermId = TermId(NULL_INT64),
        next_term_base_log_position: Position = Position(NULL_INT64),
        next_log_position: Position = Position(NULL_INT64), leadership_term_id: TermId = TermId(NULL_INT64),
        term_base_log_position: Position = Position(NULL_INT64), log_position: Position = Position(NULL_INT64),
        leader_recording_id: int = NULL_INT64, timestamp: int = NULL_INT64,
        leader_member_id: MemberId = MemberId(NULL_INT32), log_session_id: int = NULL_INT32, app_version: int = 0,
        is_startup: bool = False, commit_position: Position = Position(NULL_INT64),
    ) -> None:
        set_field(self, "log_leadership_term_id", log_leadership_term_id)
        set_field(self, "next_leadership_term_id", next_leadership_term_id)
        set_field(self, "next_term_base_log_position", next_term_base_log_position)
        set_field(self, "next_log_position", next_log_position)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "term_base_log_position", term_base_log_position)
        set_field(self, "log_position", log_position)
        set_field(self, "leader_recording_id", leader_recording_id)
        set_field(self, "timestamp", timestamp)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "log_session_id", log_session_id)
        set_field(self, "app_version", app_version)
        set_field(self, "is_startup", is_startup)
        set_field(self, "commit_position", commit_position)


class AppendPosition(Message):
    """Template 54 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    follower_member_id: Final[MemberId]
    flags: Final[int]
    __match_args__ = (
        "leadership_term_id", "log_position", "follower_member_id", "flags",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        follower_member_id: MemberId = MemberId(NULL_INT32), flags: int = NULL_UINT8,
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "follower_member_id", follower_member_id)
        set_field(self, "flags", flags)


class CommitPosition(Message):
    """Template 55 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    leader_member_id: Final[MemberId]
    __match_args__ = (
        "leadership_term_id", "log_position", "leader_member_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        leader_member_id: MemberId = MemberId(NULL_INT32),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "leader_member_id", leader_member_id)


class CatchupPosition(Message):
    """Template 56 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    follower_member_id: Final[MemberId]
    catchup_endpoint: Final[str]
    __match_args__ = (
        "leadership_term_id", "log_position", "follower_member_id", "catchup_endpoint",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        follower_member_id: MemberId = MemberId(NULL_INT32), catchup_endpoint: str = "",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "follower_member_id", follower_member_id)
        set_field(self, "catchup_endpoint", catchup_endpoint)


class StopCatchup(Message):
    """Template 57 of schema 111."""

    leadership_term_id: Final[TermId]
    follower_member_id: Final[MemberId]
    __match_args__ = (
        "leadership_term_id", "follower_member_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), follower_member_id: MemberId = MemberId(NULL_INT32),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "follower_member_id", follower_member_id)


class AddPassiveMember(Message):
    """Template 70 of schema 111, deprecated since version 12."""

    correlation_id: Final[int]
    member_endpoints: Final[str]
    __match_args__ = (
        "correlation_id", "member_endpoints",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, member_endpoints: str = "",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "member_endpoints", member_endpoints)


class ClusterMembersChange(Message):
    """Template 71 of schema 111, deprecated since version 12."""

    correlation_id: Final[int]
    leader_member_id: Final[MemberId]
    active_members: Final[str]
    passive_members: Final[str]
    __match_args__ = (
        "correlation_id", "leader_member_id", "active_members", "passive_members",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, leader_member_id: MemberId = MemberId(NULL_INT32),
        active_members: str = "", passive_members: str = "",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "active_members", active_members)
        set_field(self, "passive_members", passive_members)


class SnapshotRecordingQuery(Message):
    """Template 72 of schema 111, deprecated since version 12."""

    correlation_id: Final[int]
    request_member_id: Final[MemberId]
    __match_args__ = (
        "correlation_id", "request_member_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, request_member_id: MemberId = MemberId(NULL_INT32),
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "request_member_id", request_member_id)


class SnapshotRecordingsSnapshot(GroupEntry):
    """Entry of the group `SnapshotRecordings.snapshots`."""

    recording_id: Final[int]
    leadership_term_id: Final[TermId]
    term_base_log_position: Final[Position]
    log_position: Final[Position]
    timestamp: Final[int]
    service_id: Final[int]
    __match_args__ = (
        "recording_id", "leadership_term_id", "term_base_log_position", "log_position", "timestamp", "service_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, recording_id: int = NULL_INT64, leadership_term_id: TermId = TermId(NULL_INT64),
        term_base_log_position: Position = Position(NULL_INT64), log_position: Position = Position(NULL_INT64),
        timestamp: int = NULL_INT64, service_id: int = NULL_INT32,
    ) -> None:
        set_field(self, "recording_id", recording_id)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "term_base_log_position", term_base_log_position)
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "service_id", service_id)


class SnapshotRecordings(Message):
    """Template 73 of schema 111, deprecated since version 12."""

    correlation_id: Final[int]
    snapshots: Final[tuple[SnapshotRecordingsSnapshot, ...]]
    member_endpoints: Final[str]
    __match_args__ = (
        "correlation_id", "snapshots", "member_endpoints",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, snapshots: tuple[SnapshotRecordingsSnapshot, ...] = (),
        member_endpoints: str = "",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "snapshots", snapshots)
        set_field(self, "member_endpoints", member_endpoints)


class JoinCluster(Message):
    """Template 74 of schema 111, deprecated since version 12."""

    leadership_term_id: Final[TermId]
    member_id: Final[MemberId]
    __match_args__ = (
        "leadership_term_id", "member_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), member_id: MemberId = MemberId(NULL_INT32),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "member_id", member_id)


class TerminationPosition(Message):
    """Template 75 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    __match_args__ = (
        "leadership_term_id", "log_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)


class TerminationAck(Message):
    """Template 76 of schema 111."""

    leadership_term_id: Final[TermId]
    log_position: Final[Position]
    member_id: Final[MemberId]
    __match_args__ = (
        "leadership_term_id", "log_position", "member_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), log_position: Position = Position(NULL_INT64),
        member_id: MemberId = MemberId(NULL_INT32),
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "log_position", log_position)
        set_field(self, "member_id", member_id)


class BackupQuery(Message):
    """Template 77 of schema 111."""

    correlation_id: Final[int]
    response_stream_id: Final[int]
    version: Final[int]
    log_position: Final[Position]
    response_channel: Final[str]
    encoded_credentials: Final[bytes]
    __match_args__ = (
        "correlation_id", "response_stream_id", "version", "log_position", "response_channel", "encoded_credentials",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, response_stream_id: int = NULL_INT32, version: int = 0,
        log_position: Position = Position(NULL_INT64), response_channel: str = "", encoded_credentials: bytes = b"",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "version", version)
        set_field(self, "log_position", log_position)
        set_field(self, "response_channel", response_channel)
        set_field(self, "encoded_credentials", encoded_credentials)


class BackupResponseSnapshot(GroupEntry):
    """Entry of the group `BackupResponse.snapshots`."""

    recording_id: Final[int]
    leadership_term_id: Final[TermId]
    term_base_log_position: Final[Position]
    log_position: Final[Position]
    timestamp: Final[int]
    service_id: Final[int]
    __match_args__ = (
        "recording_id", "leadership_term_id", "term_base_log_position", "log_position", "timestamp", "service_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, recording_id: int = NULL_INT64, leadership_term_id: TermId = TermId(NULL_INT64),
        term_base_log_position: Position = Position(NULL_INT64), log_position: Position = Position(NULL_INT64),
        timestamp: int = NULL_INT64, service_id: int = NULL_INT32,
    ) -> None:
        set_field(self, "recording_id", recording_id)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "term_base_log_position", term_base_log_position)
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "service_id", service_id)


class BackupResponse(Message):
    """Template 78 of schema 111."""

    correlation_id: Final[int]
    log_recording_id: Final[int]
    log_leadership_term_id: Final[TermId]
    log_term_base_log_position: Final[Position]
    last_leadership_term_id: Final[TermId]
    last_term_base_log_position: Final[Position]
    commit_position_counter_id: Final[int]
    leader_member_id: Final[MemberId]
    member_id: Final[MemberId]
    snapshots: Final[tuple[BackupResponseSnapshot, ...]]
    cluster_members: Final[str]
    __match_args__ = (
        "correlation_id", "log_recording_id", "log_leadership_term_id", "log_term_base_log_position",
        "last_leadership_term_id", "last_term_base_log_position", "commit_position_counter_id", "leader_member_id",
        "member_id", "snapshots", "cluster_members",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, log_recording_id: int = NULL_INT64,
        log_leadership_term_id: TermId = TermId(NULL_INT64),
        log_term_base_log_position: Position = Position(NULL_INT64),
        last_leadership_term_id: TermId = TermId(NULL_INT64),
        last_term_base_log_position: Position = Position(NULL_INT64), commit_position_counter_id: int = NULL_INT32,
        leader_member_id: MemberId = MemberId(NULL_INT32), member_id: MemberId = MemberId(NULL_INT32),
        snapshots: tuple[BackupResponseSnapshot, ...] = (), cluster_members: str = "",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "log_recording_id", log_recording_id)
        set_field(self, "log_leadership_term_id", log_leadership_term_id)
        set_field(self, "log_term_base_log_position", log_term_base_log_position)
        set_field(self, "last_leadership_term_id", last_leadership_term_id)
        set_field(self, "last_term_base_log_position", last_term_base_log_position)
        set_field(self, "commit_position_counter_id", commit_position_counter_id)
        set_field(self, "leader_member_id", leader_member_id)
        set_field(self, "member_id", member_id)
        set_field(self, "snapshots", snapshots)
        set_field(self, "cluster_members", cluster_members)


class HeartbeatRequest(Message):
    """Template 79 of schema 111."""

    correlation_id: Final[int]
    response_stream_id: Final[int]
    response_channel: Final[str]
    encoded_credentials: Final[bytes]
    __match_args__ = (
        "correlation_id", "response_stream_id", "response_channel", "encoded_credentials",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, response_stream_id: int = NULL_INT32, response_channel: str = "",
        encoded_credentials: bytes = b"",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "response_channel", response_channel)
        set_field(self, "encoded_credentials", encoded_credentials)


class HeartbeatResponse(Message):
    """Template 80 of schema 111."""

    correlation_id: Final[int]
    __match_args__ = (
        "correlation_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64,
    ) -> None:
        set_field(self, "correlation_id", correlation_id)


class StandbySnapshotSnapshot(GroupEntry):
    """Entry of the group `StandbySnapshot.snapshots`."""

    recording_id: Final[int]
    leadership_term_id: Final[TermId]
    term_base_log_position: Final[Position]
    log_position: Final[Position]
    timestamp: Final[int]
    service_id: Final[int]
    archive_endpoint: Final[str]
    __match_args__ = (
        "recording_id", "leadership_term_id", "term_base_log_position", "log_position", "timestamp", "service_id",
        "archive_endpoint",
    )
    __slots__ = __match_args__

    def __init__(
        self, recording_id: int = NULL_INT64, leadership_term_id: TermId = TermId(NULL_INT64),
        term_base_log_position: Position = Position(NULL_INT64), log_position: Position = Position(NULL_INT64),
        timestamp: int = NULL_INT64, service_id: int = NULL_INT32, archive_endpoint: str = "",
    ) -> None:
        set_field(self, "recording_id", recording_id)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "term_base_log_position", term_base_log_position)
        set_field(self, "log_position", log_position)
        set_field(self, "timestamp", timestamp)
        set_field(self, "service_id", service_id)
        set_field(self, "archive_endpoint", archive_endpoint)


class StandbySnapshot(Message):
    """Template 81 of schema 111, since version 11."""

    correlation_id: Final[int]
    version: Final[int]
    response_stream_id: Final[int]
    snapshots: Final[tuple[StandbySnapshotSnapshot, ...]]
    response_channel: Final[str]
    encoded_credentials: Final[bytes]
    __match_args__ = (
        "correlation_id", "version", "response_stream_id", "snapshots", "response_channel", "encoded_credentials",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, version: int = NULL_INT32, response_stream_id: int = NULL_INT32,
        snapshots: tuple[StandbySnapshotSnapshot, ...] = (), response_channel: str = "",
        encoded_credentials: bytes = b"",
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "version", version)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "snapshots", snapshots)
        set_field(self, "response_channel", response_channel)
        set_field(self, "encoded_credentials", encoded_credentials)


class SnapshotMarker(Message):
    """Template 100 of schema 111."""

    type_id: Final[int]
    log_position: Final[Position]
    leadership_term_id: Final[TermId]
    index: Final[int]
    mark: Final[SnapshotMark | int]
    time_unit: Final[ClusterTimeUnit | int]
    app_version: Final[int]
    __match_args__ = (
        "type_id", "log_position", "leadership_term_id", "index", "mark", "time_unit", "app_version",
    )
    __slots__ = __match_args__

    def __init__(
        self, type_id: int = NULL_INT64, log_position: Position = Position(NULL_INT64),
        leadership_term_id: TermId = TermId(NULL_INT64), index: int = NULL_INT32,
        mark: SnapshotMark | int = NULL_INT32, time_unit: ClusterTimeUnit | int = NULL_INT32, app_version: int = 0,
    ) -> None:
        set_field(self, "type_id", type_id)
        set_field(self, "log_position", log_position)
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "index", index)
        set_field(self, "mark", mark)
        set_field(self, "time_unit", time_unit)
        set_field(self, "app_version", app_version)


class ClientSession(Message):
    """Template 102 of schema 111."""

    cluster_session_id: Final[SessionId]
    response_stream_id: Final[int]
    response_channel: Final[str]
    encoded_principal: Final[bytes]
    __match_args__ = (
        "cluster_session_id", "response_stream_id", "response_channel", "encoded_principal",
    )
    __slots__ = __match_args__

    def __init__(
        self, cluster_session_id: SessionId = SessionId(NULL_INT64), response_stream_id: int = NULL_INT32,
        response_channel: str = "", encoded_principal: bytes = b"",
    ) -> None:
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "response_channel", response_channel)
        set_field(self, "encoded_principal", encoded_principal)


class ClusterSession(Message):
    """Template 103 of schema 111."""

    cluster_session_id: Final[SessionId]
    correlation_id: Final[int]
    opened_log_position: Final[Position]
    time_of_last_activity: Final[int]
    close_reason: Final[CloseReason | int]
    response_stream_id: Final[int]
    response_channel: Final[str]
    __match_args__ = (
        "cluster_session_id", "correlation_id", "opened_log_position", "time_of_last_activity", "close_reason",
        "response_stream_id", "response_channel",
    )
    __slots__ = __match_args__

    def __init__(
        self, cluster_session_id: SessionId = SessionId(NULL_INT64), correlation_id: int = NULL_INT64,
        opened_log_position: Position = Position(NULL_INT64), time_of_last_activity: int = NULL_INT64,
        close_reason: CloseReason | int = NULL_INT32, response_stream_id: int = NULL_INT32,
        response_channel: str = "",
    ) -> None:
        set_field(self, "cluster_session_id", cluster_session_id)
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "opened_log_position", opened_log_position)
        set_field(self, "time_of_last_activity", time_of_last_activity)
        set_field(self, "close_reason", close_reason)
        set_field(self, "response_stream_id", response_stream_id)
        set_field(self, "response_channel", response_channel)


class Timer(Message):
    """Template 104 of schema 111."""

    correlation_id: Final[int]
    deadline: Final[int]
    __match_args__ = (
        "correlation_id", "deadline",
    )
    __slots__ = __match_args__

    def __init__(
        self, correlation_id: int = NULL_INT64, deadline: int = NULL_INT64,
    ) -> None:
        set_field(self, "correlation_id", correlation_id)
        set_field(self, "deadline", deadline)


class ConsensusModule(Message):
    """Template 105 of schema 111."""

    next_session_id: Final[int]
    next_service_session_id: Final[int]
    log_service_session_id: Final[int]
    pending_message_capacity: Final[int]
    __match_args__ = (
        "next_session_id", "next_service_session_id", "log_service_session_id", "pending_message_capacity",
    )
    __slots__ = __match_args__

    def __init__(
        self, next_session_id: int = NULL_INT64, next_service_session_id: int = NULL_INT64,
        log_service_session_id: int = NULL_INT64, pending_message_capacity: int = 0,
    ) -> None:
        set_field(self, "next_session_id", next_session_id)
        set_field(self, "next_service_session_id", next_service_session_id)
        set_field(self, "log_service_session_id", log_service_session_id)
        set_field(self, "pending_message_capacity", pending_message_capacity)


class ClusterMembers(Message):
    """Template 106 of schema 111."""

    member_id: Final[MemberId]
    high_member_id: Final[MemberId]
    cluster_members: Final[str]
    __match_args__ = (
        "member_id", "high_member_id", "cluster_members",
    )
    __slots__ = __match_args__

    def __init__(
        self, member_id: MemberId = MemberId(NULL_INT32), high_member_id: MemberId = MemberId(NULL_INT32),
        cluster_members: str = "",
    ) -> None:
        set_field(self, "member_id", member_id)
        set_field(self, "high_member_id", high_member_id)
        set_field(self, "cluster_members", cluster_members)


class PendingMessageTracker(Message):
    """Template 107 of schema 111."""

    next_service_session_id: Final[int]
    log_service_session_id: Final[int]
    pending_message_capacity: Final[int]
    service_id: Final[int]
    __match_args__ = (
        "next_service_session_id", "log_service_session_id", "pending_message_capacity", "service_id",
    )
    __slots__ = __match_args__

    def __init__(
        self, next_service_session_id: int = NULL_INT64, log_service_session_id: int = NULL_INT64,
        pending_message_capacity: int = 0, service_id: int = NULL_INT32,
    ) -> None:
        set_field(self, "next_service_session_id", next_service_session_id)
        set_field(self, "log_service_session_id", log_service_session_id)
        set_field(self, "pending_message_capacity", pending_message_capacity)
        set_field(self, "service_id", service_id)


class RequestServiceAck(Message):
    """Template 108 of schema 111."""

    log_position: Final[Position]
    __match_args__ = (
        "log_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, log_position: Position = Position(NULL_INT64),
    ) -> None:
        set_field(self, "log_position", log_position)


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("cluster-codecs"), globals())
