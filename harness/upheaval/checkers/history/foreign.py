"""Reads histories without a run folder: a single `history.jsonl`, or events as Jepsen writes them, in EDN or JSON.

An event is one map: `{:process 0, :type :invoke, :f :write, :value 3, :time 42}`, in JSON the same without the colons.
Events are one per line, or all in one vector (array), in the order in which they happened. They have the meaning that
Knossos gives them (`knossos.history/complete`), with one exception:

- The `:value` of an `:ok` is that of the operation: a read is invoked with nil and completes with what it read, and a
  write that completes with another value than it was invoked with wrote the value of its completion. An `:ok` without
  `:value` keeps the value of the invocation.
- `:fail` means that the operation did not happen, so it proves nothing.
- After `:info`, or without a completion, the operation may have happened, or may happen later, with the value of its
  invocation.
- The exception: a read that completes with nil found nil, where Knossos accepts any value.

Events of `:nemesis` are skipped and counted; the `:process` of any other event is a number. The key is in `:key`, or in
the value as jepsen.independent writes it: each value is a vector `[key value]`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.history.models.sequential import SequentialModel
from upheaval.errors import UsageError
from upheaval.records import FieldError, Function, Json, Operation, Outcome, parse_foreign_operation, read_text
from upheaval.records.edn import EdnError, read_forms
from upheaval.records.json_values import JsonTextError, read_json_values
from upheaval.records.values import Frozen, Word, edn_text, frozen

_OUTCOMES: Final = {"ok": Outcome.OK, "fail": Outcome.FAIL, "info": Outcome.UNKNOWN}
_INVOKE: Final = "invoke"
_NEMESIS: Final = "nemesis"
_JSON_BEGINS: Final = re.compile(r'\s*(?:\[\s*)?\{\s*"(?:[^"\\]|\\.)*"\s*:')
_BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass(slots=True)
class Reading:
    """Counts of what was read from a file."""

    events: int = 0
    """0 for a file of operations."""
    operations: int = 0
    failed: int = 0
    """How many of the operations did not happen."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Events that became no operation, by their kind."""
    changed_values: int = 0
    """Completions whose value differs from that of the invocation, for operations that return no value."""

    def __str__(self) -> str:
        failed = f", {self.failed} of them failed" if self.failed else ""
        events = f"{_counted(self.events, 'event')}: " if self.events else ""
        parts = [f"read {events}{_counted(self.operations, 'operation')}{failed}"]
        if self.changed_values:
            parts.append(f"{self.changed_values} with the value of their completion instead of their invocation")
        parts += [f"passed over {_counted(count, 'event')} of {what}" for what, count in self.passed_over.items()]
        return "; ".join(parts)

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {
            "events": self.events,
            "operations": self.operations,
            "failed": self.failed,
            "changed_values": self.changed_values,
            "passed_over": dict(self.passed_over),
        }


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class ForeignHistory:
    """Operations of a foreign history. Times are nanoseconds if `has_times`, otherwise event numbers from 1."""

    operations: tuple[Operation, ...]
    has_times: bool
    reading: Reading


