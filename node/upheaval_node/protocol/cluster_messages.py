"""Messages of schema 111, version 17. Generated: do not edit.

Made from cluster-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node.protocol.codec import NULL_UINT8, NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import GroupEntry, Message
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionMessageHeader(Message):
    """Template 1 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    timestamp: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionEvent(Message):
    """Template 2 of schema 111."""

    cluster_session_id: SessionId = SessionId(NULL_INT64)
    correlation_id: int = NULL_INT64
    leadership_term_id: TermId = TermId(NULL_INT64)
    leader_member_id: MemberId = MemberId(NULL_INT32)
    code: EventCode | int = NULL_INT32
    version: int = 0
    leader_heartbeat_timeout_ns: int = NULL_INT64
    detail: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionConnectRequest(Message):
    """Template 3 of schema 111."""

    correlation_id: int = NULL_INT64
    response_stream_id: int = NULL_INT32
    version: int = 0
    response_channel: str = ""
    encoded_credentials: bytes = b""
    client_info: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionCloseRequest(Message):
    """Template 4 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    cluster_session_id: SessionId = SessionId(NULL_INT64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionKeepAlive(Message):
    """Template 5 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    cluster_session_id: SessionId = SessionId(NULL_INT64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewLeaderEvent(Message):
    """Template 6 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    leader_member_id: MemberId = MemberId(NULL_INT32)
    ingress_endpoints: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Challenge(Message):
    """Template 7 of schema 111."""

    correlation_id: int = NULL_INT64
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    encoded_challenge: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChallengeResponse(Message):
    """Template 8 of schema 111."""

    correlation_id: int = NULL_INT64
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    encoded_credentials: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimerEvent(Message):
    """Template 20 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    correlation_id: int = NULL_INT64
    timestamp: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionOpenEvent(Message):
    """Template 21 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    correlation_id: int = NULL_INT64
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    timestamp: int = NULL_INT64
    response_stream_id: int = NULL_INT32
    response_channel: str = ""
    encoded_principal: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionCloseEvent(Message):
    """Template 22 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    timestamp: int = NULL_INT64
    close_reason: CloseReason | int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterActionRequest(Message):
    """Template 23 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    action: ClusterAction | int = NULL_INT32
    flags: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewLeadershipTermEvent(Message):
    """Template 24 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    term_base_log_position: Position = Position(NULL_INT64)
    leader_member_id: MemberId = MemberId(NULL_INT32)
    log_session_id: int = NULL_INT32
    time_unit: ClusterTimeUnit | int = NULL_INT32
    app_version: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MembershipChangeEvent(Message):
    """Template 25 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    leader_member_id: MemberId = MemberId(NULL_INT32)
    cluster_size: int = NULL_INT32
    change_type: ChangeType | int = NULL_INT32
    member_id: MemberId = MemberId(NULL_INT32)
    cluster_members: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AdminRequest(Message):
    """Template 26 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    cluster_session_id: SessionId = SessionId(NULL_INT64)
    correlation_id: int = NULL_INT64
    request_type: AdminRequestType | int = NULL_INT32
    payload: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AdminResponse(Message):
    """Template 27 of schema 111."""

    cluster_session_id: SessionId = SessionId(NULL_INT64)
    correlation_id: int = NULL_INT64
    request_type: AdminRequestType | int = NULL_INT32
    response_code: AdminResponseCode | int = NULL_INT32
    message: str = ""
    payload: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CloseSession(Message):
    """Template 30 of schema 111."""

    cluster_session_id: SessionId = SessionId(NULL_INT64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScheduleTimer(Message):
    """Template 31 of schema 111."""

    correlation_id: int = NULL_INT64
    deadline: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CancelTimer(Message):
    """Template 32 of schema 111."""

    correlation_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServiceAck(Message):
    """Template 33 of schema 111."""

    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    ack_id: int = NULL_INT64
    relevant_id: int = NULL_INT64
    service_id: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembersQuery(Message):
    """Template 34 of schema 111."""

    correlation_id: int = NULL_INT64
    extended: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoveMember(Message):
    """Template 35 of schema 111, deprecated since version 12."""

    member_id: MemberId = MemberId(NULL_INT32)
    is_passive: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinLog(Message):
    """Template 40 of schema 111."""

    log_position: Position = Position(NULL_INT64)
    max_log_position: Position = Position(NULL_INT64)
    member_id: MemberId = MemberId(NULL_INT32)
    log_session_id: int = NULL_INT32
    log_stream_id: int = NULL_INT32
    is_startup: bool = False
    role: int = NULL_INT32
    is_standby: bool = False
    log_channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembersResponse(Message):
    """Template 41 of schema 111."""

    correlation_id: int = NULL_INT64
    leader_member_id: MemberId = MemberId(NULL_INT32)
    active_members: str = ""
    passive_followers: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServiceTerminationPosition(Message):
    """Template 42 of schema 111."""

    log_position: Position = Position(NULL_INT64)
    ack_required: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembersExtendedResponseActiveMember(GroupEntry):
    """Entry of the group `ClusterMembersExtendedResponse.activeMembers`."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    time_of_last_append_ns: int = NULL_INT64
    member_id: MemberId = MemberId(NULL_INT32)
    ingress_endpoint: str = ""
    consensus_endpoint: str = ""
    log_endpoint: str = ""
    catchup_endpoint: str = ""
    archive_endpoint: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembersExtendedResponsePassiveMember(GroupEntry):
    """Entry of the group `ClusterMembersExtendedResponse.passiveMembers`."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    time_of_last_append_ns: int = NULL_INT64
    member_id: MemberId = MemberId(NULL_INT32)
    ingress_endpoint: str = ""
    consensus_endpoint: str = ""
    log_endpoint: str = ""
    catchup_endpoint: str = ""
    archive_endpoint: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembersExtendedResponse(Message):
    """Template 43 of schema 111."""

    correlation_id: int = NULL_INT64
    current_time_ns: int = NULL_INT64
    leader_member_id: MemberId = MemberId(NULL_INT32)
    member_id: MemberId = MemberId(NULL_INT32)
    active_members: tuple[ClusterMembersExtendedResponseActiveMember, ...] = ()
    passive_members: tuple[ClusterMembersExtendedResponsePassiveMember, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CanvassPosition(Message):
    """Template 50 of schema 111."""

    log_leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    leadership_term_id: TermId = TermId(NULL_INT64)
    follower_member_id: MemberId = MemberId(NULL_INT32)
    protocol_version: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RequestVote(Message):
    """Template 51 of schema 111."""

    log_leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    candidate_term_id: TermId = TermId(NULL_INT64)
    candidate_member_id: MemberId = MemberId(NULL_INT32)
    protocol_version: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Vote(Message):
    """Template 52 of schema 111."""

    candidate_term_id: TermId = TermId(NULL_INT64)
    log_leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    candidate_member_id: MemberId = MemberId(NULL_INT32)
    follower_member_id: MemberId = MemberId(NULL_INT32)
    vote: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewLeadershipTerm(Message):
    """Template 53 of schema 111."""

    log_leadership_term_id: TermId = TermId(NULL_INT64)
    next_leadership_term_id: TermId = TermId(NULL_INT64)
    next_term_base_log_position: Position = Position(NULL_INT64)
    next_log_position: Position = Position(NULL_INT64)
    leadership_term_id: TermId = TermId(NULL_INT64)
    term_base_log_position: Position = Position(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    leader_recording_id: int = NULL_INT64
    timestamp: int = NULL_INT64
    leader_member_id: MemberId = MemberId(NULL_INT32)
    log_session_id: int = NULL_INT32
    app_version: int = 0
    is_startup: bool = False
    commit_position: Position = Position(NULL_INT64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AppendPosition(Message):
    """Template 54 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    follower_member_id: MemberId = MemberId(NULL_INT32)
    flags: int = NULL_UINT8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CommitPosition(Message):
    """Template 55 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    leader_member_id: MemberId = MemberId(NULL_INT32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CatchupPosition(Message):
    """Template 56 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    follower_member_id: MemberId = MemberId(NULL_INT32)
    catchup_endpoint: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StopCatchup(Message):
    """Template 57 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    follower_member_id: MemberId = MemberId(NULL_INT32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AddPassiveMember(Message):
    """Template 70 of schema 111, deprecated since version 12."""

    correlation_id: int = NULL_INT64
    member_endpoints: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembersChange(Message):
    """Template 71 of schema 111, deprecated since version 12."""

    correlation_id: int = NULL_INT64
    leader_member_id: MemberId = MemberId(NULL_INT32)
    active_members: str = ""
    passive_members: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SnapshotRecordingQuery(Message):
    """Template 72 of schema 111, deprecated since version 12."""

    correlation_id: int = NULL_INT64
    request_member_id: MemberId = MemberId(NULL_INT32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SnapshotRecordingsSnapshot(GroupEntry):
    """Entry of the group `SnapshotRecordings.snapshots`."""

    recording_id: int = NULL_INT64
    leadership_term_id: TermId = TermId(NULL_INT64)
    term_base_log_position: Position = Position(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    service_id: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SnapshotRecordings(Message):
    """Template 73 of schema 111, deprecated since version 12."""

    correlation_id: int = NULL_INT64
    snapshots: tuple[SnapshotRecordingsSnapshot, ...] = ()
    member_endpoints: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinCluster(Message):
    """Template 74 of schema 111, deprecated since version 12."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    member_id: MemberId = MemberId(NULL_INT32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TerminationPosition(Message):
    """Template 75 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TerminationAck(Message):
    """Template 76 of schema 111."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    member_id: MemberId = MemberId(NULL_INT32)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BackupQuery(Message):
    """Template 77 of schema 111."""

    correlation_id: int = NULL_INT64
    response_stream_id: int = NULL_INT32
    version: int = 0
    log_position: Position = Position(NULL_INT64)
    response_channel: str = ""
    encoded_credentials: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BackupResponseSnapshot(GroupEntry):
    """Entry of the group `BackupResponse.snapshots`."""

    recording_id: int = NULL_INT64
    leadership_term_id: TermId = TermId(NULL_INT64)
    term_base_log_position: Position = Position(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    service_id: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BackupResponse(Message):
    """Template 78 of schema 111."""

    correlation_id: int = NULL_INT64
    log_recording_id: int = NULL_INT64
    log_leadership_term_id: TermId = TermId(NULL_INT64)
    log_term_base_log_position: Position = Position(NULL_INT64)
    last_leadership_term_id: TermId = TermId(NULL_INT64)
    last_term_base_log_position: Position = Position(NULL_INT64)
    commit_position_counter_id: int = NULL_INT32
    leader_member_id: MemberId = MemberId(NULL_INT32)
    member_id: MemberId = MemberId(NULL_INT32)
    snapshots: tuple[BackupResponseSnapshot, ...] = ()
    cluster_members: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeartbeatRequest(Message):
    """Template 79 of schema 111."""

    correlation_id: int = NULL_INT64
    response_stream_id: int = NULL_INT32
    response_channel: str = ""
    encoded_credentials: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeartbeatResponse(Message):
    """Template 80 of schema 111."""

    correlation_id: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StandbySnapshotSnapshot(GroupEntry):
    """Entry of the group `StandbySnapshot.snapshots`."""

    recording_id: int = NULL_INT64
    leadership_term_id: TermId = TermId(NULL_INT64)
    term_base_log_position: Position = Position(NULL_INT64)
    log_position: Position = Position(NULL_INT64)
    timestamp: int = NULL_INT64
    service_id: int = NULL_INT32
    archive_endpoint: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StandbySnapshot(Message):
    """Template 81 of schema 111, since version 11."""

    correlation_id: int = NULL_INT64
    version: int = NULL_INT32
    response_stream_id: int = NULL_INT32
    snapshots: tuple[StandbySnapshotSnapshot, ...] = ()
    response_channel: str = ""
    encoded_credentials: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SnapshotMarker(Message):
    """Template 100 of schema 111."""

    type_id: int = NULL_INT64
    log_position: Position = Position(NULL_INT64)
    leadership_term_id: TermId = TermId(NULL_INT64)
    index: int = NULL_INT32
    mark: SnapshotMark | int = NULL_INT32
    time_unit: ClusterTimeUnit | int = NULL_INT32
    app_version: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClientSession(Message):
    """Template 102 of schema 111."""

    cluster_session_id: SessionId = SessionId(NULL_INT64)
    response_stream_id: int = NULL_INT32
    response_channel: str = ""
    encoded_principal: bytes = b""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterSession(Message):
    """Template 103 of schema 111."""

    cluster_session_id: SessionId = SessionId(NULL_INT64)
    correlation_id: int = NULL_INT64
    opened_log_position: Position = Position(NULL_INT64)
    time_of_last_activity: int = NULL_INT64
    close_reason: CloseReason | int = NULL_INT32
    response_stream_id: int = NULL_INT32
    response_channel: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Timer(Message):
    """Template 104 of schema 111."""

    correlation_id: int = NULL_INT64
    deadline: int = NULL_INT64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConsensusModule(Message):
    """Template 105 of schema 111."""

    next_session_id: int = NULL_INT64
    next_service_session_id: int = NULL_INT64
    log_service_session_id: int = NULL_INT64
    pending_message_capacity: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembers(Message):
    """Template 106 of schema 111."""

    member_id: MemberId = MemberId(NULL_INT32)
    high_member_id: MemberId = MemberId(NULL_INT32)
    cluster_members: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PendingMessageTracker(Message):
    """Template 107 of schema 111."""

    next_service_session_id: int = NULL_INT64
    log_service_session_id: int = NULL_INT64
    pending_message_capacity: int = 0
    service_id: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RequestServiceAck(Message):
    """Template 108 of schema 111."""

    log_position: Position = Position(NULL_INT64)


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("cluster-codecs"), globals())
