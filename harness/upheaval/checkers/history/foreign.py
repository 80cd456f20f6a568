"""Reads histories that no run folder belongs to: `history.jsonl` alone, and those of Jepsen (EDN).

Jepsen's are events, one map each: `{:process 0, :type :invoke, :f :write, :value 3, :time 42}`, on a line each or in
one vector, in the order in which they happened. `:ok` is an answer; `:fail` means that the operation did not happen, so
it says nothing; after `:info`, or without a completion, it may have happened or may happen later. Events of processes
that are no numbers (`:nemesis`) are passed over. Keys are those of `:key`, or of jepsen.independent: each value is a
vector `[key value]`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from upheaval.checkers.history.key_models import SequentialModel
from upheaval.errors import UsageError
from upheaval.records import (
    FieldError,
    Function,
    Json,
    Operation,
    Outcome,
    numbered_history,
    parse_foreign_operation,
    read_text,
)
from upheaval.records.edn import EdnError, read_forms

_OUTCOMES: Final = {":ok": Outcome.OK, ":fail": Outcome.FAIL, ":info": Outcome.UNKNOWN}
_INVOKE: Final = ":invoke"
_JSON_BEGINS: Final = '{"'


@dataclass(frozen=True, slots=True)
class ForeignHistory:
    """Operations whose times are nanoseconds (`has_times`), or else the numbers of the events, from 1 on."""

    operations: tuple[Operation, ...]
    has_times: bool


def read_foreign(path: Path, model: SequentialModel) -> ForeignHistory:
    """The operations of a file, those that the model knows. Raises `UsageError` with file, line and reason."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: expected the file of a history")
    text = read_text(path)
    if text.lstrip().startswith(_JSON_BEGINS):
        return ForeignHistory(
            tuple(_checked(numbered_history(path, parse_foreign_operation), model, path)), has_times=True
        )
    try:
        events = list(_events(text, model))
        operations, has_times = _operations(events)
    except EdnError as error:
        raise UsageError(f"{path}:{error.line}: {error}") from None
    return ForeignHistory(tuple(_checked(operations, model, path)), has_times)


def _checked(operations: Iterable[tuple[int, Operation]], model: SequentialModel, path: Path) -> Iterator[Operation]:
    for line, operation in operations:
        try:
            yield model.checked(operation)
        except FieldError as error:
            raise UsageError(f"{path}:{line}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Event:
    line: int
    process: int
    kind: str
    function: Function
    key: Json
    """None for an event without `:key`."""
    value: Json
    time: int | None


def _events(text: str, model: SequentialModel) -> Iterator[_Event]:
    for line, form in read_forms(text):
        if not isinstance(form, dict):
            raise EdnError(line, "expected a map of :process, :type, :f and :value")
        process = form.get(":process")
        if isinstance(process, str):
            continue
        if not isinstance(process, int) or isinstance(process, bool):
            raise EdnError(line, "expected the number of a process as :process")
        kind, time = form.get(":type"), form.get(":time")
        if not isinstance(kind, str) or kind not in (_INVOKE, *_OUTCOMES):
            raise EdnError(line, f"expected :invoke, :ok, :fail or :info as :type, got {_shown(kind)}")
        function = _function(form, model, line)
        is_time = isinstance(time, int) and not isinstance(time, bool)
        yield _Event(
            line,
            process,
            kind,
            function,
            form.get(":key"),
            form.get(":value"),
            time if is_time else None,  # type: ignore[arg-type]
        )


def _function(form: Mapping[str, Json], model: SequentialModel, line: int) -> Function:
    name = form.get(":f")
    function = model.names.get(name.removeprefix(":")) if isinstance(name, str) else None
    if function is None:
        known = ", ".join(f":{each}" for each in model.names)
        raise EdnError(line, f"unknown operation {_shown(name)} of the model {model.name}: expected one of {known}")
    return function


def _operations(events: list[_Event]) -> tuple[list[tuple[int, Operation]], bool]:
    """Each operation with the line of its invocation, and whether the times of the events are its times.

    What counts is the order of the events. Times that do not tell each from the next give way to it.
    """
    times = [each.time for each in events]
    has_times = all(a is not None and b is not None and a < b for a, b in pairwise(times)) and times[:1] != [None]
    is_keyed = _is_keyed(events)
    found: dict[int, tuple[int, Operation]] = {}
    pending: dict[int, int] = {}
    for number, event in enumerate(events, start=1):
        moment = event.time if has_times and event.time is not None else number
        if event.kind == _INVOKE:
            if event.process in pending:
                line = found[pending[event.process]][0]
                raise EdnError(event.line, f"process {event.process} has not completed its operation of line {line}")
            pending[event.process] = number
            key, value = _split(event, is_keyed)
            found[number] = (
                event.line,
                Operation(number, event.process, event.function, key, value, moment, None, Outcome.UNKNOWN, None, None),
            )
            continue
        invoked = pending.pop(event.process, None)
        if invoked is None:
            raise EdnError(event.line, f"process {event.process} has not invoked what completes here")
        line, operation = found[invoked]
        found[invoked] = line, _completed(operation, event, is_keyed, moment)
    return list(found.values()), has_times


def _completed(operation: Operation, event: _Event, is_keyed: bool, moment: int) -> Operation:
    if event.function is not operation.f:
        raise EdnError(event.line, f"expected the completion of {operation.f}, got that of {event.function}")
    outcome = _OUTCOMES[event.kind]
    if outcome is not Outcome.OK:
        return replace(operation, outcome=outcome)
    key, value = _split(event, is_keyed)
    if key != operation.key:
        raise EdnError(event.line, f"expected the key {operation.key}, got {key}")
    result: Json = None
    if operation.f is Function.CAS:
        result = True
    elif operation.f in (Function.READ, Function.LIST, Function.CALL):
        result = value
    return replace(operation, outcome=outcome, complete_ns=moment, result=result)


def _is_keyed(events: list[_Event]) -> bool:
    """Whether all values have the form of jepsen.independent, a compare-and-set's pair inside the pair of its key."""
    invoked = [each for each in events if each.kind == _INVOKE]
    return bool(invoked) and all(
        each.key is None
        and isinstance(each.value, list)
        and len(each.value) == 2
        and (each.function is not Function.CAS or isinstance(each.value[1], list))
        for each in invoked
    )


def _split(event: _Event, is_keyed: bool) -> tuple[str, Json]:
    if not is_keyed:
        return _key(event.key), event.value
    if not (isinstance(event.value, list) and len(event.value) == 2):
        raise EdnError(event.line, f"expected [key value], got {_shown(event.value)}")
    return _key(event.value[0]), event.value[1]


def _key(key: Json) -> str:
    return "" if key is None else _shown(key)


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)
