"""A schema and its messages: decodes a payload, and encodes a message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.ports import Buffer
from upheaval_node.sbe.blocks import BLOCK_LENGTH, Block, Cursor, header_number, write_header
from upheaval_node.sbe.encodings import Composite
from upheaval_node.sbe.errors import SbeError
from upheaval_node.sbe.values import SbeValues, Value
from upheaval_node.suggestions import did_you_mean

TEMPLATE_ID: Final = "templateId"
SCHEMA_ID: Final = "schemaId"
VERSION: Final = "version"
_HEADER: Final = "message header"


class SbeMessage(SbeValues):
    """A message with the values of its fields. It cannot be changed."""

    __slots__ = ("_rest", "_type")

    def __init__(self, kind: "MessageType", fields: Mapping[str, Value], rest: bytes) -> None:
        super().__init__(fields)
        self._type, self._rest = kind, rest

    def encode(self) -> bytes:
        """Header and message, in the version of the schema. Raises `UsageError` for a value that does not fit."""
        return message_type(self).encode(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SbeMessage) and self._type is other._type and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        rest = f" and {len(self._rest)} bytes after it" if self._rest else ""
        return f"{self._type.name}{super().__str__()}{rest}"


def message_type(message: SbeMessage) -> "MessageType":
    """What kind of message it is. A function, because a message has the fields of its schema as attributes."""
    return message._type


@dataclass(frozen=True, slots=True, eq=False)
class MessageType:
    """A kind of message; called with values of its fields, it makes one."""

    schema: "SbeSchema"
    name: str
    template_id: int
    block: Block

    def __call__(self, **fields: Value) -> SbeMessage:
        """Raises `UsageError` for a field that is unknown, missing, or whose value does not fit."""
        return self.schema.decode(self.encode(fields))

    def encode(self, fields: Mapping[str, Value]) -> bytes:
        """Header and message. Raises `UsageError`."""
        header = self.schema.header
        buffer = bytearray(header.size)
        try:
            write_header(
                header,
                buffer,
                0,
                {
                    BLOCK_LENGTH: self.block.length,
                    TEMPLATE_ID: self.template_id,
                    SCHEMA_ID: self.schema.id,
                    VERSION: self.schema.version,
                },
            )
            self.block.write(buffer, fields)
        except UsageError as error:
            raise UsageError(f"{self.name}: {error}") from error
        return bytes(buffer)


class SbeSchema:
    """The messages of an application. `schema.NewOrder(price=1)` makes a message of the type `NewOrder`.

    `source` is its XML, in one piece.
    """

    def __init__(self, schema_id: int, version: int, header: Composite, source: str) -> None:
        self.id, self.version, self.header, self.source = schema_id, version, header, source
        self.messages: dict[str, MessageType] = {}
        """By name."""
        self._by_template: dict[int, MessageType] = {}

    def add(self, name: str, template_id: int, block: Block) -> None:
        """Add a message. Raises `ValueError` for a name or a template id that is taken."""
        if name in self.messages or template_id in self._by_template:
            raise ValueError(f"duplicate message {name!r} or template id {template_id}")
        self.messages[name] = self._by_template[template_id] = MessageType(self, name, template_id, block)

    def __getattr__(self, name: str) -> MessageType:
        messages: dict[str, MessageType] = self.__dict__.get("messages", {})
        if name not in messages:
            hint = did_you_mean(name, messages)
            raise AttributeError(f"no message {name!r} in the schema: use {', '.join(messages)}{hint}")
        return messages[name]

    def decode(self, payload: Buffer) -> SbeMessage:
        """The message that the bytes begin with. Raises `SbeError`, whatever they are."""
        if len(payload) < self.header.size:
            raise SbeError(f"{len(payload)} bytes are too few for a message header of {self.header.size}")
        cursor = Cursor(payload, 0, 0, len(payload))
        header = cursor.take_header(self.header, _HEADER)
        schema_id, template_id, version, length = (
            header_number(header, name, _HEADER) for name in (SCHEMA_ID, TEMPLATE_ID, VERSION, BLOCK_LENGTH)
        )
        if schema_id != self.id:
            raise SbeError(f"schema id {schema_id}, expected {self.id}")
        kind = self._by_template.get(template_id)
        if kind is None:
            raise SbeError(f"unknown template id {template_id}")
        cursor.version = version
        try:
            values = kind.block.read(cursor, length)
        except SbeError as error:
            raise SbeError(f"{kind.name}: {error}") from error
        return SbeMessage(kind, values, bytes(payload[cursor.offset :]))
