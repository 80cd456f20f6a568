"""Blocks: fixed fields, then groups of blocks, then data of variable length, in the order in which they are sent.

A writer's block length gives the end of the fixed fields, its version gives the fields. Both come from the network, as
do the counts of groups and the lengths of data. Each is checked before it is used, and all groups of a message together
have no more entries than the message has bytes, so that decoding takes a multiple of its bytes, whatever they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.ports import Buffer
from upheaval_node.sbe.encodings import Composite, Constant, Member, decoded_text, encoded_text, require_known
from upheaval_node.sbe.errors import SbeError
from upheaval_node.sbe.values import SbeValues, Value

BLOCK_LENGTH: Final = "blockLength"
NUM_IN_GROUP: Final = "numInGroup"
LENGTH: Final = "length"
ALL_VERSIONS: Final = 1 << 32
"""Headers have all their members, whatever version the writer had."""


@dataclass(slots=True)
class Cursor:
    """A place in a message that is read; `entries_left` is how many entries its groups may still have."""

    buffer: Buffer
    version: int
    offset: int
    entries_left: int

    def take(self, length: int, what: str) -> int:
        """Go on over so many bytes, and return where they begin. Raises `SbeError` where they are not there."""
        left = len(self.buffer) - self.offset
        if length > left:
            raise SbeError(f"{what}: {length} bytes at offset {self.offset}, {left} are left")
        self.offset += length
        return self.offset - length

    def take_header(self, header: Composite, what: str) -> SbeValues:
        """Go on over a header. Raises `SbeError` where it is not there."""
        return header.read(self.buffer, self.take(header.size, what), ALL_VERSIONS)


@dataclass(frozen=True, slots=True)
class Data:
    """Data of variable length: its length, then so many bytes, a text where there is a `charset`."""

    name: str
    header: Composite
    charset: str
    since_version: int

    def read(self, cursor: Cursor) -> Value:
        """Raises `SbeError`."""
        header = cursor.take_header(self.header, self.name)
        begin = cursor.take(header_number(header, LENGTH, self.name), self.name)
        content = bytes(cursor.buffer[begin : cursor.offset])
        return decoded_text(content, self.charset) if self.charset else content

    def write(self, buffer: bytearray, value: Value) -> None:
        """Raises `UsageError`."""
        content = b"" if value is None else encoded_text(value, self.charset or "utf-8")
        begin = len(buffer)
        buffer += bytes(self.header.size)
        write_header(self.header, buffer, begin, {LENGTH: len(content)})
        buffer += content


@dataclass(frozen=True, slots=True)
class Group:
    """A group: block length and number of its entries, then these."""

    name: str
    header: Composite
    block: "Block"
    since_version: int

    def read(self, cursor: Cursor) -> tuple[SbeValues, ...]:
        """Raises `SbeError`."""
        header = cursor.take_header(self.header, self.name)
        count, length = (header_number(header, name, self.name) for name in (NUM_IN_GROUP, BLOCK_LENGTH))
        if count > cursor.entries_left or count * length > len(cursor.buffer) - cursor.offset:
            raise SbeError(f"{self.name}: {count} entries of {length} bytes at offset {cursor.offset} are not there")
        cursor.entries_left -= count
        return tuple(SbeValues(self.block.read(cursor, length)) for _ in range(count))

    def write(self, buffer: bytearray, value: Value) -> None:
        """Raises `UsageError`."""
        entries = () if value is None else value
        if not isinstance(entries, Sequence) or isinstance(entries, str | bytes | bytearray):
            raise UsageError(f"{entries!r} is not a sequence of entries")
        begin = len(buffer)
        buffer += bytes(self.header.size)
        write_header(
            self.header, buffer, begin, {BLOCK_LENGTH: self.block.length, NUM_IN_GROUP: len(entries), **self._counts()}
        )
        for index, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise UsageError(f"entry {index}: {entry!r} is not a mapping of {', '.join(self.block.names)}")
            try:
                self.block.write(buffer, entry)
            except UsageError as error:
                raise UsageError(f"entry {index}: {error}") from error

    def _counts(self) -> dict[str, int]:
        """What later versions of SBE say of a group beside its length and count."""
        return {"numGroups": len(self.block.groups), "numVarDataFields": len(self.block.data)}


@dataclass(frozen=True, slots=True)
class Block:
    """A message's own block, or that of an entry; `length` is that of its fixed fields in this version."""

    length: int
    fields: tuple[Member, ...]
    groups: tuple[Group, ...]
    data: tuple[Data, ...]

    @property
    def names(self) -> list[str]:
        """Of all its fields, in order."""
        return [part.name for parts in (self.fields, self.groups, self.data) for part in parts]

    @property
    def required(self) -> list[str]:
        """The names of those that have to be set in a message."""
        return [
            field.name for field in self.fields if not field.is_optional and not isinstance(field.encoding, Constant)
        ]

    def read(self, cursor: Cursor, length: int) -> dict[str, Value]:
        """The values by name; None, or no entries, for what the writer's version lacks. Raises `SbeError`."""
        begin = cursor.take(length, "block")
        version = cursor.version
        values: dict[str, Value] = {}
        for field in self.fields:
            is_there = field.since_version <= version
            if is_there and field.end > length:
                raise SbeError(f"{field.name}: ends after the block of {length} bytes")
            values[field.name] = field.encoding.read(cursor.buffer, begin + field.offset, version) if is_there else None
        for group in self.groups:
            values[group.name] = group.read(cursor) if group.since_version <= version else ()
        for item in self.data:
            values[item.name] = item.read(cursor) if item.since_version <= version else None
        return values

    def write(self, buffer: bytearray, values: Mapping[str, Value]) -> None:
        """Raises `UsageError` with the name of the field that is unknown, missing or does not fit."""
        require_known(values, self.names)
        missing = [name for name in self.required if name not in values]
        if missing:
            raise UsageError(f"missing {', '.join(missing)}")
        begin = len(buffer)
        buffer += bytes(self.length)
        for field in self.fields:
            field.write(buffer, begin, values.get(field.name))
        parts: tuple[Group | Data, ...] = (*self.groups, *self.data)
        for part in parts:
            try:
                part.write(buffer, values.get(part.name))
            except UsageError as error:
                raise UsageError(f"{part.name}: {error}") from error


def header_number(header: SbeValues, name: str, what: str) -> int:
    """A length, a count or an id. Raises `SbeError` for a negative one and for none."""
    number = header[name]
    if not isinstance(number, int) or number < 0:
        raise SbeError(f"{what}: {name} is {number}")
    return number


def write_header(header: Composite, buffer: bytearray, offset: int, values: Mapping[str, int]) -> None:
    """The members of a header that `values` has; others, which some schemas add, are 0. Raises `UsageError`."""
    for member in header.members:
        if not isinstance(member.encoding, Constant):
            member.write(buffer, offset, values.get(member.name, 0))
