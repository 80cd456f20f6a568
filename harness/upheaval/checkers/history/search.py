"""Linearizability by search, for histories without a log that shows their order.

Wing and Gong's search with Lowe's memory of visited configurations, one key at a time. Linearizability is local: a
history is linearizable exactly if its part on each key is (Herlihy and Wing). An operation may be chosen next if it was
invoked before the first completion among the operations that are not chosen yet. An order is found when all answered
operations are chosen. An unanswered operation may be chosen at any time after its invocation, or never.

Before any search, an answer with a value that no operation can have put there by then is illegal by itself (`origins`;
the models find it). Four prunings keep each unanswered operation from doubling the work. If there is an order, at least
one remains after each pruning:

- `idle`: an unanswered operation is not chosen in a state that it would not change (so a read is never chosen). Remove
  it from an order: all states stay the same, its result was compared with nothing, and no operation has to come after
  it, because it never completed. The result is a shorter order.
- `equal`: of unanswered operations with equal function and value, only the one that was invoked first is a candidate.
  Take an order that has a later one, B, where the first, A, is not chosen yet, and exchange the two (or put A in B's
  place if A is not in the order). A fits there: whatever had completed before A was invoked had completed before B
  was. B fits where A was, because that is later than its own place was. Nothing has to come after either of them, and
  the states are the same, because the effects are.
- `fewest`: a configuration is skipped if another one was visited that has the same answered operations, the same state,
  and a subset of its unanswered operations. Whatever completes the skipped one completes the other.
- `soonest`: candidates are tried in the order of their completion, unanswered ones last. None is left out.

Keys are searched in rounds. Each round has ten times the limit of the one before, so that an illegal key is found even
if another key is hard.

This module knows nothing of logs.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from upheaval.checkers.history.models.origins import completion_of
from upheaval.checkers.history.models.sequential import SequentialModel
from upheaval.checkers.history.transitions import FIRST, Transitions
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Function, Operation, Outcome
from upheaval_node.types import NEVER_NS

CONFIGURATIONS_MAX: Final = 1_000_000
"""The limit for each key. A configuration costs some ten microseconds and 200 bytes."""

_FIRST_ROUND: Final = 1_000
_OF_AN_OPERATION: Final = 4
"""Configurations of the first round for each answered operation, added to `_FIRST_ROUND`."""
_ROUND_GROWTH: Final = 10
_WATCHED_EVERY: Final = 4096

Watch = Callable[[int, int, int], None]
"""Called now and then with three numbers: answered operations of the decided keys, operations of this key that the
search got past, and configurations of this key that it visited.
"""


@dataclass(frozen=True, slots=True)
class Prunings:
    """Which prunings are on."""

    idle: bool = True
    equal: bool = True
    fewest: bool = True
    soonest: bool = True
    origins: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """The operations on one key, without those that failed."""

    key: str
    space: int
    operations: tuple[Operation, ...]

    @property
    def answered_count(self) -> int:
        """The number of answered operations. An order must contain all of them."""
        return sum(operation.outcome is Outcome.OK for operation in self.operations)


@dataclass(frozen=True, slots=True)
class KeySearch:
    """The verdict on one key."""

    part: Part
    verdict: Verdict
    """VALID, INVALID, or UNKNOWN if the limit did not suffice or another key is illegal."""
    configurations: int
    stuck: Operation
    """The operation whose completion no order got past. Meaningless if VALID."""
    search: "Search | None" = None
    """The search that proved INVALID. None if the search gave up or succeeded, or if none was needed."""

    @property
    def key(self) -> str:
        """The key of the part."""
        return self.part.key

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of the part."""
        return self.part.operations


def parts(operations: Iterable[Operation], model: SequentialModel) -> list[Part]:
    """The model's operations by key."""
    by_key: dict[tuple[int, str], list[Operation]] = defaultdict(list)
    spaces = {function: model.space(function) for function in Function}
    for operation in operations:
        space = spaces[operation.f]
        if space is not None and operation.outcome is not Outcome.FAIL:
            by_key[space, operation.key].append(operation)
    return [Part(key, space, tuple(part)) for (space, key), part in sorted(by_key.items())]


def search_keys(
    of_keys: Sequence[Part],
    model: SequentialModel,
    limit: int,
    watch: Watch | None = None,
    *,
    prunings: Prunings = Prunings(),
) -> list[KeySearch]:
    """Search all keys until one is broken. Keys that were not searched are left out."""
    searches: dict[int, KeySearch] = {}
    if prunings.origins:
        for part in of_keys:
            operation = model.unexplained(part.space, part.operations)
            if operation is not None:
                return [KeySearch(part, Verdict.INVALID, 0, operation)]
    still_open = list(range(len(of_keys)))
    decided = 0
    growth = 1
    while still_open:
        undecided = []
        for number in still_open:
            part = of_keys[number]
            bound = limit
            if len(still_open) > 1:
                bound = min(limit, (_FIRST_ROUND + _OF_AN_OPERATION * part.answered_count) * growth)
            search = Search(part.operations, Transitions(model, part.space), prunings=prunings)
            verdict = search.run(bound, None if watch is None else partial(watch, decided))
            searches[number] = KeySearch(part, verdict, search.configurations, search.stuck)
            if verdict is Verdict.INVALID:
                searches[number] = replace(searches[number], search=search)
                return [searches[number] for number in sorted(searches)]
            if verdict is Verdict.VALID:
                decided += part.answered_count
            elif bound < limit:
                undecided.append(number)
        still_open = undecided
        growth *= _ROUND_GROWTH
    return [searches[number] for number in sorted(searches)]


