"""The context of all parts of a module: streams, archive, files, settings, counters, error reports and traces.

Holds no state of the cluster. Counter types, keys and labels are those of Aeron Cluster.
"""

from upheaval_node import counters as counter_types
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.cluster.cluster_time import ClusterTime
from upheaval_node.cluster.commit_latency import CommitLatency
from upheaval_node.cluster.ignored_messages import IgnoredMessages
from upheaval_node.cluster.members import ClusterMember, Membership, parse_members
from upheaval_node.cluster.rules import rules_named
from upheaval_node.counters import Counter, Counters, cluster_key, cluster_label
from upheaval_node.errors import UsageError
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.api import Media
from upheaval_node.peer_faults import PeerFaults
from upheaval_node.ports import ErrorSink, Storage, Tracer
from upheaval_node.protocol.constants import MODULE_ARCHIVE_RESPONSE_STREAM_ID
from upheaval_node.settings import MemberSettings
from upheaval_node.snapshot_durations import SnapshotDurations
from upheaval_node.types import NULL_VALUE, MemberId, Now


class ModuleCounters:
    """The counters that a consensus module publishes."""

    def __init__(self, counters: Counters, cluster_id: int) -> None:
        self._counters = counters
        self._cluster_id = cluster_id
        self._all: list[Counter] = []
        make = self._allocate
        self.module_state = make(counter_types.CONSENSUS_MODULE_STATE, "Consensus Module state")
        self.role = make(counter_types.CLUSTER_NODE_ROLE, "Cluster node role")
        self.control_toggle = make(counter_types.CONTROL_TOGGLE, "Cluster control toggle")
        self.commit_position = make(counter_types.COMMIT_POSITION, "Cluster commit-pos:")
        self.snapshot_count = make(counter_types.SNAPSHOT_COUNT, "Cluster snapshot count")
        self.election_state = make(counter_types.ELECTION_STATE, "Cluster election state")
        self.errors = make(counter_types.CLUSTER_ERRORS, "Cluster Errors")
        self.timed_out_clients = make(counter_types.CLIENT_TIMEOUT_COUNT, "Cluster timed out client count")
        self.node_toggle = make(counter_types.NODE_CONTROL_TOGGLE, "Node control toggle")
        self.election_count = make(counter_types.ELECTION_COUNT, "Cluster election count")
        self.leadership_term_id = make(counter_types.LEADERSHIP_TERM_ID, "Cluster leadership term id", -1)
        self.open_sessions = make(counter_types.OPEN_SESSIONS, "Upheaval open sessions")
        self.log_recording_id = make(counter_types.LOG_RECORDING_ID, "Upheaval log recording id", NULL_VALUE)
        self.standby_snapshots = make(counter_types.STANDBY_SNAPSHOTS_RECEIVED, "Cluster standby snapshots received")
        self.ignored_messages = make(counter_types.IGNORED_MESSAGES, "Upheaval ignored consensus messages")

    def _allocate(self, type_id: int, name: str, initial: int = 0) -> Counter:
        key = cluster_key(self._cluster_id)
        counter = self._counters.allocate(type_id, key, cluster_label(name, self._cluster_id), initial)
        self._all.append(counter)
        return counter

    def close(self) -> None:
        """Free all counters."""
        for counter in self._all:
            counter.close()


class ModuleContext:
    """Shared by the parts of a module. Only the state of the members changes."""

    def __init__(
        self,
        media: Media,
        storage: Storage,
        counters: Counters,
        settings: MemberSettings,
        members: str,
        member_id: MemberId,
        tracer: Tracer,
        errors: ErrorSink,
        *,
        recording_log: RecordingLog | None = None,
    ) -> None:
        """Open the member's files and begin to connect to its archive. Raises `UsageError` for invalid settings."""
        cluster = self.settings = settings.cluster
        self.members = parse_members(members)
        if member_id not in self.members:
            raise UsageError(f"member {member_id} is not among {members!r}")
        if not 0 <= cluster.service_count <= 10:
            raise UsageError(f"{cluster.service_count} services")
        self.rules = rules_named(cluster.compatibility)
        self.media = media
        self.counters = counters
        self.member_id = member_id
        self.tracer = tracer
        self.errors = errors
        self.published = ModuleCounters(counters, cluster.cluster_id)
        self.time = ClusterTime(cluster.time_unit)
        self.recording_log = recording_log or RecordingLog(storage, sync_level=cluster.file_sync_level)
        self.node_state = NodeState(storage, sync_level=cluster.file_sync_level)
        self._archive_timeout_ns = settings.archive.message_timeout_ns
        self.archive = self.new_archive_client()
        self.membership = Membership(self.members, member_id, cluster.timeouts.leader_heartbeat_ns)
        self.latency = CommitLatency(counters, cluster.cluster_id)
        self.durations = SnapshotDurations(counters, cluster.cluster_id, cluster.snapshot_duration_threshold_ns)
        # Kept here because each election replaces the ingress.
        self.ingress_faults = PeerFaults(errors, "ingress-peer")
        self.ignored = IgnoredMessages(self.published.ignored_messages, self.report)

    @property
    def own(self) -> ClusterMember:
        """This member among all members."""
        return self.members[self.member_id]

    def new_archive_client(self) -> ArchiveClient:
        """A new client of the member's archive, which begins to connect."""
        return ArchiveClient(
            self.media,
            response_stream_id=self.settings.cluster_id * 100 + MODULE_ARCHIVE_RESPONSE_STREAM_ID,
            timeout_ns=self._archive_timeout_ns,
            name=f"consensus-module-{self.member_id}",
        )

    def cluster_time(self, now: Now) -> int:
        """The wall clock, in the cluster's unit of time."""
        return self.time.at(now)

    def report(self, now: Now, kind: str, text: str) -> None:
        """Count and report an error that does not end the member."""
        self.published.errors.increment()
        self.errors.report(now, kind, text)

    def close(self) -> None:
        """Close counters and node state. The recording log is closed by its last writer."""
        self.published.close()
        self.latency.close()
        self.durations.close()
        self.node_state.close()
