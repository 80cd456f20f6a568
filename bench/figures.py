"""The figures of one measured round, and how rounds are summed up."""

import statistics
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figures:
    """Committed and answered operations a second, and their latency in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def percentile(ordered: list[float], share: float) -> float:
    """The value below which `share` of the ordered values lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def from_latencies(latencies_ms: list[float], seconds: float) -> Figures:
    """Sum up the latencies of all operations that ended within `seconds`."""
    ordered = sorted(latencies_ms)
    return Figures(len(ordered) / seconds, percentile(ordered, 0.5), percentile(ordered, 0.99))


def median(rounds: list[Figures]) -> Figures:
    """The median of each figure over the rounds."""
    return Figures(
        statistics.median(r.per_second for r in rounds),
        statistics.median(r.p50_ms for r in rounds),
        statistics.median(r.p99_ms for r in rounds),
    )
