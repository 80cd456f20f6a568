"""The witness checker and the search checker agree with each other, and with histories whose truth is known."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from support.examples import examples
from support.search import linearizable_by_search
from upheaval.checkers.history.columns import LogEntry, PlacedHistory
from upheaval.checkers.history.model import Model
from upheaval.checkers.history.witness import linearizable
from upheaval.checkers.verdict import Verdict
from upheaval.records import WORKBENCH, Function, Json, Operation, Outcome

FUNCTIONS = [f for f in WORKBENCH if f is not Function.ECHO]


def operation(number: int, function: Function, value: Json, result: Json, invoke: int, complete: int) -> Operation:
    return Operation(number, number, function, "k", value, invoke, complete, Outcome.OK, result, None)


def entry(position: int, op: Operation) -> LogEntry:
    return LogEntry(position, op.id, op.f, op.key, op.value)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Operation], list[LogEntry]]:
    """A small history with the order of a log: results are those of some order, not always of the log's."""
    count = draw(st.integers(1, 6))
    operations: list[Operation] = []
    for number in range(count):
        function = draw(st.sampled_from(FUNCTIONS))
        key = draw(st.sampled_from("ab"))
        small = st.integers(0, 2)
        value: Json = None
        if function is Function.CAS:
            value = [draw(st.one_of(st.none(), small)), draw(small)]
        elif function in (Function.WRITE, Function.APPEND):
            value = draw(small)
        invoke = draw(st.integers(0, 10))
        complete = invoke + draw(st.integers(0, 10))
        outcome = draw(st.sampled_from([Outcome.OK, Outcome.OK, Outcome.OK, Outcome.UNKNOWN]))
        operations.append(Operation(number, number, function, key, value, invoke, complete, outcome, None, None))
    truth = draw(st.permutations(operations))
    model = Model()
    results: dict[int, Json] = {}
    for op in truth:
        result = model.apply(op.f, op.key, op.value)
        results[op.id] = list(result) if isinstance(result, list) else result
    operations = [replace(op, result=results[op.id]) for op in operations]
    kept = [op for op in truth if op.outcome is Outcome.OK or draw(st.booleans())]
    log = draw(st.one_of(st.just(kept), st.permutations(kept)))
    return operations, [entry(index, op) for index, op in enumerate(log)]


@examples(400)
@given(histories())
def test_what_the_witness_accepts_the_search_accepts_too(case: tuple[list[Operation], list[LogEntry]]) -> None:
    operations, log = case
    if linearizable(PlacedHistory.of(operations, log)).verdict is Verdict.VALID:
        assert linearizable_by_search(operations).verdict is Verdict.VALID


@examples(300)
@given(histories())
def test_the_search_accepts_exactly_what_some_order_of_a_log_could_witness(
    case: tuple[list[Operation], list[LogEntry]],
) -> None:
    operations, _ = case
    found = linearizable_by_search(operations).verdict is Verdict.VALID
    assert found == _some_order_is_accepted(operations)


def _some_order_is_accepted(operations: list[Operation]) -> bool:
    """All logs of up to six operations, with each choice of the unanswered ones, tried one after the other."""
    required = {op.id for op in operations if op.outcome is Outcome.OK}

    def extend(log: list[Operation], rest: list[Operation]) -> bool:
        entries = [entry(index, op) for index, op in enumerate(log)]
        if linearizable(PlacedHistory.of(operations, entries)).verdict is not Verdict.VALID:
            return False
        if required <= {op.id for op in log}:
            return True
        return any(extend([*log, op], [other for other in rest if other is not op]) for op in rest)

    return extend([], operations)


@examples(100)
@given(st.integers(0, 10_000))
def test_a_history_made_by_one_copy_is_accepted_by_both(seed: int) -> None:
    random = Random(seed)
    model = Model()
    operations: list[Operation] = []
    for number in range(40):
        function = random.choice(FUNCTIONS)
        value: Json = [random.randrange(3), random.randrange(3)] if function is Function.CAS else random.randrange(3)
        value = None if function in (Function.READ, Function.LIST) else value
        result = model.apply(function, "k", value)
        result = list(result) if isinstance(result, list) else result
        moment = number * 10
        operations.append(
            operation(number, function, value, result, moment - random.randrange(15), moment + random.randrange(15))
        )
    log = [entry(number, op) for number, op in enumerate(operations)]
    assert linearizable(PlacedHistory.of(operations, log)).verdict is Verdict.VALID
    assert linearizable_by_search(operations).verdict is Verdict.VALID


def test_a_stale_read_is_found_by_both() -> None:
    write = operation(1, Function.WRITE, 1, None, 0, 10)
    read = operation(2, Function.READ, None, None, 20, 30)
    assert linearizable(PlacedHistory.of([write, read], [entry(1, write), entry(2, read)])).verdict is Verdict.INVALID
    assert linearizable(PlacedHistory.of([write, read], [entry(1, read), entry(2, write)])).verdict is Verdict.INVALID
    assert linearizable_by_search([write, read]).verdict is Verdict.INVALID


def test_a_read_that_overlaps_the_write_may_see_either_value() -> None:
    write = operation(1, Function.WRITE, 1, None, 0, 10)
    for result in (None, 1):
        read = operation(2, Function.READ, None, result, 5, 30)
        assert linearizable_by_search([write, read]).verdict is Verdict.VALID


def test_an_unanswered_write_may_take_effect_late_but_not_before_it_was_invoked() -> None:
    write = replace(operation(1, Function.WRITE, 1, None, 50, 60), outcome=Outcome.UNKNOWN, complete_ns=None)
    late = operation(2, Function.READ, None, 1, 900, 901)
    early = operation(3, Function.READ, None, 1, 10, 20)
    assert linearizable_by_search([write, late]).verdict is Verdict.VALID
    assert linearizable_by_search([write, early]).verdict is Verdict.INVALID
    assert linearizable(PlacedHistory.of([write, early], [entry(1, write), entry(2, early)])).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (1, True),
        (1, 1.0),
        ([[1]], [[True]]),
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}),
        ([{"a": 0}], [{"a": False}]),
        (0, None),
    ],
)
def test_a_value_of_another_type_is_another_value(written: Json, found: Json) -> None:
    write = operation(1, Function.WRITE, written, None, 0, 10)
    read = operation(2, Function.READ, None, found, 20, 30)
    assert linearizable(PlacedHistory.of([write, read], [entry(1, write), entry(2, read)])).verdict is Verdict.INVALID
    assert linearizable_by_search([write, read]).verdict is Verdict.INVALID


def test_a_search_that_would_take_too_long_is_unknown() -> None:
    writes = [operation(number, Function.WRITE, number, None, 0, 100) for number in range(12)]
    stale = [operation(99 + end, Function.READ, None, end, 200, 201) for end in (1, 2)]
    finding = linearizable_by_search([*writes, *stale], limit=1000)
    assert finding.verdict is Verdict.UNKNOWN


def test_keys_are_searched_apart_and_the_broken_one_is_named() -> None:
    good = replace(operation(1, Function.WRITE, 1, None, 0, 10), key="good")
    bad = replace(operation(2, Function.READ, None, 7, 20, 30), key="bad")
    finding = linearizable_by_search([good, bad])
    assert finding.verdict is Verdict.INVALID
    assert "key bad" in finding.detail
    assert "id=2 " in finding.detail
