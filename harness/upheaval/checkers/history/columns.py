"""A history and a log in columns: the numbers of all operations, but no texts and no values.

An operation takes some hundred bytes and no object, so that a run of millions fits in memory. What was sent and
answered is kept as a digest. Equal digests mean equal values; when digests differ, a checker reads the values again.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from upheaval.checkers.history.model import Model
from upheaval.errors import UsageError
from upheaval.records import (
    WORKBENCH,
    Function,
    Json,
    Operation,
    Outcome,
    RowsById,
    numbered_history,
    parse_object,
    parse_operation,
)

ABSENT: Final = -(1 << 63)
"""None in a column."""
_NO_DIGEST: Final = 0
_LINES_OF_A_MARK: Final = 64
_ROWS_AT_ONCE: Final = 64
"""The number of whole operations held in memory. Small, because their values may be long."""
_ROWS_OF_A_BLOCK: Final = 1 << 16

_FUNCTIONS: Final = tuple(Function)
_CODES: Final = {function: code for code, function in enumerate(_FUNCTIONS)}
KINDS: Final = tuple((function, outcome) for function in Function for outcome in Outcome)
"""Function and outcome of an operation, by the code in `History.kinds`."""
_KIND_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
IS_OK: Final = bytes(outcome is Outcome.OK for _, outcome in KINDS)
"""Whether operations of a kind were answered, by the code of the kind."""
IS_FAIL: Final = bytes(outcome is Outcome.FAIL for _, outcome in KINDS)
IS_CALL: Final = bytes(function is Function.CALL for function, _ in KINDS)
IS_MODELLED: Final = bytes(function in WORKBENCH for function in _FUNCTIONS)
"""Whether the log determines the result, by the code of the function."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A client operation in the log. `position` is the end of its message, as the service sees it."""

    position: int
    id: int
    f: Function
    key: str
    value: Json
    timestamp: int = field(default=0, compare=False)
    """The cluster time."""
    session: int = field(default=-1, compare=False)
    """The cluster session of the sender; -1 if it was not read."""
    term: int = field(default=-1, compare=False)
    """The leadership term of the entry; -1 if it was not read."""

    def __str__(self) -> str:
        return f"operation id={self.id} {self.f} {self.key}"


class ById(Protocol):
    """Operations by id: a history or a mapping."""

    def get(self, operation_id: int, /) -> Operation | None:
        """The operation, or None for an unknown id."""


T = TypeVar("T", int, int | None)


