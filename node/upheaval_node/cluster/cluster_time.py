"""Cluster time: the wall clock in the time unit that all members of a cluster share.

It is the time of log entries, timer deadlines and the recording log. Source: Aeron Cluster, cluster time unit. Knows
nothing of its readers.
"""

from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.protocol.cluster_messages import ClusterTimeUnit
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.types import MS, Now

_NS: Final = {ClusterTimeUnit.MILLIS: MS, ClusterTimeUnit.MICROS: 1000, ClusterTimeUnit.NANOS: 1}


class ClusterTime:
    """Converts between the wall clock, cluster time and nanoseconds.

    Raises `UsageError` when `unit_name` is not a time unit.
    """

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
        """The nanoseconds in a span of cluster time."""
        return duration * self._ns

    def difference(self, unit: int) -> str | None:
        """Why a log or a snapshot of this unit does not fit, None when the unit is ours.

        Logs from before there were units count in milliseconds.
        """
        unit = ClusterTimeUnit.MILLIS if unit == NULL_INT32 else unit
        if unit == self.unit:
            return None
        known = {int(known_unit): known_unit.name for known_unit in ClusterTimeUnit}
        return f"time unit {known.get(unit, unit)}, ours is {self.unit.name}"