def finding(searched: list[KeySearch], limit: int) -> Finding:
    """The finding on all searched keys: the worst verdict counts."""
    for search in searched:
        if search.verdict is Verdict.INVALID:
            detail = f"{on_key(search.key)}no order of its {len(search.operations)} operations explains {search.stuck}"
            return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, operation=search.stuck.id)
    open_keys = [search for search in searched if search.verdict is Verdict.UNKNOWN]
    if open_keys:
        search = open_keys[0]
        others = f", and on {len(open_keys) - 1} more of {len(searched)} keys" if len(open_keys) > 1 else ""
        detail = (
            f"{on_key(search.key)}gave up after {limit} configurations of {len(search.operations)} operations{others}"
        )
        return Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, detail)
    return Finding(Promise.LINEARIZABLE, Verdict.VALID, f"an order was found for each of {len(searched)} keys")


def on_key(key: str) -> str:
    """The beginning of a line about a key. Empty for a history without keys."""
    return f"key {key}: " if key else ""


Configuration = tuple[int, int, int, int]
"""Four numbers: all answered operations below the first are chosen; the second is a bit mask of chosen ones from there
on; the third is a bit mask of chosen unanswered operations; the fourth is the resulting state.
"""

Visited = dict[tuple[int, int, int], int | list[int]]
"""Visited configurations: the masks of unanswered operations (one or several) by the other three numbers."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Unanswered operations of one kind, in the order of their invocation. Their bits are adjacent, from `offset` on,
    and the earliest operation is chosen first.
    """

    offset: int
    mask: int
    invoked: tuple[int, ...]
    kind: int


