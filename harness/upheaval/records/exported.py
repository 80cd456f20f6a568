"""Exports histories of the shipped services in the notations of other checkers: one kind of keys, one event per line.

Knossos: EDN events whose values are `[key value]`, as in jepsen.independent. Porcupine: the events of the key-value
stores in its tests, with put and get for registers, and append and get for lists. A value is its JSON text,
percent-encoded and followed by a semicolon; nil is the empty text.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from upheaval.records.history import Function, Operation, Outcome
from upheaval.records.jsonfields import Json
from upheaval.records.values import edn_text

REGISTER: Final = "register"
LIST: Final = "list"
KINDS: Final[dict[str, dict[Function, str]]] = {
    REGISTER: {Function.READ: "read", Function.WRITE: "write", Function.CAS: "cas"},
    LIST: {Function.APPEND: "append", Function.LIST: "read"},
}
"""The operations on each kind of keys, by their names in Knossos."""
_OF_KV: Final = {Function.READ: "get", Function.WRITE: "put", Function.APPEND: "append", Function.LIST: "get"}
_READS: Final = (Function.READ, Function.LIST)


@dataclass(frozen=True, slots=True)
class Export:
    """The exported lines. `operations` counts the operations in them."""

    lines: tuple[str, ...]
    operations: int
    notes: tuple[str, ...]
    """What the notation cannot express."""


@dataclass(frozen=True, slots=True)
class _Event:
    process: int
    type: str
    operation: Operation
    moment: int


def knossos(operations: Iterable[Operation], kind: str) -> Export:
    """Export in the notation of Knossos. A compare-and-set that returned false is `:fail`, which constrains nothing."""
    chosen = [operation for operation in operations if operation.f in KINDS[kind]]
    refused = sum(operation.f is Function.CAS and operation.result is False for operation in chosen)
    notes = [f"{refused} compare-and-sets that answered false are :fail, which says nothing"] if refused else []
    lines = tuple(_knossos_line(event, KINDS[kind]) for event in _events(chosen))
    return Export(lines, len(chosen), tuple(notes))


def porcupine(operations: Iterable[Operation], kind: str) -> Export:
    """Export in the notation of Porcupine.

    Keys with compare-and-sets are left out: a key-value store has none. So are operations that constrain nothing: those
    that did not happen, and reads without an answer, which Porcupine's tests would take for answers of the empty text.
    """
    chosen = [operation for operation in operations if operation.f in KINDS[kind]]
    with_cas = {operation.key for operation in chosen if operation.f is Function.CAS}
    candidates = [operation for operation in chosen if operation.key not in with_cas]
    exported = [
        candidate
        for candidate in candidates
        if candidate.outcome is Outcome.OK or (candidate.outcome is Outcome.UNKNOWN and candidate.f not in _READS)
    ]
    notes = []
    if with_cas:
        left_out = sum(operation.key in with_cas for operation in chosen)
        notes.append(f"{left_out} operations on {len(with_cas)} keys with compare-and-sets are left out")
    if len(exported) < len(candidates):
        notes.append(f"{len(candidates) - len(exported)} that failed, or read without an answer, say nothing")
    lines = tuple(_porcupine_line(event) for event in _events(exported) if event.type != "info")
    return Export(lines, len(exported), tuple(notes))


FORMATS: Final[dict[str, Callable[[Iterable[Operation], str], Export]]] = {
    "knossos": knossos,
    "porcupine": porcupine,
}


def _events(operations: Iterable[Operation]) -> Iterator[_Event]:
    """The events in order of time. At equal times invocations come first, because operations that touch are concurrent.

    A process has one operation at a time and ends with an operation without an answer, as in Jepsen; its client
    continues as another process.
    """
    moments: list[tuple[int, int, Operation]] = []
    for operation in operations:
        moments.append((operation.invoke_ns, 0, operation))
        if operation.outcome is Outcome.OK and operation.complete_ns is not None:
            moments.append((operation.complete_ns, 1, operation))
    moments.sort(key=lambda moment: moment[:2])
    idle: dict[int, list[int]] = defaultdict(list)
    busy: dict[int, tuple[int, Operation]] = {}
    count = last = 0
    for last, is_completion, operation in moments:
        slot = idle[operation.process]
        if is_completion:
            process, _ = busy.pop(operation.id)
            slot.append(process)
            has_failed = operation.f is Function.CAS and operation.result is False
            yield _Event(process, "fail" if has_failed else "ok", operation, last)
            continue
        if not slot:
            slot.append(count)
            count += 1
        process = slot.pop()
        yield _Event(process, "invoke", operation, last)
        if operation.outcome is Outcome.FAIL:
            slot.append(process)
            yield _Event(process, "fail", operation, last)
        else:
            busy[operation.id] = process, operation
    for process, operation in busy.values():
        yield _Event(process, "info", operation, last)


def _knossos_line(event: _Event, names: dict[Function, str]) -> str:
    operation = event.operation
    is_read_result = event.type == "ok" and operation.f in _READS
    value: Json = [operation.key, operation.result if is_read_result else operation.value]
    return (
        f"{{:process {event.process}, :type :{event.type}, :f :{names[operation.f]}, :value {edn_text(value)}, "
        f":time {event.moment}}}"
    )


def _porcupine_line(event: _Event) -> str:
    operation = event.operation
    key = quote(operation.key, safe=" /:;,.()[]")
    value = operation.result if event.type == "ok" and operation.f in _READS else operation.value
    if operation.f in _READS and event.type == "invoke":
        text = "nil"
    elif operation.f is Function.LIST:
        text = '"' + "".join(map(_piece, value if isinstance(value, list) else [])) + '"'
    elif operation.f is Function.APPEND:
        text = f'"{_piece(value)}"'
    else:
        text = '""' if value is None else f'"{_piece(value)}"'
    return f'{{:process {event.process}, :type :{event.type}, :f :{_OF_KV[operation.f]}, :key "{key}", :value {text}}}'


def _piece(value: Json) -> str:
    return quote(json.dumps(value, sort_keys=True), safe=" :,.[]{}()") + ";"
