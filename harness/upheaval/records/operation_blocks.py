"""Reads a history in blocks of columns: the fields of some operations, without an object for each.

A block of plain lines is decoded and checked column by column, which costs a third of reading line by line. Any other
block is read line by line, for the exact reason of its first malformed line. Both ways accept the same lines.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter, le
from pathlib import Path
from types import NoneType
from typing import Any, Final, Self

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records.history import CALL_DIGEST, FOREIGN, Function, Operation, Outcome, parse_operation
from upheaval.records.jsonfields import LINE_LENGTH_MAX, FieldError, Json, parse_object, text_of_line

_LINES_OF_A_BLOCK: Final = 64
"""Small, because the values of an operation may be long."""
_FIELDS: Final = itemgetter(
    "id", "process", "f", "key", "value", "invoke_ns", "complete_ns", "outcome", "result", "position"
)
_raw_decode: Final = json.JSONDecoder().raw_decode
_FUNCTIONS: Final = frozenset(function for function in Function if function not in FOREIGN)
_OUTCOMES: Final = frozenset(Outcome)
_OK: Final = Outcome.OK
_CALL: Final = Function.CALL
_PAIRED: Final = frozenset((Function.CAS, Function.TRANSFER))
"""Operations whose value is a list of two."""
_INTEGER: Final = frozenset((int,))
_TEXT: Final = frozenset((str,))
_INTEGER_OR_NONE: Final = frozenset((int, NoneType))
_BOOL_OR_NONE: Final = frozenset((bool, NoneType))


@dataclass(frozen=True, slots=True)
class OperationBlock:
    """Consecutive operations of a history: the fields of `Operation`, one sequence each."""

    ids: Sequence[int]
    processes: Sequence[int]
    functions: Sequence[str]
    """The texts of `Function`."""
    keys: Sequence[str]
    values: Sequence[Json]
    invoked: Sequence[int]
    completed: Sequence[int | None]
    outcomes: Sequence[str]
    """The texts of `Outcome`."""
    results: Sequence[Json]
    positions: Sequence[int | None]
    sessions: Sequence[int | None]

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> Self:
        """The columns of operations in memory."""
        return cls(
            [operation.id for operation in operations],
            [operation.process for operation in operations],
            [operation.f for operation in operations],
            [operation.key for operation in operations],
            [operation.value for operation in operations],
            [operation.invoke_ns for operation in operations],
            [operation.complete_ns for operation in operations],
            [operation.outcome for operation in operations],
            [operation.result for operation in operations],
            [operation.position for operation in operations],
            [operation.session for operation in operations],
        )

    def __len__(self) -> int:
        return len(self.ids)


def history_blocks(path: Path) -> Iterator[tuple[int, OperationBlock]]:
    """The operations of a history file in blocks, each with the number of its first line.

    Raises `UsageError` with file, line and reason for a malformed line.
    """
    number = 1
    try:
        with path.open("rb") as stream:
            while lines := list(islice(stream, _LINES_OF_A_BLOCK)):
                yield number, _plain_block(lines) or _block_by_line(path, number, lines)
                number += len(lines)
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error


def _block_by_line(path: Path, number: int, lines: Sequence[bytes]) -> OperationBlock:
    operations = []
    for place, line in enumerate(lines):
        try:
            operations.append(parse_operation(parse_object(text_of_line(line))))
        except FieldError as error:
            raise UsageError(f"{path}:{number + place}: {error}") from None
    return OperationBlock.of(operations)


def _plain_block(lines: Sequence[bytes]) -> OperationBlock | None:
    """The block, if each line is an object with all fields that a writer writes, and makes sense; None otherwise."""
    objects = _objects(lines)
    if objects is None:
        return None
    try:
        ids, processes, functions, keys, values, invoked, completed, outcomes, results, positions = zip(
            *map(_FIELDS, objects), strict=True
        )
    except (KeyError, TypeError):
        return None
    sessions = [fields.get("session") for fields in objects]
    matched = [fields.get("matched") for fields in objects]
    has_types = (
        _INTEGER.issuperset(map(type, (*ids, *processes, *invoked)))
        and _TEXT.issuperset(map(type, (*functions, *keys, *outcomes)))
        and _INTEGER_OR_NONE.issuperset(map(type, (*completed, *positions, *sessions)))
        and _BOOL_OR_NONE.issuperset(map(type, matched))
    )
    if not has_types or not _FUNCTIONS.issuperset(functions) or not _OUTCOMES.issuperset(outcomes):
        return None
    if not _are_timed(invoked, completed, outcomes) or not _have_form(functions, values):
        return None
    return OperationBlock(
        ids, processes, functions, keys, values, invoked, completed, outcomes, results, positions, sessions
    )


def _objects(lines: Sequence[bytes]) -> Sequence[dict[str, Any]] | None:
    """The objects of lines that have one each, and nothing else; None if a line differs.

    An object that spans two lines leaves fewer objects than lines, as each must end at the end of a line.
    """
    if len(max(lines, key=len)) > LINE_LENGTH_MAX:
        return None
    objects, end = [], 0
    try:
        text = b"".join(lines).decode("utf-8")
        for _ in lines:
            value, end = _raw_decode(text, end)
            if text[end] != "\n":
                return None
            objects.append(value)
            end += 1
    except (ValueError, IndexError, RecursionError):
        return None
    # Half of a surrogate pair needs a closer look.
    return None if "\\ud" in text or "\\uD" in text else objects


def _are_timed(invoked: Sequence[int], completed: Sequence[int | None], outcomes: Sequence[str]) -> bool:
    """Whether each answered operation was complete after it was invoked."""
    if None not in completed:
        # Enough, and the most frequent case.
        return all(map(le, invoked, completed))  # type: ignore[arg-type]
    times = zip(invoked, completed, outcomes, strict=True)
    return all(outcome != _OK or (end_ns is not None and end_ns >= begin_ns) for begin_ns, end_ns, outcome in times)


def _have_form(functions: Sequence[str], values: Sequence[Json]) -> bool:
    """Whether the values are such as their functions take."""
    present = set(functions)
    if not _PAIRED.isdisjoint(present):
        pairs = (value for function, value in zip(functions, values, strict=True) if function in _PAIRED)
        if not all(isinstance(value, list) and len(value) == 2 for value in pairs):
            return False
    if _CALL not in present:
        return True
    digests = (value for function, value in zip(functions, values, strict=True) if function == _CALL)
    return all(isinstance(value, str) and CALL_DIGEST.fullmatch(value) is not None for value in digests)
