"""A simulated process: the duty cycle of the process runtime, on virtual time.

Input that arrives is queued and wakes the process; a cycle delivers the queue to its handlers, then calls the agents
in turn until a whole round finds nothing to do, and plans the next cycle for the earliest deadline. An agent that has
a `bell.Bell` is only called when that says so: a turn that would do nothing is left out. Agents without a bell are
called in every round. A cycle takes no virtual time, but the next one begins a drawn moment later, as a scheduler would
have it. This module knows agents only by `ports.Agent`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from upheaval.runtimes.simulated.errors import ProcessDied, SimulationError
from upheaval.runtimes.simulated.world import Action, World
from upheaval_node.bell import Bell
from upheaval_node.errors import NodeError, TerminationError
from upheaval_node.ports import Agent
from upheaval_node.types import NEVER_NS, US, Now, Ns

MAX_ROUNDS: Final = 100
# A cycle does not begin sooner than this after the one before, nor later than twice this after its input.
TURN_NS: Final = 20 * US


class _Turn:
    """One agent and whether it is to be called."""

    __slots__ = ("agent", "bell", "deadline_ns", "is_due", "is_stale")

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.bell: Bell | None = getattr(agent, "bell", None)
        self.deadline_ns = 0
        self.is_due = True
        # Whether the deadline has to be asked for again.
        self.is_stale = True


class Listener(Protocol):
    """What takes part in a process while that runs, and at no other time."""

    def begin(self) -> None:
        """A cycle begins."""

    def end(self) -> None:
        """It is over."""


class SimulatedProcess:
    """One incarnation of a process on a host. Once dead it stays dead; a restart is a new one."""

    def __init__(self, world: World, host: str, name: str, *, on_exit: Callable[["SimulatedProcess"], None]) -> None:
        self._world = world
        self._host = host
        self.name = name
        self._on_exit = on_exit
        self.on_ended: Callable[[Agent], None] | None = None
        """Told of an agent that ended in an orderly way, which gets no more turns; without it the process ends."""
        self.on_failing: Callable[[], None] | None = None
        """Told of an agent's end that is none in order, before the process ends by it."""
        self.on_cycle: Callable[[], None] | None = None
        """Told after every cycle, also one in which it died; what it raises ends the simulation."""
        self.listener: Listener | None = None
        self._random = world.stream(f"schedule/{name}").random
        self._turns: list[_Turn] = []
        self._is_told = True
        self._inbox: list[Action] = []
        self._wake_ns = NEVER_NS
        self._on_wake: Final[Action] = self._wake
        self._busy_until_ns = 0
        self._is_alive = True
        self._is_paused = False
        self._in_cycle = False
        self.clock_skew_ms = 0
        self.failure: BaseException | None = None
        self.cycles = 0
        self.idle_wakes = 0
        self.longest_stall_ns = 0
        self._paused_since_ns = 0

    @property
    def host(self) -> str:
        """The host that it runs on."""
        return self._host

    @property
    def alive(self) -> bool:
        """Whether it has not ended; a paused one lives."""
        return self._is_alive

    @property
    def is_paused(self) -> bool:
        """Whether it is stopped as by SIGSTOP."""
        return self._is_paused

    def start(self, agents: Sequence[Agent]) -> None:
        """Begin to run `agents`."""
        self._adopt(agents)
        self._plan(self._world.now_ns)

    def run(self, build: Callable[[], Sequence[Agent]]) -> None:
        """Begin with `build`, in the loop, so that a start that fails ends the process like any other failure."""
        self.post(lambda: self._adopt(build()))

    def _adopt(self, agents: Sequence[Agent]) -> None:
        self._turns = [_Turn(agent) for agent in agents]

    def now(self) -> Now:
        """Virtual time, and the host's wall clock with its skew."""
        epoch_ms, fraction_ns = self._world.epoch()
        return Now(Ns(self._world.now_ns), epoch_ms + self.clock_skew_ms, fraction_ns)

    def post(self, action: Action) -> None:
        """Run `action` in the loop of this process, and call all agents: something that it asked for is done."""
        self._is_told = True
        self.deliver(action)

    def deliver(self, action: Action) -> None:
        """Run `action` in the loop of this process: input from the network, which rings for whom it is."""
        if self._is_alive:
            self._inbox.append(action)
            if not self._in_cycle:
                self._plan(self._world.now_ns + int(self._random() * TURN_NS))

    def pause(self) -> None:
        """Stop it as SIGSTOP does: nothing runs, input waits."""
        if not self._is_paused:
            self._is_paused = True
            self._paused_since_ns = self._world.now_ns

    def resume(self) -> None:
        """Go on with what has waited; the pause counts as a stall."""
        if self._is_paused:
            self._is_paused = False
            self.longest_stall_ns = max(self.longest_stall_ns, self._world.now_ns - self._paused_since_ns)
            self._plan(self._world.now_ns)

    def kill(self) -> None:
        """Everything in memory is gone. The caller tells the network and the disk what kind of death it was."""
        self._is_alive = False
        self._inbox.clear()
        self._turns = []

    def _plan(self, time_ns: int) -> None:
        time_ns = max(time_ns, self._busy_until_ns)
        if self._is_alive and time_ns < self._wake_ns:
            self._wake_ns = time_ns
            self._world.at(time_ns, self._on_wake)

    def _wake(self) -> None:
        # An event of an earlier plan that a sooner one replaced finds another time noted down.
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
            # What it committed in this cycle may have been answered.
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
        is_idle = not self._inbox
        for turn in self._turns:
            turn.is_due |= turn.deadline_ns <= now.ns
        for _ in range(MAX_ROUNDS):
            work = len(self._inbox)
            inbox, self._inbox = self._inbox, []
            for action in inbox:
                action()
            if self._is_told:
                self._is_told = False
                for turn in self._turns:
                    turn.is_due |= turn.bell is None or not turn.bell.tells_all
            for turn in self._turns:
                if turn.is_due or turn.bell is None or turn.bell.rung:
                    work += self._take_turn(turn, now)
            is_idle &= work == 0
            if not (self._inbox or self._is_told or self._is_waited_for(is_worth_a_look=work > 0)):
                break
        self.idle_wakes += is_idle

    def _is_waited_for(self, *, is_worth_a_look: bool) -> bool:
        """Whether somebody is to be called at once; agents without a bell are when something was done in this round."""
        for turn in self._turns:
            bell = turn.bell
            if turn.is_due or (is_worth_a_look if bell is None else bell.rung):
                return True
        return False

    def _take_turn(self, turn: _Turn, now: Now) -> int:
        turn.is_stale = True
        bell = turn.bell
        if bell is not None:
            bell.rung = False
        try:
            work = turn.agent.do_work(now)
        except TerminationError as termination:
            if not termination.expected or self.on_ended is None:
                raise
            self._turns = [each for each in self._turns if each is not turn]
            self._is_told = True
            self.on_ended(turn.agent)
            return 1
        turn.is_due = work > 0 and (bell is None or not bell.is_settled)
        return work

    def _plan_next(self) -> None:
        now_ns = self._world.now_ns
        self._busy_until_ns = now_ns + TURN_NS
        is_waited_for = self._inbox or self._is_told or self._is_waited_for(is_worth_a_look=False)
        deadline_ns = now_ns if is_waited_for else NEVER_NS
        for turn in self._turns:
            if turn.is_stale or turn.bell is None:
                turn.is_stale = False
                turn.deadline_ns = turn.agent.next_deadline_ns()
            if turn.deadline_ns < deadline_ns:
                deadline_ns = turn.deadline_ns
        if deadline_ns < NEVER_NS:
            self._plan(deadline_ns)

    def _end(self, failure: BaseException | None) -> None:
        self.failure = failure
        if isinstance(failure, NodeError) and self.on_failing is not None:
            self.on_failing()
        self.kill()
        self._on_exit(self)
