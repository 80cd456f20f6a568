"""Why a key's history has no order: its shortest illegal prefix, and the results that would have been legal.

The prefix of a history at its nth answer has the operations that were invoked until then; those that were answered
later count as unanswered. A prefix that is illegal stays illegal when more of the history is known. So the shortest
illegal prefix is found by doubling steps and then by bisection, from the answer that the search of the whole history
never got past.

The last operation of the prefix is the first one whose answer nothing explains, but another operation may be the wrong
one. So for each operation: if all other answers stay, which result would have made the prefix legal? The search that
found no order has visited all configurations in which the operation may come next; other results are tried from there.
Whether a configuration leads to an order does not depend on earlier results, so each is explored at most once for all
operations.

Altogether this visits at most twice as many configurations as the verdict took, or `LEAST_BUDGET` if that is more.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from upheaval.checkers.history.models.origins import answered_of, completion_of
from upheaval.checkers.history.models.sequential import REFUSED, SequentialModel
from upheaval.checkers.history.search import KeySearch, Search, Visited, add_new, choices_of, is_known, with_chosen
from upheaval.checkers.history.transitions import Transitions
from upheaval.checkers.verdict import Verdict
from upheaval.records import Function, Json, Operation, Outcome
from upheaval.records.values import Frozen, frozen, thawed

SHOWN_MAX: Final = 12
"""The number of operations shown, with the last one."""
POSSIBLE_MAX: Final = 4
"""The most results listed for one operation."""
LEAST_BUDGET: Final = 20_000
"""A number of configurations."""

_CHANGES_NOTHING: Final = (Function.READ, Function.LIST, Function.ECHO)


@dataclass(frozen=True, slots=True)
class Shown:
    """An operation of the prefix, with the results that would have been legal."""

    operation: Operation
    """The operation, without its answer if that came after the prefix."""
    possible: tuple[Json, ...]
    """Results that would have made the prefix legal, at most `POSSIBLE_MAX`. Empty if the operation returns no result,
    or if no result was found.
    """
    are_all_known: bool = True
    """False if the budget did not suffice to look for more."""


@dataclass(frozen=True, slots=True)
class IllegalPrefix:
    """A prefix of a key's history that no order explains."""

    key: str
    last: Operation
    """The operation whose answer ends the prefix."""
    length: int
    total: int
    """The number of operations of the whole history on this key; `length` counts those of the prefix."""
    is_shortest: bool
    """False if the search in a shorter prefix gave up."""
    shown: tuple[Shown, ...]
    """The last operation and those around it, in the order of their invocations."""

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {
            "key": self.key,
            "operation": self.last.id,
            "length": self.length,
            "total": self.total,
            "shortest": self.is_shortest,
            "operations": [
                {
                    **json.loads(shown.operation.to_json()),
                    "possible": list(shown.possible),
                    "all_possible_known": shown.are_all_known,
                }
                for shown in self.shown
            ],
        }


def illegal_prefix(searched: KeySearch, model: SequentialModel, limit: int) -> IllegalPrefix:
    """Find the shortest illegal prefix of a key for which a search proved that there is no order."""
    budget = min(2 * limit, max(LEAST_BUDGET, 2 * searched.configurations))
    shortest = _Shortest(searched, model, budget)
    last = shortest.answers[shortest.illegal - 1]
    around = _around(last, shortest.prefix)
    possible = _Possible(shortest.search, shortest.is_exhausted, shortest.budget)
    asked = [operation for operation in around if operation.outcome is Outcome.OK and model.has_result(operation.f)]
    results = possible.results(sorted(asked, key=completion_of, reverse=True))
    shown = tuple(Shown(operation, *results.get(operation.id, ((), True))) for operation in around)
    total = len(searched.operations)
    return IllegalPrefix(searched.key, last, len(shortest.prefix), total, shortest.is_shortest, shown)


