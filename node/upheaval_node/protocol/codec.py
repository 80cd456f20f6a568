"""Encoding and decoding of SBE messages, driven by the tables of `schema`.

Two levels share the same compiled plans. The raw level (`RawCodec`) keeps every number as it is
on the wire, nulls and enum numbers included, for any writer version. The message level (`MessageSchema`) maps
messages to the generated classes.

Version rules (SBE, as in Aeron): a field that is younger than the writer's schema version is not read but null; the
writer's block length, not ours, gives the end of a block; unknown bytes after the known ones are ignored.

Whatever the bytes are, decoding raises nothing but `DecodeError` and never holds more memory than a small multiple
of the buffer. This module may not know any message by name.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, TypeVar

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.schema import BlockTable, SchemaTable, class_name, entry_class_name, snake_case

NULL_INT32: Final = -(1 << 31)
NULL_INT64: Final = -(1 << 63)
NULL_UINT8: Final = 255
NULL_INT8: Final = -128

# Largest var data the schemas allow; a longer length is malformed whatever the buffer holds.
MAX_VAR_DATA_LENGTH: Final = 1 << 30

_HEADER: Final = struct.Struct("<HHHH")
_LONG_HEADER: Final = struct.Struct("<HHHHii")
_GROUP_HEADER: Final = struct.Struct("<HH")
_VAR_HEADER: Final = struct.Struct("<I")
_LONG_HEADER_LENGTH: Final = 16

BOOLEAN_ENUM: Final = "BooleanType"


_M = TypeVar("_M", bound=Message)
_Converter = Callable[[int], object]


@dataclass(slots=True)
class RawBlock:
    """Values of a block by schema name: integers as on the wire, var data as bytes."""

    fields: dict[str, int] = field(default_factory=dict)
    groups: dict[str, "list[RawBlock]"] = field(default_factory=dict)
    var_data: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class RawMessage:
    """A message as the raw level sees it.

    `version` is the writer's; `frame_length` and `padding` exist only in schemas with the 16-byte header;
    `encoded_length` counts header, root block, groups and var data.
    """

    template_id: int
    version: int
    block_length: int
    block: RawBlock
    frame_length: int = 0
    padding: int = 0
    encoded_length: int = 0


class _FixedPlan:
    """How the fixed fields of a block are unpacked when the writer had one given schema version."""

    __slots__ = ("defaults", "indexes", "is_complete", "min_length", "struct")

    def __init__(self, table: BlockTable, version: int) -> None:
        present = [(index, item) for index, item in enumerate(table.fields) if item.since_version <= version]
        code = "<"
        end = 0
        for _, item in present:
            assert item.offset >= end, f"fields of {table.name} overlap"
            code += f"{item.offset - end}x{item.code}"
            end = item.offset + item.length
        self.struct = struct.Struct(code)
        self.min_length = end
        self.indexes = [index for index, _ in present]
        self.defaults = [item.null_value for item in table.fields]
        self.is_complete = len(present) == len(table.fields)

    def unpack(self, buffer: Buffer, offset: int) -> Sequence[int]:
        unpacked = self.struct.unpack_from(buffer, offset)
        if self.is_complete:
            return unpacked
        values = self.defaults.copy()
        for index, value in zip(self.indexes, unpacked, strict=True):
            values[index] = value
        return values


class BlockPlan:
    """The compiled form of a `BlockTable`: one fixed plan for every schema version, groups and var data in order."""

    __slots__ = ("fixed", "groups", "newest", "table")

    def __init__(self, table: BlockTable, schema_version: int) -> None:
        self.table = table
        self.newest = schema_version
        by_presence: dict[tuple[bool, ...], _FixedPlan] = {}
        self.fixed: list[_FixedPlan] = []
        for version in range(schema_version + 1):
            presence = tuple(item.since_version <= version for item in table.fields)
            if presence not in by_presence:
                by_presence[presence] = _FixedPlan(table, version)
            self.fixed.append(by_presence[presence])
        self.groups = tuple(BlockPlan(group, schema_version) for group in table.groups)

    def fixed_at(self, version: int) -> _FixedPlan:
        """The plan of the fixed fields for a writer of schema version `version`; newer ones are read as the newest."""
        return self.fixed[min(version, self.newest)]


def _check_room(buffer_end: int, offset: int, length: int, what: str) -> int:
    end = offset + length
    if end > buffer_end:
        raise DecodeError(f"{what} of {length} bytes at {offset} ends after the buffer of {buffer_end}")
    return end


def _fixed_values(plan: BlockPlan, buffer: Buffer, end: int, offset: int, length: int, version: int) -> Sequence[int]:
    """The fixed fields of a block that the writer made `length` bytes long."""
    fixed = plan.fixed_at(version)
    if length < fixed.min_length:
        raise DecodeError(f"block {plan.table.name} of {length} bytes is too short for version {version}")
    _check_room(end, offset, length, plan.table.name)
    return fixed.unpack(buffer, offset)


def _group_header(plan: BlockPlan, buffer: Buffer, end: int, offset: int, version: int) -> tuple[int, int, int]:
    """Entry length, entry count and the offset of the first entry; the count is one that the buffer can hold."""
    start = _check_room(end, offset, _GROUP_HEADER.size, plan.table.name)
    length, count = _GROUP_HEADER.unpack_from(buffer, offset)
    smallest = length + _VAR_HEADER.size * sum(item.since_version <= version for item in plan.table.var_data)
    if count > 0 and (smallest == 0 or count * smallest > end - start):
        raise DecodeError(f"group {plan.table.name} of {count} entries does not fit into the buffer")
    return length, count, start


def _var_bytes(buffer: Buffer, end: int, offset: int, name: str) -> bytes:
    start = _check_room(end, offset, _VAR_HEADER.size, name)
    (length,) = _VAR_HEADER.unpack_from(buffer, offset)
    if length > MAX_VAR_DATA_LENGTH:
        raise DecodeError(f"{name} claims {length} bytes")
    return bytes(buffer[start : _check_room(end, start, length, name)])


def _read_raw(plan: BlockPlan, buffer: Buffer, offset: int, length: int, version: int) -> tuple[RawBlock, int]:
    end = len(buffer)
    values = _fixed_values(plan, buffer, end, offset, length, version)
    raw = RawBlock(dict(zip((item.name for item in plan.table.fields), values, strict=True)))
    offset += length
    for group in plan.groups:
        entries = raw.groups.setdefault(group.table.name, [])
        if group.table.since_version <= version:
            entry_length, count, offset = _group_header(group, buffer, end, offset, version)
            for _ in range(count):
                entry, offset = _read_raw(group, buffer, offset, entry_length, version)
                entries.append(entry)
    for item in plan.table.var_data:
        content = b""
        if item.since_version <= version:
            content = _var_bytes(buffer, end, offset, item.name)
            offset += _VAR_HEADER.size + len(content)
        raw.var_data[item.name] = content
    return raw, offset


def _write_raw(plan: BlockPlan, raw: RawBlock, version: int, out: bytearray) -> None:
    fixed = plan.fixed_at(version)
    names = [plan.table.fields[index].name for index in fixed.indexes]
    block = fixed.struct.pack(*(raw.fields[name] for name in names))
    out += block.ljust(plan.table.block_length(version), b"\0")
    for group in plan.groups:
        if group.table.since_version <= version:
            entries = raw.groups.get(group.table.name, [])
            out += _GROUP_HEADER.pack(group.table.block_length(version), len(entries))
            for entry in entries:
                _write_raw(group, entry, version, out)
    for item in plan.table.var_data:
        if item.since_version <= version:
            content = raw.var_data.get(item.name, b"")
            out += _VAR_HEADER.pack(len(content)) + content


class RawCodec:
    """The raw level for one schema."""

    __slots__ = ("plans", "table")

    def __init__(self, table: SchemaTable) -> None:
        self.table = table
        self.plans = {
            template_id: BlockPlan(message.block, table.version) for template_id, message in table.messages.items()
        }

    def header(self, buffer: Buffer, offset: int = 0) -> tuple[int, int, int]:
        """Block length, template id and version of the message at `offset`. Raises `DecodeError`."""
        if offset < 0 or offset + self.table.header_length > len(buffer):
            raise DecodeError(f"no room for a message header at {offset} of {len(buffer)} bytes")
        block_length, template_id, schema_id, version = _HEADER.unpack_from(buffer, offset)
        if schema_id != self.table.schema_id:
            raise DecodeError(f"schema id {schema_id} instead of {self.table.schema_id}")
        return block_length, template_id, version

    def decode(self, buffer: Buffer, offset: int = 0) -> RawMessage | None:
        """The message at `offset`, or None for an unknown template id. Raises `DecodeError`."""
        block_length, template_id, version = self.header(buffer, offset)
        plan = self.plans.get(template_id)
        if plan is None:
            return None
        block, end = _read_raw(plan, buffer, offset + self.table.header_length, block_length, version)
        message = RawMessage(template_id, version, block_length, block, encoded_length=end - offset)
        if self.table.header_length == _LONG_HEADER_LENGTH:
            message.frame_length, message.padding = _LONG_HEADER.unpack_from(buffer, offset)[4:]
        return message

    def encode(self, message: RawMessage) -> bytes:
        """The bytes a writer of schema version `message.version` produces. `KeyError` when a field is missing."""
        plan = self.plans[message.template_id]
        length = plan.table.block_length(message.version)
        out = bytearray(_HEADER.pack(length, message.template_id, self.table.schema_id, message.version))
        if self.table.header_length == _LONG_HEADER_LENGTH:
            out += struct.pack("<ii", message.frame_length, message.padding)
        _write_raw(plan, message.block, message.version, out)
        return bytes(out)


def _to_bool(value: int) -> bool:
    if value == 1:
        return True
    if value in (0, NULL_INT32):
        return False
    raise DecodeError(f"expected a boolean, got {value}")


def _to_member(enum: type[IntEnum]) -> _Converter:
    """A converter of the numbers of `enum` to its members; other numbers stay what they are."""
    members: dict[int, object] = {int(member): member for member in enum}
    return lambda value: members.get(value, value)


def _attributes(names: Sequence[str]) -> Callable[[object], tuple[int, ...]]:
    """A getter of several attributes that gives a tuple for any number of names, one and none included."""
    if not names:
        return lambda _: ()
    if len(names) == 1:
        (name,) = names
        return lambda subject: (getattr(subject, name),)
    return attrgetter(*names)


class _Mapped:
    """A block plan tied to its class."""

    __slots__ = ("cls", "converters", "get", "group_names", "groups", "is_flat", "pack", "plan", "var_data")

    def __init__(
        self,
        plan: BlockPlan,
        cls: Callable[..., object],
        classes: Mapping[str, Any],
        path: str,
    ) -> None:
        self.plan = plan
        self.cls = cls
        table = plan.table
        self.converters: list[tuple[int, _Converter]] = []
        for index, item in enumerate(table.fields):
            if item.enum == BOOLEAN_ENUM:
                self.converters.append((index, _to_bool))
            elif item.enum is not None:
                self.converters.append((index, _to_member(classes[item.enum])))
        self.get = _attributes([snake_case(item.name) for item in table.fields])
        newest = plan.fixed_at(plan.newest)
        tail = table.block_length(plan.newest) - newest.min_length
        self.pack = struct.Struct(newest.struct.format + f"{tail}x").pack
        paths = [f"{path}.{group.table.name}" for group in plan.groups]
        self.groups = tuple(
            _Mapped(group, classes[entry_class_name(inner)], classes, inner)
            for group, inner in zip(plan.groups, paths, strict=True)
        )
        self.group_names = [snake_case(group.table.name) for group in plan.groups]
        self.var_data = tuple((snake_case(item.name), item.is_text, item.since_version) for item in table.var_data)
        self.is_flat = not self.groups and not self.var_data

    def read(self, buffer: Buffer, offset: int, length: int, version: int) -> tuple[object, int]:
        end = len(buffer)
        fixed = _fixed_values(self.plan, buffer, end, offset, length, version)
        offset += length
        if self.is_flat and not self.converters:
            return self.cls(*fixed), offset
        values: list[object] = list(fixed)
        for index, convert in self.converters:
            values[index] = convert(fixed[index])
        for group in self.groups:
            entries, offset = group.read_entries(buffer, end, offset, version)
            values.append(entries)
        for name, is_text, since_version in self.var_data:
            content = b""
            if since_version <= version:
                content = _var_bytes(buffer, end, offset, name)
                offset += _VAR_HEADER.size + len(content)
            values.append(_text(content, name) if is_text else content)
        return self.cls(*values), offset

    def read_entries(self, buffer: Buffer, end: int, offset: int, version: int) -> tuple[tuple[object, ...], int]:
        if self.plan.table.since_version > version:
            return (), offset
        length, count, offset = _group_header(self.plan, buffer, end, offset, version)
        entries: list[object] = []
        for _ in range(count):
            entry, offset = self.read(buffer, offset, length, version)
            entries.append(entry)
        return tuple(entries), offset

    def write(self, message: object, out: bytearray) -> None:
        out += self.pack(*self.get(message))
        for name, group in zip(self.group_names, self.groups, strict=True):
            entries: tuple[object, ...] = getattr(message, name)
            out += _GROUP_HEADER.pack(group.plan.table.block_length(group.plan.newest), len(entries))
            for entry in entries:
                group.write(entry, out)
        for name, is_text, _ in self.var_data:
            value = getattr(message, name)
            # Characters outside US-ASCII become "?", as Java's encoder makes them.
            content: bytes = value.encode("ascii", "replace") if is_text else value
            if len(content) > MAX_VAR_DATA_LENGTH:
                raise UsageError(f"{name} of {len(content)} bytes is too long")
            out += _VAR_HEADER.pack(len(content))
            out += content


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{name} is not US-ASCII text") from error


class MessageSchema:
    """Encoder and decoder between the bytes of one schema and its generated classes.

    `classes` holds those, and the enums, by name: it is the namespace of the generated module.
    """

    def __init__(self, table: SchemaTable, classes: Mapping[str, Any]) -> None:
        self.table: Final[SchemaTable] = table
        self.raw: Final[RawCodec] = RawCodec(table)
        self._by_template: dict[int, _Mapped] = {}
        self._by_class: dict[type[Message], tuple[_Mapped, bytes]] = {}
        for template_id, plan in self.raw.plans.items():
            cls: type[Message] = classes[class_name(plan.table.name)]
            cls.TEMPLATE_ID = template_id
            mapped = _Mapped(plan, cls, classes, plan.table.name)
            length = plan.table.block_length(table.version)
            header = _HEADER.pack(length, template_id, table.schema_id, table.version)
            self._by_template[template_id] = mapped
            self._by_class[cls] = (mapped, header)

    def encode(self, message: Message) -> bytes:
        """Header and body. Raises `UsageError` when a value does not fit its field."""
        mapped, header = self._lookup(type(message))
        out = bytearray(header)
        has_frame_length = self.table.header_length == _LONG_HEADER_LENGTH
        if has_frame_length:
            out += bytes(8)
        self._write(mapped, message, out)
        if has_frame_length:
            struct.pack_into("<i", out, 8, len(out))
        return bytes(out)

    def encode_body(self, message: Message) -> bytes:
        """The body alone, for records on disk without a message header."""
        out = bytearray()
        self._write(self._lookup(type(message))[0], message, out)
        return bytes(out)

    def decode(self, buffer: Buffer, offset: int = 0) -> Message | None:
        """The message at `offset`, or None for an unknown template id. Raises `DecodeError` for anything malformed.

        Bytes after the message are ignored: payload of a SessionMessageHeader, or var data of a newer writer.
        """
        decoded = self.decode_with_end(buffer, offset)
        return None if decoded is None else decoded[0]

    def decode_with_end(self, buffer: Buffer, offset: int = 0) -> tuple[Message, int] | None:
        """Like `decode`, with the offset after the last byte that belongs to the message."""
        block_length, template_id, version = self.raw.header(buffer, offset)
        mapped = self._by_template.get(template_id)
        if mapped is None:
            return None
        message, end = mapped.read(buffer, offset + self.table.header_length, block_length, version)
        assert isinstance(message, Message)
        return message, end

    def decode_body(self, cls: type[_M], buffer: Buffer, offset: int = 0, version: int | None = None) -> _M:
        """A record without a message header at `offset`, as a writer of `version` (ours if None) laid it out.

        Raises `DecodeError`.
        """
        if offset < 0:
            raise DecodeError(f"negative offset {offset}")
        plan = self._lookup(cls)[0]
        writer = self.table.version if version is None else version
        message, _ = plan.read(buffer, offset, plan.plan.table.block_length(writer), writer)
        assert isinstance(message, cls)
        return message

    def _lookup(self, cls: type[Message]) -> tuple[_Mapped, bytes]:
        known = self._by_class.get(cls)
        if known is None:
            raise UsageError(f"{cls.__name__} is not a message of schema {self.table.schema_id}")
        return known

    @staticmethod
    def _write(mapped: _Mapped, message: Message, out: bytearray) -> None:
        try:
            mapped.write(message, out)
        except struct.error as error:
            raise UsageError(f"{message!r} does not fit its schema: {error}") from error
