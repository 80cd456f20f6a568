"""When a load is warm: its rate is steady. A Java machine takes ten seconds and more to compile what runs often."""

from typing import Final

from upheaval_node.types import S

WINDOW_NS: Final = S
WINDOWS: Final = 3
SPREAD: Final = 0.05
"""How far the rates of windows in a row may lie from their mean, as a share of it."""
LIMIT_S: Final = 60
"""A rate that does not stand by then is measured as it is."""


class WarmUp:
    """Counts answers by windows, and has whether the rate of the last ones is steady."""

    def __init__(self, begin_ns: int) -> None:
        self._end_ns = begin_ns + WINDOW_NS
        self._limit_ns = begin_ns + LIMIT_S * S
        self._answered = 0
        self._rates: list[float] = []

    def is_over(self, now_ns: int, answered: int) -> bool:
        """Whether the rate is steady, or the limit has passed. Call it often: a window ends at the next call."""
        if now_ns < self._end_ns:
            return False
        seconds = (now_ns - self._end_ns + WINDOW_NS) / S
        self._rates.append((answered - self._answered) / seconds)
        self._answered, self._end_ns = answered, now_ns + WINDOW_NS
        return is_steady(self._rates) or now_ns >= self._limit_ns


def is_steady(rates: list[float]) -> bool:
    """Whether the last windows answered something, all of them about as much."""
    last = rates[-WINDOWS:]
    mean = sum(last) / max(1, len(last))
    return len(last) == WINDOWS and mean > 0 and all(abs(rate - mean) <= SPREAD * mean for rate in last)
