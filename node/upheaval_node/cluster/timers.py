"""The timers of the services, by the cluster time at which they expire.

The leader expires timers and writes the expiries to the log. A module reads the log ahead of its services, and then
cannot know which of their requests an expiry answers. So a service cancels the timer itself when it reads the expiry,
in the order of its requests. The log ends only the timers of a snapshot, which no service of this process has
requested. An uncommitted expiry is undone: the timer is due again at its own deadline, unless its service has made
another request meanwhile. Source: Aeron Cluster, timers; there an undone timer is due at once, and the module counts
expiries that it reads before their requests. Knows neither log nor clock.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

EXPIRIES_PER_POLL: Final = 20
"""The most timers that fire in one poll. The rest waits for the next poll, so that other work is not delayed."""

MAX_STALE: Final = 1024
"""The most replaced and cancelled timers that may stay in the heap, in addition to the number of live timers."""


class Timers:
    """The timers by correlation id. Deadlines are in cluster time."""

    def __init__(self) -> None:
        # Deadline and number of the request. Numbers order timers with equal deadlines.
        self._timers: dict[int, tuple[int, int]] = {}
        # Deadline, number and id. Items that are no longer in `_timers` are stale.
        self._heap: list[tuple[int, int, int]] = []
        self._next_number = 0
        # Ids of timers from a snapshot that no service has requested since.
        self._loaded: set[int] = set()
        # The uncommitted expiries: log position, id and deadline.
        self._uncommitted: deque[tuple[int, int, int]] = deque()

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Correlation id and deadline of each timer, in the order of expiry."""
        ordered = sorted((*timer, correlation_id) for correlation_id, timer in self._timers.items())
        return iter([(correlation_id, deadline) for deadline, _, correlation_id in ordered])

    @property
    def next_deadline(self) -> int | None:
        """The earliest deadline, None without timers."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def request(self, correlation_id: int, deadline: int) -> None:
        """Schedule a timer for a service. It replaces a timer with the same id."""
        self._forget_expiry(correlation_id)
        self._loaded.discard(correlation_id)
        self.schedule(correlation_id, deadline)

    def load(self, correlation_id: int, deadline: int) -> None:
        """Schedule a timer of a snapshot."""
        self._loaded.add(correlation_id)
        self.schedule(correlation_id, deadline)

    def schedule(self, correlation_id: int, deadline: int) -> None:
        """Schedule a timer. It replaces a timer with the same id."""
        self._timers[correlation_id] = (deadline, self._next_number)
        heapq.heappush(self._heap, (deadline, self._next_number, correlation_id))
        self._next_number += 1
        if len(self._heap) > 2 * len(self._timers) + MAX_STALE:
            self._heap = [(*timer, key) for key, timer in self._timers.items()]
            heapq.heapify(self._heap)

    def cancel(self, correlation_id: int) -> bool:
        """Remove a timer that its service cancels, or whose expiry the service has read. Returns whether there
        was one.
        """
        self._forget_expiry(correlation_id)
        self._loaded.discard(correlation_id)
        return self._timers.pop(correlation_id, None) is not None

    def on_event(self, correlation_id: int) -> None:
        """Take an expiry from the log. It ends only a timer of a snapshot."""
        if correlation_id in self._loaded:
            self.cancel(correlation_id)

    def expire(self, time: int, on_expiry: Callable[[int], int]) -> int:
        """Expire the due timers, earliest first. `on_expiry` returns the position after the expiry in the log.

        A timer whose expiry is refused (0 or less) stays, and later timers wait.
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
        """Whether the log has an expiry that may still be undone."""
        return bool(self._uncommitted)

    def on_committed(self, position: int) -> None:
        """Make the expiries up to `position` final."""
        while self._uncommitted and self._uncommitted[0][0] <= position:
            self._uncommitted.popleft()

    def restore(self, position: int) -> None:
        """Undo the expiries after `position`."""
        self.on_committed(position)
        for _, correlation_id, deadline in self._uncommitted:
            self.schedule(correlation_id, deadline)
        self._uncommitted.clear()

    def _forget_expiry(self, correlation_id: int) -> None:
        if self._uncommitted:
            self._uncommitted = deque(expiry for expiry in self._uncommitted if expiry[1] != correlation_id)

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap and self._timers.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
