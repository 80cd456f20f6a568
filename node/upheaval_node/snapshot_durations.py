"""How long snapshots take: the longest one and how many took too long, as two counters.

The module counts whole snapshots of the cluster as its leader sees them, a service its own. Source: Aeron Cluster,
snapshot duration tracker. Times are monotonic nanoseconds.
"""

from typing import Final

from upheaval_node.counters import (
    SERVICE_SNAPSHOT_DURATION,
    SERVICE_SNAPSHOT_DURATION_EXCEEDED,
    TOTAL_SNAPSHOT_DURATION,
    TOTAL_SNAPSHOT_DURATION_EXCEEDED,
    Counters,
    cluster_key,
    cluster_label,
)
from upheaval_node.types import MS, NULL_VALUE, US, Now, S

_UNITS: Final = ((S, "s"), (MS, "ms"), (US, "us"), (1, "ns"))


class SnapshotDurations:
    """`threshold_ns` is how long a snapshot may take. Without a `service_id` the counters are the module's."""

    def __init__(
        self, counters: Counters, cluster_id: int, threshold_ns: int, *, service_id: int | None = None
    ) -> None:
        if service_id is None:
            types, name = (TOTAL_SNAPSHOT_DURATION, TOTAL_SNAPSHOT_DURATION_EXCEEDED), "Total"
        else:
            types, name = (SERVICE_SNAPSHOT_DURATION, SERVICE_SNAPSHOT_DURATION_EXCEEDED), "Clustered service"
        labels = (
            f"{name} max snapshot duration in ns",
            f"{name} max snapshot duration exceeded count: threshold={duration_text(threshold_ns)}",
        )
        key = cluster_key(cluster_id, service_id)
        self._max, self._exceeded = (
            counters.allocate(type_id, key, cluster_label(label, cluster_id, service_id))
            for type_id, label in zip(types, labels, strict=True)
        )
        self._threshold_ns = threshold_ns
        self._begin_ns = NULL_VALUE

    def begin(self, now: Now) -> None:
        """A snapshot begins now; one that had begun and not ended is forgotten."""
        self._begin_ns = now.ns

    def end(self, now: Now) -> None:
        """The snapshot is over, whatever came of it. Does nothing when none has begun."""
        if self._begin_ns == NULL_VALUE:
            return
        duration_ns = now.ns - self._begin_ns
        self._begin_ns = NULL_VALUE
        self._max.set_max(duration_ns)
        if duration_ns > self._threshold_ns:
            self._exceeded.increment()

    def abandon(self) -> None:
        """The snapshot that has begun will not end here."""
        self._begin_ns = NULL_VALUE

    def close(self) -> None:
        """Free both counters."""
        self._max.close()
        self._exceeded.close()


def duration_text(duration_ns: int) -> str:
    """In the largest unit that it is a whole number of, as Aeron's labels have it."""
    length, unit = next((length, unit) for length, unit in _UNITS if duration_ns % length == 0)
    return f"{duration_ns // length}{unit}"
