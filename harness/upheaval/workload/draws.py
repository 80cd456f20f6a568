"""Endless seeded sequences of operations for the services `ledger` and `timers`. Sends nothing."""

from collections import deque
from random import Random
from typing import Final

from upheaval.records import Function, Json

AMOUNT_MAX: Final = 30
DELAYS_MS: Final = (0, 20, 100, 300, 700, 1500, 8000)
# A read of a group returns all of its fired timers, so a new group starts before that grows long.
TIMERS_A_GROUP: Final = 100
_CANCELLED_AMONG: Final = 20
_LEDGER_MIX: Final = ((Function.TRANSFER, 80), (Function.BALANCES, 20))
_TIMERS_MIX: Final = ((Function.SCHEDULE, 60), (Function.CANCEL, 25), (Function.FIRED, 15))


class LedgerDraw:
    """Transfers between a few accounts, some for more than the balance, and reads of all balances."""

    def __init__(self, seed: int, keys: int) -> None:
        self._random = Random(f"ledger/{seed}")
        self._accounts = [f"a{index}" for index in range(max(keys, 2))]

    def next(self, operation_id: int) -> tuple[Function, str, Json]:  # noqa: ARG002 - of every draw
        """A transfer of 1 to AMOUNT_MAX between two accounts, or a read of all balances."""
        if _drawn(self._random, _LEDGER_MIX) is Function.BALANCES:
            return Function.BALANCES, "", None
        source, target = self._random.sample(self._accounts, 2)
        return Function.TRANSFER, source, [target, self._random.randint(1, AMOUNT_MAX)]


class TimersDraw:
    """Timers with short delays, cancellations of long ones, and reads of the fired timers of a group.

    `name` distinguishes the groups of different loads.
    """

    def __init__(self, seed: int, name: str = "") -> None:
        self._random = Random(f"timers/{seed}/{name}")
        self._name = name
        self._scheduled = 0
        self._late: deque[int] = deque(maxlen=_CANCELLED_AMONG)

    def next(self, operation_id: int) -> tuple[Function, str, Json]:
        """The next operation. Its id is the timer id that a later cancellation names."""
        function = _drawn(self._random, _TIMERS_MIX)
        group = f"t{self._name}{self._scheduled // TIMERS_A_GROUP}"
        if function is Function.CANCEL and self._late:
            return function, "", self._late[self._random.randrange(len(self._late))]
        if function is Function.FIRED:
            return function, group, None
        self._scheduled += 1
        self._late.append(operation_id)
        return Function.SCHEDULE, group, self._random.choice(DELAYS_MS)


def _drawn(random: Random, mix: tuple[tuple[Function, int], ...]) -> Function:
    return random.choices([function for function, _ in mix], [weight for _, weight in mix])[0]
