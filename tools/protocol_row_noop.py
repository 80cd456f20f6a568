"""A pytest plugin: functions of the node that UPHEAVAL_NOOP names do nothing, as if they had not been written.

Names are those of tests/architecture/protocol_rows.md, with commas between them. `module.Class.function[Message]` does
nothing only when it is called with such a message. What does nothing returns the plainest value of its type. Used by
check_protocol_rows.
"""

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

PACKAGE: Final = "upheaval_node"
VARIABLE: Final = "UPHEAVAL_NOOP"
_PLAIN: Final[dict[object, object]] = {int: 0, bool: False, str: "", bytes: b"", "int": 0, "bool": False, "str": ""}


def pytest_configure() -> None:
    for name in filter(None, os.environ.get(VARIABLE, "").split(",")):
        disable(name)


def find(name: str) -> tuple[object, str, type | None]:
    """Owner, attribute and message class of a name. Raises `LookupError` when there is none."""
    path, _, message = name.rstrip("]").partition("[")
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            owner: object = importlib.import_module(".".join([PACKAGE, *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:-1]:
            owner = getattr(owner, part, None)
        if not callable(getattr(owner, parts[-1], None)):
            break
        return owner, parts[-1], _message(message) if message else None
    raise LookupError(f"there is no function {name} in {PACKAGE}")


def disable(name: str) -> None:
    """Replace the function of that name, for the rest of this process."""
    owner, attribute, message = find(name)
    static = inspect.getattr_static(owner, attribute)
    original = getattr(owner, attribute)
    replacement = _nothing(original) if message is None else _nothing_for(original, message)
    setattr(owner, attribute, staticmethod(replacement) if isinstance(static, staticmethod) else replacement)


def _message(name: str) -> type:
    messages = importlib.import_module(f"{PACKAGE}.protocol.cluster_messages")
    found = getattr(messages, name, None)
    if not isinstance(found, type):
        raise LookupError(f"there is no message {name}")
    return found


def _nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(original):

        @functools.wraps(original)
        def ends_at_once(*_: Any, **__: Any) -> Iterator[Any]:
            yield from ()

        return ends_at_once
    value = _PLAIN.get(inspect.signature(original).return_annotation)

    @functools.wraps(original)
    def does_nothing(*_: Any, **__: Any) -> Any:
        return value

    return does_nothing


def _nothing_for(original: Callable[..., Any], message: type) -> Callable[..., Any]:
    nothing = _nothing(original)

    @functools.wraps(original)
    def does_nothing_for_some(*arguments: Any, **named: Any) -> Any:
        is_meant = any(isinstance(each, message) for each in (*arguments, *named.values()))
        return (nothing if is_meant else original)(*arguments, **named)

    return does_nothing_for_some
