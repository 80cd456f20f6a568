"""The cluster's time: the wall clock, in the unit that all members of a cluster count in.

Timestamps of log entries, deadlines of timers and times in the recording log are in it. Source: Aeron Cluster, cluster
time unit. Knows nothing of who reads them.
"""

from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.protocol.cluster_messages import ClusterTimeUnit
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.types import MS, Now

_NS: Final = {ClusterTimeUnit.MILLIS: MS, ClusterTimeUnit.MICROS: 1000, ClusterTimeUnit.NANOS: 1}


class ClusterTime:
    """Raises `UsageError` for a name that is no unit."""

    def __init__(self, unit_name: str = "MILLIS") -> None:
        if unit_name not in ClusterTimeUnit.__members__:
            raise UsageError(f"time_unit must be one of {', '.join(ClusterTimeUnit.__members__)}, not {unit_name!r}")
        self.unit: Final = ClusterTimeUnit[unit_name]
        self._ns: Final = _NS[self.unit]
        self._per_ms: Final = MS // self._ns

    def at(self, now: Now) -> int:
        """The wall clock in the cluster's unit."""
        return now.epoch_ms * self._per_ms + now.epoch_fraction_ns // self._ns

    def in_ns(self, duration: int) -> int:
        """A span of cluster time in nanoseconds."""
        return duration * self._ns

    def difference(self, unit: int) -> str | None:
        """What is wrong with a log or a snapshot of this unit, None when it is ours.

        Logs from before there were units count in milliseconds.
        """
        unit = ClusterTimeUnit.MILLIS if unit == NULL_INT32 else unit
        if unit == self.unit:
            return None
        known = {int(each): each.name for each in ClusterTimeUnit}
        return f"time unit {known.get(unit, unit)}, ours is {self.unit.name}"
