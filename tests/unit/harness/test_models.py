"""Every model against a judge that tries all orders, on histories of a few operations; the models one by one."""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.examples import examples
from support.search import linearizable_by_search
from upheaval.checkers.history.illegal_prefix import illegal_prefix
from upheaval.checkers.history.models.sequential import KeyModel
from upheaval.checkers.history.models.table import KEY_MODELS, KV, LIST, MUTEX, QUEUE, REGISTER, SET, WORKBENCH_MODEL
from upheaval.checkers.history.search import parts, search_keys
from upheaval.checkers.verdict import Verdict
from upheaval.records import FieldError, Function, Json, Operation, Outcome

VALUES: list[Json] = [0, 1, True, 1.0, "a", [1, {"b": True}], [1, {"b": 1}], {"b": [1]}]
REFUSED = "refused"


class Plain:
    """One copy of everything, as a reader would write it down: a dictionary, a list, a set of texts."""

    def __init__(self, name: str, first: Any) -> None:
        self.name = name
        self.held = deepcopy(first)
        self.appended: list[Json] = []

    def answer(self, f: Function, value: Any) -> Any:
        match self.name, f:
            case ("register" | "workbench" | "kv", Function.READ):
                return self.held
            case ("register" | "workbench" | "kv", Function.WRITE):
                self.held = value
            case ("kv", Function.APPEND):
                self.held += value
            case (_, Function.CAS):
                if strict(self.held) != strict(value[0]):
                    return False
                self.held = value[1]
                return True
            case ("list", Function.APPEND):
                self.held = [*self.held, value]
            case ("list", Function.LIST) | ("set", Function.READ):
                return list(self.held)
            case ("workbench", Function.APPEND):
                self.appended.append(value)
            case ("workbench", Function.LIST):
                return list(self.appended)
            case (_, Function.ECHO):
                return value
            case (_, Function.ADD):
                if strict(value) not in map(strict, self.held):
                    self.held = [*self.held, value]
            case (_, Function.ENQUEUE):
                self.held = [*self.held, value]
            case (_, Function.DEQUEUE):
                first, self.held = (self.held[0], self.held[1:]) if self.held else (None, [])
                return first
            case (_, Function.ACQUIRE | Function.RELEASE):
                if self.held == (f is Function.ACQUIRE):
                    return REFUSED
                self.held = f is Function.ACQUIRE
        return None

    def says(self, f: Function, value: Json, result: Json) -> bool:
        expected = self.answer(f, value)
        if self.name == "set" and f is Function.READ:
            return isinstance(result, list) and sorted(map(strict, expected)) == sorted(map(strict, result))
        return strict(expected) == strict(result)


FIRSTS: dict[str, list[Any]] = {
    "workbench": [None, 1],
    "register": [None, 1, [1]],
    "kv": ["", "a"],
    "list": [[], [1]],
    "set": [[], [1, "a"]],
    "queue": [[], [1, 1.0]],
    "mutex": [False, True],
}
MODELS: dict[str, KeyModel] = {name: KEY_MODELS[name] for name in FIRSTS}


