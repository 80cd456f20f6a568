"""Linearizability by search, for histories without a log to witness their order.

Wing and Gong's search with Lowe's memory of visited configurations, one key at a time: linearizability is local, so
a history is linearizable exactly when its part on each key is (Herlihy and Wing). This module knows nothing of logs.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from upheaval.checkers.model import apply_to_key, same
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import WORKBENCH, Function, Json, Operation, Outcome
from upheaval_node.types import NEVER_NS

# A configuration costs about a microsecond and 200 bytes; more than this is better judged by the log.
CONFIGURATIONS_MAX = 1_000_000


_KEYED = tuple(function for function in WORKBENCH if function is not Function.ECHO)

State = tuple[Json, ...]


def linearizable_by_search(operations: Iterable[Operation], *, limit: int = CONFIGURATIONS_MAX) -> Finding:
    """Look for an order that keeps real time and explains all results. UNKNOWN when `limit` is not enough."""
    parts: dict[tuple[bool, str], list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.outcome is Outcome.FAIL or operation.f not in _KEYED:
            continue
        parts[operation.f in (Function.APPEND, Function.LIST), operation.key].append(operation)
    for (_, key), part in sorted(parts.items()):
        search = _Search(part, limit)
        if not search.run():
            if search.exhausted:
                detail = f"key {key}: gave up after {limit} configurations of {len(part)} operations"
                return Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, detail)
            stuck = search.operations[search.stuck_at]
            detail = f"key {key}: no order of its {len(part)} operations explains {stuck}"
            return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, operation=stuck.id)
    return Finding(Promise.LINEARIZABLE, Verdict.VALID, f"an order was found for each of {len(parts)} keys")


@dataclass(slots=True)
class _Frame:
    """One configuration on the search path: what is linearized (a bit an operation) and the state it led to."""

    done: int
    state: State
    candidates: list[int]


class _Search:
    """Depth-first search over one key, with a path of its own instead of Python's call stack."""

    def __init__(self, operations: list[Operation], limit: int) -> None:
        self.operations = sorted(operations, key=lambda operation: operation.invoke_ns)
        self.exhausted = False
        self.stuck_at = 0
        self._limit = limit
        self._completions = [_completion(operation) for operation in self.operations]
        self._required = sum(1 << i for i, completion in enumerate(self._completions) if completion != NEVER_NS)
        self._visited: set[tuple[int, str]] = set()
        self._deepest = -1

    def run(self) -> bool:
        path = [_Frame(0, (), self._candidates(0))]
        while path:
            frame = path[-1]
            if frame.done & self._required == self._required:
                return True
            if not frame.candidates:
                path.pop()
                continue
            following = self._linearize(frame, frame.candidates.pop())
            if following is not None:
                if len(self._visited) > self._limit:
                    self.exhausted = True
                    return False
                path.append(following)
        return False

    def _linearize(self, frame: _Frame, index: int) -> _Frame | None:
        operation = self.operations[index]
        state, result = apply_to_key(operation.f, frame.state, operation.value)
        if operation.outcome is Outcome.OK and not same(result, operation.result):
            return None
        done = frame.done | 1 << index
        configuration = (done, json.dumps(state))
        if configuration in self._visited:
            return None
        self._visited.add(configuration)
        return _Frame(done, state, self._candidates(done))

    def _candidates(self, done: int) -> list[int]:
        """Operations that may come next: those invoked before any other pending one has completed."""
        earliest = min((c for i, c in enumerate(self._completions) if not done >> i & 1), default=NEVER_NS)
        found = []
        for index, operation in enumerate(self.operations):
            if operation.invoke_ns > earliest:
                break
            if not done >> index & 1:
                found.append(index)
        count = done.bit_count()
        if count > self._deepest and found:
            self._deepest = count
            self.stuck_at = min(found, key=lambda index: self._completions[index])
        found.reverse()
        return found


def _completion(operation: Operation) -> int:
    if operation.outcome is not Outcome.OK:
        return NEVER_NS
    assert operation.complete_ns is not None
    return operation.complete_ns
