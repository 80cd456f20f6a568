"""What a run leaves behind, as values and files: the run folder, histories, commands, traces, its origin.

Knows no cluster and judges nothing.
"""

# First, before any module that may be compiled: this import installs the finder of compiled modules.
import upheaval_node as upheaval_node
from upheaval.records.client_stalls import ClientStall as ClientStall
from upheaval.records.cluster_texts import CLUSTER_FILE as CLUSTER_FILE, cluster_text as cluster_text
from upheaval.records.companions import (
    BACKUP as BACKUP,
    BACKUP_NAME as BACKUP_NAME,
    SOURCES as SOURCES,
    STANDBY as STANDBY,
    CompanionConfig as CompanionConfig,
    CompanionStatus as CompanionStatus,
    check_companion as check_companion,
    companion_folders as companion_folders,
    companion_name as companion_name,
    load_companions as load_companions,
    note_companion as note_companion,
    note_position as note_position,
)
from upheaval.records.connect_attempts import (
    ConnectAnswer as ConnectAnswer,
    ConnectAttempt as ConnectAttempt,
    WrongCredentials as WrongCredentials,
)
from upheaval.records.consensus_file import (
    LATE as LATE,
    ConsensusWriter as ConsensusWriter,
    LinkSeen as LinkSeen,
    Watch as Watch,
    messages_of as messages_of,
    watches_of as watches_of,
)
from upheaval.records.history import (
    LEDGER as LEDGER,
    SHIPPED as SHIPPED,
    TIMERS as TIMERS,
    WORKBENCH as WORKBENCH,
    Function as Function,
    HistoryWriter as HistoryWriter,
    Operation as Operation,
    Outcome as Outcome,
    RowsById as RowsById,
    duplicate_id as duplicate_id,
    parse_foreign_operation as parse_foreign_operation,
    parse_operation as parse_operation,
    read_history as read_history,
)
from upheaval.records.jsonfields import (
    FieldError as FieldError,
    Json as Json,
    parse_object as parse_object,
    read_text as read_text,
)
from upheaval.records.made_by_test import (
    MadeByTest as MadeByTest,
    read_made_by_test as read_made_by_test,
    write_made_by_test as write_made_by_test,
)
from upheaval.records.operation_blocks import OperationBlock as OperationBlock, history_blocks as history_blocks
from upheaval.records.origin import Origin as Origin, read_origin as read_origin, write_origin as write_origin
from upheaval.records.own_source import (
    code_digest as code_digest,
    service_folder as service_folder,
    source_digest as source_digest,
)
from upheaval.records.owned_folders import (
    SHARED_MEMORY as SHARED_MEMORY,
    abandoned_folders as abandoned_folders,
    owned_folder as owned_folder,
)
from upheaval.records.payloads import (
    AS_TEXT as AS_TEXT,
    SCHEMA_FILE as SCHEMA_FILE,
    Payloads as Payloads,
    printable as printable,
    read_schema as read_schema,
    write_schema as write_schema,
)
from upheaval.records.private_files import (
    PRIVATE as PRIVATE,
    copy_private as copy_private,
    mode_of as mode_of,
    write_private as write_private,
)
from upheaval.records.protocol_view import (
    COLUMNS as COLUMNS,
    NOTATIONS as NOTATIONS,
    PLAIN as PLAIN,
    Choice as Choice,
    Entry as Entry,
    chosen as chosen,
    column_lines as column_lines,
    how_to_trace as how_to_trace,
    plain_lines as plain_lines,
    read_entries as read_entries,
)
from upheaval.records.run_folder import (
    ADMIN_COMMANDS as ADMIN_COMMANDS,
    CONSENSUS_NAME as CONSENSUS_NAME,
    ENDINGS as ENDINGS,
    FORCED_END as FORCED_END,
    MEMBERS_MAX as MEMBERS_MAX,
    OWN_SYSTEM as OWN_SYSTEM,
    PROFILES as PROFILES,
    RECORD_FILES as RECORD_FILES,
    SCENARIO_NAME as SCENARIO_NAME,
    SPLIT as SPLIT,
    SYNC_LEVEL_MAX as SYNC_LEVEL_MAX,
    TOGETHER as TOGETHER,
    AdminCommand as AdminCommand,
    Components as Components,
    ControlRecord as ControlRecord,
    Converge as Converge,
    Expected as Expected,
    Failure as Failure,
    FinalPosition as FinalPosition,
    Manifest as Manifest,
    MemberCount as MemberCount,
    MemberFolder as MemberFolder,
    Profile as Profile,
    RuleBroken as RuleBroken,
    RunFolder as RunFolder,
    SyncLevel as SyncLevel,
    parse_control as parse_control,
    parse_fault as parse_fault,
    parse_manifest as parse_manifest,
    version_of as version_of,
    write_atomically as write_atomically,
)
from upheaval.records.run_seal import (
    Seal as Seal,
    add_failure as add_failure,
    digest_of_text as digest_of_text,
    read_seal as read_seal,
    seal as seal,
    seal_of as seal_of,
    sealed_again as sealed_again,
)
from upheaval.records.service_messages import (
    Credit as Credit,
    answer_bytes as answer_bytes,
    answer_text as answer_text,
    call_digest as call_digest,
    call_payload as call_payload,
    decode_credit as decode_credit,
    decode_operation as decode_operation,
    decode_result as decode_result,
    encode_operation as encode_operation,
)
from upheaval.records.session_ends import SessionCause as SessionCause, SessionEnd as SessionEnd
from upheaval.records.sparse_files import copy_sparse as copy_sparse, data_extents as data_extents
from upheaval.records.strays import Stray as Stray
from upheaval.records.trace_events import (
    LOST_EVENTS as LOST_EVENTS,
    TRACE_START as TRACE_START,
    TraceEvent as TraceEvent,
)