class _Shortest:
    """Searches for the shortest illegal prefix. `search` is the search that found no order for it."""

    def __init__(self, searched: KeySearch, model: SequentialModel, budget: int) -> None:
        self._operations = searched.operations
        self.answers = answered_of(self._operations)
        self.budget = budget
        self.is_shortest = True
        self._searches: dict[int, Search] = {}
        if searched.search is None:
            self._transitions = Transitions(model, searched.part.space)
            self.illegal = self.answers.index(searched.stuck) + 1
            self._find_before()
        else:
            self._transitions = searched.search.transitions
            self.illegal = len(self.answers)
            self._searches[self.illegal] = searched.search
            self._find_after(bisect_left(self.answers, completion_of(searched.stuck), key=completion_of))
        self.is_exhausted = self.illegal in self._searches or self._verdict(self.illegal) is Verdict.INVALID
        self.search = self._searches[self.illegal]
        self.prefix = _prefix(self._operations, self.answers[: self.illegal])

    def _find_after(self, legal: int) -> None:
        """Search upwards from the longest prefix that is known to be legal."""
        step = 1
        while legal + 1 < self.illegal:
            tried = min(legal + step, (legal + self.illegal) // 2)
            verdict = self._verdict(tried)
            if verdict is Verdict.INVALID:
                self.illegal = tried
            else:
                legal = tried
                self.is_shortest = self.is_shortest and verdict is Verdict.VALID
            step *= 2

    def _find_before(self) -> None:
        """Search downwards from an illegal prefix."""
        legal, step = 0, 1
        while legal + 1 < self.illegal:
            tried = max(self.illegal - step, (legal + self.illegal + 1) // 2)
            verdict = self._verdict(tried)
            if verdict is Verdict.INVALID:
                self.illegal = tried
            elif verdict is Verdict.VALID:
                legal = tried
            else:
                self.is_shortest = False
                return
            step *= 2

    def _verdict(self, length: int) -> Verdict:
        """The verdict on the prefix with `length` answers. May use three quarters of the remaining budget."""
        search = Search(_prefix(self._operations, self.answers[:length]), self._transitions)
        verdict = search.run(self.budget - self.budget // 4)
        self.budget = max(0, self.budget - search.configurations)
        self._searches[length] = search
        return verdict


_Start = tuple[int, int, int, int]


class _Possible:
    """Searches for results that would have made a prefix legal, starting from the configurations that its search
    visited.
    """

    def __init__(self, search: Search, is_exhausted: bool, budget: int) -> None:
        self._search = search
        self._is_exhausted = is_exhausted
        self._budget = budget
        self._dead: Visited = {}
        """Configurations that lead to no order. That does not depend on earlier operations and results."""

    def results(self, asked: Sequence[Operation]) -> dict[int, tuple[tuple[Json, ...], bool]]:
        """The possible results by operation id, and whether all of them are known."""
        numbers = {call.id: index for index, call in enumerate(self._search.answered)}
        starts = self._starts({numbers[call.id] for call in asked})
        if self._is_exhausted:
            self._dead = self._search.visited
        return {call.id: self._results(numbers[call.id], starts[numbers[call.id]]) for call in asked}

    def _starts(self, asked: set[int]) -> dict[int, list[_Start]]:
        """The configurations in which each operation may come next but has a wrong answer."""
        search = self._search
        starts: dict[int, list[_Start]] = {index: [] for index in asked}
        soonest = min((search.invoked[index] for index in asked), default=0)
        windows: dict[tuple[int, int], list[int]] = {}
        for (first, chosen, state), known in search.visited.items():
            if search.completed[first] < soonest:
                continue
            window = windows.get((first, chosen))
            if window is None:
                window = [index for index in search.window(first, chosen)[0] if index in asked]
                windows[first, chosen] = window
            for index in window:
                if search.transitions.step(search.kinds[index], state) < 0:
                    starts[index].extend((first, chosen, taken, state) for taken in choices_of(known))
        return starts

    def _results(self, index: int, starts: Sequence[_Start]) -> tuple[tuple[Json, ...], bool]:
        transitions, kind = self._search.transitions, self._search.kinds[index]
        results: dict[Frozen, Json] = {}
        for first, chosen, taken, state in starts:
            result = transitions.right_result(kind, state)
            if result is REFUSED or result in results:
                continue
            key = (*with_chosen(first, chosen, index), ~transitions.step(kind, state))
            verdict = self._explore(key, taken)
            if verdict is Verdict.UNKNOWN:
                return tuple(results.values()), False
            if verdict is Verdict.VALID:
                results[result] = thawed(result)
                if len(results) == POSSIBLE_MAX:
                    break
        return tuple(results.values()), self._is_exhausted

    def _explore(self, key: tuple[int, int, int], taken: int) -> Verdict:
        if is_known(self._dead, key, taken):
            return Verdict.INVALID
        visited: Visited = {key: taken}
        before = self._search.configurations
        verdict = self._search.explore((key[0], key[1], taken, key[2]), visited, self._budget, dead=self._dead)
        self._budget = max(0, self._budget - (self._search.configurations - before))
        if verdict is Verdict.INVALID:
            for configuration, known in visited.items():
                for choice in choices_of(known):
                    add_new(self._dead, configuration, choice)
        return verdict


def _prefix(operations: Iterable[Operation], answers: Sequence[Operation]) -> list[Operation]:
    """The operations invoked up to the last of these answers. Operations with later answers become unanswered."""
    answered = {answer.id for answer in answers}
    end = completion_of(answers[-1])
    return [
        operation
        if operation.id in answered or operation.outcome is not Outcome.OK
        else replace(operation, outcome=Outcome.UNKNOWN, complete_ns=None, result=None)
        for operation in operations
        if operation.invoke_ns <= end
    ]


def _around(last: Operation, prefix: Sequence[Operation]) -> list[Operation]:
    """The last operation, the answered ones just before it, and the latest unanswered ones that change something, one
    for each effect. In the order of their invocations.
    """
    answered = sorted((operation for operation in prefix if operation.outcome is Outcome.OK), key=completion_of)
    effects: dict[Frozen, Operation] = {}
    for operation in sorted(prefix, key=lambda operation: operation.invoke_ns):
        if operation.outcome is not Outcome.OK and operation.f not in _CHANGES_NOTHING:
            effects.setdefault((operation.f, frozen(operation.value)), operation)
    unanswered = list(effects.values())
    room = max(SHOWN_MAX // 2, SHOWN_MAX - len(unanswered))
    nearest = [operation for operation in answered if operation is not last][-room:]
    shown = [*nearest, *unanswered[-(SHOWN_MAX - len(nearest)) :], last]
    return sorted(shown, key=lambda operation: (operation.invoke_ns, completion_of(operation)))