class _Refused(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def read_foreign(path: Path, model: SequentialModel) -> ForeignHistory:
    """Read the operations of a file. Raises `UsageError` with file, line and reason."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: expected the file of a history")
    text = read_text(path).removeprefix(_BYTE_ORDER_MARK)
    is_json = _JSON_BEGINS.match(text) is not None
    try:
        values = list(read_json_values(text) if is_json else read_forms(text))
        if is_json and isinstance(values[0][1], dict) and "type" not in values[0][1]:
            return _of_operations(values, model)
        return _of_events(values, model, is_json=is_json)
    except (EdnError, JsonTextError, _Refused) as error:
        raise UsageError(f"{path}:{error.line}: {error}") from None


def read_value(text: str) -> Json:
    """Parse one value as JSON or EDN. Raises `FieldError` with the reason."""
    try:
        values = [value for _, value in read_json_values(f"[{text}\n]")]
    except JsonTextError:
        try:
            values = [value for _, value in read_forms(f"[{text}\n]")]
        except EdnError as error:
            raise FieldError(str(error)) from None
    if len(values) != 1:
        raise FieldError(f"expected one value as JSON or EDN, got {text!r}")
    return values[0]


# --- operations ---


def _of_operations(values: Iterable[tuple[int, Json]], model: SequentialModel) -> ForeignHistory:
    reading = Reading()
    ids: set[int] = set()
    operations = []
    names = model.names
    for line, value in values:
        try:
            operation = model.checked(_operation(value, names))
        except FieldError as error:
            raise _Refused(line, str(error)) from None
        if operation.id in ids:
            raise _Refused(line, f"duplicate operation id {operation.id}")
        ids.add(operation.id)
        operations.append(operation)
        reading.failed += operation.outcome is Outcome.FAIL
    reading.operations = len(operations)
    return ForeignHistory(tuple(operations), True, reading)


def _operation(value: Json, names: Mapping[str, Function]) -> Operation:
    """Parse an operation. It may use the model's names for functions."""
    if not isinstance(value, dict):
        raise FieldError("expected an object with the fields of an operation")
    name = value.get("f")
    function = names.get(name, name) if isinstance(name, str) else name
    return parse_foreign_operation(value if function == name else {**value, "f": str(function)})


# --- events ---


@dataclass(frozen=True, slots=True)
class _Event:
    line: int
    process: int
    kind: str
    function: Function
    key: Json
    """None if the event has no `:key`."""
    value: Json
    has_value: bool
    time: int | None


def _of_events(values: Iterable[tuple[int, Json]], model: SequentialModel, *, is_json: bool) -> ForeignHistory:
    reading = Reading()
    events = []
    for line, form in values:
        reading.events += 1
        event = _event(line, form, model, reading, is_json=is_json)
        if event is not None:
            events.append(event)
    times = [event.time for event in events]
    # The order of the events counts. Times are used only if each is later than the one before.
    has_times = all(a is not None and b is not None and a < b for a, b in pairwise(times)) and times[:1] != [None]
    operations = _Pairing(events, model, has_times, reading).operations()
    reading.operations = len(operations)
    reading.failed = sum(operation.outcome is Outcome.FAIL for operation in operations)
    return ForeignHistory(operations, has_times, reading)


def _event(line: int, form: Json, model: SequentialModel, reading: Reading, *, is_json: bool) -> _Event | None:
    """Parse an event. None if it is skipped."""
    colon = "" if is_json else ":"
    if not isinstance(form, dict):
        wanted = ", ".join(f"{colon}{name}" for name in ("process", "type", "f"))
        raise _Refused(line, f"expected {'an object' if is_json else 'a map'} of {wanted} and {colon}value")
    given = {str(name).removeprefix(colon): value for name, value in form.items() if is_json or type(name) is Word}

    def shown(name: str) -> str:
        return edn_text(given[name]) if name in given else "none"

    process = given.get("process")
    if _name(process) == _NEMESIS:
        reading.passed_over[f"{colon}{_NEMESIS}"] += 1
        return None
    if type(process) is not int:
        wanted = f"a number or {colon}{_NEMESIS} as {colon}process"
        raise _Refused(line, f"expected {wanted}, got {shown('process')}")
    kind = _name(given.get("type"))
    if kind not in (_INVOKE, *_OUTCOMES):
        wanted = f"{colon}invoke, {colon}ok, {colon}fail or {colon}info as {colon}type"
        raise _Refused(line, f"expected {wanted}, got {shown('type')}")
    function = model.names.get(_name(given.get("f")))
    if function is None:
        known = ", ".join(f"{colon}{name}" for name in model.names)
        raise _Refused(line, f"unknown operation {shown('f')} of the model {model.name}: expected one of {known}")
    time = given.get("time")
    return _Event(
        line,
        process,
        kind,
        function,
        given.get("key"),
        given.get("value"),
        "value" in given,
        time if type(time) is int else None,
    )


def _name(value: Json) -> str:
    """The text of a keyword or string, without the colon; empty for any other value."""
    return str(value).removeprefix(":") if isinstance(value, str) else ""


class _Pairing:
    """Makes operations from events. The id of an operation is the number of its invocation."""

    def __init__(self, events: list[_Event], model: SequentialModel, has_times: bool, reading: Reading) -> None:
        self._events = events
        self._model = model
        self._has_times = has_times
        self._reading = reading
        self._is_keyed = _is_keyed(events)
        self._keys = _key_texts(self._key_and_value(event)[0] for event in events)
        self._found: dict[int, tuple[_Event, Operation]] = {}

    def operations(self) -> tuple[Operation, ...]:
        """The operations in the order of their invocations."""
        pending: dict[int, int] = {}
        for number, event in enumerate(self._events, start=1):
            moment = event.time if self._has_times and event.time is not None else number
            if event.kind == _INVOKE:
                if event.process in pending:
                    line = self._found[pending[event.process]][0].line
                    reason = f"process {event.process} has not completed its operation of line {line}"
                    raise _Refused(event.line, reason)
                pending[event.process] = number
                self._found[number] = event, self._invoked(number, event, moment)
                continue
            invoked = pending.pop(event.process, None)
            if invoked is None:
                raise _Refused(event.line, f"process {event.process} has not invoked what completes here")
            self._found[invoked] = event, self._completed(self._found[invoked][1], event, moment)
        return tuple(self._checked(event, operation) for event, operation in self._found.values())

    def _invoked(self, number: int, event: _Event, moment: int) -> Operation:
        key, value = self._key_and_value(event)
        text = self._keys[frozen(key)]
        return Operation(number, event.process, event.function, text, value, moment, None, Outcome.UNKNOWN, None, None)

    def _completed(self, operation: Operation, event: _Event, moment: int) -> Operation:
        if event.function is not operation.f:
            raise _Refused(event.line, f"expected the completion of {operation.f}, got that of {event.function}")
        outcome = _OUTCOMES[event.kind]
        if outcome is not Outcome.OK:
            return replace(operation, outcome=outcome)
        completed = replace(operation, outcome=outcome, complete_ns=moment)
        key, value = self._key_and_value(event)
        text = self._keys[frozen(key)]
        if text != operation.key and (self._is_keyed or key is not None):
            raise _Refused(event.line, f"expected the key {operation.key}, got {text}")
        if self._returns_value(operation.f):
            return replace(completed, result=value if event.has_value else None)
        if operation.f is Function.CAS:
            completed = replace(completed, result=True)
        if event.has_value and frozen(value) != frozen(operation.value):
            self._reading.changed_values += 1
            return replace(completed, value=value)
        return completed

    def _returns_value(self, function: Function) -> bool:
        return function is not Function.CAS and self._model.has_result(function)

    def _checked(self, event: _Event, operation: Operation) -> Operation:
        try:
            return self._model.checked(operation)
        except FieldError as error:
            raise _Refused(event.line, str(error)) from None

    def _key_and_value(self, event: _Event) -> tuple[Json, Json]:
        if not self._is_keyed:
            return event.key, event.value
        if isinstance(event.value, list) and len(event.value) == 2:
            return event.value[0], event.value[1]
        if event.kind in (_INVOKE, "ok"):
            raise _Refused(event.line, f"expected [key value], got {edn_text(event.value)}")
        return None, None


def _is_keyed(events: list[_Event]) -> bool:
    """Whether all values have the form of jepsen.independent: `[key value]`, where the value of a compare-and-set is a
    list.
    """
    invoked = [event for event in events if event.kind == _INVOKE]
    return bool(invoked) and all(
        event.key is None
        and type(event.value) is list
        and len(event.value) == 2
        and (event.function is not Function.CAS or isinstance(event.value[1], list))
        for event in invoked
    )


def _key_texts(keys: Iterable[Json]) -> Mapping[Frozen, str]:
    """The name of each key: strings as they are, quoted if another key has that name; other keys as EDN."""
    distinct = {frozen(key): key for key in keys}
    others = {value: "" if key is None else edn_text(key) for value, key in distinct.items() if type(key) is not str}
    ambiguous = set(others.values())
    texts = {
        value: json.dumps(key) if key in ambiguous else str(key) for value, key in distinct.items() if type(key) is str
    }
    return {**others, **texts}
