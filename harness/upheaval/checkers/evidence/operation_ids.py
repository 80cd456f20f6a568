"""The ids that are missing from a history. Each source assigns ids in sequence and records each one.

The load of a scenario or a campaign begins at 0, and after a restore above the restored ids. Each `upheaval load`
begins at a range of its own. A call gets its id when it is recorded. Custom users may use ids for other purposes, and
an exact script records only answers, so neither is judged. This module knows no promise.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, dropwhile, takewhile
from typing import Final

from upheaval.checkers.history.columns import IS_CALL, History
from upheaval.records import Manifest

_FIRST_OF_USERS: Final = 1 << 58
"""The first id of `upheaval load`."""
_FIRST_BY_HAND: Final = 1 << 60
"""The first id of `upheaval client`, which assigns one at a time."""
_APART: Final = 1 << 40
"""The least distance between the ids of two such loads."""
_SHIPPED_USERS: Final = "upheaval.load.users:"


@dataclass(frozen=True, slots=True)
class MissingIds:
    """The first gap in the ids of one source: how many are missing from `first` on."""

    first: int
    count: int


def missing_ids(history: History, manifest: Manifest, first_id: int = 0) -> MissingIds | None:
    """The first gap; None without one. Ids before `first_id` belong to the restored run and may have gaps."""
    if _gives_each(manifest, history, first_id):
        gap = _first_gap(takewhile(_FIRST_OF_USERS.__gt__, _from(history, first_id)), first_id)
        if gap is not None:
            return gap
    return _gap_of_users(history, first_id) if _has_shipped_users(manifest) else None


def _from(history: History, first_id: int) -> Iterator[int]:
    """The ids from one on, ascending."""
    return dropwhile(first_id.__gt__, history.rows)


def _gives_each(manifest: Manifest, history: History, first_id: int) -> bool:
    """Whether the ids from 0 are those of a drawn load, or of calls by clients that use no other ids."""
    if "slots" in manifest.workload:
        return "user" not in manifest.workload
    ids_and_kinds = zip(history.ids, history.kinds, strict=True)
    return not manifest.workload and all(IS_CALL[kind] for number, kind in ids_and_kinds if number >= first_id)


def _has_shipped_users(manifest: Manifest) -> bool:
    locust = manifest.workload.get("locust")
    return isinstance(locust, dict) and str(locust.get("user")).startswith(_SHIPPED_USERS)


def _gap_of_users(history: History, first_id: int) -> MissingIds | None:
    """The first gap in the ids of one `upheaval load`, unless it makes calls."""
    gap: MissingIds | None = None
    has_calls, expected = False, -1
    for number in chain(dropwhile(_FIRST_OF_USERS.__gt__, _from(history, first_id)), [_FIRST_BY_HAND]):
        if number >= _FIRST_BY_HAND or number - expected + 1 >= _APART:
            if gap is not None and not has_calls:
                return gap
            gap, has_calls, expected = None, False, number
        if number >= _FIRST_BY_HAND:
            return None
        if number > expected and gap is None:
            gap = MissingIds(expected, number - expected)
        has_calls = has_calls or bool(IS_CALL[history.kinds[history.rows.get(number)]])
        expected = number + 1
    return None


def _first_gap(ids: Iterable[int], first_id: int) -> MissingIds | None:
    """The first gap in ascending `ids`."""
    expected = first_id
    for number in ids:
        if number > expected:
            return MissingIds(expected, number - expected)
        expected = number + 1
    return None
