"""Decodes small JSON into values, so that a malformed file becomes one clear line and never a traceback.

`decode` builds a dataclass from an object by the types of its fields; `integer`, `text` and the like read one field.
This module knows nothing of what the fields mean.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from upheaval.errors import EnvironmentFault, UsageError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

LINE_LENGTH_MAX = 16 * 1024 * 1024


class FieldError(Exception):
    """A field is missing or has the wrong type; the reader adds the file and the line."""


_raw_decode: Final = json.JSONDecoder().raw_decode


def parse(text: str) -> Json:
    """As `json.loads`, at half the cost for short text. Raises the same errors."""
    value: Json
    try:
        value, end = _raw_decode(text)
    except ValueError:
        return json.loads(text)  # type: ignore[no-any-return]  # white space may come first
    return value if end == len(text) or text[end:] == "\n" else json.loads(text)


def parse_object(text: str) -> dict[str, Json]:
    """Decode one JSON object. Raises `FieldError` with the reason."""
    try:
        value = parse(text)
        if "\\ud" in text or "\\uD" in text:
            # Half of a surrogate pair is not text: printing it would fail.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FieldError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FieldError("not a JSON object")
    return value


@dataclass(frozen=True, slots=True)
class Within:
    """For an integer, in `Annotated`: it must be from `least` to `most`, inclusive."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """For a text, in `Annotated`: it must be one of `choices`."""

    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Called:
    """For an enum, in `Annotated`: what errors call its values, where that differs from the enum's name."""

    noun: str


@dataclass(frozen=True, slots=True)
class OfFile:
    """For a text, in `Annotated`: it contains file names, which are UTF-8 in JSON whatever the locale."""


FilePath = Annotated[str, OfFile()]

T = TypeVar("T")
_Reader = Callable[[str, object], Any]


def decode(kind: type[T], given: Mapping[str, Json], required: Collection[str] = ()) -> T:
    """Build a dataclass from an object: each field by its name and type. Raises `FieldError` with the reason.

    A field with a default may be missing or null, unless it is `required`. Unknown names are ignored.
    """
    plan = _plan(kind, tuple(required))  # type: ignore[arg-type]
    values = list(map(given.get, plan.names))
    shape = tuple(map(type, values))
    if shape in plan.shapes:
        for place, name, read in plan.by_value:
            values[place] = read(name, values[place])
        return kind(*values)
    arguments = {name: read(name, given.get(name, MISSING)) for name, read in plan.must}
    for name, read in plan.may:
        value = given.get(name)
        if value is not None:
            arguments[name] = read(name, value)
    made = kind(**arguments)
    if len(plan.shapes) < _SHAPES_MAX and plan.defaulted <= arguments.keys():
        plan.shapes.add(shape)
    return made


def integer(given: Mapping[str, Json], name: str) -> int:
    """An integer field. Raises `FieldError` if it is missing or not an integer."""
    return _SCALARS[int](name, given.get(name, MISSING))  # type: ignore[no-any-return]


def integer_within(given: Mapping[str, Json], name: str, least: int, most: int) -> int:
    """An integer field from `least` to `most`. Raises `FieldError` for anything else."""
    return _within(Within(least, most))(name, given.get(name, MISSING))  # type: ignore[no-any-return]


def optional_integer(given: Mapping[str, Json], name: str) -> int | None:
    """An integer field; None if it is missing or null. Raises `FieldError` for anything else."""
    return None if given.get(name) is None else integer(given, name)


def text(given: Mapping[str, Json], name: str) -> str:
    """A text field. Raises `FieldError` if it is missing or not a string."""
    return _SCALARS[str](name, given.get(name, MISSING))  # type: ignore[no-any-return]


