"""Why a key's history has no order: its shortest illegal prefix, and what would have had to be returned instead.

The prefix of a history at its nth answer: the operations that were invoked until then, of which those whose answers
come later count as unanswered. What is illegal stays illegal when more of the history is known, so the shortest illegal
prefix is found by halving. The operation that it ends with is the first whose answer nothing can explain; others of the
prefix may be the wrong ones all the same, so each is asked: with all other answers as they are, which result of this
one would have made the prefix legal?
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from upheaval.checkers.history.key_models import SequentialModel
from upheaval.checkers.history.search import KeySearch, Search, completion_of
from upheaval.records import Function, Json, Operation, Outcome

SHOWN_MAX: Final = 12
"""Operations around the last one."""
POSSIBLE_MAX: Final = 4
"""Results of one operation."""

_CHANGES_NOTHING: Final = (Function.READ, Function.LIST, Function.ECHO)
_WITH_RESULT: Final = (*_CHANGES_NOTHING, Function.CAS, Function.CALL)


@dataclass(frozen=True, slots=True)
class Shown:
    """One operation of the prefix."""

    operation: Operation
    """As far as the prefix knows it."""
    possible: tuple[Json, ...]
    """The results that would have made the prefix legal, the first `POSSIBLE_MAX` of them: none where nothing is
    returned or no result would do."""


@dataclass(frozen=True, slots=True)
class IllegalPrefix:
    """A part of a history that no order explains."""

    key: str
    last: Operation
    """The one with whose answer the prefix ends."""
    length: int
    total: int
    """How many operations are in the prefix, and how many the history has on this key."""
    is_shortest: bool
    """False when a search in a shorter prefix gave up."""
    shown: tuple[Shown, ...]
    """The last one and those around it, in the order in which they were invoked."""

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "key": self.key,
            "operation": self.last.id,
            "length": self.length,
            "total": self.total,
            "shortest": self.is_shortest,
            "operations": [
                {**json.loads(each.operation.to_json()), "possible": list(each.possible)} for each in self.shown
            ],
        }


def illegal_prefix(searched: KeySearch, model: SequentialModel, limit: int) -> IllegalPrefix:
    """The shortest illegal prefix of a key whose search found that it has no order."""
    operations = searched.operations
    answers = sorted((each for each in operations if each.outcome is Outcome.OK), key=completion_of)
    legal = bisect_left(answers, completion_of(searched.stuck), key=completion_of)
    illegal = len(answers)
    is_shortest = True
    tried = legal + 1
    while legal + 1 < illegal:
        search = Search(_prefix(operations, answers[:tried]), model, limit)
        if not search.run() and not search.exhausted:
            illegal = tried
        else:
            legal = tried
            is_shortest = is_shortest and not search.exhausted
        tried = (legal + illegal) // 2
    prefix = _prefix(operations, answers[:illegal])
    last = answers[illegal - 1]
    shown = tuple(Shown(each, _possible(each, prefix, model, limit)) for each in _around(last, prefix))
    return IllegalPrefix(searched.key, last, len(prefix), len(operations), is_shortest, shown)


def _prefix(operations: Iterable[Operation], answers: Sequence[Operation]) -> list[Operation]:
    """The operations up to the last of these answers; those with later answers have none yet."""
    answered = {each.id for each in answers}
    end = completion_of(answers[-1])
    return [
        each
        if each.id in answered or each.outcome is not Outcome.OK
        else replace(each, outcome=Outcome.UNKNOWN, complete_ns=None, result=None)
        for each in operations
        if each.invoke_ns <= end
    ]


def _possible(
    operation: Operation, prefix: Sequence[Operation], model: SequentialModel, limit: int
) -> tuple[Json, ...]:
    found: list[Json] = []
    if operation.outcome is not Outcome.OK or operation.f not in _WITH_RESULT:
        return ()
    while len(found) < POSSIBLE_MAX:
        refused = frozenset(json.dumps(each) for each in found)
        search = Search(prefix, model, limit, free=operation, refused=refused)
        if not search.run():
            break
        found.append(search.result_in_order(operation))
    return tuple(found)


def _around(last: Operation, prefix: Sequence[Operation]) -> list[Operation]:
    """The last operation, the answered ones nearest before its answer, and of the unanswered ones that change
    something the first of each effect, the latest of these. By invocation."""
    answered = sorted((each for each in prefix if each.outcome is Outcome.OK), key=completion_of)
    effects: dict[str, Operation] = {}
    for each in sorted(prefix, key=lambda operation: operation.invoke_ns):
        if each.outcome is not Outcome.OK and each.f not in _CHANGES_NOTHING:
            effects.setdefault(json.dumps([each.f, each.value]), each)
    unanswered = list(effects.values())
    room = max(SHOWN_MAX // 2, SHOWN_MAX - len(unanswered))
    nearest = [each for each in answered if each is not last][-room:]
    shown = [*nearest, *unanswered[-(SHOWN_MAX - len(nearest)) :], last]
    return sorted(shown, key=lambda operation: (operation.invoke_ns, completion_of(operation)))
