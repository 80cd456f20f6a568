"""The answers of clients while a run goes on, against the log as far as it was read: are they there, are they right.

An answer waits for its place in the log, an operation in the log for its answer. This module knows no files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from upheaval.checkers.evidence.positions import UNBOUNDED
from upheaval.checkers.history.columns import LogEntry
from upheaval.checkers.history.model import Model, same
from upheaval.checkers.history.witness import what_is_wrong, wrong_result
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import WORKBENCH, Function, Json, Operation, Outcome


@dataclass(slots=True)
class _Logged:
    """An operation in the log, and what the log before it gives where that is known; of a list its first elements."""

    entry: LogEntry
    is_modelled: bool
    expected: Json = None
    length: int = 0


class LiveAnswers:
    """All answers. Those to calls are not followed: the log does not name their operations."""

    def __init__(self) -> None:
        self.followed = 0
        """Answers whose place in the log was looked up."""
        self.last_ns = -1
        """When the last answer came."""
        self._waiting: dict[int, Operation] = {}
        self._forgotten = 0
        self._logged: dict[int, _Logged] = {}
        self._model = Model()

    @property
    def waiting(self) -> int:
        """Answers whose place in the log was not read yet."""
        return len(self._waiting) + self._forgotten

    def forget(self) -> None:
        """Count what waits and no more: its place in the log will not be read."""
        self._forgotten += len(self._waiting)
        self._waiting.clear()

    def answered(self, operations: Iterable[Operation]) -> Iterator[Finding]:
        """Take the next lines of the history."""
        for operation in operations:
            if operation.outcome is not Outcome.OK:
                continue
            self.last_ns = max(self.last_ns, operation.complete_ns or -1)
            if operation.f is not Function.CALL:
                logged = self._logged.pop(operation.id, None)
                if logged is None:
                    self._waiting[operation.id] = operation
                else:
                    yield from self._judged(operation, logged)

    def logged(self, entries: Iterable[LogEntry], *, has_begin: bool) -> Iterator[Finding]:
        """Take the next operations of the log; in one without its beginning it is unknown what they should give."""
        for entry in entries:
            logged = _Logged(entry, is_modelled=has_begin and entry.f in WORKBENCH)
            if logged.is_modelled:
                logged.expected = self._model.apply(entry.f, entry.key, entry.value)
                logged.length = len(logged.expected) if isinstance(logged.expected, list) else 0
            operation = self._waiting.pop(entry.id, None)
            if operation is None:
                self._logged[entry.id] = logged
            else:
                yield from self._judged(operation, logged)

    def read_up_to(self, position: int, start: int) -> Iterator[Finding]:
        """What should be before a position up to which the log, which begins at `start`, was read."""
        placed = [
            operation
            for operation in self._waiting.values()
            if operation.position is not None and operation.position <= position
        ]
        for operation in placed:
            del self._waiting[operation.id]
            if operation.position is not None and operation.position > start:
                self.followed += 1
                yield from _lost(operation, None)

    def _judged(self, operation: Operation, logged: _Logged) -> Iterator[Finding]:
        self.followed += 1
        entry, expected = logged.entry, logged.expected
        yield from _lost(operation, entry)
        if isinstance(expected, list) and entry.f is Function.LIST:
            expected = expected[: logged.length]
        if logged.is_modelled and not same(operation.result, expected):
            yield wrong_result(operation, entry.position, expected)


def _lost(operation: Operation, entry: LogEntry | None) -> Iterator[Finding]:
    """A finding on an answer whose operation is not where the log should have it."""
    wrong = what_is_wrong(operation, entry, UNBOUNDED)
    if wrong is not None:
        detail, about = wrong
        promise = Promise.ACKNOWLEDGED_NOT_LOST
        yield Finding(promise, Verdict.INVALID, detail, position=about.position, operation=about.id)
