"""The data of a consensus module, the only writers of its state and role, and what all its parts call.

Knows no message and no step of an election.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Container
from functools import partial
from random import Random

from upheaval_node.archive.client import ArchiveClient
from upheaval_node.cluster.authentication import (
    Authenticator,
    AuthorisationService,
    authenticator_named,
    authorisation_named,
)
from upheaval_node.cluster.backup_sessions import BackupSessions
from upheaval_node.cluster.catchup_replays import CatchupReplays
from upheaval_node.cluster.cluster_time import ClusterTime
from upheaval_node.cluster.commit_latency import CommitLatency
from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.follower_log import FollowerLog
from upheaval_node.cluster.ingress import IngressAdapter, IngressExtension
from upheaval_node.cluster.leader_log import LeaderLog
from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.log_replay import LocalLogReplay
from upheaval_node.cluster.log_replication import LeaderLogReplication
from upheaval_node.cluster.members import parse_members, quorum_position
from upheaval_node.cluster.module_context import ModuleContext, ModuleCounters
from upheaval_node.cluster.module_state import LEGAL_MOVES, ModuleState
from upheaval_node.cluster.node_control import NodeControl
from upheaval_node.cluster.pending_messages import PendingMessages
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.cluster.sessions import SessionManager
from upheaval_node.cluster.standby_notices import StandbyNotices
from upheaval_node.cluster.timers import Timers
from upheaval_node.counters import Counters
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.api import Media
from upheaval_node.ports import ErrorSink, Storage, Tracer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import Message
from upheaval_node.settings import MemberSettings
from upheaval_node.snapshot_durations import SnapshotDurations
from upheaval_node.steps import Steps
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now

LONG_AGO = -(1 << 62)
RESPONSE_STREAM_ID = 120
"""Stream of the archive's answers to the consensus module of cluster 0."""


