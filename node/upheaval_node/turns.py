"""The turns of the agents of one process: which agents are called in a round, and when the next round is due.

An agent that has a `bell.Bell` is called only when its bell or its deadline requires it. It is asked for its deadline
after its turns, and has to ring when the deadline moves at another time. Agents without a bell are called in every
round. Both runtimes, on sockets and simulated, call agents through this. Knows agents only by `ports.Agent`, and
neither clock nor input.
"""

from collections.abc import Callable, Sequence

from upheaval_node.bell import Bell
from upheaval_node.errors import TerminationError
from upheaval_node.ports import Agent
from upheaval_node.types import NEVER_NS, Now


class _Turn:
    """One agent and whether it is to be called."""

    __slots__ = ("agent", "bell", "deadline_ns", "is_due", "is_stale")

    def __init__(self, agent: Agent, bell: Bell | None) -> None:
        self.agent = agent
        self.bell = bell
        self.deadline_ns = 0
        self.is_due = True
        # Whether the deadline has to be asked for again.
        self.is_stale = True


class Turns:
    """Calls agents, in their order, round by round: a cycle is `begin` and rounds for as long as `are_waited_for`.

    An agent that ends in an orderly way (an expected `TerminationError`) gets no more turns, and `on_ended` is called.
    Without `on_ended` that error goes to the caller, as does everything else that an agent raises.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        on_ended: Callable[[Agent, TerminationError], None] | None = None,
        *,
        heeds_bells: bool = True,
    ) -> None:
        self._on_ended = on_ended
        self._turns = [_Turn(agent, getattr(agent, "bell", None) if heeds_bells else None) for agent in agents]
        self._calls_all = True

    def call_all(self) -> None:
        """An event rang no bell: call all agents in the next round, except those whose bell `covers_all`."""
        self._calls_all = True

    def begin(self, now_ns: int) -> None:
        """Begin a cycle. Its first round calls the agents whose deadline has come."""
        for turn in self._turns:
            turn.is_due |= turn.deadline_ns <= now_ns

    def take(self, now: Now) -> int:
        """One round; returns how much was done."""
        if self._calls_all:
            self._calls_all = False
            for turn in self._turns:
                turn.is_due |= turn.bell is None or not turn.bell.covers_all
        work = 0
        for turn in self._turns:
            if turn.is_due or turn.bell is None or turn.bell.rung:
                work += self._take_turn(turn, now)
        return work

    def are_waited_for(self, work: int) -> bool:
        """Whether another round is to come at once; agents without a bell want one after `work` of the last round."""
        if self._calls_all:
            return True
        for turn in self._turns:
            bell = turn.bell
            if turn.is_due or (work > 0 if bell is None else bell.rung):
                return True
        return False

    def due_ns(self, now_ns: int) -> int:
        """When the next cycle is due: `now_ns` while an agent is waited for, else at the earliest deadline."""
        due_ns: int = NEVER_NS
        for turn in self._turns:
            if turn.is_stale or turn.bell is None:
                turn.is_stale = False
                turn.deadline_ns = turn.agent.next_deadline_ns()
            if turn.deadline_ns < due_ns:
                due_ns = turn.deadline_ns
        return now_ns if self.are_waited_for(0) else due_ns

    def _take_turn(self, turn: _Turn, now: Now) -> int:
        turn.is_stale = True
        bell = turn.bell
        if bell is not None:
            bell.rung = False
        try:
            work = turn.agent.do_work(now)
        except TerminationError as error:
            if not error.expected or self._on_ended is None:
                raise
            self._turns = [other for other in self._turns if other is not turn]
            self._calls_all = True
            self._on_ended(turn.agent, error)
            return 1
        turn.is_due = work > 0 and (bell is None or not bell.is_settled)
        return work
