"""The search on histories without a log: what its prunings leave out is never the only order."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from support.examples import examples
from support.lone_histories import is_linearizable, register_history
from support.search import linearizable_by_search
from upheaval.checkers.history.illegal_prefix import POSSIBLE_MAX, IllegalPrefix, illegal_prefix
from upheaval.checkers.history.models.sequential import KeyModel
from upheaval.checkers.history.models.table import KV, LIST, REGISTER, WORKBENCH_MODEL
from upheaval.checkers.history.search import KeySearch, Prunings, parts, search_keys
from upheaval.checkers.verdict import Verdict
from upheaval.records import Function, Json, Operation, Outcome

LIMIT = 100_000
NONE = Prunings(*[False] * 5)
SEARCHED = replace(Prunings(), origins=False)


@st.composite
def histories(draw: st.DrawFn) -> tuple[KeyModel, list[Operation]]:
    """Up to six operations on up to two keys; the results are plausible and seldom all right."""
    model = draw(st.sampled_from([WORKBENCH_MODEL, REGISTER, LIST, KV]))
    functions = list(dict.fromkeys(model.names.values()))
    return model, [draw(operations(number, functions, model)) for number in range(draw(st.integers(1, 6)))]


@st.composite
def operations(draw: st.DrawFn, number: int, functions: list[Function], model: KeyModel) -> Operation:
    f = draw(st.sampled_from(functions))
    small = st.sampled_from(["x", "y"]) if model is KV else st.integers(0, 1)
    value: Json = None
    result: Json = None
    match f:
        case Function.READ if model is KV:
            result = draw(st.sampled_from(["", "x", "y", "xy", "xx"]))
        case Function.READ:
            result = draw(st.sampled_from([None, 0, 1]))
        case Function.LIST:
            result = draw(st.lists(st.integers(0, 1), max_size=2))
        case Function.CAS:
            value, result = [draw(st.sampled_from([None, 0, 1])), draw(st.integers(0, 1))], draw(st.booleans())
        case Function.ECHO:
            value, result = draw(small), draw(small)
        case _:
            value = draw(small)
    outcome = draw(st.sampled_from([Outcome.OK, Outcome.OK, Outcome.UNKNOWN]))
    invoke = draw(st.integers(0, 12))
    complete = invoke + draw(st.integers(0, 8)) if outcome is Outcome.OK else None
    key = draw(st.sampled_from("aab"))
    return Operation(
        number, number, f, key, value, invoke, complete, outcome, result if outcome is Outcome.OK else None, None
    )


@examples(500)
@given(histories(), st.lists(st.builds(Prunings, *[st.booleans()] * 5), min_size=3, max_size=3))
def test_every_choice_of_prunings_says_what_brute_force_says(
    case: tuple[KeyModel, list[Operation]], choices: list[Prunings]
) -> None:
    model, history = case
    expected = Verdict.VALID if is_linearizable(history) else Verdict.INVALID
    for prunings in [Prunings(), NONE, *choices]:
        assert linearizable_by_search(history, model=model, prunings=prunings).verdict is expected, prunings


@examples(500)
@given(histories())
def test_the_shortest_illegal_prefix_is_illegal_and_every_shorter_one_is_not(
    case: tuple[KeyModel, list[Operation]],
) -> None:
    model, history = case
    for broken in [each for each in searched(history, model) if each.verdict is Verdict.INVALID]:
        prefix = illegal_prefix(broken, model, LIMIT)
        assert prefix.is_shortest
        answers = sorted({end for each in broken.operations if (end := each.complete_ns) is not None})
        end = prefix.last.complete_ns
        assert end is not None
        assert not is_linearizable(cut(broken.operations, end))
        shorter = [each for each in answers if each < end]
        assert all(is_linearizable(cut(broken.operations, each)) for each in shorter)
        assert prefix.length == sum(each.invoke_ns <= end for each in broken.operations)


@examples(500)
@given(histories())
def test_a_possible_result_makes_the_prefix_legal_and_no_other_does(case: tuple[KeyModel, list[Operation]]) -> None:
    model, history = case
    for broken in [each for each in searched(history, model) if each.verdict is Verdict.INVALID]:
        prefix = illegal_prefix(broken, model, LIMIT)
        known = as_known(broken, prefix)
        for shown in prefix.shown:
            for result in shown.possible:
                assert is_linearizable(with_result(known, shown.operation, result))
            if shown.operation.f is Function.READ and shown.operation.outcome is Outcome.OK:
                results: list[Json] = ["", "x", "y", "xy", "yx", "xx", "yy"] if model is KV else [None, 0, 1]
                if len(shown.possible) < POSSIBLE_MAX:
                    legal = [each for each in results if is_linearizable(with_result(known, shown.operation, each))]
                    assert legal == [each for each in results if each in shown.possible]
        assert next(each for each in prefix.shown if each.operation is prefix.last).possible


def searched(history: list[Operation], model: KeyModel) -> list[KeySearch]:
    return list(search_keys(parts(history, model), model, LIMIT))


def cut(history: tuple[Operation, ...], end: int) -> list[Operation]:
    """What was known at that moment."""
    return [
        each
        if each.complete_ns is None or each.complete_ns <= end
        else replace(each, complete_ns=None, outcome=Outcome.UNKNOWN, result=None)
        for each in history
        if each.invoke_ns <= end
    ]


def as_known(broken: KeySearch, prefix: IllegalPrefix) -> list[Operation]:
    """All of the prefix; so few operations are shown if they were answered in it."""
    shown = {each.operation.id: each.operation for each in prefix.shown}
    end = prefix.last.complete_ns
    assert end is not None
    return [
        shown.get(each.id, replace(each, complete_ns=None, outcome=Outcome.UNKNOWN, result=None))
        for each in broken.operations
        if each.invoke_ns <= end
    ]


def with_result(history: list[Operation], operation: Operation, result: Json) -> list[Operation]:
    return [replace(each, result=result) if each is operation else each for each in history]


def unanswered(number: int, f: Function, value: Json) -> Operation:
    return Operation(number, number, f, "", value, number, None, Outcome.UNKNOWN, None, None)


def impossible_read(number: int) -> Operation:
    return Operation(number, number, Function.READ, "", None, number, number + 1, Outcome.OK, "never written", None)


def configurations(history: list[Operation], prunings: Prunings) -> int:
    (found,) = search_keys(parts(history, REGISTER), REGISTER, LIMIT, prunings=prunings)
    return found.configurations


def test_unanswered_reads_cost_nothing() -> None:
    history = [*(unanswered(number, Function.READ, None) for number in range(10)), impossible_read(20)]
    assert configurations(history, NONE) == 2**10 - 1
    assert configurations(history, SEARCHED) == 0


def test_an_unanswered_cas_that_would_fail_costs_nothing() -> None:
    history = [*(unanswered(number, Function.CAS, [number + 5, 1]) for number in range(10)), impossible_read(20)]
    assert configurations(history, replace(SEARCHED, idle=False, fewest=False)) == 2**10 - 1
    assert configurations(history, SEARCHED) == 0


def test_unanswered_operations_of_equal_effect_are_chosen_in_one_order() -> None:
    moves = [unanswered(number, Function.CAS, [number % 2, 1 - number % 2]) for number in range(10)]
    first = replace(unanswered(0, Function.WRITE, 0), complete_ns=0, outcome=Outcome.OK)
    history = [first, *moves, impossible_read(20)]
    # Five to and five fro: how many of each were chosen is all that differs.
    assert configurations(history, replace(SEARCHED, fewest=False)) == 11
    assert configurations(history, replace(SEARCHED, equal=False, fewest=False)) > 400


def test_of_choices_that_lead_to_one_state_those_with_fewer_operations_count() -> None:
    """After one to and one fro all is as before, but for two operations that are no longer there."""
    moves = [unanswered(number, Function.CAS, [number % 2, 1 - number % 2]) for number in range(10)]
    first = replace(unanswered(0, Function.WRITE, 0), complete_ns=0, outcome=Outcome.OK)
    assert configurations([first, *moves, impossible_read(20)], SEARCHED) == 2


def test_what_completes_first_is_tried_first() -> None:
    """Ten writes in the order of their answers; the read after them saw the last one."""
    writes = [
        Operation(number, number, Function.WRITE, "", number, 10 - number, 100 + number, Outcome.OK, None, None)
        for number in range(10)
    ]
    read = Operation(99, 99, Function.READ, "", None, 200, 201, Outcome.OK, 9, None)
    assert configurations([*writes, read], SEARCHED) == 11
    assert configurations([*writes, read], replace(SEARCHED, soonest=False)) > 500


@pytest.mark.parametrize("seed", range(8))
def test_histories_of_a_register_like_those_of_etcd_are_decided(seed: int) -> None:
    for is_valid in (True, False):
        history = register_history(seed, 120, is_valid=is_valid)
        finding = linearizable_by_search(history, limit=20_000)
        assert finding.verdict is (Verdict.VALID if is_valid else Verdict.INVALID)


def test_a_broken_key_is_found_though_another_one_is_given_up() -> None:
    hard = [replace(each, key="a") for each in register_history(1, 120, is_valid=False)]
    stale = replace(impossible_read(20), key="b")
    finding = linearizable_by_search([*hard, stale], limit=50, prunings=SEARCHED)
    assert finding.verdict is Verdict.INVALID
    assert "key b" in finding.detail
    assert linearizable_by_search(hard, limit=50, prunings=SEARCHED).verdict is Verdict.UNKNOWN


def test_a_hard_key_waits_for_the_others() -> None:
    """The second key is illegal after a few steps: the first one gets its first round only."""
    hard = [replace(each, key="a") for each in register_history(5, 400, is_valid=False, lost=0.3)]
    of_keys = parts([*hard, replace(impossible_read(20), key="b")], REGISTER)
    first, second = search_keys(of_keys, REGISTER, 1_000_000, prunings=SEARCHED)
    assert (first.verdict, second.verdict) == (Verdict.UNKNOWN, Verdict.INVALID)
    assert 1_000 < first.configurations < 3_000
    alone, *_ = search_keys(of_keys[:1], REGISTER, 20_000, prunings=SEARCHED)
    assert (alone.verdict, alone.configurations) == (Verdict.UNKNOWN, 20_001)


def test_who_watches_sees_it_go_on() -> None:
    seen: list[tuple[int, int, int]] = []
    history = [replace(each, key=key) for key in "ab" for each in register_history(1, 12_000, is_valid=True, lost=0.0)]
    of_keys = parts(history, REGISTER)
    found = list(search_keys(of_keys, REGISTER, LIMIT, lambda *progress: seen.append(progress)))
    assert [each.verdict for each in found] == [Verdict.VALID, Verdict.VALID]
    first_key = sum(each.outcome is Outcome.OK for each in of_keys[0].operations)
    assert seen == sorted(seen)
    assert {before for before, _, _ in seen} == {0, first_key}
    assert all(0 < past <= first_key and visited > 0 for _, past, visited in seen)
