"""The latency from append to commit of log positions on the leader, as a histogram of counters.

Sampled: one position is measured at a time, and the first append after its commit is the next. So the cost does not
grow with the number of messages, and every stretch of time has the same weight, however much was appended in it. Knows
positions and times only. The layout of the counters is `COMMIT_LATENCY_BUCKET` and `_SUM` of `counters`.
"""

from bisect import bisect_left
from typing import Final

from upheaval_node.counters import (
    COMMIT_LATENCY_BUCKET,
    COMMIT_LATENCY_SUM,
    Counters,
    cluster_key,
    cluster_label,
    latency_bucket_key,
)
from upheaval_node.types import NEVER_NS, NULL_POSITION, Now

BOUNDS_US: Final = (
    *(100, 250, 500),
    *(1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000),
)
"""The upper bound of each bucket in microseconds, without the last bucket, which has no bound."""

NO_BOUND_NS: Final = NEVER_NS
_BOUNDS_NS: Final = (*(bound_us * 1000 for bound_us in BOUNDS_US), NO_BOUND_NS)


class CommitLatency:
    """The counters of the histogram: one per bucket, and one with the sum in nanoseconds.

    A bucket counts the latencies above the bound of the previous bucket and up to its own bound.
    """

    def __init__(self, counters: Counters, cluster_id: int) -> None:
        self._position: int = NULL_POSITION
        self._append_ns = 0
        self._buckets = [
            counters.allocate(
                COMMIT_LATENCY_BUCKET,
                latency_bucket_key(cluster_id, bound_ns),
                cluster_label(f"Upheaval commit latency bucket le={_text(bound_ns)}", cluster_id),
            )
            for bound_ns in _BOUNDS_NS
        ]
        label = cluster_label("Upheaval commit latency sum in ns", cluster_id)
        self._sum = counters.allocate(COMMIT_LATENCY_SUM, cluster_key(cluster_id), label)

    def on_append(self, now: Now, position_before: int, position: int) -> None:
        """Called when the log may have grown: its end before and after."""
        if self._position == NULL_POSITION and position > position_before:
            self._position = position
            self._append_ns = now.ns

    def on_commit(self, now: Now, position: int) -> None:
        """Everything up to `position` is committed."""
        if self._position != NULL_POSITION and position >= self._position:
            self._position = NULL_POSITION
            latency_ns = max(0, now.ns - self._append_ns)
            self._buckets[bisect_left(_BOUNDS_NS, latency_ns)].increment()
            self._sum.increment(latency_ns)

    def abandon(self) -> None:
        """Drop the sample: the term is over, and its position may never be committed."""
        self._position = NULL_POSITION

    def close(self) -> None:
        """Free all counters."""
        for counter in (*self._buckets, self._sum):
            counter.close()


def _text(bound_ns: int) -> str:
    return "+Inf" if bound_ns == NO_BOUND_NS else f"{bound_ns // 1000}us"
