"""Describes briefly where two states of a service differ: the first byte, and the JSON or text around it.

A state is the messages that a service wrote. This module knows nothing of members and logs.
"""

import json
from collections.abc import Sequence
from typing import Final

from upheaval.records import AS_TEXT, Json, Payloads
from upheaval_node.sbe import SbeError
from upheaval_node.sbe.schema import message_type
from upheaval_node.sbe.values import json_of

JSON_MAX: Final = 4 << 20
"""Bytes. Longer states are not parsed as JSON."""
VALUE_MAX: Final = 60
"""The number of characters shown of a value."""
TEXT_MAX: Final = 400
"""The number of characters shown of a message with a schema."""
_AROUND: Final = 16
"""The number of bytes shown before and after the first difference."""

_Path = tuple[str | int, ...]


def state_difference(
    one: Sequence[bytes], other: Sequence[bytes], names: tuple[str, str], payloads: Payloads = AS_TEXT
) -> str:
    """Describe where the states `one` and `other` differ. They must differ.

    If `payloads` have a schema, its messages are compared by field.
    """
    number = _common(one, other)
    if number in (len(one), len(other)):
        more = max(one, other, key=len)[number]
        first = "" if payloads.schema is None else f"; {payloads.text(more)[:TEXT_MAX]} is the first of one alone"
        return f"{names[0]} wrote {len(one)} messages, {names[1]} {len(other)}, those of both are equal{first}"
    ours, theirs = one[number], other[number]
    offset = _common(ours, theirs)
    where = f"byte {offset} of message {number + 1} is the first that differs"
    by_field = _by_field(ours, theirs, names, payloads)
    if by_field:
        return f"{where}; {by_field}"
    for a, b in ((ours, theirs), (b"".join(one), b"".join(other))):
        difference = _by_json(a, b, names)
        if difference:
            return f"{where}; {difference}"
    shown = [f"{name} has {_shown(content, offset)}" for name, content in zip(names, (ours, theirs), strict=True)]
    return f"{where}; {', '.join(shown)}"


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """The length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _by_field(one: bytes, other: bytes, names: tuple[str, str], payloads: Payloads) -> str:
    """Compare two messages by field; empty if they are no messages of a schema."""
    schema = payloads.schema
    if schema is None:
        return ""
    try:
        ours, theirs = schema.decode(one), schema.decode(other)
    except SbeError:
        return ""
    name = message_type(ours).name
    first = _first(json_of(ours), json_of(theirs)) if name == message_type(theirs).name else None
    if first is None:
        texts = [
            f"{payloads.text(message)[:TEXT_MAX]} in {owner}"
            for owner, message in zip(names, (one, other), strict=True)
        ]
        return " and ".join(texts)
    path, a, b = first
    field = ".".join([name, *map(str, path)])
    return f"{field} is {_value(a)} in {names[0]} and {_value(b)} in {names[1]}"


def _by_json(one: bytes, other: bytes, names: tuple[str, str]) -> str:
    """Compare as JSON; empty if it is no JSON."""
    if max(len(one), len(other)) > JSON_MAX:
        return ""
    try:
        ours, theirs = json.loads(one), json.loads(other)
    except (ValueError, RecursionError):
        return ""
    difference = _first(ours, theirs)
    if difference is None:
        return f"as JSON both are equal: {_order(ours, theirs)}"
    path, a, b = difference
    place = "".join(f"[{part!r}]" for part in path) or "the whole"
    if isinstance(a, list) and isinstance(b, list) and sorted(map(json.dumps, a)) == sorted(map(json.dumps, b)):
        return f"the elements of {place} are the same in another order, such as that of a set"
    return f"{place} is {_value(a)} in {names[0]} and {_value(b)} in {names[1]}"


def _first(one: Json, other: Json, path: _Path = ()) -> tuple[_Path, Json, Json] | None:
    """The first of the smallest parts that differ; None if there is none."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if key not in one or key not in other:
                return path, _only(one, key), _only(other, key)
            difference = _first(one[key], other[key], (*path, key))
            if difference is not None:
                return difference
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        if sorted(map(json.dumps, one)) == sorted(map(json.dumps, other)) and one != other:
            return path, one, other
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            difference = _first(a, b, (*path, index))
            if difference is not None:
                return difference
        return None
    return None if one == other and type(one) is type(other) else (path, one, other)


def _only(whole: dict[str, Json], key: str) -> Json:
    return {key: whole[key]} if key in whole else {}


def _order(one: Json, other: Json) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        for a, b in zip(one, other, strict=False):
            if a != b:
                return f"keys come in another order, {a!r} where the other has {b!r}"
    return "keys come in another order, or it is written otherwise"


def _value(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}.."


def _shown(content: bytes, offset: int) -> str:
    """The bytes around an offset, as text if they are text."""
    part = content[max(offset - _AROUND, 0) : offset + _AROUND]
    try:
        text = part.decode()
    except UnicodeDecodeError:
        return part.hex()
    return repr(text) if text.isprintable() else part.hex()
