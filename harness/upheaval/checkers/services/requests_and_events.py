"""Judges promises that relate client requests to the events that a service makes of them.

Walks both in log order, compares answers, and makes the finding. The promises are in `timers` and `ledger`. This module
knows neither of them, and no files.
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
    """A log entry other than a client request."""

    @property
    def position(self) -> int:
        """The end of its entry in the log."""

    @property
    def timestamp(self) -> int:
        """The cluster time of its entry."""


E = TypeVar("E", bound=Event)
E_contra = TypeVar("E_contra", bound=Event, contravariant=True)


class Judge(Protocol[E_contra]):
    """Follows the log for one promise. All methods but `shown` raise `Broken`."""

    def request(self, entry: LogEntry) -> None:
        """Take the next client request in the log and check its answer."""

    def event(self, event: E_contra) -> None:
        """Take the next event in the log."""

    def require_none_lost(self, clock: Clock) -> None:
        """Check at the end of the log that no event is missing."""

    def shown(self) -> str:
        """Summarise what the verdict rests on."""


def judge_in_log_order(
    promise: Promise, judge: Judge[E], requests: Iterable[LogEntry], events: Iterable[E], time_unit: int
) -> list[Result]:
    """Judge requests and events, both in log order with timestamps in `time_unit`. Judges events without
    requests, too.
    """
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
    """Compare an answer with `expected`, the result of the log before `position` (None: a refusal). Raises `Broken`."""
    is_refused = isinstance(operation.result, dict)
    if (is_refused and expected is not None) or (not is_refused and not same(operation.result, expected)):
        detail = f"{operation} at position {position}: the log before it gives {expected!r}"
        raise Broken(Verdict.INVALID, detail, position=position, operation=operation.id)
