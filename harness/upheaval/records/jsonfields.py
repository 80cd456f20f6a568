"""Typed access to decoded JSON, so that a malformed file becomes one clear line and never a traceback.

This module knows nothing of what the fields mean.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from upheaval.errors import EnvironmentFault, UsageError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

LINE_LENGTH_MAX = 16 * 1024 * 1024


class FieldError(Exception):
    """A field is missing or has the wrong type; the reader adds the file and the line."""


def parse_object(text: str) -> dict[str, Json]:
    """Decode one JSON object. Raises `FieldError` with the reason."""
    try:
        value: Json = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            # Half of a surrogate pair is no text: it could not be printed.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FieldError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FieldError("not a JSON object")
    return value


def integer(fields: Mapping[str, Json], name: str) -> int:
    """An integer. Raises `FieldError` for anything else, true and false included."""
    value = fields.get(name)
    if type(value) is not int:
        raise FieldError(f"field {name!r} must be an integer, not {_shown(fields, name)}")
    return value


def integer_within(fields: Mapping[str, Json], name: str, least: int, most: int) -> int:
    """An integer from `least` to `most`. Raises `FieldError` for anything else."""
    value = integer(fields, name)
    if not least <= value <= most:
        raise FieldError(f"field {name!r} must be {least} to {most}, not {_shown(fields, name)}")
    return value


def one_of(fields: Mapping[str, Json], name: str, choices: Sequence[str]) -> str:
    """One of the given texts. Raises `FieldError` for anything else."""
    value = text(fields, name)
    if value not in choices:
        raise FieldError(f"field {name!r} must be {' or '.join(choices)}, not {_shown(fields, name)}")
    return value


def optional_integer(fields: Mapping[str, Json], name: str) -> int | None:
    """An integer, or None where the field is missing or null."""
    return None if fields.get(name) is None else integer(fields, name)


def text(fields: Mapping[str, Json], name: str) -> str:
    """A text. Raises `FieldError` for anything else."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise FieldError(f"field {name!r} must be a string, not {_shown(fields, name)}")
    return value


def optional_text(fields: Mapping[str, Json], name: str) -> str | None:
    """A text, or None where the field is missing or null."""
    return None if fields.get(name) is None else text(fields, name)


def boolean(fields: Mapping[str, Json], name: str) -> bool:
    """True or false. Raises `FieldError` for anything else."""
    value = fields.get(name)
    if not isinstance(value, bool):
        raise FieldError(f"field {name!r} must be true or false, not {_shown(fields, name)}")
    return value


def objects(fields: Mapping[str, Json], name: str) -> list[dict[str, Json]]:
    """A list of objects. Raises `FieldError` for anything else."""
    value = fields.get(name)
    if not isinstance(value, list):
        raise FieldError(f"field {name!r} must be a list of objects, not {_shown(fields, name)}")
    found = []
    for item in value:
        if not isinstance(item, dict):
            raise FieldError(f"field {name!r} must hold objects only")
        found.append(item)
    return found


def integers(fields: Mapping[str, Json], name: str) -> list[int]:
    """A list of integers. Raises `FieldError` for anything else."""
    value = fields.get(name)
    if not isinstance(value, list):
        raise FieldError(f"field {name!r} must be a list of integers, not {_shown(fields, name)}")
    found = [item for item in value if type(item) is int]
    if len(found) != len(value):
        raise FieldError(f"field {name!r} must hold integers only")
    return found


def mapping(fields: Mapping[str, Json], name: str) -> dict[str, Json]:
    """An object. Raises `FieldError` for anything else."""
    value = fields.get(name)
    if not isinstance(value, dict):
        raise FieldError(f"field {name!r} must be an object, not {_shown(fields, name)}")
    return value


def read_text(path: Path) -> str:
    """The whole file. Raises `EnvironmentFault` when it cannot be read, `UsageError` when it is no UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}): restore the file") from error


def read_lines(path: Path, *, torn_end_allowed: bool = False) -> Iterator[tuple[int, dict[str, Json]]]:
    """The objects of a file of JSON lines with their line numbers.

    With `torn_end_allowed`, a last line without its newline is left out: its writer was killed while it wrote.
    Raises `UsageError` with file, line and reason for the first malformed line.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if torn_end_allowed and not line.endswith(b"\n"):
                    return
                if len(line) > LINE_LENGTH_MAX:
                    raise FieldError(f"longer than {LINE_LENGTH_MAX} bytes")
                yield number, parse_object(line.decode("utf-8"))
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path}:{number}: not UTF-8 text") from None
    except FieldError as error:
        raise UsageError(f"{path}:{number}: {error}") from None


def _shown(fields: Mapping[str, Json], name: str) -> str:
    return json.dumps(fields[name])[:60] if name in fields else "missing"
