"""Where values can come from: counts that refute an answer before any search."""

from collections.abc import Iterable, Sequence

from upheaval.records import Operation, Outcome
from upheaval.records.values import Frozen
from upheaval_node.types import NEVER_NS


def completion_of(operation: Operation) -> int:
    """The completion time of an operation; `NEVER_NS` if it was not answered."""
    if operation.outcome is not Outcome.OK:
        return NEVER_NS
    assert operation.complete_ns is not None
    return operation.complete_ns


def answered_of(operations: Iterable[Operation]) -> list[Operation]:
    """The answered operations, in the order of their completion."""
    return sorted((operation for operation in operations if operation.outcome is Outcome.OK), key=completion_of)


class Origins:
    """The times of the earliest invocations that can have put each value."""

    def __init__(self, initial: Iterable[Frozen], put: Iterable[tuple[Frozen, Operation]]) -> None:
        self._moments: dict[Frozen, list[int]] = {}
        for value in initial:
            self._moments.setdefault(value, []).append(-1)
        for value, operation in put:
            self._moments.setdefault(value, []).append(operation.invoke_ns)
        for moments in self._moments.values():
            moments.sort()

    def have(self, value: Frozen, count: int, moment: int) -> bool:
        """Whether at least `count` operations that put the value had been invoked by `moment`."""
        moments: Sequence[int] = self._moments.get(value, ())
        return len(moments) >= count and moments[count - 1] <= moment
