"""The fields of a request's JSON: each of one type, or a `UsageError` that names the field."""

from collections.abc import Collection, Mapping
from typing import Any

from upheaval.errors import UsageError
from upheaval_node.suggestions import did_you_mean

Fields = Mapping[str, Any]


def text(fields: Fields, name: str, default: str | None = None) -> str:
    """Empty counts as left out; without a default it is needed."""
    value = fields.get(name)
    if value in (None, "") and default is not None:
        return default
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a text, got {value!r}")
    return value


def whole(fields: Fields, name: str, default: int) -> int:
    """A whole number."""
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name}: expected a whole number, got {value!r}")
    return value


def number(fields: Fields, name: str, default: float) -> float:
    """Any number."""
    value = fields.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UsageError(f"{name}: expected a number, got {value!r}")
    return float(value)


def seconds(fields: Fields, name: str) -> float | None:
    """None where it is left out."""
    value = fields.get(name)
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise UsageError(f"{name}: expected seconds, got {value!r}")
    return value


def truth(fields: Fields, name: str, *, default: bool) -> bool:
    """True or false."""
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name}: expected true or false, got {value!r}")
    return value


def chosen(fields: Fields, name: str, choices: Collection[str], default: str) -> str:
    """One of some words."""
    value = text(fields, name, default)
    if value not in choices:
        raise UsageError(f"{name}: unknown {value!r}: use one of {', '.join(choices)}{did_you_mean(value, choices)}")
    return value
