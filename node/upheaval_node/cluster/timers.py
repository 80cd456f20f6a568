"""The timers of the services: who asked to be called at which cluster time.

The leader expires them and writes that to the log. A module reads the log ahead of its services, and then cannot say
which of their requests an expiry is for. So it is the service that takes a timer back when it reads its expiry, in the
order of its requests; the log itself ends only the timers of a snapshot, which no service of this process asked for. An
expiry that was not committed is undone: the timer is due again at its own deadline, unless its service has asked for
something else meanwhile. Source: Aeron Cluster, timers, where it is due at once, and where the module counts expiries
that it reads before their requests. Knows neither log nor clock.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

EXPIRIES_PER_POLL: Final = 20
"""Timers that fire in one poll; the rest waits for the next, so that other work is not held up."""

MAX_STALE: Final = 1024
"""Replaced and cancelled timers that may stay in the heap, beyond as many as there are live ones."""


class Timers:
    """By correlation id; deadlines are in cluster time."""

    def __init__(self) -> None:
        # Deadline and number of the request, of which the later comes after the earlier.
        self._timers: dict[int, tuple[int, int]] = {}
        # Deadline, number and id; what `_timers` does not say any more is stale.
        self._heap: list[tuple[int, int, int]] = []
        self._next_number = 0
        # Ids of timers of a snapshot, for which no service has asked since.
        self._loaded: set[int] = set()
        # Log position of an expiry, id and deadline, until it is committed.
        self._uncommitted: deque[tuple[int, int, int]] = deque()

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Correlation id and deadline of each, in the order in which they expire."""
        ordered = sorted((*timer, correlation_id) for correlation_id, timer in self._timers.items())
        return iter([(correlation_id, deadline) for deadline, _, correlation_id in ordered])

    @property
    def next_deadline(self) -> int | None:
        """When the first one expires."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def request(self, correlation_id: int, deadline: int) -> None:
        """A service asks for a timer. One of the same id is replaced."""
        self._forget_expiry(correlation_id)
        self._loaded.discard(correlation_id)
        self.schedule(correlation_id, deadline)

    def load(self, correlation_id: int, deadline: int) -> None:
        """A timer that is in a snapshot."""
        self._loaded.add(correlation_id)
        self.schedule(correlation_id, deadline)

    def schedule(self, correlation_id: int, deadline: int) -> None:
        """A timer of the same id is replaced."""
        self._timers[correlation_id] = (deadline, self._next_number)
        heapq.heappush(self._heap, (deadline, self._next_number, correlation_id))
        self._next_number += 1
        if len(self._heap) > 2 * len(self._timers) + MAX_STALE:
            self._heap = [(*timer, key) for key, timer in self._timers.items()]
            heapq.heapify(self._heap)

    def cancel(self, correlation_id: int) -> bool:
        """A service wants it no more, or has read its expiry. Whether there was such a timer."""
        self._forget_expiry(correlation_id)
        self._loaded.discard(correlation_id)
        return self._timers.pop(correlation_id, None) is not None

    def on_event(self, correlation_id: int) -> None:
        """The log says that this timer expired: the end of one that is from a snapshot."""
        if correlation_id in self._loaded:
            self.cancel(correlation_id)

    def expire(self, time: int, on_expiry: Callable[[int], int]) -> int:
        """Expire what is due, earliest first. `on_expiry` returns the position after the expiry in the log.

        A timer whose expiry is refused (0 or less) stays, and those after it wait.
        """
        count = 0
        while count < EXPIRIES_PER_POLL:
            deadline = self.next_deadline
            if deadline is None or deadline > time:
                break
            correlation_id = self._heap[0][2]
            position = on_expiry(correlation_id)
            if position <= 0:
                break
            self._timers.pop(correlation_id, None)
            self._uncommitted.append((position, correlation_id, deadline))
            count += 1
        return count

    @property
    def has_uncommitted(self) -> bool:
        """Whether an expiry is in the log that may still be undone."""
        return bool(self._uncommitted)

    def on_committed(self, position: int) -> None:
        """Expiries up to here stay."""
        while self._uncommitted and self._uncommitted[0][0] <= position:
            self._uncommitted.popleft()

    def restore(self, position: int) -> None:
        """What expired after `position` did not."""
        self.on_committed(position)
        for _, correlation_id, deadline in self._uncommitted:
            self.schedule(correlation_id, deadline)
        self._uncommitted.clear()

    def _forget_expiry(self, correlation_id: int) -> None:
        if self._uncommitted:
            self._uncommitted = deque(each for each in self._uncommitted if each[1] != correlation_id)

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap and self._timers.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
