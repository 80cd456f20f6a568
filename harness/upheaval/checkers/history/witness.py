"""The log as witness: judges a history by the order in which the cluster's own log recorded its operations.

Every operation carries a unique id in its payload, so its place in the log is looked up by that id. What the service
reported as the position is only compared with it: the suspect is not the witness. The log gives the order, therefore
no search is needed: a sort and a scan. This module knows nothing of files; it gets operations and log entries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from upheaval.checkers.evidence.positions import UNBOUNDED, LogBounds
from upheaval.checkers.history.model import Model, same
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import WORKBENCH, Function, Json, Operation, Outcome


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One client operation in the log. `position` is the end of its message, as the service sees it."""

    position: int
    id: int
    f: Function
    key: str
    value: Json
    timestamp: int = field(default=0, compare=False)
    """The cluster's time."""
    session: int = field(default=-1, compare=False)
    """The cluster session that it came from, -1 where that is not looked at."""
    term: int = field(default=-1, compare=False)
    """The leadership term of the leader that took it, -1 where that is not looked at."""

    def __str__(self) -> str:
        return f"operation id={self.id} {self.f} {self.key}"


def acknowledged_not_lost(
    operations: Iterable[Operation], log: Mapping[int, LogEntry], bounds: LogBounds = UNBOUNDED
) -> Finding:
    """Every operation that was answered is in the log, with what was sent, where the service answered that it is: at a
    position that is committed and that the recordings of a quorum reach. The first one that is not, and how many.
    """
    acknowledged = broken = 0
    first: tuple[str, LogEntry | Operation] | None = None
    for operation in operations:
        if operation.outcome is Outcome.OK:
            acknowledged += 1
            what = what_is_wrong(operation, log.get(operation.id), bounds)
            broken += what is not None
            first = first or what
    if first is None:
        detail = f"{acknowledged} acknowledged operations found in the log"
        return Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.VALID, detail)
    detail, about = first
    return _invalid(
        Promise.ACKNOWLEDGED_NOT_LOST, f"{detail} ({broken} of {acknowledged} acknowledged operations)", about
    )


def what_is_wrong(
    operation: Operation, entry: LogEntry | None, bounds: LogBounds
) -> tuple[str, LogEntry | Operation] | None:
    """Of an operation that was answered: what, and on which position the finding is."""
    committed, recorded = bounds.commit_position, bounds.recorded
    if committed is not None and operation.position is not None and operation.position > committed:
        return f"{operation} was acknowledged at {_at(operation)}, past the commit position {committed}", operation
    if entry is None:
        return f"{operation} was acknowledged at {_at(operation)} and is not there", operation
    if (entry.f, entry.key) != (operation.f, operation.key) or not same(entry.value, operation.value):
        shown = f"{entry.f} {entry.key} {entry.value!r}"
        return f"{operation} was acknowledged, the log has {shown} at position {entry.position}", entry
    if operation.position is not None and operation.position != entry.position:
        reported = f"{operation} was reported at position {operation.position}"
        return f"{reported} and lies at position {entry.position}", entry
    if recorded is not None and entry.position > recorded:
        at = f"{operation} was acknowledged at position {entry.position}"
        return f"{at}, a quorum of recordings reaches position {recorded} only", entry
    return None


def lost_operations(operations: Iterable[Operation], log: Mapping[int, LogEntry]) -> list[Operation]:
    """The acknowledged operations that are not in the log."""
    return [operation for operation in operations if operation.outcome is Outcome.OK and operation.id not in log]


def applied_once(operations: Iterable[Operation], entries: Sequence[LogEntry]) -> Finding:
    """No operation id is in the log twice, and none that the client knows was never sent."""
    never_sent = {operation.id for operation in operations if operation.outcome is Outcome.FAIL}
    first: dict[int, LogEntry] = {}
    for entry in entries:
        if entry.id in first:
            return _invalid(
                Promise.APPLIED_ONCE,
                f"{entry} lies at position {first[entry.id].position} and again at position {entry.position}",
                entry,
            )
        if entry.id in never_sent:
            return _invalid(
                Promise.APPLIED_ONCE,
                f"{entry} failed before it was sent and yet lies at position {entry.position}",
                entry,
            )
        first[entry.id] = entry
    return each_once(len(entries))


def each_once(entries: int) -> Finding:
    """The finding when nothing is applied twice."""
    return Finding(Promise.APPLIED_ONCE, Verdict.VALID, f"{entries} operations in the log, each once")


def history_complete(operations: Iterable[Operation], entries: Sequence[LogEntry]) -> Finding:
    """The log holds no operation that the history does not know: without that, nothing can be said about it."""
    known = {operation.id for operation in operations}
    for entry in entries:
        if entry.id not in known:
            return Finding(
                Promise.HISTORY_COMPLETE,
                Verdict.UNKNOWN,
                f"{entry} at position {entry.position} is not in the history",
                position=entry.position,
                operation=entry.id,
            )
    return all_known(len(entries))


def all_known(entries: int) -> Finding:
    """The finding when the history explains the log."""
    return Finding(Promise.HISTORY_COMPLETE, Verdict.VALID, f"all {entries} operations in the log are in the history")


def linearizable(operations: Iterable[Operation], entries: Sequence[LogEntry]) -> Finding:
    """The order of the log explains every result and contradicts no real-time order.

    Sound, because an order that keeps real time and explains all results is what linearizable means; operations
    without an answer may have taken effect at any time after they were invoked, so they bound nothing from above.
    `entries` are in log order. What ledger and timers answer depends on more than the requests: it is judged by
    promises of their own, here they have their place in time.
    """
    by_id = {operation.id: operation for operation in operations}
    model = Model()
    latest: Operation | None = None
    judged = 0
    for entry in entries:
        is_modelled = entry.f in WORKBENCH
        expected = model.apply(entry.f, entry.key, entry.value) if is_modelled else None
        operation = by_id.get(entry.id)
        if operation is None:
            continue
        if operation.outcome is Outcome.OK:
            assert operation.complete_ns is not None
            judged += 1
            if is_modelled and not same(operation.result, expected):
                return wrong_result(operation, entry.position, expected)
            if latest is not None and operation.complete_ns < latest.invoke_ns:
                return overtaken(operation, entry.position, latest.id)
        if latest is None or operation.invoke_ns > latest.invoke_ns:
            latest = operation
    return all_agree(judged)


def all_agree(judged: int) -> Finding:
    """The finding when the log explains every result."""
    return Finding(Promise.LINEARIZABLE, Verdict.VALID, f"{judged} results agree with the order of the log")


def wrong_result(operation: Operation, position: int, expected: Json) -> Finding:
    """The finding on an operation that was answered otherwise than the log before it says."""
    detail = f"{operation} at position {position}: the log before it gives {expected!r}"
    return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, position=position, operation=operation.id)


def overtaken(operation: Operation, position: int, later_id: int) -> Finding:
    """The finding on an operation that lies after one in the log which was invoked only after it had completed."""
    detail = (
        f"{operation} at position {position} had completed before operation id={later_id} "
        "was invoked, which lies before it in the log"
    )
    return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, position=position, operation=operation.id)


def _at(operation: Operation) -> str:
    return "no position" if operation.position is None else f"position {operation.position}"


def _invalid(promise: Promise, detail: str, about: LogEntry | Operation) -> Finding:
    return Finding(promise, Verdict.INVALID, detail, position=about.position, operation=about.id)