class Repeated(Generic[T]):
    """A column with few distinct values."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.codes = array("I")
        """By row, the place in `values`."""
        self._places: dict[T, int] = {}

    def extend(self, values: Sequence[T]) -> None:
        """Append the values of the next rows."""
        places = self._places
        for value in set(values) - places.keys():
            places[value] = len(self.values)
            self.values.append(value)
        self.codes.extend([places[value] for value in values])

    def __getitem__(self, row: int) -> T:
        return self.values[self.codes[row]]

    def __iter__(self) -> Iterator[T]:
        return map(self.values.__getitem__, self.codes)


class History:
    """The operations of a history, one row each, in the order of its lines."""

    def __init__(self, again: "_File | Sequence[Operation]", rows: RowsById) -> None:
        """`again` yields the whole operations; `rows` maps ids to rows."""
        self.rows = rows
        self.ids, self.invoked = array("q"), array("q")
        self.completed, self.positions = array("q"), array("q")
        self.digests = array("q")
        self.kinds = array("B")
        self.sessions, self.processes = Repeated[int | None](), Repeated[int]()
        self.keys = set[str]()
        """Of all rows together."""
        self._again = again

    @classmethod
    def read(cls, path: Path) -> "History":
        """Read a history file. Raises `UsageError` for a malformed line."""
        rows = RowsById()
        history = cls(_File(path), rows)
        lines = numbered_history(path, rows)
        while block := list(islice(lines, _ROWS_AT_ONCE)):
            try:
                history._extend([operation for _, operation in block])
            except OverflowError:
                number = next(number for number, operation in block if not _fits(operation))
                raise UsageError(f"{path}:{number}: expected integers of 64 bits") from None
        return history

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> "History":
        """A history of operations in memory."""
        history = cls(operations, RowsById())
        for row, operation in enumerate(operations):
            history.rows.add(operation.id, row)
        history._extend(operations)
        return history

    def _extend(self, block: Sequence[Operation]) -> None:
        self.ids.extend([each.id for each in block])
        self.invoked.extend([each.invoke_ns for each in block])
        self.completed.extend(_packed([each.complete_ns for each in block]))
        self.positions.extend(_packed([each.position for each in block]))
        self.kinds.extend([_KIND_CODES[each.f, each.outcome] for each in block])
        self.sessions.extend([each.session for each in block])
        self.processes.extend([each.process for each in block])
        self.digests.extend([_digest_of(each) for each in block])
        self.keys.update([each.key for each in block])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Operation]:
        """Iterate over the whole operations, read again."""
        return iter(self._again)

    def at(self, row: int) -> Operation:
        """The whole operation of a row, read again."""
        return self._again[row]

    def get(self, operation_id: int, /) -> Operation | None:
        """The whole operation, or None for an unknown id."""
        row = self.rows.get(operation_id)
        return None if row < 0 else self.at(row)

    def has_calls(self) -> bool:
        """Whether there are requests to a user's service."""
        return any(IS_CALL[kind] for kind in set(self.kinds))

    def has_shipped(self) -> bool:
        """Whether there are operations on shipped services."""
        return not all(IS_CALL[kind] for kind in set(self.kinds))


def _packed(values: Sequence[int | None]) -> list[int]:
    """The values with `ABSENT` for None. Raises `OverflowError` if `ABSENT` itself is among them."""
    if ABSENT in values:
        raise OverflowError
    return [ABSENT if value is None else value for value in values]


def _fits(operation: Operation) -> bool:
    numbers = operation.id, operation.invoke_ns, operation.complete_ns, operation.position
    return all(number is None or ABSENT < number < -ABSENT for number in numbers)


def _digest_of(operation: Operation) -> int:
    """The digest of an answered operation on a shipped service; `_NO_DIGEST` for all others."""
    f = operation.f
    if operation.outcome is not Outcome.OK or f is Function.CALL:
        return _NO_DIGEST
    return _digest(f, operation.key, operation.value, operation.result if f in WORKBENCH else None)


def _digest(function: Function, key: str, value: Json, result: Json) -> int:
    """Equal digests mean equal values, types included. Values with a NaN have no digest, because NaN equals nothing."""
    shown = repr((value, result))
    return _NO_DIGEST if "nan" in shown else hash((function, key, shown))


