"""The bases of the generated message classes, and of those that are written beside them."""

from typing import Any, ClassVar


class _Fields:
    """Compared and shown by its fields, as dataclasses are: a hundred classes with code of their own start slowly."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(_values(self)))

    def __repr__(self) -> str:
        names: tuple[str, ...] = self.__match_args__  # type: ignore[attr-defined]
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(names, _values(self), strict=True))
        return f"{type(self).__qualname__}({shown})"


def _values(message: Any) -> list[object]:
    return [getattr(message, name) for name in message.__match_args__]


class Message(_Fields):
    """Base of every generated message class."""

    __slots__ = ()

    TEMPLATE_ID: ClassVar[int]
    """Set by the `MessageSchema` of the class's module."""


class GroupEntry(_Fields):
    """Base of every generated class for an entry of a repeating group."""

    __slots__ = ()
