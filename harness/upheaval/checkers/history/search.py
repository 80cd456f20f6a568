"""Linearizability by search, for histories without a log to witness their order.

Wing and Gong's search with Lowe's memory of visited configurations, one key at a time: linearizability is local, so
a history is linearizable exactly when its part on each key is (Herlihy and Wing). An operation may be chosen next when
it was invoked before any operation that is not chosen yet has completed. An order is found when all answered
operations are chosen; an unanswered one may be chosen at any time after it was invoked, or never.

Three prunings keep unanswered operations from doubling the work one by one. Each leaves some order where there is one:

- `idle`: an unanswered operation is not chosen in a state that it would leave as it is (a read never is). Take it out
  of an order: all states stay the same, its result was compared with nothing, and no operation has to come after it,
  because it never completed. What is left is an order, and shorter.
- `equal`: of unanswered operations of equal function and value, only the one that was invoked first is a candidate.
  Take an order that has a later one, B, where the first, A, is not chosen yet, and exchange the two (or put A in B's
  place if A is not in the order). A may stand there: whatever had completed before A was invoked had completed before
  B was. B may stand where A was, because that is later than where B could stand. Nothing has to come after either of
  them, and the states are the same, because the effects are.
- `soonest`: candidates are tried in the order of their completion, unanswered ones last. All of them are tried.

This module knows nothing of logs.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from upheaval.checkers.history.key_models import WORKBENCH_MODEL, SequentialModel, State
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Json, Operation, Outcome
from upheaval_node.types import NEVER_NS

CONFIGURATIONS_MAX = 1_000_000
"""For each key. A configuration costs some ten microseconds and 250 bytes."""

_WATCHED_EVERY = 4096

Watch = Callable[[int, int, int], None]
"""Is told now and then how many operations the keys before this one have, how many of this key's the search has got
past, and how many configurations of this key it has visited."""


@dataclass(frozen=True, slots=True)
class Prunings:
    """Which ones are on."""

    idle: bool = True
    equal: bool = True
    soonest: bool = True


@dataclass(frozen=True, slots=True)
class KeySearch:
    """What the search found out about one key."""

    key: str
    operations: tuple[Operation, ...]
    verdict: Verdict
    """VALID, INVALID, or UNKNOWN when the limit was not enough."""
    configurations: int
    stuck: Operation
    """No order got past the completion of this one, unless the verdict is VALID."""


def linearizable_by_search(
    operations: Iterable[Operation],
    *,
    model: SequentialModel = WORKBENCH_MODEL,
    limit: int = CONFIGURATIONS_MAX,
    prunings: Prunings = Prunings(),
) -> Finding:
    """Look for an order that keeps real time and explains all results. UNKNOWN when `limit` is not enough."""
    return finding(list(search_keys(parts(operations, model), model, limit, prunings=prunings)), limit)


def parts(operations: Iterable[Operation], model: SequentialModel) -> list[tuple[str, list[Operation]]]:
    """The operations of the model that may have happened, by key."""
    found: dict[tuple[int, str], list[Operation]] = defaultdict(list)
    for operation in operations:
        space = model.space(operation.f)
        if space is not None and operation.outcome is not Outcome.FAIL:
            found[space, operation.key].append(operation)
    return [(key, part) for (_, key), part in sorted(found.items())]


def search_keys(
    of_keys: Iterable[tuple[str, list[Operation]]],
    model: SequentialModel,
    limit: int,
    watch: Watch | None = None,
    *,
    prunings: Prunings = Prunings(),
) -> Iterator[KeySearch]:
    """Search one key after the other, up to the first one that is broken."""
    past = 0
    for key, part in of_keys:
        search = Search(part, model, limit, prunings=prunings)
        is_found = search.run(None if watch is None else partial(watch, past))
        verdict = Verdict.VALID if is_found else Verdict.UNKNOWN if search.exhausted else Verdict.INVALID
        yield KeySearch(key, tuple(part), verdict, search.configurations, search.stuck)
        if verdict is Verdict.INVALID:
            return
        past += search.answered_count


def finding(searched: list[KeySearch], limit: int) -> Finding:
    """The worst of what the searches of all keys have found."""
    for each in searched:
        if each.verdict is Verdict.INVALID:
            detail = f"{on_key(each.key)}no order of its {len(each.operations)} operations explains {each.stuck}"
            return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, operation=each.stuck.id)
    open_keys = [each for each in searched if each.verdict is Verdict.UNKNOWN]
    if open_keys:
        each = open_keys[0]
        others = f", and on {len(open_keys) - 1} more of {len(searched)} keys" if len(open_keys) > 1 else ""
        detail = f"{on_key(each.key)}gave up after {limit} configurations of {len(each.operations)} operations{others}"
        return Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, detail)
    return Finding(Promise.LINEARIZABLE, Verdict.VALID, f"an order was found for each of {len(searched)} keys")


def on_key(key: str) -> str:
    """How a line about a key begins; the only key of a history without keys has no name."""
    return f"key {key}: " if key else ""


@dataclass(slots=True)
class _Frame:
    """One configuration on the search path. Of the answered operations, all below `first` are chosen, and from there
    on those of `chosen` (a bit each); of the unanswered ones those of `taken`. `operation` was the last of them."""

    first: int
    chosen: int
    taken: int
    state: State
    shown_state: str
    operation: Operation | None
    candidates: list[int]


class Search:
    """Depth-first search over one key, with a path of its own instead of Python's call stack.

    With `free`, that answered operation may have any result but the `refused` ones (as JSON).
    """

    def __init__(
        self,
        operations: Iterable[Operation],
        model: SequentialModel,
        limit: int,
        *,
        prunings: Prunings = Prunings(),
        free: Operation | None = None,
        refused: frozenset[str] = frozenset(),
    ) -> None:
        in_order = sorted(operations, key=lambda operation: operation.invoke_ns)
        self._answered = [operation for operation in in_order if operation.outcome is Outcome.OK]
        self._unanswered = [operation for operation in in_order if operation.outcome is not Outcome.OK]
        self._completions = [completion_of(operation) for operation in self._answered]
        self._effects = [json.dumps([operation.f, operation.value]) for operation in self._unanswered]
        self._model = model
        self._limit = limit
        self._prunings = prunings
        self._free, self._refused = free, refused
        self._visited: set[tuple[int, int, int, str]] = set()
        self._path: list[_Frame] = []
        self._reached_ns = -1
        self.exhausted = False

    @property
    def configurations(self) -> int:
        """How many were visited."""
        return len(self._visited)

    @property
    def answered_count(self) -> int:
        """How many operations have to be chosen."""
        return len(self._answered)

    @property
    def stuck(self) -> Operation:
        """The first completion that no configuration got past; any operation when an order was found."""
        by_completion = dict(zip(self._completions, self._answered, strict=True))
        return by_completion.get(self._reached_ns) or (self._answered or self._unanswered)[-1]

    def run(self, watch: Callable[[int, int], None] | None = None) -> bool:
        """Whether an order was found. When not, either there is none or `exhausted` is set."""
        completions = sorted(self._completions)
        self._path = path = [_Frame(0, 0, 0, (), "[]", None, self._candidates(0, 0, 0))]
        while path:
            frame = path[-1]
            if frame.first == len(self._answered):
                return True
            if not frame.candidates:
                path.pop()
                continue
            following = self._choose(frame, frame.candidates.pop())
            if following is None:
                continue
            if len(self._visited) > self._limit:
                self.exhausted = True
                return False
            path.append(following)
            if watch is not None and len(self._visited) % _WATCHED_EVERY == 0:
                watch(bisect_left(completions, self._reached_ns), len(self._visited))
        return False

    def result_in_order(self, operation: Operation) -> Json:
        """What the operation answers in the order that was found."""
        for before, frame in zip(self._path, self._path[1:], strict=False):
            if frame.operation is operation:
                return self._model.step(operation, before.state)[1]
        raise KeyError(operation.id)

    def _choose(self, frame: _Frame, candidate: int) -> _Frame | None:
        is_answered = candidate >= 0
        operation = self._answered[candidate] if is_answered else self._unanswered[~candidate]
        state, result, is_right = self._model.step(operation, frame.state)
        if operation is self._free:
            is_right = json.dumps(result) not in self._refused
        if is_answered and not is_right:
            return None
        shown_state = frame.shown_state if state is frame.state else json.dumps(state)
        first, chosen, taken = frame.first, frame.chosen, frame.taken
        if is_answered:
            chosen |= 1 << candidate - first
            while chosen & 1:
                first, chosen = first + 1, chosen >> 1
        else:
            if self._prunings.idle and shown_state == frame.shown_state:
                return None
            taken |= 1 << ~candidate
        configuration = (first, chosen, taken, shown_state)
        if configuration in self._visited:
            return None
        self._visited.add(configuration)
        return _Frame(first, chosen, taken, state, shown_state, operation, self._candidates(first, chosen, taken))

    def _candidates(self, first: int, chosen: int, taken: int) -> list[int]:
        """What may come next, last the one to try first: answered operations by index, unanswered ones by ~index."""
        earliest = NEVER_NS
        found = []
        for index in range(first, len(self._answered)):
            if self._answered[index].invoke_ns > earliest:
                break
            if not chosen >> index - first & 1:
                found.append(index)
                earliest = min(earliest, self._completions[index])
        if found:
            self._reached_ns = max(self._reached_ns, earliest)
        if self._prunings.soonest:
            found.sort(key=self._completions.__getitem__)
        found.extend(self._unanswered_candidates(earliest, taken))
        found.reverse()
        return found

    def _unanswered_candidates(self, earliest: int, taken: int) -> list[int]:
        found = []
        seen = set()
        for index, operation in enumerate(self._unanswered):
            if operation.invoke_ns > earliest:
                break
            if taken >> index & 1 or (self._prunings.equal and self._effects[index] in seen):
                continue
            seen.add(self._effects[index])
            found.append(~index)
        return found


def completion_of(operation: Operation) -> int:
    """When an operation was answered, which for one without an answer is never."""
    if operation.outcome is not Outcome.OK:
        return NEVER_NS
    assert operation.complete_ns is not None
    return operation.complete_ns
