"""A simulated process: the duty cycle of the process runtime, in virtual time.

Arriving input is queued and wakes the process. A cycle delivers the queue to its handlers, gives the agents turns until
no agent has pending work, and plans the next cycle for the earliest deadline. A cycle takes no virtual time, but the
next one begins after a random moment, as with a real scheduler.

This module knows agents only as `ports.Agent`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from upheaval.runtimes.simulated.errors import ProcessDied, SimulationError
from upheaval.runtimes.simulated.world import Action, World
from upheaval_chaos.target import LIMIT_PERIOD_NS
from upheaval_node.errors import NodeError, TerminationError
from upheaval_node.ports import Agent
from upheaval_node.turns import Turns
from upheaval_node.types import NEVER_NS, US, Now, Ns

MAX_ROUNDS: Final = 100
# A cycle begins no sooner than this after the previous one, and no later than twice this after its input.
TURN_NS: Final = 20 * US


class Listener(Protocol):
    """Follows the cycles of a process."""

    def begin(self) -> None:
        """A cycle begins."""

    def end(self) -> None:
        """A cycle is over."""


class SimulatedProcess:
    """One incarnation of a process on a host. A dead one never runs again; a restart is a new incarnation."""

    def __init__(self, world: World, host: str, name: str, *, on_exit: Callable[["SimulatedProcess"], None]) -> None:
        self._world = world
        self._host = host
        self.name = name
        self._on_exit = on_exit
        self.on_ended: Callable[[Agent, TerminationError], None] | None = None
        """Called with an agent that ended in an orderly way, which gets no more turns; without it the process ends. To
        be set before agents begin."""
        self.on_failing: Callable[[], None] | None = None
        """Called when an agent ended by an error of the node, before the process ends by it."""
        self.on_cycle: Callable[[], None] | None = None
        """Called after every cycle, also one in which it died; what it raises ends the simulation."""
        self.listener: Listener | None = None
        self._random = world.stream(f"schedule/{name}").random
        self._turns = Turns(())
        self._inbox: list[Action] = []
        self._wake_ns = NEVER_NS
        self._on_wake: Final[Action] = self._wake
        self._busy_until_ns = 0
        self._is_alive = True
        self._is_paused = False
        self._in_cycle = False
        self.clock_skew_ms = 0
        self.failure: BaseException | None = None
        self.share_ns = 0
        """The first part of each period in which cycles may begin, as those of a busy process under a limit; 0: all."""
        self.held_back = 0
        """How many cycles began later because of that."""
        self.cycles = 0
        self.longest_stall_ns = 0
        self._paused_since_ns = 0

    @property
    def host(self) -> str:
        """The host of the process."""
        return self._host

    @property
    def alive(self) -> bool:
        """Whether it has not ended. A paused process is alive."""
        return self._is_alive

    @property
    def is_paused(self) -> bool:
        """Whether it is stopped, as by SIGSTOP."""
        return self._is_paused

    def start(self, agents: Sequence[Agent]) -> None:
        """Start to run `agents`."""
        self._adopt(agents)
        self._plan(self._world.now_ns)

    def run(self, build: Callable[[], Sequence[Agent]]) -> None:
        """Start with `build` inside the loop, so that a failed start ends the process like any other failure."""
        self.post(lambda: self._adopt(build()))

    def _adopt(self, agents: Sequence[Agent]) -> None:
        self._turns = Turns(agents, self.on_ended)

    def now(self) -> Now:
        """The virtual time, and the host's wall clock with its skew."""
        epoch_ms, fraction_ns = self._world.epoch()
        return Now(Ns(self._world.now_ns), epoch_ms + self.clock_skew_ms, fraction_ns)

    def post(self, action: Action) -> None:
        """Run `action` in the loop of this process, and call all agents: a request of the process has completed."""
        self._turns.call_all()
        self.deliver(action)

    def deliver(self, action: Action) -> None:
        """Run `action`, an input from the network, in the loop of this process. The input signals the agents that it is
        for.
        """
        if self._is_alive:
            self._inbox.append(action)
            if not self._in_cycle:
                self._plan(self._world.now_ns + int(self._random() * TURN_NS))

    def pause(self) -> None:
        """Stop it as SIGSTOP does: nothing runs, and input waits."""
        if not self._is_paused:
            self._is_paused = True
            self._paused_since_ns = self._world.now_ns

    def resume(self) -> None:
        """Resume with the waiting input. The pause counts as a stall."""
        if self._is_paused:
            self._is_paused = False
            self.longest_stall_ns = max(self.longest_stall_ns, self._world.now_ns - self._paused_since_ns)
            self._plan(self._world.now_ns)

    def kill(self) -> None:
        """Drop everything in memory. The caller tells the network and the disk how the process died."""
        self._is_alive = False
        self._inbox.clear()
        self._turns = Turns(())

    def _plan(self, time_ns: int) -> None:
        time_ns = max(time_ns, self._busy_until_ns)
        if self.share_ns and (share_begin_ns := self._share_begin_ns(time_ns)) > time_ns:
            time_ns = share_begin_ns
            self.held_back += time_ns < self._wake_ns
        if self._is_alive and time_ns < self._wake_ns:
            self._wake_ns = time_ns
            self._world.at(time_ns, self._on_wake)

    def _share_begin_ns(self, time_ns: int) -> int:
        """The first moment from that time on in which a cycle may begin."""
        into_ns = time_ns % LIMIT_PERIOD_NS
        return time_ns if into_ns < self.share_ns else time_ns - into_ns + LIMIT_PERIOD_NS

    def _wake(self) -> None:
        # When an earlier wake-up replaced a planned one, `_wake_ns` differs from the time of the old event.
        if self._world.now_ns != self._wake_ns or not self._is_alive or self._is_paused:
            if self._is_paused and self._world.now_ns == self._wake_ns:
                self._wake_ns = NEVER_NS
            return
        self._wake_ns = NEVER_NS
        self._in_cycle = True
        if self.listener is not None:
            self.listener.begin()
        try:
            self._cycle()
            self._show_cycle()
        except (ProcessDied, SimulationError):
            if self.alive:
                raise
            self._show_cycle()
        except NodeError as failure:
            # Clients may have received answers for what the process committed in this cycle.
            self._show_cycle()
            self._end(None if isinstance(failure, TerminationError) and failure.expected else failure)
        except Exception as defect:  # noqa: BLE001 - a defect of the node: the process ends and the harness reports it
            self._end(defect)
        finally:
            self._in_cycle = False
            if self.listener is not None:
                self.listener.end()
        if self._is_alive:
            self._plan_next()

    def _show_cycle(self) -> None:
        if self.on_cycle is not None:
            self.on_cycle()

    def _cycle(self) -> None:
        self.cycles += 1
        now = self.now()
        self._turns.begin(now.ns)
        for _ in range(MAX_ROUNDS):
            inbox, self._inbox = self._inbox, []
            for action in inbox:
                action()
            work = len(inbox) + self._turns.take(now)
            if not (self._inbox or self._turns.are_waited_for(work)):
                break

    def _plan_next(self) -> None:
        now_ns = self._world.now_ns
        self._busy_until_ns = now_ns + TURN_NS
        due_ns = self._turns.due_ns(now_ns)
        if self._inbox or due_ns < NEVER_NS:
            self._plan(now_ns if self._inbox else due_ns)

    def _end(self, failure: BaseException | None) -> None:
        self.failure = failure
        if isinstance(failure, NodeError) and self.on_failing is not None:
            self.on_failing()
        self.kill()
        self._on_exit(self)