class Search:
    """Depth-first search over one key, with an explicit stack instead of recursion."""

    def __init__(
        self, operations: Iterable[Operation], transitions: Transitions, *, prunings: Prunings = Prunings()
    ) -> None:
        in_order = sorted(operations, key=lambda operation: operation.invoke_ns)
        self.answered = [operation for operation in in_order if operation.outcome is Outcome.OK]
        unanswered = [operation for operation in in_order if operation.outcome is not Outcome.OK]
        self._last = (self.answered or unanswered)[-1]
        self.transitions = transitions
        self._prunings = prunings
        self.kinds = [transitions.kind(operation) for operation in self.answered]
        self.invoked = [operation.invoke_ns for operation in self.answered]
        self.completed = [completion_of(operation) for operation in self.answered]
        self._by_rank = sorted(range(len(self.answered)), key=self.completed.__getitem__)
        self._ranks = [0] * len(self._by_rank)
        for rank, index in enumerate(self._by_rank):
            self._ranks[index] = rank
        self._groups = _groups(unanswered, transitions, are_equal_apart=not prunings.equal)
        self._reached_ns = -1
        self.visited: Visited = {(0, 0, FIRST): 0}
        self.configurations = 0

    @property
    def stuck(self) -> Operation:
        """The operation with the first completion that no configuration got past; any operation if an order
        was found.
        """
        by_completion = dict(zip(self.completed, self.answered, strict=True))
        return by_completion.get(self._reached_ns) or self._last

    def run(self, limit: int, watch: Callable[[int, int], None] | None = None) -> Verdict:
        """VALID if an order was found, INVALID if there is none, UNKNOWN after more configurations than `limit`."""
        return self.explore((0, 0, 0, FIRST), self.visited, limit, watch)

    def explore(
        self,
        start: Configuration,
        visited: Visited,
        limit: int,
        watch: Callable[[int, int], None] | None = None,
        *,
        dead: Visited | None = None,
    ) -> Verdict:
        """Search from a configuration on, as `run` does from the initial one.

        Configurations in `dead` are known to lead to no order. The same is true of `visited` if this search is INVALID.
        """
        first, chosen, taken, state = start
        count = len(self.answered)
        if first == count:
            return Verdict.VALID
        tables, step, kinds, groups = self.transitions.tables, self.transitions.step, self.kinds, self._groups
        is_idle_left_out, is_fewest = self._prunings.idle, self._prunings.fewest
        by_completion = sorted(self.completed) if watch is not None else []
        candidates = self._candidates(first, chosen, taken)
        path: list[tuple[int, int, int, int, list[int]]] = []
        seen = 0
        while True:
            if not candidates:
                if not path:
                    self.configurations += seen
                    return Verdict.INVALID
                first, chosen, taken, state, candidates = path.pop()
                continue
            candidate = candidates.pop()
            next_first, next_chosen, next_taken = first, chosen, taken
            if candidate >= 0:
                kind = kinds[candidate]
                following = tables[kind].get(state)
                if following is None:
                    following = step(kind, state)
                if following < 0:
                    continue
                next_first, next_chosen = with_chosen(first, chosen, candidate)
            else:
                group = groups[~candidate]
                following = tables[group.kind].get(state)
                if following is None:
                    following = step(group.kind, state)
                if is_idle_left_out and following == state:
                    continue
                next_taken += ((taken >> group.offset & group.mask) + 1) << group.offset
            key = next_first, next_chosen, following
            if dead and is_known(dead, key, next_taken, is_fewest):
                continue
            if not add_new(visited, key, next_taken, is_fewest):
                continue
            seen += 1
            if next_first == count or seen > limit:
                self.configurations += seen
                return Verdict.VALID if next_first == count else Verdict.UNKNOWN
            if candidates:
                path.append((first, chosen, taken, state, candidates))
            first, chosen, taken, state = next_first, next_chosen, next_taken, following
            candidates = self._candidates(first, chosen, taken)
            if watch is not None and seen % _WATCHED_EVERY == 0:
                watch(bisect_left(by_completion, self._reached_ns), seen)

    def window(self, first: int, chosen: int) -> tuple[list[int], int]:
        """The answered operations that may come next, by invocation, and the earliest completion among them. Operations
        that were invoked after that completion have to wait.
        """
        invoked, completed, count = self.invoked, self.completed, len(self.completed)
        earliest = NEVER_NS
        candidates = []
        index = first
        while index < count:
            if chosen & 1:
                ones = (~chosen & chosen + 1).bit_length() - 1
                index += ones
                chosen >>= ones
                continue
            if invoked[index] > earliest:
                break
            if completed[index] < earliest:
                earliest = completed[index]
            candidates.append(index)
            index += 1
            chosen >>= 1
        return candidates, earliest

    def _candidates(self, first: int, chosen: int, taken: int) -> list[int]:
        """The operations that may come next, the best candidate last: answered ones by index, groups of unanswered ones
        by ~index.
        """
        answered, earliest = self.window(first, chosen)
        if earliest > self._reached_ns and answered:
            self._reached_ns = earliest
        if self._prunings.soonest:
            if len(answered) > 1:
                answered.sort(key=self._ranks.__getitem__, reverse=True)
        else:
            answered.reverse()
        if self._groups:
            return [*self._unanswered_candidates(earliest, taken), *answered]
        return answered

    def _unanswered_candidates(self, earliest: int, taken: int) -> Iterator[int]:
        """The groups with a candidate, last group first."""
        for index in range(len(self._groups) - 1, -1, -1):
            group = self._groups[index]
            if group.invoked[0] <= earliest:
                chosen = (taken >> group.offset & group.mask).bit_length()
                if chosen < len(group.invoked) and group.invoked[chosen] <= earliest:
                    yield ~index


def with_chosen(first: int, chosen: int, index: int) -> tuple[int, int]:
    """The first two numbers of a configuration after one more answered operation is chosen."""
    chosen |= 1 << index - first
    ones = (~chosen & chosen + 1).bit_length() - 1
    return first + ones, chosen >> ones


def choices_of(known: int | list[int]) -> list[int]:
    """The masks of unanswered operations of the visited configurations."""
    return known if isinstance(known, list) else [known]


def is_known(visited: Visited, key: tuple[int, int, int], taken: int, is_fewest: bool = True) -> bool:
    """Whether a configuration was visited. With `is_fewest`, also whether one was that chose a subset of its unanswered
    operations.
    """
    known = visited.get(key)
    if known is None:
        return False
    choices = choices_of(known)
    return any(choice & taken == choice for choice in choices) if is_fewest else taken in choices


def add_new(visited: Visited, key: tuple[int, int, int], taken: int, is_fewest: bool = True) -> bool:
    """Add a configuration unless it is known. Returns whether it was new."""
    known = visited.get(key)
    if known is None:
        visited[key] = taken
        return True
    if is_known(visited, key, taken, is_fewest):
        return False
    choices = choices_of(known)
    visited[key] = [*(choice for choice in choices if not is_fewest or choice & taken != taken), taken]
    return True


def _groups(unanswered: Sequence[Operation], transitions: Transitions, *, are_equal_apart: bool) -> list[_Group]:
    by_kind: dict[tuple[int, int], list[Operation]] = defaultdict(list)
    for number, operation in enumerate(unanswered):
        by_kind[transitions.kind(operation), number if are_equal_apart else 0].append(operation)
    groups = []
    offset = 0
    for (kind, _), members in by_kind.items():
        mask = (1 << len(members)) - 1
        groups.append(_Group(offset, mask, tuple(member.invoke_ns for member in members), kind))
        offset += len(members)
    return groups
