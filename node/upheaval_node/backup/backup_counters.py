"""The counters that a backup agent publishes. Types, keys and labels are those of Aeron Cluster."""

from upheaval_node import counters as counter_types
from upheaval_node.counters import Counter, Counters, cluster_key, cluster_label
from upheaval_node.types import NULL_POSITION


class BackupCounters:
    """`query_deadline` is wall-clock time in milliseconds. Setting it makes the agent query again at that time."""

    def __init__(self, counters: Counters, cluster_id: int) -> None:
        def make(type_id: int, name: str, initial: int = 0) -> Counter:
            return counters.allocate(type_id, cluster_key(cluster_id), cluster_label(name, cluster_id), initial)

        self.state = make(counter_types.BACKUP_STATE, "Cluster Backup State")
        self.live_log_position = make(
            counter_types.BACKUP_LIVE_LOG_POSITION, "Cluster Backup live log position", NULL_POSITION
        )
        self.query_deadline = make(counter_types.BACKUP_QUERY_DEADLINE, "Cluster Backup next query deadline in ms")
        self.errors = make(counter_types.BACKUP_ERRORS, "Cluster Backup errors")
        self.snapshots_retrieved = make(counter_types.BACKUP_SNAPSHOTS_RETRIEVED, "Cluster Backup snapshots retrieved")

    def close(self) -> None:
        """Free all counters."""
        for counter in (
            self.state,
            self.live_log_position,
            self.query_deadline,
            self.errors,
            self.snapshots_retrieved,
        ):
            counter.close()
