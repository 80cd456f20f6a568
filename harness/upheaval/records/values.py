"""Values of histories, and when two of them are the same, whatever notation they were written in.

Types count: 1, 1.0, true and "1" are four values, as for Clojure's `=`, which Knossos compares with. JSON, too, keeps
integers and floats apart, and a service that answers 1.0 for 1 has changed the value. Sets have no order. This module
knows nothing of histories.
"""

import json
from collections.abc import Hashable, Iterator
from typing import cast

from upheaval.records.jsonfields import Json

Frozen = Hashable
"""A hashable form of a value: two forms are equal exactly when the values are the same."""


class Word(str):
    """A token that EDN writes without quotes, verbatim: a keyword, symbol, character, fraction or big decimal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is Word and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Word, str(self)))


class UnorderedSet(list[Json]):
    """The elements of a set, without duplicates."""

    __slots__ = ()


def frozen(value: Json) -> Frozen:
    """The hashable form of a value. Raises `RecursionError` for a value that is nested too deep."""
    kind = type(value)
    if kind is str or kind is int or value is None or kind is Word:
        return value  # type: ignore[return-value]  # a JSON value of these types can be hashed
    if kind is list:
        return tuple(map(frozen, cast(list[Json], value)))
    if kind is dict:
        fields = cast(dict[str, Json], value)
        return dict, frozenset((name, frozen(field)) for name, field in fields.items())
    if kind is UnorderedSet:
        return frozenset(map(frozen, cast(UnorderedSet, value)))
    return kind, "nan" if value != value else value  # true, false or a float


def thawed(value: Frozen) -> Json:
    """The value of a hashable form. Elements of sets and fields of objects are sorted by their texts."""
    if isinstance(value, frozenset):
        return UnorderedSet(sorted(map(thawed, value), key=value_text))
    if not isinstance(value, tuple):
        return cast(Json, value)
    if value and value[0] is dict:
        return {name: thawed(field) for name, field in sorted(value[1])}
    if value and isinstance(value[0], type):
        return float("nan") if value[1] == "nan" else cast(Json, value[1])
    return [thawed(element) for element in value]


def value_text(value: Json) -> str:
    """The value as JSON; where JSON has no notation, as EDN."""
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, UnorderedSet):
        return "#{" + " ".join(map(value_text, value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key_text(name)}: {value_text(field)}" for name, field in value.items()) + "}"
    return json.dumps(value)


def _key_text(name: str) -> str:
    return str(name) if isinstance(name, Word) else json.dumps(name)


def edn_text(value: Json) -> str:
    """The value as EDN."""
    if isinstance(value, Word):
        return str(value)
    if value is None:
        return "nil"
    if isinstance(value, list):
        opening, closing = ("#{", "}") if isinstance(value, UnorderedSet) else ("[", "]")
        return opening + " ".join(map(edn_text, value)) + closing
    if isinstance(value, dict):
        return "{" + ", ".join(f"{edn_text(name)} {edn_text(field)}" for name, field in value.items()) + "}"
    return json.dumps(value)


def has_half_surrogates(value: Json) -> bool:
    """Whether a text in the value contains half of a surrogate pair, which can be neither printed nor written."""
    return any(0xD800 <= ord(char) <= 0xDFFF for text in _texts(value) for char in text)


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from _texts(element)
    elif isinstance(value, dict):
        for name, field in value.items():
            yield name
            yield from _texts(field)
