"""The kinds of events in a member's trace, by their ids: what writes a trace and what reads one share them.

The code that writes a kind documents its fields; docs/run-folder.md has those that checkers read. A reader passes
over a kind that is not here: another version may write more.
"""

from enum import StrEnum


class ElectionCause(StrEnum):
    """The reasons of a member to begin an election that a time-out gives it: the field `reason` of `election_state`."""

    LEADER_SILENT = "leader heartbeat timeout"
    LEADER_DISCONNECTED = "leader disconnected"
    FOLLOWERS_SILENT = "inactive follower quorum"


class TraceKind(StrEnum):
    """What an event of the trace says."""

    PROCESS_START = "process-start"
    PROCESS_END = "process-end"
    TERMINATED = "terminated"
    LOOP_STALL = "loop-stall"
    ERROR = "error"
    CERTIFICATES_READ = "certificates-read"
    CREDENTIALS_READ = "credentials-read"
    TLS_PEER = "tls-peer"

    SEND = "send"
    RECEIVE = "receive"
    SEND_FAILED = "send_failed"

    ROLE = "role"
    MODULE_STATE = "module_state"
    ELECTION_STATE = "election_state"
    LEADERSHIP_TERM = "leadership_term"
    CLUSTER_END = "cluster-end"
    COMMIT_WENT_BACK = "commit-went-back"
    RECORDING_LOG_VALIDATED = "recording_log_validated"
    STANDBY_SNAPSHOT = "standby_snapshot"
    STANDBY_SNAPSHOT_REPLICATED = "standby_snapshot_replicated"
    STANDBY_REPLAY_ENDED = "standby_replay_ended"

    SERVICE_ROLE = "service-role"
    SERVICE_STATE = "service-state"
    SERVICE_TERMINATE = "service-terminate"
    SERVICE_ACK = "service-ack"
    SERVICE_LOG = "service-log"
    SERVICE_RAISED = "service-raised"
    LOG = "log"

    BACKUP_STATE = "backup_state"
    BACKUP_RESPONSE = "backup_response"
    BACKUP_TERM = "backup_term"
