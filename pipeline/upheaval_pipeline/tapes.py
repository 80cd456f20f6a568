"""The choices of a tape as rows."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from upheaval.records import Json
from upheaval.records.utf8 import storable

Choice = tuple[str, int, str, str]
"""The span, its number among those of that name, the label of a choice in it, and the value as text."""


def choices_of(tape: str | None) -> list[Choice]:
    """In the order of the tape. The span of the whole tape has the name "", one inside another a name with a dot.

    None of what is no tape: a line of a campaign may be anything.
    """
    try:
        fields = json.loads(tape or "null")
    except ValueError:
        return []
    return list(_choices(fields, "", 0, Counter())) if isinstance(fields, dict) else []


def _choices(fields: Mapping[str, Json], span: str, number: int, seen: Counter[str]) -> Iterator[Choice]:
    for label, value in fields.items():
        if not isinstance(value, list):
            yield span, number, storable(label), storable(str(value))
            continue
        name = storable(f"{span}.{label}".removeprefix("."))
        for inner in (inner for inner in value if isinstance(inner, dict)):
            seen[name] += 1
            yield from _choices(inner, name, seen[name] - 1, seen)
