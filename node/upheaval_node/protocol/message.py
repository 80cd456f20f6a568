"""The bases of the generated message classes, and of those that are written beside them."""

from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Final, TypeVar

set_field: Final = object.__setattr__
"""Fills a field of a new value."""


class Fields:
    """A frozen value that is compared and shown by its fields, as dataclasses are.

    A dataclass compiles its methods when it is made: a hundred of them take a fifth of a member's start.
    """

    __slots__ = ()

    __match_args__: ClassVar[tuple[str, ...]] = ()
    """The names of its fields in the order of its schema."""

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[type["Fields"], tuple[object, ...]]:
        """A copy, and what is unpickled, is made by the constructor: it cannot be filled afterwards."""
        return type(self), tuple(_values(self))

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(_values(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, _values(self), strict=True))
        return f"{type(self).__qualname__}({shown})"


_F = TypeVar("_F", bound=Fields)


def with_values(message: _F, **values: Any) -> _F:
    """A copy in which the fields named in `values` hold those. `TypeError` for a field that it does not have."""
    return type(message)(**{**dict(zip(message.__match_args__, _values(message), strict=True)), **values})


def _values(message: Any) -> list[object]:
    return [getattr(message, name) for name in message.__match_args__]


class Message(Fields):
    """Base of every generated message class."""

    __slots__ = ()

    TEMPLATE_ID: ClassVar[int]
    """Set by the `MessageSchema` of the class's module."""


class GroupEntry(Fields):
    """Base of every generated class for an entry of a repeating group."""

    __slots__ = ()