class _File:
    """The operations of a history file by row. Each line is a row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = array("q")
        """Where each `_LINES_OF_A_MARK`-th line begins; found when it is needed first."""
        self._lines: tuple[int, list[bytes]] = -1, []
        """The lines from a mark on that were read last."""

    def __iter__(self) -> Iterator[Operation]:
        return (operation for _, operation in numbered_history(self._path))

    def __getitem__(self, row: int) -> Operation:
        mark, place = divmod(row, _LINES_OF_A_MARK)
        if self._lines[0] != mark:
            self._lines = mark, self._from(mark)
        return parse_operation(parse_object(self._lines[1][place].decode("utf-8")))

    def _from(self, mark: int) -> list[bytes]:
        with self._path.open("rb") as stream:
            if not self._marks:
                offset = 0
                for number, line in enumerate(stream):
                    if number % _LINES_OF_A_MARK == 0:
                        self._marks.append(offset)
                    offset += len(line)
            stream.seek(self._marks[mark])
            return list(islice(stream, _LINES_OF_A_MARK))


class LogEntries:
    """The operations of a log in its order, each with the result that the log before it gives."""

    def __init__(self, entries: Iterable[LogEntry], again: Callable[[], Iterable[LogEntry]]) -> None:
        """`again` reads the whole entries again."""
        self.positions, self.ids = array("q"), array("q")
        self.digests = array("q")
        self.functions = array("B")
        self.sessions, self.terms = Repeated[int](), Repeated[int]()
        self._again = again
        model, left = Model(), iter(entries)
        while block := list(islice(left, _ROWS_AT_ONCE)):
            self.positions.extend([each.position for each in block])
            self.ids.extend([each.id for each in block])
            self.functions.extend([_CODES[each.f] for each in block])
            self.sessions.extend([each.session for each in block])
            self.terms.extend([each.term for each in block])
            self.digests.extend([_digest_by_log(each, model) for each in block])

    @classmethod
    def of(cls, entries: Sequence[LogEntry]) -> "LogEntries":
        """Log entries in memory."""
        return cls(entries, lambda: entries)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[LogEntry]:
        """Iterate over the whole entries, read again."""
        return iter(self._again())

    def at(self, index: int) -> LogEntry:
        """A whole entry, for reports. Slow: reads all entries before it again."""
        return next(islice(self, index, None))

    def has_any(self, functions: Collection[Function]) -> bool:
        """Whether the log has operations of these functions."""
        return any(_FUNCTIONS[code] in functions for code in set(self.functions))

    def those(self, functions: Collection[Function]) -> Iterator[LogEntry]:
        """The whole entries of these functions."""
        return (entry for entry in self if entry.f in functions) if self.has_any(functions) else iter(())


def _digest_by_log(entry: LogEntry, model: Model) -> int:
    """The digest of an entry with the result that the log before it gives."""
    f, key, value = entry.f, entry.key, entry.value
    return _digest(f, key, value, model.apply(f, key, value) if f in WORKBENCH else None)


class PlacedHistory:
    """A history and a log, with their operations matched by id."""

    def __init__(self, history: History, entries: LogEntries) -> None:
        self.history, self.entries = history, entries
        self.rows = array("i", map(history.rows.get, entries.ids))
        """By entry, the row of its operation; -1 for one that the history does not have."""
        self.lasts = array("i", [-1]) * len(history)
        """By row, the last entry of the operation; -1 for one that is not in the log."""
        self._others: dict[int, int] = {}
        for index, row in enumerate(self.rows):
            if row >= 0:
                self.lasts[row] = index
            else:
                self._others[entries.ids[index]] = index

    @classmethod
    def of(cls, operations: Sequence[Operation], entries: Sequence[LogEntry]) -> "PlacedHistory":
        """Match operations and entries in memory."""
        return cls(History.of(operations), LogEntries.of(entries))

    def index_of(self, operation_id: int) -> int:
        """The index of the last entry with that id; -1 if there is none."""
        row = self.history.rows.get(operation_id)
        return self._others.get(operation_id, -1) if row < 0 else self.lasts[row]

    def is_shipped(self, row: int) -> bool:
        """Whether the row is an operation on a shipped service. False for row -1."""
        return row >= 0 and not IS_CALL[self.history.kinds[row]]

    def is_doubtful(self, index: int, row: int) -> bool:
        """Whether the digests fail to prove that an entry and an answered operation have equal values."""
        digest = self.entries.digests[index]
        return digest == _NO_DIGEST or digest != self.history.digests[row]


def in_order(column: "array[int]", block: int = _ROWS_OF_A_BLOCK) -> Iterator[int]:
    """Yield the rows sorted by value (stable). Holds only the rows that are out of order."""
    of_block = range(0, len(column), block)
    least_after = array("q", [(1 << 63) - 1])
    for begin in reversed(of_block[1:]):
        least_after.append(min(least_after[-1], min(column[begin : begin + block])))
    value_of = column.__getitem__
    waiting: list[int] = []
    for begin in of_block:
        waiting.extend(range(begin, min(begin + block, len(column))))
        waiting.sort(key=value_of)
        least = least_after.pop()
        count = len(waiting)
        while count and value_of(waiting[count - 1]) > least:
            count -= 1
        yield from waiting[:count]
        del waiting[:count]
