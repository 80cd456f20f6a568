"""Finds the keys whose results are certainly what the order of the log gives, many operations at a time.

Rows lie in groups (one key of one name space of a run), each in log order. What a compare-and-set did is taken from
its own answer, then every answer is checked against the state that follows; so the first wrong answer of a key always
shows. A key that does not check out, or that holds values that have several spellings, is not judged here:
`upheaval.checkers` judges it alone, and words what is wrong. This module knows numpy and Arrow, and neither Spark nor
histories.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upheaval.records import SHIPPED, Function

CODES: Final[Mapping[Function, int]] = {function: number for number, function in enumerate(SHIPPED)}
"""Functions as the column `op` names them."""
GROUP: Final = ("run", "space", "group")
"""The columns of what is judged together."""
ECHO, REGISTER, LIST = range(3)
"""Name spaces as the column `space` names them."""
UNRECORDED, ANSWERED, OPEN = range(3)
"""What the history knows, in the column `state`: nothing, an answer, or that none came."""

_PLAIN: Final = r'^(?:null|true|false|0|-?[1-9][0-9]*|"(?:[^"\\]|\\.)*")\z'
"""Values that are equal exactly when their texts are."""
_CAS: Final = (
    r'^\[(?P<expected>null|true|false|0|-?[1-9][0-9]*|"(?:[^"\\]|\\.)*"),'
    r'(?P<new>null|true|false|0|-?[1-9][0-9]*|"(?:[^"\\]|\\.)*")\]\z'
)


@dataclass(frozen=True)
class Checked:
    """`group_begins` are the rows with which groups begin, `doubtful` is a flag for each group."""

    group_begins: Any
    doubtful: Any
    answered: Any
    """How many answers each group has."""


def check(rows: pa.Table) -> Checked:
    """Columns `run`, `space`, `group`, `op`, `state`, `value`, `result`, as codes and canonical JSON."""
    columns = _Columns(rows)
    bad: Any = np.zeros(len(columns.op), bool)
    bad |= _wrong_echoes(columns)
    bad |= _wrong_registers(columns)
    bad |= _wrong_lists(columns)
    number = np.cumsum(columns.begins) - 1
    begins = np.flatnonzero(columns.begins)
    doubtful: Any = np.zeros(len(begins), bool)
    doubtful[number[bad]] = True
    return Checked(begins, doubtful, np.add.reduceat(columns.answered.astype(np.int64), begins))


def group_begins(rows: pa.Table | pa.RecordBatch) -> Any:
    """A flag for each row: whether its group is another one than that of the row before it."""
    flags = np.ones(rows.num_rows, bool)
    flags[1:] = False
    for name in GROUP:
        column = rows[name]
        other = pc.not_equal(column.slice(1), column.slice(0, max(rows.num_rows - 1, 0)))
        flags[1:] |= _numpy(other).astype(bool)
    return flags


class _Columns:
    """The columns of a table as numpy arrays, texts as Arrow ones."""

    def __init__(self, rows: pa.Table) -> None:
        rows = rows.combine_chunks()
        self.op = _numpy(rows["op"])
        self.space = _numpy(rows["space"])
        state = _numpy(rows["state"])
        self.answered = state == ANSWERED
        self.value = _one_chunk(rows["value"])
        self.result = _one_chunk(rows["result"])
        self.begins = group_begins(rows)
        places = np.arange(len(self.op))
        self.group_begin = np.maximum.accumulate(np.where(self.begins, places, 0))

    def is_function(self, *functions: Function) -> Any:
        return np.isin(self.op, [CODES[function] for function in functions])


def _wrong_echoes(columns: _Columns) -> Any:
    """An echo answers with what was sent. A number that is none is not equal to itself."""
    at = np.flatnonzero(columns.space == ECHO)
    wrong: Any = np.zeros(len(columns.op), bool)
    if len(at):
        value, result = columns.value.take(at), columns.result.take(at)
        differs = ~_flags(pc.equal(value, result)) & columns.answered[at]
        wrong[at] = differs | _flags(pc.match_substring(value, "NaN"))
    return wrong


def _wrong_registers(columns: _Columns) -> Any:
    """Reads and compare-and-sets against the last value that was written before them."""
    count = len(columns.op)
    wrong: Any = np.zeros(count, bool)
    here = columns.space == REGISTER
    if not here.any():
        return wrong
    is_write, is_read = columns.is_function(Function.WRITE) & here, columns.is_function(Function.READ) & here
    cas = np.flatnonzero(columns.is_function(Function.CAS) & here)
    writes = np.flatnonzero(is_write)
    parts = pc.extract_regex(columns.value.take(cas), _CAS)
    expected, new = parts.field("expected"), parts.field("new")
    wrong[writes] = ~_flags(pc.match_substring_regex(columns.value.take(writes), _PLAIN))
    wrong[cas] = ~_numpy(parts.is_valid()).astype(bool)
    written = _scatter(count, (writes, columns.value.take(writes)), (cas, new))
    swapped = _flags(pc.equal(columns.result.take(cas), "true")) & columns.answered[cas]
    sets = is_write.copy()
    sets[cas] = swapped
    _settle_open(columns, cas, expected, written, sets)
    before = _state_before(columns, written, sets)
    reads = np.flatnonzero(is_read & columns.answered)
    wrong[reads] = ~_flags(pc.equal(columns.result.take(reads), before.take(reads)))
    quiet = np.flatnonzero(is_write & columns.answered)
    wrong[quiet] |= ~_flags(pc.equal(columns.result.take(quiet), "null"))
    answered = columns.answered[cas]
    is_equal = _flags(pc.equal(expected, before.take(cas)))
    failed = _flags(pc.equal(columns.result.take(cas), "false"))
    wrong[cas] |= answered & ~np.where(is_equal, swapped, failed)
    return wrong


def _settle_open(columns: _Columns, cas: Any, expected: Any, written: Any, sets: Any) -> None:
    """Find out, in log order, what each compare-and-set without an answer did. They are few."""
    open_ones = np.flatnonzero(~columns.answered[cas])
    if not len(open_ones):
        return
    last_set = _last_before(sets)
    settled = -1
    for number in open_ones.tolist():
        row = int(cas[number])
        first = int(columns.group_begin[row])
        last = max(int(last_set[row]), settled)
        state = written[last].as_py() if last >= first else "null"
        if state == expected[number].as_py():
            sets[row] = True
            settled = row


def _state_before(columns: _Columns, written: Any, sets: Any) -> Any:
    last = _last_before(sets)
    last = np.where(last >= columns.group_begin, last, len(columns.op))
    return pa.concat_arrays([written, pa.array(["null"])]).take(pa.array(last))


def _last_before(flags: Any) -> Any:
    """For each row the last one before it that has the flag, or -1."""
    last = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
    return np.concatenate(([-1], last[:-1]))


def _wrong_lists(columns: _Columns) -> Any:
    """A list that was read is, as text, what was appended before it with commas between."""
    count = len(columns.op)
    wrong: Any = np.zeros(count, bool)
    here = columns.space == LIST
    if not here.any():
        return wrong
    is_append = columns.is_function(Function.APPEND) & here
    appends = np.flatnonzero(is_append)
    values = columns.value.take(appends)
    wrong[appends] = _flags(pc.match_substring(values, "NaN"))
    wrong[appends] |= columns.answered[appends] & ~_flags(pc.equal(columns.result.take(appends), "null"))
    reads = np.flatnonzero(columns.is_function(Function.LIST) & here & columns.answered)
    results = columns.result.take(reads)
    # Where each appended value ends in the text of all of them, a comma after each.
    ends = np.concatenate(([0], np.cumsum(_numpy(pc.binary_length(values)).astype(np.int64) + 1)))
    appended = np.concatenate(([0], np.cumsum(is_append)))
    begin = ends[appended[columns.group_begin[reads]]]
    end = ends[appended[reads]]
    lengths = _numpy(pc.binary_length(results)).astype(np.int64)
    wrong[reads] = lengths != np.maximum(end - begin - 1, 0) + 2
    wrong[reads] |= ~_same_texts(values, begin, end, results, wrong[reads])
    return wrong


def _same_texts(values: Any, begin: Any, end: Any, results: Any, skipped: Any) -> Any:
    """Whether each result is the text from `begin` to `end` in brackets."""
    if not len(results):
        return np.empty(0, bool)
    text = b"".join(value + b"," for value in values.cast(pa.binary()).to_pylist())
    _, offsets, body = results.buffers()
    firsts = np.frombuffer(offsets, np.int32, len(results), results.offset * 4)
    found = body.to_pybytes() if body is not None else b""
    same = [
        skip or found[at : at + max(b - a, 1)] == b"[" + text[a : max(b - 1, a)]
        for at, a, b, skip in zip(firsts.tolist(), begin.tolist(), end.tolist(), skipped.tolist(), strict=True)
    ]
    return np.array(same, bool)


def _scatter(count: int, *parts: tuple[Any, Any]) -> Any:
    """Texts at the rows that each part names, null elsewhere."""
    place: Any = np.zeros(count, np.int64)
    arrays = [pa.array([None], pa.string())]
    base = 1
    for rows, texts in parts:
        place[rows] = base + np.arange(len(rows))
        base += len(rows)
        arrays.append(texts)
    return pa.concat_arrays(arrays).take(pa.array(place))


def _flags(array: Any) -> Any:
    """Arrow's booleans as numpy's; null is false."""
    return _numpy(pc.fill_null(array, False)).astype(bool)


def _numpy(array: Any) -> Any:
    return array.to_numpy(zero_copy_only=False) if isinstance(array, pa.Array) else array.to_numpy()


def _one_chunk(column: Any) -> Any:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
