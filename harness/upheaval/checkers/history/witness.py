"""The log as witness: judges a history by the order in which the cluster's log recorded its operations.

Every operation has a unique id in its payload, by which it is found in the log. The position that the service reported
is only compared with the log: the suspect is not the witness. The log gives the order, so no search is needed, only a
scan. This module knows nothing of files; it gets operations and log entries.
"""

from collections.abc import Mapping
from itertools import islice

from upheaval.checkers.evidence.positions import UNBOUNDED, LogBounds
from upheaval.checkers.history.columns import ABSENT, IS_CALL, IS_FAIL, IS_MODELLED, IS_OK, LogEntry, PlacedHistory
from upheaval.checkers.history.model import Model, same
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import WORKBENCH, Json, Operation


def acknowledged_not_lost(placed: PlacedHistory, bounds: LogBounds = UNBOUNDED) -> Finding:
    """Check that every answered operation is in the log as it was sent, at the position that the answer reported, and
    that this position is committed and within the recordings of a quorum. Reports the first violation and their number.
    """
    history, entries = placed.history, placed.entries
    acknowledged = 0
    broken: list[int] = []
    doubtful: dict[int, int] = {}
    for row, (kind, index) in enumerate(zip(history.kinds, placed.lasts, strict=True)):
        if not IS_OK[kind] or IS_CALL[kind]:
            continue
        acknowledged += 1
        if index < 0 or _is_elsewhere(history.positions[row], entries.positions[index], bounds):
            broken.append(row)
        elif placed.is_doubtful(index, row):
            doubtful[index] = row
    broken += _otherwise_sent(placed, doubtful)
    if not broken:
        detail = f"{acknowledged} acknowledged operations found in the log"
        return Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.VALID, detail)
    operation = history.at(min(broken))
    index = placed.lasts[min(broken)]
    wrong = what_is_wrong(operation, None if index < 0 else entries.at(index), bounds)
    assert wrong is not None
    detail, about = wrong
    return _invalid(
        Promise.ACKNOWLEDGED_NOT_LOST, f"{detail} ({len(broken)} of {acknowledged} acknowledged operations)", about
    )


def _is_elsewhere(position: int, logged: int, bounds: LogBounds) -> bool:
    """Whether the log position `logged` contradicts the position in the answer, the commit position, or the
    recordings.
    """
    committed, recorded = bounds.commit_position, bounds.recorded
    if recorded is not None and logged > recorded:
        return True
    return position != ABSENT and (position != logged or (committed is not None and position > committed))


def _otherwise_sent(placed: PlacedHistory, doubtful: Mapping[int, int]) -> list[int]:
    """The rows of operations whose log entry differs from what was sent. `doubtful` maps entries to rows."""
    rows = []
    for index, entry in enumerate(placed.entries) if doubtful else ():
        row = doubtful.get(index)
        if row is not None and not _is_sent(placed.history.at(row), entry):
            rows.append(row)
    return rows


def _is_sent(operation: Operation, entry: LogEntry) -> bool:
    return (entry.f, entry.key) == (operation.f, operation.key) and same(entry.value, operation.value)


def what_is_wrong(
    operation: Operation, entry: LogEntry | None, bounds: LogBounds
) -> tuple[str, LogEntry | Operation] | None:
    """What is wrong with an answered operation, and the entry or operation whose position the finding reports. None if
    nothing.
    """
    committed, recorded = bounds.commit_position, bounds.recorded
    if committed is not None and operation.position is not None and operation.position > committed:
        return f"{operation} was acknowledged at {_at(operation)}, past the commit position {committed}", operation
    if entry is None:
        return f"{operation} was acknowledged at {_at(operation)}, but the log does not have it", operation
    if not _is_sent(operation, entry):
        shown = f"{entry.f} {entry.key} {entry.value!r}"
        return f"{operation} was acknowledged, the log has {shown} at position {entry.position}", entry
    if operation.position is not None and operation.position != entry.position:
        reported = f"{operation} was reported at position {operation.position}"
        return f"{reported} and is at position {entry.position}", entry
    if recorded is not None and entry.position > recorded:
        at = f"{operation} was acknowledged at position {entry.position}"
        return f"{at}, a quorum of recordings reaches position {recorded} only", entry
    return None


def lost_rows(placed: PlacedHistory) -> list[int]:
    """The rows of acknowledged operations that are not in the log."""
    kinds = placed.history.kinds
    return [
        row for row, index in enumerate(placed.lasts) if index < 0 and IS_OK[kinds[row]] and not IS_CALL[kinds[row]]
    ]