_SHAPES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the fields of a dataclass are read.

    Once an object was decoded, every other object whose values have the same types passes the same type checks. For
    such an object only the fields `by_value` are examined.
    """

    must: tuple[tuple[str, _Reader], ...]
    may: tuple[tuple[str, _Reader], ...]
    """The fields that may be missing or null."""
    names: tuple[str, ...]
    by_value: tuple[tuple[int, str, _Reader], ...]
    """The fields, with their places, whose reader changes the value or checks more than its type."""
    defaulted: frozenset[str]
    """The fields whose default is not None."""
    shapes: set[tuple[type, ...]]


@cache
def _plan(kind: type, required: Collection[str]) -> _Plan:
    must: list[tuple[str, _Reader]] = []
    may: list[tuple[str, _Reader]] = []
    by_value: dict[str, tuple[int, str, _Reader]] = {}
    defaulted: set[str] = set()
    for place, field in enumerate(fields(kind)):
        read = _reader(field.type)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        (may if has_default and field.name not in required else must).append((field.name, read))
        if has_default and field.default is not None:
            defaulted.add(field.name)
        if not _is_by_type(field.type):
            by_value[field.name] = place, field.name, read
    in_turn = tuple(by_value[name] for name, _ in (*must, *may) if name in by_value)
    names = tuple(field.name for field in fields(kind))
    return _Plan(tuple(must), tuple(may), names, in_turn, frozenset(defaulted), set())


def _is_by_type(hint: Any) -> bool:
    """Whether the reader of this type checks only the type of a value and returns it unchanged."""
    if get_origin(hint) in (Union, UnionType) and hint != Json:
        return all(arg is type(None) or _is_by_type(arg) for arg in get_args(hint))
    return hint == Json or get_origin(hint) is Mapping or (isinstance(hint, type) and hint in _SCALARS)


def _reader(hint: Any) -> _Reader:
    """The function that turns a JSON value into a value of this type."""
    if hint == Json:
        return lambda _, value: None if value is MISSING else value
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        rule = args[1]
        if isinstance(rule, Within):
            return _within(rule)
        if isinstance(rule, OfFile):
            return lambda name, value: os.fsdecode(_SCALARS[str](name, value).encode())
        return _one_of(rule.choices) if isinstance(rule, OneOf) else _enum(args[0], rule.noun)
    if origin in (Union, UnionType):
        inner = _reader(next(arg for arg in args if arg is not type(None)))
        return lambda name, value: None if value is None or value is MISSING else inner(name, value)
    if origin is tuple:
        return _paths if args[0] == FilePath else _items(args[0])
    if is_dataclass(hint):
        return lambda name, value: decode(hint, _OBJECT(name, value))  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint, hint.__name__.lower())
    return _OBJECT if origin is Mapping else _SCALARS[hint]


def _of_type(kind: type, what: str) -> _Reader:
    def read(name: str, value: object) -> object:
        if type(value) is not kind:
            raise FieldError(f"field {name!r} must be {what}, not {_shown(value)}")
        return value

    return read


_SCALARS: Final = {
    int: _of_type(int, "an integer"),
    str: _of_type(str, "a string"),
    bool: _of_type(bool, "true or false"),
}
_LIST_OF: Final = {int: "integers", str: "texts"}
_OBJECT: Final = _of_type(dict, "an object")


def _within(rule: Within) -> _Reader:
    def read(name: str, value: object) -> object:
        number: int = _SCALARS[int](name, value)
        if not rule.least <= number <= rule.most:
            raise FieldError(f"field {name!r} must be {rule.least} to {rule.most}, not {_shown(value)}")
        return number

    return read


def _one_of(choices: Collection[str]) -> _Reader:
    def read(name: str, value: object) -> object:
        if _SCALARS[str](name, value) not in choices:
            raise FieldError(f"field {name!r} must be {' or '.join(choices)}, not {_shown(value)}")
        return value

    return read


def _enum(kind: type[Enum], noun: str) -> _Reader:
    known = {member.value: member for member in kind}

    def read(name: str, value: object) -> object:
        member = known.get(_SCALARS[str](name, value))
        if member is None:
            raise FieldError(f"unknown {noun} {value!r}")
        return member

    return read


def _items(kind: Any) -> _Reader:
    is_plain = kind in _LIST_OF
    what = f"a list of {_LIST_OF[kind] if is_plain else 'objects'}"
    wanted = kind if is_plain else dict

    def read(name: str, value: object) -> object:
        if type(value) is not list or not all(type(item) is wanted for item in value):
            raise FieldError(f"field {name!r} must be {what}, not {_shown(value)}")
        return tuple(value) if is_plain else tuple(decode(kind, item) for item in value)

    return read


def _paths(name: str, value: object) -> tuple[str, ...]:
    return tuple(os.fsdecode(path.encode()) for path in _items(str)(name, value))


def to_json(value: object, *, indent: int | None = 2) -> str:
    """JSON that `parse_object` reads under any locale.

    Where the locale's encoding lacks a character, Python has file names with surrogates; the JSON has them as UTF-8.
    Raises `UsageError` for a name that is not UTF-8.
    """
    text = json.dumps(value, indent=indent)
    return json.dumps(_without_surrogates(value), indent=indent) if "\\udc" in text else text


def is_utf8(name: str) -> bool:
    """Whether a file name is UTF-8."""
    try:
        os.fsencode(name).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            raise UsageError(f"{value!a} is not UTF-8: rename it") from None
    if isinstance(value, Mapping):
        return {key: _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def read_text(path: Path) -> str:
    """The whole file. Raises `EnvironmentFault` when it cannot be read, `UsageError` when it is not UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}): restore the file") from error


