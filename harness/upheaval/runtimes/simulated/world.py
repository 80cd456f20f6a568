"""The virtual clock and the event heap: everything in a simulation happens in `World.step`.

Events are ordered by time and, at equal times, by the order of planning, so that one seed gives one execution. This
module knows nothing of networks, disks or nodes, and reads no real clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Final

from upheaval.runtimes.simulated.errors import SimulationError
from upheaval_node.types import MS, US, S

# The monotonic time at which a run begins: not 0, so that "never happened" and "at the start" differ.
START_NS: Final = S
# The wall clock at the start of every run: arbitrary but fixed, because it is part of messages and files.
START_EPOCH_MS: Final = 1_700_000_000_000
# More events than this at one instant are a livelock.
MAX_EVENTS_AT_ONE_INSTANT: Final = 200_000
# The virtual time between two checks of a wait's condition.
CONDITION_INTERVAL_NS: Final = 500 * US

Action = Callable[[], None]


@dataclass(frozen=True, slots=True)
class FreshTiming:
    """A new epoch of draws, from a given time on."""

    from_ns: int
    epoch: int


class World:
    """One simulated universe: a seed, a clock, a heap of planned events, and random streams by subject."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ns = START_NS
        self._heap: list[tuple[int, int, Action]] = []
        self._planned = 0
        self._streams: dict[str, Random] = {}
        self._epoch = 0

    @property
    def epoch_ms(self) -> int:
        """The true wall clock; a host's own clock may have a skew."""
        return self.epoch()[0]

    def epoch(self) -> tuple[int, int]:
        """The true wall clock in milliseconds, and the nanoseconds since that millisecond."""
        elapsed_ms, fraction_ns = divmod(self.now_ns - START_NS, MS)
        return START_EPOCH_MS + elapsed_ms, fraction_ns

    def stream(self, subject: str) -> Random:
        """The random stream of one subject, such as the latencies of a link.

        Its n-th draw is a function of seed, subject and n alone. Changes elsewhere, such as a fault that is left out,
        do not shift it. The seed is a text, which Random hashes with SHA-512: the same on every machine and for every
        PYTHONHASHSEED.
        """
        stream = self._streams.get(subject)
        if stream is None:
            stream = self._streams[subject] = Random(self._key(subject))
        return stream

    def adopt(self, subject: str, stream: Random) -> Random:
        """Use a seeded generator for the draws of a subject that has none yet."""
        return self._streams.setdefault(subject, stream)

    def rekey(self, epoch: int) -> None:
        """Start another epoch for all later draws. A run begins in epoch 0."""
        self._epoch = epoch
        for subject, stream in self._streams.items():
            stream.seed(self._key(subject))

    def plan(self, fresh: FreshTiming) -> None:
        """Plan the begin of that epoch, before all events that are planned later for the same moment."""
        self.at(fresh.from_ns, partial(self.rekey, fresh.epoch))

    def _key(self, subject: str) -> str:
        return f"{self.seed}/{subject}" if self._epoch == 0 else f"{self.seed}/{subject}/{self._epoch}"

    def at(self, time_ns: int, action: Action) -> None:
        """Plan `action` for `time_ns`. A past time means now, after everything already planned for now."""
        heappush(self._heap, (max(time_ns, self.now_ns), self._planned, action))
        self._planned += 1

    def after(self, delay_ns: int, action: Action) -> None:
        """Plan `action` for a time after now."""
        self.at(self.now_ns + delay_ns, action)

    def step(self) -> bool:
        """Run the next event. Returns False when none is planned."""
        if not self._heap:
            return False
        time_ns, _, action = heappop(self._heap)
        self.now_ns = time_ns
        action()
        return True

    def run_until(self, condition: Callable[[], bool], timeout_ns: int) -> bool:
        """Run events until `condition` holds (True) or `timeout_ns` of virtual time has passed (False)."""
        deadline_ns = self.now_ns + timeout_ns
        while not condition():
            if self.now_ns >= deadline_ns:
                return False
            # Nothing changes before the next event, however late that is.
            next_ns = self._heap[0][0] if self._heap else deadline_ns
            self._run_to(min(max(next_ns, self.now_ns + CONDITION_INTERVAL_NS), deadline_ns))
        return True

    def run_for(self, duration_ns: int) -> None:
        """Run all events of the next `duration_ns`, and advance the clock to their end."""
        self._run_to(self.now_ns + duration_ns)

    def _run_to(self, end_ns: int) -> None:
        heap = self._heap
        instant_ns, budget = -1, 0
        while heap and heap[0][0] <= end_ns:
            if heap[0][0] != instant_ns:
                instant_ns, budget = heap[0][0], MAX_EVENTS_AT_ONE_INSTANT
            budget -= 1
            if budget < 0:
                raise SimulationError(f"seed {self.seed}: over {MAX_EVENTS_AT_ONE_INSTANT} events at {instant_ns} ns")
            self.step()
        self.now_ns = max(self.now_ns, end_ns)
