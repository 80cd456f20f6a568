"""The history of a run: what each client slot requested, when, and the answer that it received.

Each operation is one JSON line of `history.jsonl` (see docs/run-folder.md). This module knows nothing of clusters.
"""

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import jsonfields
from upheaval.records.jsonfields import Called, FieldError, Json


class Function(StrEnum):
    """What an operation requests."""

    WRITE = "write"
    READ = "read"
    CAS = "cas"
    APPEND = "append"
    LIST = "list"
    ECHO = "echo"
    TRANSFER = "transfer"
    BALANCES = "balances"
    SCHEDULE = "schedule"
    CANCEL = "cancel"
    FIRED = "fired"
    CALL = "call"
    """A request to a user's service; only the digest of its payload is known."""
    ACQUIRE = "acquire"
    RELEASE = "release"
    ADD = "add"
    ENQUEUE = "enqueue"
    DEQUEUE = "dequeue"


LEDGER: Final = (Function.TRANSFER, Function.BALANCES)
"""The operations of the service `ledger`."""

TIMERS: Final = (Function.SCHEDULE, Function.CANCEL, Function.FIRED)
"""The operations of the service `timers`."""

WORKBENCH: Final = (
    Function.WRITE,
    Function.READ,
    Function.CAS,
    Function.APPEND,
    Function.LIST,
    Function.ECHO,
)
"""The operations of the service `workbench`. Each takes effect on one key, at the log entry of the request."""

FOREIGN: Final = (Function.ACQUIRE, Function.RELEASE, Function.ADD, Function.ENQUEUE, Function.DEQUEUE)
"""The operations that only histories of other systems have."""

SHIPPED: Final = tuple(function for function in Function if function not in (Function.CALL, *FOREIGN))
"""The operations of the shipped services."""


class Outcome(StrEnum):
    """What the client knows. `FAIL`: it never offered the request. `UNKNOWN`: the operation may still happen later."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one client slot.

    `value` is the argument: the value of a write or append, `[expected, new]` of a compare-and-set, the text of an
    echo, `[to, amount]` of a transfer (`key` is the source account), the delay of a timer (cluster time), the id of the
    timer to cancel, the SHA-256 of a call's payload (`key` is the call's name), None for reads.

    `result` is the answer: the value or list read, True or False for a compare-and-set, a transfer and a cancellation,
    the text of an echo, `[name, balance]` of each account (empty name: in flight), the deadline of a timer, `[id,
    deadline, fired at, how often]` of each timer of a group that has fired, the answer to a call as text
    (`answer_text`), None otherwise.

    Times are nanoseconds of the host's monotonic clock: `invoke_ns` right before the first offer, `complete_ns` after
    the response was decoded (None without one). `position` is the log position that the service reported (None without
    a response). `session` is the cluster session that took the request (None if none did, or if it was not recorded).
    `matched` is True for a call whose answer the client's `accepts` picked from its session's messages, else None.
    """

    id: int
    process: int
    f: Annotated[Function, Called("operation")]
    key: str
    value: Json
    invoke_ns: int
    complete_ns: int | None
    outcome: Outcome
    result: Json = None
    position: int | None = None
    session: int | None = None
    matched: bool | None = None

    def to_json(self) -> str:
        """The line of the history file, without its newline."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.session is None:
            del values["session"]
        if self.matched is None:
            del values["matched"]
        return _ENCODER.encode(values)

    def __str__(self) -> str:
        shown = {"id": self.id, "f": self.f.value, "key": self.key, "value": self.value, "result": self.result}
        return "operation " + " ".join(f"{name}={json.dumps(value)}" for name, value in shown.items())


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def parse_operation(fields: Mapping[str, Json]) -> Operation:
    """Build an operation from a decoded line. Raises `FieldError` with the reason."""
    operation = parse_foreign_operation(fields)
    if operation.f in FOREIGN:
        raise FieldError(f"unknown operation {operation.f.value!r}")
    if operation.f is Function.CALL and not (
        isinstance(operation.value, str) and CALL_DIGEST.fullmatch(operation.value)
    ):
        raise FieldError("the value of a call must be the SHA-256 of its payload in hexadecimal digits")
    return operation


def parse_foreign_operation(fields: Mapping[str, Json]) -> Operation:
    """As `parse_operation`, for a history of another system, in which the value of a call may be its payload."""
    operation = jsonfields.decode(Operation, fields)
    _require_sense(operation)
    return operation


def _require_sense(operation: Operation) -> None:
    if operation.outcome is Outcome.OK:
        if operation.complete_ns is None:
            raise FieldError("outcome is ok but 'complete_ns' is missing")
        if operation.complete_ns < operation.invoke_ns:
            raise FieldError("'complete_ns' is before 'invoke_ns'")
    if operation.f is Function.CAS and not (isinstance(operation.value, list) and len(operation.value) == 2):
        raise FieldError("the value of a cas must be [expected, new]")
    if operation.f is Function.TRANSFER and not (isinstance(operation.value, list) and len(operation.value) == 2):
        raise FieldError("the value of a transfer must be [account, amount]")


CALL_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""The value of a call."""