def strict(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def some_order_explains(history: Sequence[Operation], plain: Plain) -> bool:
    """All orders of all choices of unanswered operations."""

    def extend(copy: Plain, rest: list[Operation]) -> bool:
        if all(each.complete_ns is None for each in rest):
            return True
        for each in rest:
            others = [other for other in rest if other is not each]
            if any(other.complete_ns is not None and other.complete_ns < each.invoke_ns for other in others):
                continue
            after = deepcopy(copy)
            is_right = after.says(each.f, each.value, each.result)
            if (is_right or each.complete_ns is None) and extend(after, others):
                return True
        return False

    return extend(plain, list(history))


@st.composite
def cases(draw: st.DrawFn, *names: str) -> tuple[str, Any, list[Operation]]:
    """The results are those of one order, and now and then one of them is changed."""
    name = draw(st.sampled_from(sorted(names or FIRSTS)))
    first = draw(st.sampled_from(FIRSTS[name]))
    functions = list(dict.fromkeys(MODELS[name].names.values()))
    values = st.sampled_from(["a", "b", "ab"] if name == "kv" else VALUES)
    operations = []
    for number in range(draw(st.integers(1, 5))):
        f = draw(st.sampled_from(functions))
        value: Json = None
        if f is Function.CAS:
            value = [draw(st.sampled_from([*VALUES, None])), draw(values)]
        elif f in (Function.WRITE, Function.APPEND, Function.ADD, Function.ENQUEUE, Function.ECHO):
            value = draw(values)
        invoke = draw(st.integers(0, 10))
        complete = draw(st.one_of(st.none(), st.integers(invoke, invoke + 6), st.integers(invoke, invoke + 6)))
        outcome = Outcome.UNKNOWN if complete is None else Outcome.OK
        operations.append(Operation(number, number, f, "k", value, invoke, complete, outcome))
    plain = Plain(name, first)
    results = {each.id: plain.answer(each.f, each.value) for each in draw(st.permutations(operations))}
    wrong = draw(st.integers(0, 9))
    if wrong in results and MODELS[name].has_result(operations[wrong].f):
        results[wrong] = draw(st.sampled_from(plausible(name, operations[wrong].f)))
    return name, first, [answered(each, results[each.id]) for each in operations]


def plausible(name: str, f: Function) -> list[Json]:
    if f is Function.CAS:
        return [True, False]
    if name == "kv":
        return ["", "a", "b", "ab", "aab", "c"]
    if f is Function.LIST or name == "set":
        return [[], [1], [1.0], [1, 1], ["a", 1], [1, "a"], [True]]
    return [*VALUES, None, "never"]


def answered(operation: Operation, result: Json) -> Operation:
    given = None if operation.complete_ns is None or result == REFUSED else result
    fields = {name: getattr(operation, name) for name in Operation.__slots__}
    return Operation(**{**fields, "result": given})


@examples(600)
@given(cases())
def test_a_model_says_what_all_orders_say(case: tuple[str, Any, list[Operation]]) -> None:
    name, first, history = case
    model = MODELS[name].starting_with(first)
    checked = [model.checked(each) for each in history]
    expected = Verdict.VALID if some_order_explains(history, Plain(name, first)) else Verdict.INVALID
    assert linearizable_by_search(checked, model=model).verdict is expected
    if expected is Verdict.INVALID:
        found = search_keys(parts(checked, model), model, 10_000)
        (broken,) = [each for each in found if each.verdict is Verdict.INVALID]
        prefix = illegal_prefix(broken, model, 10_000)
        assert prefix.is_shortest
        for shown in prefix.shown:
            assert shown.are_all_known


@pytest.mark.parametrize("name", sorted(FIRSTS))
def test_what_has_no_origin_is_what_the_search_finds_illegal(name: str) -> None:
    """A model may say nothing before the search, but never more than it."""

    @examples(100)
    @given(cases(name))
    def agree(case: tuple[str, Any, list[Operation]]) -> None:
        model = MODELS[name].starting_with(case[1])
        checked = [model.checked(each) for each in case[2]]
        for part in parts(checked, model):
            if model.unexplained(part.space, part.operations) is not None:
                assert not some_order_explains(part.operations, Plain(name, case[1]))

    agree()


def call(number: int, f: Function, value: Json, result: Json, begin: int, end: int | None) -> Operation:
    outcome = Outcome.UNKNOWN if end is None else Outcome.OK
    return Operation(number, number, f, "", value, begin, end, outcome, result)


ACQUIRE, RELEASE, ADD, ENQUEUE, DEQUEUE = (
    Function.ACQUIRE,
    Function.RELEASE,
    Function.ADD,
    Function.ENQUEUE,
    Function.DEQUEUE,
)
READ, WRITE, APPEND, LIST_ = Function.READ, Function.WRITE, Function.APPEND, Function.LIST

ILLEGAL = [
    (MUTEX, [call(1, ACQUIRE, None, None, 0, 1), call(2, ACQUIRE, None, None, 2, 3)], 2),
    (MUTEX, [call(1, RELEASE, None, None, 0, 1)], 1),
    (
        MUTEX,
        [call(1, ACQUIRE, None, None, 0, 1), call(2, RELEASE, None, None, 2, None)]
        + [call(number, ACQUIRE, None, None, number, number + 1) for number in (4, 6)],
        6,
    ),
    (SET, [call(1, ADD, 1, None, 0, 1), call(2, READ, None, [], 2, 3)], 2),
    (SET, [call(1, ADD, 1, None, 0, 1), call(2, READ, None, [1, 1], 2, 3)], 2),
    (SET, [call(1, ADD, 1, None, 0, None), call(2, READ, None, [1], 2, 3), call(3, READ, None, [], 4, 5)], 3),
    (QUEUE, [call(1, ENQUEUE, "a", None, 0, 1), call(2, DEQUEUE, None, None, 2, 3)], 2),
    (
        QUEUE,
        [call(number, ENQUEUE, number, None, number, number) for number in (1, 2)] + [call(3, DEQUEUE, None, 2, 3, 4)],
        3,
    ),
    (
        QUEUE,
        [call(1, ENQUEUE, "a", None, 0, 1), call(2, DEQUEUE, None, "a", 2, 3), call(3, DEQUEUE, None, "a", 4, 5)],
        3,
    ),
    (REGISTER, [call(1, WRITE, {"a": [1]}, None, 0, 1), call(2, READ, None, {"a": [True]}, 2, 3)], 2),
    (LIST, [call(1, APPEND, 1, None, 0, 1), call(2, LIST_, None, [1.0], 2, 3)], 2),
    (KV, [call(1, APPEND, "ab", None, 0, 1), call(2, READ, None, "ba", 2, 3)], 2),
    (WORKBENCH_MODEL, [call(1, Function.ECHO, "1", 1, 0, 1)], 1),
]


@pytest.mark.parametrize(("model", "history", "last"), ILLEGAL)
def test_the_operation_that_nothing_explains_is_named(model: KeyModel, history: list[Operation], last: int) -> None:
    checked = [model.checked(each) for each in history]
    (found,) = search_keys(parts(checked, model), model, 1000)
    assert found.verdict is Verdict.INVALID
    assert illegal_prefix(found, model, 1000).last.id == last
    legal = [each for each in checked if each.id != last]
    assert linearizable_by_search(legal, model=model).verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("model", "operation", "reason"),
    [
        (MUTEX, call(1, ACQUIRE, None, False, 0, 1), "expected no result of acquire, got false"),
        (SET, call(1, READ, None, 5, 0, 1), "expected a list or set as the result of read, got 5"),
        (QUEUE, call(1, ENQUEUE, None, None, 0, 1), "expected a value to enqueue, got null: it means that the queue"),
        (QUEUE, call(1, WRITE, 1, None, 0, 1), "unknown operation 'write' of the model queue: expected enqueue or"),
    ],
)
def test_what_a_model_cannot_read_is_refused(model: KeyModel, operation: Operation, reason: str) -> None:
    with pytest.raises(FieldError, match=reason):
        model.checked(operation)


@pytest.mark.parametrize(
    ("name", "value"), [("kv", 1), ("list", "a"), ("set", [1, 1]), ("queue", [None]), ("mutex", 1), ("mutex", None)]
)
def test_a_first_value_has_the_type_of_the_model(name: str, value: Json) -> None:
    with pytest.raises(FieldError, match=r"^expected "):
        KEY_MODELS[name].starting_with(value)