TORN: Final[dict[str, Json]] = {}
"""The value of a line that was not written in full."""


def is_torn(line: bytes, start: bytes) -> bool:
    """Whether a line that is not JSON was written only in part: it begins with `start`, or is empty."""
    return line == b"\n" or line.startswith(start)


def read_lines(
    path: Path, *, torn_end_allowed: bool = False, torn_start: bytes | None = None
) -> Iterator[tuple[int, dict[str, Json]]]:
    """The objects of a file of JSON lines with their line numbers.

    With `torn_end_allowed`, a last line without its newline is left out: its writer was killed while writing. With
    `torn_start`, a line that begins with it but was not written in full yields `TORN`. Raises `UsageError` with file,
    line and reason for the first malformed line.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if torn_end_allowed and not line.endswith(b"\n"):
                    return
                text = text_of_line(line)
                try:
                    yield number, parse_object(text)
                except FieldError:
                    if torn_start is None or not is_torn(line, torn_start):
                        raise
                    yield number, TORN
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    except FieldError as error:
        raise UsageError(f"{path}:{number}: {error}") from None


def text_of_line(line: bytes) -> str:
    """The text of a line. Raises `FieldError` for one that is too long or not UTF-8."""
    if len(line) > LINE_LENGTH_MAX:
        raise FieldError(f"longer than {LINE_LENGTH_MAX} bytes")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldError("not UTF-8 text") from None


def _shown(value: object) -> str:
    return "missing" if value is MISSING else json.dumps(value)[:60]


def read_object(path: Path) -> dict[str, Json]:
    """The object in a file. Raises `UsageError` with file and reason."""
    try:
        return parse_object(read_text(path))
    except FieldError as error:
        raise UsageError(f"{path}: {error}") from None


def read_file(kind: type[T], path: Path) -> T:
    """The dataclass that a file contains. Raises `UsageError` with file and reason."""
    given = read_object(path)
    try:
        return decode(kind, given)
    except FieldError as error:
        raise UsageError(f"{path}: {error}") from None


def read_values(make: Callable[[dict[str, Json]], T], path: Path) -> Iterator[tuple[int, T]]:
    """The result of `make` for each line, with its line number. Raises `UsageError` with file, line and reason."""
    for number, given in read_lines(path):
        try:
            yield number, make(given)
        except FieldError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
