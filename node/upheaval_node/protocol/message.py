"""The bases of the generated message classes, and of those that are written beside them."""

from typing import ClassVar


class Message:
    """Base of every generated message class."""

    __slots__ = ()

    TEMPLATE_ID: ClassVar[int]
    """Set by the `MessageSchema` of the class's module."""


class GroupEntry:
    """Base of every generated class for an entry of a repeating group."""

    __slots__ = ()
