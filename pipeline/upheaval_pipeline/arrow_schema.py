"""The columns of a table, as the pipeline writes them down, for Arrow: what Spark makes of them, without Spark."""

from collections.abc import Iterator
from functools import cache
from typing import Final

import pyarrow as pa

_SIMPLE: Final = {
    "string": pa.string(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "binary": pa.binary(),
}


@cache
def arrow_schema(columns: str) -> pa.Schema:
    """Of `NAME TYPE, NAME TYPE...`. Raises `ValueError` for an unknown type."""
    return pa.schema([_field(column.strip().partition(" ")) for column in _parts(columns)])


def _field(parts: tuple[str, str, str]) -> pa.Field:
    name, _, kind = parts
    return pa.field(name.strip(), _type(kind.strip()))


def _type(kind: str) -> pa.DataType:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    outer, _, inner = kind.removesuffix(">").partition("<")
    parts = list(_parts(inner))
    match outer:
        case "array":
            return pa.list_(_type(parts[0]))
        case "map":
            key, value = (_type(part.strip()) for part in parts)
            return pa.map_(key, value)
        case "struct":
            return pa.struct([_field(part.partition(":")) for part in parts])
    raise ValueError(f"unknown type {kind!r}")


def _parts(text: str) -> Iterator[str]:
    """What commas separate outside of angle brackets."""
    depth = begin = 0
    for place, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
