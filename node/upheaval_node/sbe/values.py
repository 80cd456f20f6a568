"""Values of messages: what fields hold, and how a terminal shows it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""A field's value: int, float, str (text, the name of an enum's value), frozenset of the names of choices, bytes, tuple
(numbers, entries of a group), `SbeValues` (a composite), or None: no value."""


class Name(str):
    """The name of an enum's value or of a choice: a text that is shown without quotes."""

    __slots__ = ()


class SbeValues(Mapping[str, Value]):
    """The fields of a message, a composite or an entry of a group, by their names in the schema.

    `values.price` is `values["price"]`.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Value]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Value:
        return self._fields[name]

    def __getattr__(self, name: str) -> Value:
        # `copy` and `pickle` ask before there are fields.
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"no field {name!r}")
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __str__(self) -> str:
        return f"({', '.join(f'{name}={text_of(value)}' for name, value in self._fields.items())})"

    def __repr__(self) -> str:
        return str(self)


def text_of(value: Value) -> str:
    """A value in one line, such as `BUY`, `"text"`, `{A, B}`, `[(quantity=1), (quantity=2)]`, `0x00ff`, `null`."""
    match value:
        case None:
            return "null"
        case bytes():
            return f"0x{value.hex()}"
        case Name():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=not value.isprintable())
        case frozenset():
            return "{" + ", ".join(sorted(map(str, value))) + "}"
        case tuple() | list():
            return "[" + ", ".join(map(text_of, value)) + "]"
        case Mapping() if {*value} == {"mantissa", "exponent"} and _is_decimal(value):
            return _decimal(value["mantissa"], value["exponent"])
        case Mapping():
            return str(SbeValues(value))
    return str(value)


def json_of(value: Value) -> Any:
    """The same as JSON has it: bytes in hexadecimal digits, choices in order."""
    match value:
        case bytes():
            return value.hex()
        case frozenset():
            return sorted(map(str, value))
        case tuple() | list():
            return [json_of(item) for item in value]
        case Mapping():
            return {name: json_of(item) for name, item in value.items()}
    return value


_EXPONENT_MAX = 18


def _is_decimal(value: Mapping[str, Value]) -> bool:
    mantissa, exponent = value["mantissa"], value["exponent"]
    return isinstance(mantissa, int) and isinstance(exponent, int) and -_EXPONENT_MAX <= exponent <= 0


def _decimal(mantissa: int, exponent: int) -> str:
    digits = f"{abs(mantissa):0{1 - exponent}d}"
    sign = "-" if mantissa < 0 else ""
    return sign + (digits if exponent == 0 else f"{digits[:exponent]}.{digits[exponent:]}")
