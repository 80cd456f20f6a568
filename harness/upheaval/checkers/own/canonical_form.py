"""Whether the canonical form of a service still distinguishes states that differ.

A form may leave out what does not matter, such as an order. But a form that keeps only the keys of a JSON object makes
all balances equal and hides every mistake. Two signs reveal such a form: it is the same at every place of the log
although the states differ, or no value that changed between two places changes it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from upheaval.records import Json

JSON_MAX: Final = 1 << 20
"""Bytes. Longer states are not parsed as JSON."""
_TRIED: Final = 200
"""The number of changed values tried per state."""

State = Sequence[bytes]
Form = Callable[[State], tuple[bytes, ...]]


def what_it_hides(form: Form, states: Sequence[State]) -> str:
    """Why a form is refused, judged by the states at several places of one log; empty if it is accepted."""
    distinct = list({b"".join(state): tuple(state) for state in states}.values())
    if len(distinct) > 2 and len(set(map(form, distinct))) == 1:
        return f"is the same for {len(distinct)} different states"
    for earlier, later in pairwise(distinct):
        one, two = _parsed(earlier), _parsed(later)
        if one is None or two is None:
            continue
        changed = [path for path, value in _values(two) if _at(one, path) not in (None, value)][:_TRIED]
        if changed and all(form(_put(two, path, _at(one, path))) == form(_as_state(two)) for path in changed):
            place = "".join(f"[{part!r}]" for part in changed[0])
            return f"does not change with any value that does, such as {place}"
    return ""


def _parsed(state: State) -> Json:
    content = b"".join(state)
    try:
        return json.loads(content) if len(content) <= JSON_MAX else None
    except (ValueError, RecursionError):
        return None


def _as_state(value: Json) -> State:
    return (json.dumps(value).encode(),)


def _values(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Yield every value that is neither object nor list, with its path."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _values(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _values(part, (*path, index))
    else:
        yield path, value


def _at(value: Json, path: Sequence[str | int]) -> Json:
    """The value at a path; None if there is none."""
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _put(value: Json, path: Sequence[str | int], replacement: Json) -> State:
    copy = json.loads(json.dumps(value))
    place = copy
    for part in path[:-1]:
        place = place[part]
    if not path:
        return _as_state(replacement)
    place[path[-1]] = replacement
    return _as_state(copy)
