"""The duty cycle of a process: input, then the turns of its agents until none is waited for, then wait.

Knows agents only by `ports.Agent`. Nothing runs when nothing is due: the wait lasts until input or until the earliest
deadline that an agent named. The simulated runtime runs the same cycle on virtual time.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from upheaval_node.errors import TerminationError
from upheaval_node.ports import Agent
from upheaval_node.runtime.loop import Loop
from upheaval_node.turns import Turns
from upheaval_node.types import MS, Now, S

LONGEST_CYCLE_NS: Final = 5 * MS  # before input and deadlines are looked at again
MAX_WAIT_NS: Final = 60 * S
STALL_REPORT_NS: Final = 50 * MS  # shorter stalls cannot explain a missed heartbeat of any profile


class Clock(Protocol):
    """The clock of a duty cycle."""

    def now(self) -> Now:
        """Monotonic time, for deadlines, and wall-clock time, which only labels moments."""


class DutyCycle:
    """Runs agents on a loop until a stop is requested.

    `after_work` is called after every cycle, before the next wait: input and completed syncs change things, too, of
    which no agent knows. `on_stall` gets the length of every stall of 50 ms or more, while it can still be written
    down; `longest_stall_ns` keeps the longest. A stall is the time in which the process could not have reacted: its
    work in one cycle, and the time by which it woke up too late (a stopped or starved process). An agent that ends in
    an orderly way (an expected `TerminationError`) gets no more turns, and `on_ended` is called; everything else that
    an agent raises ends the run. `heeds_bells` is false where the member's other processes write what agents read,
    as those ring no bell. What tools write into the counters is seen at an agent's next deadline.
    """

    def __init__(
        self,
        loop: Loop,
        clock: Clock,
        agents: Sequence[Agent],
        *,
        after_work: Callable[[], None] | None = None,
        on_stall: Callable[[Now, int], None] | None = None,
        on_ended: Callable[[Agent, TerminationError], None] | None = None,
        heeds_bells: bool = True,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._turns = Turns(agents, on_ended, heeds_bells=heeds_bells)
        self._after_work = after_work
        self._on_stall = on_stall
        self._is_stopping = False
        self._late_ns = 0
        self.longest_stall_ns = 0
        self.cycles = 0

    def request_stop(self) -> None:
        """End `run` after the current cycle. Safe in a signal handler."""
        self._is_stopping = True
        self._loop.wake()

    def run(self) -> None:
        """Run until `request_stop`."""
        while not self._is_stopping:
            self.run_once(MAX_WAIT_NS)

    def run_until(self, condition: Callable[[], bool], deadline_ns: int) -> bool:
        """Run until `condition` holds; returns whether it did before the monotonic `deadline_ns`."""
        while not condition():
            left_ns = deadline_ns - time.monotonic_ns()
            if left_ns <= 0:
                return False
            self.run_once(left_ns)
        return True

    def run_once(self, max_wait_ns: int) -> None:
        """Wait once, for at most `max_wait_ns`, and run the cycle after it."""
        self._wait(max_wait_ns)
        try:
            self._work()
        finally:
            self._report_stall()

    def _report_stall(self) -> None:
        """Report a stall, also in the cycle in which an agent ended the run."""
        stall_ns = time.monotonic_ns() - self._loop.woke_ns + self._late_ns
        if stall_ns > self.longest_stall_ns:
            self.longest_stall_ns = stall_ns
        if stall_ns >= STALL_REPORT_NS and self._on_stall is not None:
            self._on_stall(self._clock.now(), stall_ns)

    def _wait(self, max_wait_ns: int) -> None:
        now_ns = time.monotonic_ns()
        wait_ns = max(0, min(self._turns.due_ns(now_ns) - now_ns, max_wait_ns))
        self._loop.run_once(wait_ns / S)
        self._late_ns = max(0, self._loop.woke_ns - now_ns - wait_ns)

    def _work(self) -> None:
        self.cycles += 1
        now = self._clock.now()
        self._turns.begin(now.ns)
        if self._loop.take_unrung():
            self._turns.call_all()
        end_ns = now.ns + LONGEST_CYCLE_NS
        while self._turns.are_waited_for(self._turns.take(now)):
            now = self._clock.now()
            if now.ns >= end_ns:
                break
        if self._after_work is not None:
            self._after_work()