class ModuleBase(ABC):
    """What the parts of a consensus module share; `ConsensusModule` puts them together."""

    ingress_extension: IngressExtension | None = None
    """Set before the first turn: takes what clients send in messages of another schema."""

    peer = ""
    """Where the consensus message comes from that is being handled."""

    is_standby = False
    """Whether this module only reads a log that others agree on; its services are told so."""

    def __init__(
        self,
        media: Media,
        storage: Storage,
        counters: Counters,
        settings: MemberSettings,
        members: str,
        member_id: int,
        tracer: Tracer,
        random: Random,
        errors: ErrorSink,
        *,
        archive_control_stream_id: int = 10,
        authenticator: Authenticator | None = None,
        authorisation: AuthorisationService | None = None,
        recording_log: RecordingLog | None = None,
    ) -> None:
        """Open the files of the member and ask for its archive. Raises `UsageError` for settings that make no sense."""
        self.members = parse_members(members)
        self.member_id = member_id
        cluster = settings.cluster
        if member_id not in self.members:
            raise UsageError(f"member {member_id} is not among {members!r}")
        if not 0 <= cluster.service_count <= 10:
            raise UsageError(f"{cluster.service_count} services")
        self._settings = cluster
        self._timeouts = cluster.timeouts
        self._random = random
        self._time = ClusterTime(cluster.time_unit)
        self.app_version = cluster.app_version
        self.recording_log = recording_log or RecordingLog(storage, sync_level=cluster.file_sync_level)
        self.node_state = NodeState(storage, sync_level=cluster.file_sync_level)
        self._new_archive_client = partial(
            ArchiveClient,
            media,
            control_stream_id=archive_control_stream_id,
            response_stream_id=cluster.cluster_id * 100 + RESPONSE_STREAM_ID,
            timeout_ns=settings.archive.message_timeout_ns,
            name=f"consensus-module-{member_id}",
        )
        archive = self._new_archive_client()
        self._archive_timeout_ns = settings.archive.message_timeout_ns
        self.counters = ModuleCounters(counters, cluster.cluster_id)
        self._latency = CommitLatency(counters, cluster.cluster_id)
        self._durations = SnapshotDurations(counters, cluster.cluster_id, cluster.snapshot_duration_threshold_ns)
        self._context = ModuleContext(
            media, counters, self.counters, cluster, member_id, self.members, archive, tracer, errors, self.cluster_time
        )
        self._archive = archive

        self._state = ModuleState.INIT
        self._role = Role.FOLLOWER
        self._election: Election | None = None
        self._term_id = NULL_VALUE
        self.leader_member_id = member_id
        self.time_of_last_leader_update_ns = 0
        self._notified_commit_position = 0
        self._appended_at_start = 0
        self._last_term_base_at_start = 0
        self._last_commit_send_ns = LONG_AGO
        self._last_append_send_ns = LONG_AGO
        self._last_append_position = 0
        self._appended_position = 0
        self._append_advance_ns = 0
        self._backtrack_reported_at = NULL_POSITION
        self._make_parts(
            authenticator or authenticator_named(cluster.authenticator),
            authorisation or authorisation_named(cluster.authorisation),
        )

    def _make_parts(self, authenticator: Authenticator, authorisation: AuthorisationService) -> None:
        self._acks = ServiceAcks(self._settings.service_count)
        self._services = ServiceProxy(self._context, self._acks, is_standby=self.is_standby)
        # Log position of a change of the module state, and the state before it, until it is committed.
        self._uncommitted_states: deque[tuple[int, ModuleState]] = deque()
        self._timers = Timers()
        self._pending_messages = [PendingMessages(service_id) for service_id in range(self._settings.service_count)]
        self._recording = LogRecording(self._context)
        block_length = self._settings.log_fragment_limit * self._settings.log_mtu
        self._log = LogAdapter(self, max_block_length=block_length)
        self._leader_log = LeaderLog(self._context, self._recording, self._services)
        self._follower_log = FollowerLog(self._context, self._recording, self._services, self._log)
        self._catchups = CatchupReplays(self._context)
        self._sessions = SessionManager(self._context, self, authenticator, authorisation)
        self._notices = StandbyNotices(self._context, self.recording_log)
        self._backups = BackupSessions(
            self._context, self, self.recording_log, authenticator, authorisation, self._notices.queue
        )
        self._publisher = ConsensusPublisher(self._context)
        self._node_control = NodeControl(self._context, self.recording_log, self._new_archive_client)
        self._ingress: IngressAdapter | None = None
        self._replays: list[LocalLogReplay] = []
        self._replications: list[LeaderLogReplication] = []
        self._leaving: Steps[int] | None = None
        self._joining: Steps[None] | None = None
        self._truncating: Steps[None] | None = None

    # --- what the log says (`log_adapter.LogHandler`) ---

    @abstractmethod
    def on_log_messages(self, timestamps: dict[int, int]) -> None: ...

    @abstractmethod
    def on_log_entry(self, now: Now, entry: Message, end_position: int) -> bool: ...

    @abstractmethod
    def on_bad_log_entry(self, now: Now, end_position: int, error: DecodeError) -> None: ...

    def _ignore(self, now: Now, kind: str, text: object, *, may_be_late: bool = False) -> None:
        """Count the consensus message that is being handled as one that nobody can mean, or that came too late."""
        self._context.ignored.note(now, self.peer, kind, text, may_be_late=may_be_late)

    # --- state and role ---

    @property
    def state(self) -> ModuleState:
        return self._state

    @property
    def role(self) -> Role:
        return self._role

    @property
    def election(self) -> Election | None:
        return self._election

    def _enter(self, now: Now, state: ModuleState, *, is_rollback: bool = False) -> None:
        """The only writer of the state."""
        if state is self._state:
            return
        assert is_rollback or state in LEGAL_MOVES[self._state], (self._state, state)
        self._context.tracer.emit(now, "module_state", old=self._state.name, new=state.name)
        self._state = state
        self.counters.module_state.set(state)

    def _become(self, now: Now, role: Role) -> None:
        """The only writer of the role."""
        if role is not self._role:
            self._context.tracer.emit(now, "role", old=self._role.name, new=role.name)
            self._role = role
            self.counters.role.set(role)

    @property
    def leadership_term_id(self) -> int:
        return self._term_id

    @leadership_term_id.setter
    def leadership_term_id(self, term_id: int) -> None:
        self._term_id = term_id
        self.counters.leadership_term_id.set(term_id)

    @property
    def log_recording_id(self) -> int:
        return self._recording.recording_id

    @log_recording_id.setter
    def log_recording_id(self, recording_id: int) -> None:
        self._recording.recording_id = recording_id

    @property
    def commit_position(self) -> int:
        return self.counters.commit_position.get()

    @property
    def is_taking_snapshot(self) -> bool:
        return self._state is ModuleState.SNAPSHOT

    @property
    def active_log(self) -> LogPublisher | None:
        """The log that entries may be appended to: of an active leader whose election is over."""
        if self._role is Role.LEADER and self._state is ModuleState.ACTIVE and self._election is None:
            return self._leader_log.publisher
        return None

    def quorum_position(self, now: Now, log_terms: Container[int]) -> int:
        """How far a quorum of active members has recorded the log of these terms."""
        return quorum_position(self.members.values(), now.ns, self._timeouts.leader_heartbeat_ns, log_terms)

    def cluster_time(self, now: Now) -> int:
        """The wall clock, in the cluster's unit of time."""
        return self._time.at(now)

    def send_to_leader(self, now: Now, message: Message) -> bool:
        """False on the leader itself, and while there is none."""
        is_follower = self._role is Role.FOLLOWER and self._election is None
        return is_follower and self.send(now, self.leader_member_id, message)

    def send(self, now: Now, member_id: int, message: Message) -> bool:
        return self._publisher.send(now, member_id, message)

    def _send_append_position(self, now: Now, flags: int) -> int:
        """AppendPosition to the leader when it advanced or the interval passed; only what is recorded counts."""
        position = self._recording.position
        if position is None:
            position = max(self._recording.stop_position, 0)
        position = max(position, self._last_append_position)
        if position > self._appended_position:
            self._appended_position = position
            self._append_advance_ns = now.ns
        has_advanced = position > self._last_append_position
        is_due = now.ns >= self._last_append_send_ns + self._timeouts.leader_heartbeat_interval_ns
        if not has_advanced and not is_due:
            return 0
        leader_id = self.leader_member_id if self._election is None else self._election.leader_member_id
        message = cm.AppendPosition(
            leadership_term_id=self._term_id,
            log_position=position,
            follower_member_id=self.member_id,
            flags=flags,
        )
        if not self.send(now, leader_id, message):
            return 0
        self._last_append_send_ns = now.ns
        self._last_append_position = position
        return 1
