"""A reader of consecutive JSON values, or the elements of one array, each with its line number.

This module knows nothing of histories.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from upheaval.records.jsonfields import Json
from upheaval.records.values import has_half_surrogates

_SPACE: Final = re.compile(r"[ \t\n\r]*")


class JsonTextError(Exception):
    """The text is not JSON; `line` says where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def read_json_values(text: str) -> Iterator[tuple[int, Json]]:
    """The values, each with its line number. Raises `JsonTextError` at the first place that is not JSON."""
    position = _skip(text, 0)
    is_array = text.startswith("[", position)
    if is_array:
        position = _skip(text, position + 1)
    line, counted = 1, 0
    is_first = True
    may_have_halves = "\\ud" in text.lower()
    while position < len(text) and not (is_array and text[position] == "]"):
        if is_array and not is_first:
            if text[position] != ",":
                raise JsonTextError(_line(text, position), f"expected ',' or ']', got {text[position]!r}")
            position = _skip(text, position + 1)
        line += text.count("\n", counted, position)
        counted = position
        value, position = _value(text, position, line)
        if may_have_halves and has_half_surrogates(value):
            raise JsonTextError(line, "not JSON: half of a surrogate pair")
        yield line, value
        position = _skip(text, position)
        is_first = False
    if is_array:
        if position == len(text):
            raise JsonTextError(_line(text, position), "the file ends inside [")
        after = _skip(text, position + 1)
        if after < len(text):
            raise JsonTextError(_line(text, after), f"expected the end of the file, got {text[after : after + 20]!r}")


def _value(text: str, position: int, line: int) -> tuple[Json, int]:
    try:
        value, end = _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise JsonTextError(error.lineno, f"not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise JsonTextError(line, f"not JSON: {reason}") from None
    return value, end


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate field {next(name for name in names if names.count(name) > 1)!r}")
    return fields


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
