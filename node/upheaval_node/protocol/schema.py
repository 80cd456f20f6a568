"""The tables of the SBE schemas: which field of which message is where, since which version.

The tables are the JSON files next to this module; they describe Aeron's schemas field by field. This module reads
them into frozen values. It knows nothing of bytes: `codec` turns tables into encoders and decoders.
"""

import json
import re
from dataclasses import dataclass
from pkgutil import get_data
from typing import Final

from upheaval_node.errors import UsageError

SCHEMA_NAMES: Final = (
    "cluster-codecs",
    "archive-codecs",
    "cluster-mark-codecs",
    "archive-mark-codecs",
    "cluster-node-state-codecs",
)

_STRUCT_CODES: Final = {"uint8": "B", "int8": "b", "uint16": "H", "int32": "i", "int64": "q"}


@dataclass(frozen=True, slots=True)
class FieldTable:
    """One fixed field. `null_value` is what a decoder returns when the writer's version lacks the field."""

    name: str
    offset: int
    length: int
    code: str
    since_version: int
    null_value: int
    enum: str | None


@dataclass(frozen=True, slots=True)
class VarDataTable:
    """One variable-length field: uint32 length and that many bytes, US-ASCII when `is_text`."""

    name: str
    is_text: bool
    since_version: int


@dataclass(frozen=True, slots=True)
class BlockTable:
    """A root block or group entry: fixed fields, then groups, then var data."""

    name: str
    block_lengths: tuple[tuple[int, int], ...]
    fields: tuple[FieldTable, ...]
    groups: tuple["BlockTable", ...]
    var_data: tuple[VarDataTable, ...]
    since_version: int

    def block_length(self, version: int) -> int:
        """Length of the fixed fields as a writer of schema `version` lays them out."""
        length = self.block_lengths[0][1]
        for from_version, from_length in self.block_lengths:
            if from_version <= version:
                length = from_length
        return length


@dataclass(frozen=True, slots=True)
class MessageTable:
    """One message: its SBE template id, its block, and since when it is not used any more."""

    template_id: int
    block: BlockTable
    deprecated_since_version: int | None

    @property
    def name(self) -> str:
        """The name of the message in the schema, as `SessionConnectRequest`."""
        return self.block.name


@dataclass(frozen=True, slots=True)
class EnumTable:
    """An enum of int32 values; `null_value` means no value."""

    name: str
    null_value: int
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """One SBE schema with its enums by name and its messages by template id. Lengths in bytes."""

    name: str
    schema_id: int
    version: int
    header_length: int
    enums: dict[str, EnumTable]
    messages: dict[int, MessageTable]


def snake_case(name: str) -> str:
    """`logLeadershipTermId` -> `log_leadership_term_id`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def class_name(name: str) -> str:
    """The generated class of a message: `sessionEvent` -> `SessionEvent`."""
    return name[0].upper() + name[1:]


def entry_class_name(path: str) -> str:
    """The generated class of a group's entries: `BackupResponse.snapshots` -> `BackupResponseSnapshot`."""
    return "".join(class_name(part) for part in path.split(".")).removesuffix("s")


_Json = dict[str, object]


def load_schema(name: str) -> SchemaTable:
    """Read the table of one of `SCHEMA_NAMES`. Raises `UsageError` for any other name."""
    if name not in SCHEMA_NAMES:
        raise UsageError(f"no schema table named {name!r}")
    content = get_data("upheaval_node.protocol", f"{name}.json")
    assert content is not None
    table = json.loads(content)
    messages = [_message(entry) for entry in table["messages"]]
    enums = [
        EnumTable(key, entry["nullValue"], tuple((value["name"], value["value"]) for value in entry["values"]))
        for key, entry in table["enums"].items()
    ]
    return SchemaTable(
        name=name,
        schema_id=table["schemaId"],
        version=table["schemaVersion"],
        header_length=table["composites"]["messageHeader"]["length"],
        enums={enum.name: enum for enum in enums},
        messages={message.template_id: message for message in messages},
    )


def _message(entry: _Json) -> MessageTable:
    deprecated = entry.get("deprecatedSinceVersion")
    assert deprecated is None or isinstance(deprecated, int)
    return MessageTable(_integer(entry["templateId"]), _block(entry), deprecated)


def _block(entry: _Json) -> BlockTable:
    return BlockTable(
        name=str(entry["name"]),
        block_lengths=tuple(
            (_integer(step["fromVersion"]), _integer(step["blockLength"]))
            for step in _list(entry["blockLengthByVersion"])
        ),
        fields=tuple(_field(field) for field in _list(entry["fields"])),
        groups=tuple(_block(group) for group in _list(entry["groups"])),
        var_data=tuple(
            VarDataTable(str(item["name"]), item["encoding"] == "varAsciiEncoding", _integer(item["sinceVersion"]))
            for item in _list(entry["varData"])
        ),
        since_version=_integer(entry["sinceVersion"]),
    )


def _field(entry: _Json) -> FieldTable:
    enum = entry.get("enum")
    return FieldTable(
        name=str(entry["name"]),
        offset=_integer(entry["offset"]),
        length=_integer(entry["length"]),
        code=_STRUCT_CODES[str(entry["wireType"])],
        since_version=_integer(entry["sinceVersion"]),
        null_value=_integer(entry["nullValue"]),
        enum=None if enum is None else str(enum),
    )


def _integer(value: object) -> int:
    assert isinstance(value, int), value
    return value


def _list(value: object) -> list[_Json]:
    assert isinstance(value, list), value
    return value
