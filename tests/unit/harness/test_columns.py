"""A history and its log in columns say what the whole operations say, and judge alike, within little memory."""

import tracemalloc
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from support.built_runs import good_run
from support.examples import examples
from upheaval.checkers.evidence.positions import UNBOUNDED, LogBounds
from upheaval.checkers.history.columns import ABSENT, KINDS, History, LogEntry, PlacedHistory, in_order
from upheaval.checkers.history.model import Model, same
from upheaval.checkers.history.witness import (
    acknowledged_not_lost,
    applied_once,
    history_complete,
    linearizable,
    what_is_wrong,
)
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import WORKBENCH, Function, Json, Operation, Outcome, read_history

VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(0, 1), st.sampled_from([0.0, -0.0, 1.0, float("nan"), "1", "nan", "None"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=4,
)
FUNCTIONS = st.sampled_from((*WORKBENCH, Function.BALANCES, Function.CALL))
BYTES_OF_AN_OPERATION = 250
"""Of columns there are a hundred; the objects that they replaced had more than eight hundred."""


@st.composite
def operations_of(draw: st.DrawFn) -> list[Operation]:
    """Any that a history file may hold."""
    ids = draw(st.lists(st.one_of(st.integers(0, 400), st.integers(-(1 << 62), 1 << 62)), max_size=8, unique=True))
    operations = []
    for number in ids:
        function, outcome = draw(FUNCTIONS), draw(st.sampled_from(Outcome))
        value: Json = draw(VALUES)
        if function is Function.CAS:
            value = [draw(VALUES), draw(VALUES)]
        elif function is Function.CALL:
            value = "0" * 64
        invoke_ns = draw(st.integers(0, 20))
        is_complete = outcome is Outcome.OK or draw(st.booleans())
        complete_ns = invoke_ns + draw(st.integers(0, 20)) if is_complete else None
        position, session = draw(st.none() | st.integers(0, 9)), draw(st.none() | st.integers(0, 3))
        key, result = draw(st.sampled_from(["", "a", "ö"])), draw(VALUES)
        process = draw(st.integers(0, 2))
        operations.append(
            Operation(number, process, function, key, value, invoke_ns, complete_ns, outcome, result, position, session)
        )
    return operations


@examples(150)
@given(operations_of())
def test_columns_and_lines_are_of_the_same_operations(operations: list[Operation]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        path.write_text("".join(operation.to_json() + "\n" for operation in operations), encoding="utf-8")
        history = History.read(path)
        lines = [str(each) for each in read_history(path)]
        assert [str(each) for each in history] == lines
        # From the last one on: each is found without those before it.
        rows = reversed(range(len(history)))
        assert [str(history.at(row)) for row in rows] == lines[::-1]
        assert [str(history.get(each.id)) for each in operations] == lines
    assert list(history.rows) == sorted(each.id for each in operations)
    assert [(each.f, each.outcome) for each in operations] == [KINDS[kind] for kind in history.kinds]
    for row, each in enumerate(operations):
        completed, position = history.completed[row], history.positions[row]
        assert (history.ids[row], history.invoked[row]) == (each.id, each.invoke_ns)
        assert each.complete_ns == (None if completed == ABSENT else completed)
        assert each.position == (None if position == ABSENT else position)
        assert (history.sessions[row], history.processes[row]) == (each.session, each.process)


@examples(200)
@given(st.lists(st.integers(-3, 9), max_size=30), st.integers(1, 7))
def test_rows_come_in_the_order_of_a_column(values: list[int], block: int) -> None:
    expected = sorted(range(len(values)), key=values.__getitem__)
    assert list(in_order(array("q", values), block)) == expected


@st.composite
def logged_histories(draw: st.DrawFn) -> tuple[list[Operation], list[LogEntry]]:
    """A history and a log, with the results of the log's order, of which some are then changed."""
    operations = draw(operations_of())
    shipped = [each for each in operations if each.f is not Function.CALL]
    order = draw(st.permutations(shipped))
    model, entries = Model(), []
    for index, each in enumerate(order):
        result = model.apply(each.f, each.key, each.value) if each.f in WORKBENCH else None
        result = list(result) if isinstance(result, list) else result
        row = operations.index(each)
        if draw(st.integers(0, 5)):
            operations[row] = replace(each, result=result, position=draw(st.sampled_from([None, index])))
        number = each.id if draw(st.integers(0, 9)) else order[0].id
        value = each.value if each.f is Function.CAS or draw(st.integers(0, 5)) else draw(VALUES)
        if draw(st.integers(0, 9)):
            entries.append(LogEntry(index, number, each.f, each.key, value))
    return operations, entries


def expected_result(operations: Sequence[Operation], entries: Sequence[LogEntry]) -> tuple[Verdict, int | None]:
    """Verdict and position of the order of answers, from the whole operations."""
    by_id = {each.id: each for each in operations if each.f is not Function.CALL}
    model = Model()
    latest_ns: int | None = None
    for entry in entries:
        result = model.apply(entry.f, entry.key, entry.value) if entry.f in WORKBENCH else None
        operation = by_id.get(entry.id)
        if operation is None:
            continue
        if operation.outcome is Outcome.OK:
            is_wrong = entry.f in WORKBENCH and not same(operation.result, result)
            assert operation.complete_ns is not None
            if is_wrong or (latest_ns is not None and operation.complete_ns < latest_ns):
                return Verdict.INVALID, entry.position
        latest_ns = operation.invoke_ns if latest_ns is None else max(latest_ns, operation.invoke_ns)
    return Verdict.VALID, None


def expected_place(
    operations: Sequence[Operation], entries: Sequence[LogEntry], bounds: LogBounds
) -> tuple[int, int | None]:
    """How many acknowledged operations are not in the log as they were answered, and the first of them."""
    by_id = {entry.id: entry for entry in entries}
    answered = [each for each in operations if each.outcome is Outcome.OK and each.f is not Function.CALL]
    broken = [each.id for each in answered if what_is_wrong(each, by_id.get(each.id), bounds) is not None]
    return len(broken), broken[0] if broken else None


@examples(400)
@given(logged_histories(), st.sampled_from([UNBOUNDED, LogBounds(4, 3)]))
def test_columns_are_judged_as_the_whole_operations_are(
    case: tuple[list[Operation], list[LogEntry]], bounds: LogBounds
) -> None:
    operations, entries = case
    placed = PlacedHistory.of(operations, entries)
    found = linearizable(placed)
    assert (found.verdict, found.position) == expected_result(operations, entries)
    count, first = expected_place(operations, entries, bounds)
    found = acknowledged_not_lost(placed, bounds)
    assert (found.verdict is Verdict.VALID, found.operation) == (count == 0, first)
    assert count == 0 or f"({count} of " in found.detail
    ids = [entry.id for entry in entries]
    failed = {each.id for each in operations if each.outcome is Outcome.FAIL and each.f is not Function.CALL}
    once = len(set(ids)) == len(ids) and not failed & set(ids)
    assert (applied_once(placed).verdict is Verdict.VALID) is once
    assert (history_complete(placed).verdict is Verdict.VALID) is all(number in placed.history.ids for number in ids)


def test_a_number_that_no_column_holds_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    operation = Operation(1 << 63, 0, Function.READ, "k", None, 1, None, Outcome.UNKNOWN)
    path.write_text(operation.to_json() + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"history\.jsonl:1: expected integers of 64 bits"):
        History.read(path)


def peak_of_judging(folder: Path, count: int) -> int:
    """In bytes, by Python's allocator."""
    good_run(count).write(folder)
    tracemalloc.start()
    try:
        assert verify_run(folder).verdict is Verdict.VALID
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_operation_more_needs_little_memory(tmp_path: Path) -> None:
    few, many = 2_000, 6_000
    more = peak_of_judging(tmp_path / "many", many) - peak_of_judging(tmp_path / "few", few)
    assert more / (many - few) < BYTES_OF_AN_OPERATION