class RowsById:
    """The rows of operations by their ids. Ids are mostly consecutive, so a page holds adjacent ids."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}

    def add(self, ids: Iterable[int], row: int) -> int:
        """Add rows from `row` on. Returns the place in `ids` of the first known one, which ends it; -1 without one."""
        pages = self._pages
        for place, operation_id in enumerate(ids):
            page = pages.get(operation_id >> _PAGE_BITS)
            if page is None:
                page = pages[operation_id >> _PAGE_BITS] = array("I", bytes(4 << _PAGE_BITS))
            in_page = operation_id & _PAGE_MASK
            if page[in_page]:
                return place
            page[in_page] = row + place + 1
        return -1

    def get(self, operation_id: int) -> int:
        """The row; -1 for an unknown id."""
        page = self._pages.get(operation_id >> _PAGE_BITS)
        return -1 if page is None else page[operation_id & _PAGE_MASK] - 1

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending."""
        for number in sorted(self._pages):
            yield from (number << _PAGE_BITS | place for place, row in enumerate(self._pages[number]) if row)


_PAGE_BITS: Final = 8
_PAGE_MASK: Final = (1 << _PAGE_BITS) - 1


def read_history(path: Path) -> Iterator[Operation]:
    """The operations of a history file.

    Raises `UsageError` with file, line and reason for a malformed line and for a duplicate id.
    """
    rows = RowsById()
    for number, operation in jsonfields.read_values(parse_operation, path):
        if rows.add((operation.id,), number - 1) >= 0:
            raise duplicate_id(path, number, operation.id)
        yield operation


def duplicate_id(path: Path, number: int, operation_id: int) -> UsageError:
    """The error for a line whose operation id an earlier line has."""
    return UsageError(f"{path}:{number}: duplicate operation id {operation_id}")


class HistoryWriter:
    """Appends operations to a history file. Several writers may append to one file, because each writes whole lines."""

    def __init__(self, path: Path, *, buffer_length: int = 64) -> None:
        self._path = path
        self._lines: list[str] = []
        self._buffer_length = buffer_length
        try:
            self._stream = path.open("ab", buffering=0)
        except OSError as error:
            raise EnvironmentFault(f"cannot write {path}: {error.strerror}") from error

    def add(self, operation: Operation) -> None:
        """Buffer one operation. `flush` writes it; a full buffer flushes itself."""
        self._lines.append(operation.to_json())
        if len(self._lines) >= self._buffer_length:
            self.flush()

    def flush(self) -> None:
        """Write the buffered operations. Raises `EnvironmentFault` when the file cannot be written."""
        if self._lines:
            block = memoryview(("\n".join(self._lines) + "\n").encode("utf-8"))
            self._lines.clear()
            try:
                while block:
                    block = block[self._stream.write(block) :]
            except OSError as error:
                raise EnvironmentFault(f"cannot write {self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Write the buffered operations and close the file."""
        self.flush()
        self._stream.close()

    def __enter__(self) -> "HistoryWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
