"""A history and a log in columns: the numbers of all operations, but no texts and no values.

An operation takes some hundred bytes and no object, so that a run of millions fits in memory. What was sent and
answered is kept as a digest. Equal digests mean equal values; when digests differ, a checker reads the values again.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import le
from pathlib import Path
from typing import Final, Generic, Protocol, Self, TypeVar

from upheaval.checkers.history.model import Model
from upheaval.errors import UsageError
from upheaval.records import (
    WORKBENCH,
    Function,
    Json,
    Operation,
    OperationBlock,
    Outcome,
    RowsById,
    duplicate_id,
    history_blocks,
    parse_object,
    parse_operation,
    read_history,
)

ABSENT: Final = -(1 << 63)
"""None in a column."""
_NO_DIGEST: Final = 0
_LINES_OF_A_MARK: Final = 64
_ROWS_OF_A_BLOCK: Final = 1 << 16

_FUNCTIONS: Final = tuple(Function)
_CODES: Final = {function: code for code, function in enumerate(_FUNCTIONS)}
KINDS: Final = tuple((function, outcome) for function in Function for outcome in Outcome)
"""Function and outcome of an operation, by the code in `History.kinds`."""
_KIND_CODES: Final[Mapping[tuple[str, str], int]] = {kind: code for code, kind in enumerate(KINDS)}
IS_OK: Final = bytes(outcome is Outcome.OK for _, outcome in KINDS)
"""Whether operations of a kind were answered, by the code of the kind."""
IS_FAIL: Final = bytes(outcome is Outcome.FAIL for _, outcome in KINDS)
IS_CALL: Final = bytes(function is Function.CALL for function, _ in KINDS)
IS_MODELLED: Final = bytes(function in WORKBENCH for function in _FUNCTIONS)
"""Whether the log determines the result, by the code of the function."""
_MODELLED: Final = frozenset(WORKBENCH)
_HAS_DIGEST: Final = bytes(outcome is Outcome.OK and function is not Function.CALL for function, outcome in KINDS)
"""Whether an operation is an answered one of a shipped service, by the code of the kind."""
_OF_RESULT: Final = bytes(function in WORKBENCH for function, _ in KINDS)
"""Whether the digest is of the result, too, by the code of the kind."""


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


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Consecutive client operations of a log: the fields of `LogEntry`, one sequence each."""

    positions: Sequence[int] = ()
    ids: Sequence[int] = ()
    functions: Sequence[Function] = ()
    keys: Sequence[str] = ()
    values: Sequence[Json] = ()
    timestamps: Sequence[int] = ()
    sessions: Sequence[int] = ()
    terms: Sequence[int] = ()

    @classmethod
    def of(cls, entries: Sequence[LogEntry]) -> Self:
        """The columns of entries in memory."""
        return cls(
            [entry.position for entry in entries],
            [entry.id for entry in entries],
            [entry.f for entry in entries],
            [entry.key for entry in entries],
            [entry.value for entry in entries],
            [entry.timestamp for entry in entries],
            [entry.session for entry in entries],
            [entry.term for entry in entries],
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[LogEntry]:
        """The entries as objects."""
        return map(
            LogEntry,
            self.positions,
            self.ids,
            self.functions,
            self.keys,
            self.values,
            self.timestamps,
            self.sessions,
            self.terms,
        )


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
        """Read a history file. Raises `UsageError` for a malformed line and for a duplicate id."""
        history = cls(_File(path), RowsById())
        for number, block in history_blocks(path):
            try:
                known = history._extend(block)
            except OverflowError:
                raise UsageError(f"{path}:{number + _too_long(block)}: expected integers of 64 bits") from None
            if known >= 0:
                raise duplicate_id(path, number + known, block.ids[known])
        return history

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> "History":
        """A history of operations in memory."""
        history = cls(operations, RowsById())
        history._extend(OperationBlock.of(operations))
        return history

    def _extend(self, block: OperationBlock) -> int:
        """Append rows. Returns the place in the block of the first id that another row has; -1 without one."""
        numbers = array("q", block.ids), array("q", block.invoked), _packed(block.completed), _packed(block.positions)
        known = self.rows.add(block.ids, len(self.ids))
        for column, more in zip((self.ids, self.invoked, self.completed, self.positions), numbers, strict=True):
            column.extend(more)
        kinds = [_KIND_CODES[kind] for kind in zip(block.functions, block.outcomes, strict=True)]
        self.kinds.extend(kinds)
        self.sessions.extend(block.sessions)
        self.processes.extend(block.processes)
        self.digests.extend(_digests(block, kinds))
        self.keys.update(block.keys)
        return known

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


def _packed(values: Sequence[int | None]) -> "array[int]":
    """The values with `ABSENT` for None. Raises `OverflowError` if one has more than 64 bits or is `ABSENT` itself."""
    if ABSENT in values:
        raise OverflowError
    return array("q", [ABSENT if value is None else value for value in values] if None in values else values)  # type: ignore[arg-type]


def _too_long(block: OperationBlock) -> int:
    """The place of the first operation with an integer that does not fit in a column."""
    rows = zip(block.ids, block.invoked, block.completed, block.positions, strict=True)
    return next(
        place
        for place, numbers in enumerate(rows)
        if not all(number is None or ABSENT < number < -ABSENT for number in numbers)
    )


def _digests(block: OperationBlock, kinds: Iterable[int]) -> Iterator[int]:
    """The digest of each answered operation on a shipped service; `_NO_DIGEST` for all others."""
    rows = zip(kinds, block.functions, block.keys, block.values, block.results, strict=True)
    for kind, function, key, value, result in rows:
        if _HAS_DIGEST[kind]:
            yield _digest(function, key, value, result if _OF_RESULT[kind] else None)
        else:
            yield _NO_DIGEST


def _digest(function: str, key: str, value: Json, result: Json) -> int:
    """Equal digests mean equal values, types included. Values with a NaN have no digest, because NaN equals nothing."""
    shown = f"{value!r}, {result!r}"
    return _NO_DIGEST if "nan" in shown else hash((function, key, shown))


class _File:
    """The operations of a history file by row. Each line is a row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = array("q")
        """Where each `_LINES_OF_A_MARK`-th line begins; empty until first use."""
        self._lines: tuple[int, list[bytes]] = -1, []
        """The lines from a mark on that were read last."""

    def __iter__(self) -> Iterator[Operation]:
        return read_history(self._path)

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

    def __init__(self, blocks: Iterable[EntryBlock], again: Callable[[], Iterable[EntryBlock]]) -> None:
        """`again` reads the whole entries again."""
        self.positions, self.ids = array("q"), array("q")
        self.digests = array("q")
        self.functions = array("B")
        self.sessions, self.terms = Repeated[int](), Repeated[int]()
        self._again = again
        model = Model()
        for block in blocks:
            self.positions.extend(block.positions)
            self.ids.extend(block.ids)
            self.functions.extend([_CODES[function] for function in block.functions])
            self.sessions.extend(block.sessions)
            self.terms.extend(block.terms)
            self.digests.extend(_digests_by_log(block, model))

    @classmethod
    def of(cls, entries: Sequence[LogEntry]) -> "LogEntries":
        """Log entries in memory."""
        blocks = [EntryBlock.of(entries)]
        return cls(blocks, lambda: blocks)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[LogEntry]:
        """Iterate over the whole entries, read again."""
        return chain.from_iterable(self._again())

    def at(self, index: int) -> LogEntry:
        """A whole entry, for reports. Slow: reads all entries before it again."""
        return next(islice(self, index, None))

    def has_any(self, functions: Collection[Function]) -> bool:
        """Whether the log has operations of these functions."""
        return any(_FUNCTIONS[code] in functions for code in set(self.functions))

    def those(self, functions: Collection[Function]) -> Iterator[LogEntry]:
        """The whole entries of these functions."""
        return (entry for entry in self if entry.f in functions) if self.has_any(functions) else iter(())


def _digests_by_log(block: EntryBlock, model: Model) -> Iterator[int]:
    """The digest of each entry with the result that the log before it gives."""
    apply = model.apply
    for function, key, value in zip(block.functions, block.keys, block.values, strict=True):
        yield _digest(function, key, value, apply(function, key, value) if function in _MODELLED else None)


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
        end, least = min(begin + block, len(column)), least_after.pop()
        if not waiting and column[end - 1] <= least and all(map(le, column[begin:end], column[begin + 1 : end])):
            yield from range(begin, end)
            continue
        waiting.extend(range(begin, end))
        waiting.sort(key=value_of)
        count = len(waiting)
        while count and value_of(waiting[count - 1]) > least:
            count -= 1
        yield from waiting[:count]
        del waiting[:count]
