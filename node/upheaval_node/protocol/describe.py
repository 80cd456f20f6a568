"""Messages as plain values for people and files: the name, and each field under the name that its schema gives it.

Knows the two schemas of moving messages, cluster and archive, and nothing of who sends them.
"""

from enum import IntEnum
from typing import Final

from upheaval_node.errors import DecodeError
from upheaval_node.ports import Buffer
from upheaval_node.protocol import archive_messages, cluster_messages, session_header
from upheaval_node.protocol.message import Fields, Message

Plain = int | str | bool | None | list["Plain"] | dict[str, "Plain"]

UNKNOWN: Final = "?"
"""The name of what no schema explains."""
BYTES_SHOWN: Final = 64
"""Bytes shown of a field; a longer one shows its length, too."""

_SCHEMA_ID_OFFSET: Final = 4
_SCHEMAS: Final = {
    cluster_messages.SCHEMA.table.schema_id: cluster_messages.SCHEMA,
    archive_messages.SCHEMA.table.schema_id: archive_messages.SCHEMA,
}
MESSAGE_NAMES: Final = frozenset(
    message.name for schema in _SCHEMAS.values() for message in schema.table.messages.values()
)

_names: dict[type, tuple[tuple[str, str], ...]] = {}
_SCALARS: Final = (int, str, bool)


def describe(payload: Buffer) -> tuple[str, dict[str, Plain]]:
    """Name and fields of an encoded message. Bytes that are none have the name `?` and their `length`."""
    view = memoryview(payload)
    unknown: dict[str, Plain] = {"length": len(view)}
    if len(view) < _SCHEMA_ID_OFFSET + 2:
        return UNKNOWN, unknown
    schema_id = int.from_bytes(view[_SCHEMA_ID_OFFSET : _SCHEMA_ID_OFFSET + 2], "little")
    schema = _SCHEMAS.get(schema_id)
    try:
        message = None if schema is None else schema.decode(view)
    except DecodeError:
        return UNKNOWN, unknown
    if message is None:
        return UNKNOWN, unknown
    values = fields_of(message)
    if isinstance(message, cluster_messages.SessionMessageHeader):
        values["payloadLength"] = len(view) - session_header.LENGTH
    return type(message).__name__, values


def fields_of(message: Message) -> dict[str, Plain]:
    """The fields of a decoded message, in the order of its schema."""
    return _fields_of(message)


def _fields_of(entry: object) -> dict[str, Plain]:
    names = _names.get(type(entry))
    if names is None:
        assert isinstance(entry, Fields)
        names = _names[type(entry)] = tuple((name, camel_case(name)) for name in entry.__match_args__)
    return {shown: _plain(getattr(entry, name)) for name, shown in names}


def camel_case(name: str) -> str:
    """`log_leadership_term_id` -> `logLeadershipTermId`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def field_names(kind: type[Message]) -> tuple[str, ...]:
    """The names that the schema gives the fields of a message."""
    return tuple(camel_case(name) for name in kind.__match_args__)


def trace_fields(message: Message) -> dict[str, int | str | bool | None]:
    """Type and fields of a message as values of a trace; bytes as hexadecimal text, groups are left out."""
    cls = type(message)
    values: dict[str, int | str | bool | None] = {"message": cls.__name__}
    for name in cls.__match_args__:
        value = getattr(message, name)
        if isinstance(value, _SCALARS):
            values[name] = value
        elif isinstance(value, bytes):
            values[name] = value.hex()
    return values


def _plain(value: object) -> Plain:
    if isinstance(value, IntEnum):
        return value.name
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        shown = value[:BYTES_SHOWN].hex()
        return shown if len(value) <= BYTES_SHOWN else f"{shown}.. ({len(value)} bytes)"
    if isinstance(value, tuple):
        return [_fields_of(entry) for entry in value]
    return str(value)
