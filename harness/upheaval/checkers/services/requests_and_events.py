"""How a promise is judged that ties the requests of clients to events that the service made of them.

It has the walk through both in log order, what an answer must be, and the finding at the end. The promises are those of
`timers` and `ledger`. This module knows neither of them, and no files.
"""

from collections.abc import Iterable
from heapq import merge
from typing import Protocol, TypeVar

from upheaval.checkers.evidence.events import Clock
from upheaval.checkers.history.columns import LogEntry
from upheaval.checkers.history.model import same
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import Json, Operation


class Event(Protocol):
    """Something in the log that no client asked for there and then."""

    @property
    def position(self) -> int:
        """Where its entry ends in the log."""

    @property
    def timestamp(self) -> int:
        """Cluster time of its entry."""


E = TypeVar("E", bound=Event)
E_contra = TypeVar("E_contra", bound=Event, contravariant=True)


class Judge(Protocol[E_contra]):
    """What follows the log for one promise. All but `shown` raise `Broken`."""

    def request(self, entry: LogEntry) -> None:
        """A request of a client, in its place of the log, with the answer that its client received."""

    def event(self, event: E_contra) -> None:
        """An event, in its place of the log."""

    def require_none_lost(self, clock: Clock) -> None:
        """The log has ended."""

    def shown(self) -> str:
        """What the verdict rests on."""


def judge_in_log_order(
    promise: Promise, judge: Judge[E], requests: Iterable[LogEntry], events: Iterable[E], time_unit: int
) -> list[Result]:
    """One result. Both are in log order, their timestamps in `time_unit`; events without requests are judged, too."""
    moments: list[tuple[int, int]] = []
    both: list[Iterable[LogEntry | E]] = [requests, events]
    try:
        for entry in merge(*both, key=lambda one: one.position):
            moments.append((entry.position, entry.timestamp))
            if isinstance(entry, LogEntry):
                judge.request(entry)
            else:
                judge.event(entry)
        if not moments:
            return [NotApplicable(promise, "no client asked the service anything")]
        judge.require_none_lost(Clock(moments, time_unit))
    except Broken as broken:
        return [broken.finding(promise)]
    return [Finding(promise, Verdict.VALID, judge.shown())]


def require_answer(operation: Operation, expected: Json, position: int) -> None:
    """`expected` is what the log before `position` gives, None for a refusal. Raises `Broken`."""
    is_refused = isinstance(operation.result, dict)
    if (is_refused and expected is not None) or (not is_refused and not same(operation.result, expected)):
        detail = f"{operation} at position {position}: the log before it gives {expected!r}"
        raise Broken(Verdict.INVALID, detail, position=position, operation=operation.id)
