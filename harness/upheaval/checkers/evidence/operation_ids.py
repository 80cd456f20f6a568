"""The ids that are missing from a history: who gives them out gives one after the other, and writes each one down.

The load of a scenario or a campaign begins at 0, and that of a restored run after what that was restored with. Each
`upheaval load` begins somewhere of its own. Ids of calls are given when these are written down. A user of one's own
may take ids for other ends, and a script writes down what was answered: nothing is said of theirs. This module knows
no promise.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.records import Function, Manifest, Operation

_FIRST_OF_USERS: Final = 1 << 58
"""From here on are the ids of `upheaval load`."""
_FIRST_BY_HAND: Final = 1 << 60
"""From here on those of `upheaval client`, one at a time."""
_APART: Final = 1 << 40
"""So far apart are the ids of two such loads at least."""
_SHIPPED_USERS: Final = "upheaval.load.users:"


@dataclass(frozen=True, slots=True)
class MissingIds:
    """The first gap in the ids of one giver: so many are missing from `first` on."""

    first: int
    count: int


def missing_ids(
    operations: Sequence[Operation], manifest: Manifest, restored: Collection[int] = ()
) -> MissingIds | None:
    """None when none is missing. `restored` are ids that the run was restored with: those before them have gaps."""
    first_id = max(restored, default=-1) + 1
    done = [operation for operation in operations if operation.id >= first_id]
    low = sorted(operation.id for operation in done if operation.id < _FIRST_OF_USERS)
    if _gives_each(manifest, done):
        gap = _first_gap(low, first_id)
        if gap is not None:
            return gap
    if _has_shipped_users(manifest):
        for ids in _apart(done):
            gap = _first_gap(ids, ids[0])
            if gap is not None:
                return gap
    return None


def _gives_each(manifest: Manifest, operations: Iterable[Operation]) -> bool:
    """Whether what begins at 0 is a drawn load, or calls of clients that take no other ids."""
    if "slots" in manifest.workload:
        return "user" not in manifest.workload
    return not manifest.workload and all(operation.f is Function.CALL for operation in operations)


def _has_shipped_users(manifest: Manifest) -> bool:
    locust = manifest.workload.get("locust")
    return isinstance(locust, dict) and str(locust.get("user")).startswith(_SHIPPED_USERS)


def _apart(operations: Iterable[Operation]) -> Iterator[list[int]]:
    """The ids of each `upheaval load`, but of those with calls."""
    ids = sorted(
        (operation.id, operation.f is Function.CALL)
        for operation in operations
        if _FIRST_OF_USERS <= operation.id < _FIRST_BY_HAND
    )
    loads: list[list[tuple[int, bool]]] = []
    for each in ids:
        if not loads or each[0] - loads[-1][0][0] >= _APART:
            loads.append([])
        loads[-1].append(each)
    return ([number for number, _ in load] for load in loads if not any(is_call for _, is_call in load))


def _first_gap(ids: Iterable[int], first_id: int) -> MissingIds | None:
    """`ids` rise."""
    expected = first_id
    for number in ids:
        if number > expected:
            return MissingIds(expected, number - expected)
        expected = number + 1
    return None