def applied_once(placed: PlacedHistory) -> Finding:
    """Check that no operation id is in the log twice, and none of an operation that was never sent."""
    entries, kinds = placed.entries, placed.history.kinds
    seen = bytearray(len(kinds))
    others: set[int] = set()
    for index, row in enumerate(placed.rows):
        number = entries.ids[index]
        if seen[row] if row >= 0 else number in others:
            entry, first = entries.at(index), entries.positions[entries.ids.index(number)]
            detail = f"{entry} is at position {first} and again at position {entry.position}"
            return _invalid(Promise.APPLIED_ONCE, detail, entry)
        if row < 0:
            others.add(number)
            continue
        if IS_FAIL[kinds[row]] and not IS_CALL[kinds[row]]:
            entry = entries.at(index)
            detail = f"{entry} failed before it was sent and yet is at position {entry.position}"
            return _invalid(Promise.APPLIED_ONCE, detail, entry)
        seen[row] = True
    return Finding(Promise.APPLIED_ONCE, Verdict.VALID, f"{len(entries)} operations in the log, each once")


def history_complete(placed: PlacedHistory) -> Finding:
    """Check that the history knows every operation in the log. Otherwise the verdict is unknown."""
    entries = placed.entries
    for index, row in enumerate(placed.rows):
        if not placed.is_shipped(row):
            entry = entries.at(index)
            detail = f"{entry} at position {entry.position} is not in the history"
            return Finding(
                Promise.HISTORY_COMPLETE, Verdict.UNKNOWN, detail, position=entry.position, operation=entry.id
            )
    detail = f"all {len(entries)} operations in the log are in the history"
    return Finding(Promise.HISTORY_COMPLETE, Verdict.VALID, detail)


def linearizable(placed: PlacedHistory) -> Finding:
    """Check that the order of the log explains every result and contradicts no real-time order.

    This is sound: a history is linearizable if some order keeps real time and explains all results. Operations without
    an answer may take effect at any time after their invocation, so they set no upper bound. The answers of ledger and
    timers depend on more than the requests, so other promises judge them; here only their place in time counts.
    """
    history, entries = placed.history, placed.entries
    kinds, invoked, functions = history.kinds, history.invoked, entries.functions
    doubtful: dict[int, int] = {}
    late: Finding | None = None
    latest, latest_ns, judged = -1, 0, 0
    for index, row in enumerate(placed.rows):
        if row < 0 or IS_CALL[kinds[row]]:
            continue
        if IS_OK[kinds[row]]:
            judged += 1
            if IS_MODELLED[functions[index]] and placed.is_doubtful(index, row):
                doubtful[index] = row
            if latest >= 0 and history.completed[row] < latest_ns:
                late = _overtaken(history.at(row), entries.positions[index], history.ids[latest])
                break
        if latest < 0 or invoked[row] > latest_ns:
            latest, latest_ns = row, invoked[row]
    agreed = Finding(Promise.LINEARIZABLE, Verdict.VALID, f"{judged} results agree with the order of the log")
    return _first_wrong(placed, doubtful) or late or agreed


def _first_wrong(placed: PlacedHistory, doubtful: Mapping[int, int]) -> Finding | None:
    """The first entry whose answer differs from the result that the log before it gives. `doubtful` maps entries to
    rows.
    """
    if not doubtful:
        return None
    model = Model()
    for index, entry in enumerate(islice(placed.entries, max(doubtful) + 1)):
        expected = model.apply(entry.f, entry.key, entry.value) if entry.f in WORKBENCH else None
        if index in doubtful:
            operation = placed.history.at(doubtful[index])
            if not same(operation.result, expected):
                return wrong_result(operation, entry.position, expected)
    return None


def wrong_result(operation: Operation, position: int, expected: Json) -> Finding:
    """The finding on an operation whose answer contradicts the log before it."""
    detail = f"{operation} at position {position}: the log before it gives {expected!r}"
    return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, position=position, operation=operation.id)


def _overtaken(operation: Operation, position: int, later_id: int) -> Finding:
    """The finding on an operation that completed before the invocation of one that precedes it in the log."""
    detail = (
        f"{operation} at position {position} had completed before operation id={later_id} "
        "was invoked, which is before it in the log"
    )
    return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, position=position, operation=operation.id)


def _at(operation: Operation) -> str:
    return "no position" if operation.position is None else f"position {operation.position}"


def _invalid(promise: Promise, detail: str, about: LogEntry | Operation) -> Finding:
    return Finding(promise, Verdict.INVALID, detail, position=about.position, operation=about.id)
