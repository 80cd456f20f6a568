"""How one value of fixed length is laid out in a buffer: numbers, text, arrays, enums, sets, composites, constants.

An encoding reads a value at an offset where its `size` bytes are known to be, and writes one there. What it cannot
write raises `UsageError` without the name of the field, which its caller adds.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from upheaval_node.errors import UsageError
from upheaval_node.ports import Buffer
from upheaval_node.sbe.values import Name, SbeValues, Value
from upheaval_node.suggestions import did_you_mean

CHAR: Final = "char"
CODES: Final[Mapping[str, str]] = {
    CHAR: "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float": "f",
    "double": "d",
}
"""Of the primitive types, in the letters of `struct`."""
FLOATS: Final = ("float", "double")


class Encoding(Protocol):
    """A value of `size` bytes. `version` is that of the schema that the writer had."""

    @property
    def size(self) -> int: ...

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:
        """The value; None where it is null."""

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        """Raises `UsageError` for a value that does not fit."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of the primitive types, in the byte order of the schema."""

    name: str
    packer: struct.Struct

    @property
    def size(self) -> int:
        """In bytes."""
        return self.packer.size

    @property
    def default_null(self) -> int | float:
        """The value that means no value, unless the schema names another one (SBE 1.0, table 4)."""
        if self.name in FLOATS:
            return float("nan")
        bits = 8 * self.size
        if self.name == CHAR:
            return 0
        return (1 << bits) - 1 if self.name.startswith("u") else -(1 << bits - 1)

    def read(self, buffer: Buffer, offset: int) -> int | float:
        """The number there."""
        number: int | float = self.packer.unpack_from(buffer, offset)[0]
        return number

    def write(self, buffer: bytearray, offset: int, number: Value) -> None:
        """Raises `UsageError` for what is no such number."""
        try:
            self.packer.pack_into(buffer, offset, number)
        except (struct.error, OverflowError, TypeError) as error:
            raise UsageError(f"{number!r} does not fit {self.name}") from error


def primitive(name: str, *, is_big_endian: bool) -> Primitive:
    """The primitive type of that name."""
    return Primitive(name, struct.Struct((">" if is_big_endian else "<") + CODES[name]))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, or one character as a text."""

    primitive: Primitive
    null: int | float
    is_optional: bool

    @property
    def size(self) -> int:
        return self.primitive.size

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:  # noqa: ARG002 - the same in each version
        number = self.primitive.read(buffer, offset)
        # NaN is the only number that is not itself.
        if self.is_optional and (number == self.null or (self.null != self.null and number != number)):
            return None
        return chr(int(number)) if self.primitive.name == CHAR else number

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        if value is None and self.is_optional:
            value = self.null
        elif isinstance(value, str) and self.primitive.name == CHAR and len(value) == 1:
            value = ord(value)
        self.primitive.write(buffer, offset, value)


@dataclass(frozen=True, slots=True)
class Text:
    """Characters in a fixed number of bytes, the rest of which is zero."""

    size: int
    charset: str

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:  # noqa: ARG002 - the same in each version
        whole = bytes(buffer[offset : offset + self.size])
        content, _, rest = whole.partition(b"\0")
        if rest.strip(b"\0"):
            return whole
        return decoded_text(content, self.charset)

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        content = encoded_text(value, self.charset)
        if len(content) > self.size or (isinstance(value, str) and b"\0" in content):
            raise UsageError(f"{value!r} is not a text of at most {self.size} bytes")
        buffer[offset : offset + self.size] = content.ljust(self.size, b"\0")


def decoded_text(content: bytes, charset: str) -> str | bytes:
    """Bytes that are no such text stay bytes."""
    try:
        return content.decode(charset)
    except UnicodeDecodeError:
        return content


def encoded_text(value: Value, charset: str) -> bytes:
    """Of a text, or the bytes that are given instead of one. Raises `UsageError`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise UsageError(f"{value!r} is neither text nor bytes")
    try:
        return value.encode(charset)
    except UnicodeEncodeError as error:
        raise UsageError(f"{value!r} is not a text in {charset}") from error


@dataclass(frozen=True, slots=True)
class Array:
    """So many numbers, one after the other."""

    primitive: Primitive
    count: int

    @property
    def size(self) -> int:
        return self.count * self.primitive.size

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:  # noqa: ARG002 - the same in each version
        step = self.primitive.size
        return tuple(self.primitive.read(buffer, offset + step * index) for index in range(self.count))

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        if not isinstance(value, Sequence | bytearray) or isinstance(value, str) or len(value) != self.count:
            raise UsageError(f"{value!r} is not a sequence of {self.count} numbers")
        for index, number in enumerate(value):
            self.primitive.write(buffer, offset + self.primitive.size * index, number)


@dataclass(frozen=True, slots=True)
class Enum:
    """The name of a value; a number that the schema has no name for stays a number."""

    primitive: Primitive
    null: int
    numbers: Mapping[str, int]
    names: Mapping[int, Name]

    @property
    def size(self) -> int:
        return self.primitive.size

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:  # noqa: ARG002 - unknown ones stay numbers
        number = int(self.primitive.read(buffer, offset))
        if number in self.names:
            return self.names[number]
        return None if number == self.null else number

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        if isinstance(value, str):
            value = _known(value, self.numbers)
        self.primitive.write(buffer, offset, self.null if value is None else value)


@dataclass(frozen=True, slots=True)
class ChoiceSet:
    """The names of the choices whose bit is set; a bit that the schema has no name for is its number."""

    primitive: Primitive
    bits: Mapping[str, int]
    names: Mapping[int, Name]

    @property
    def size(self) -> int:
        return self.primitive.size

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:  # noqa: ARG002 - unknown ones stay numbers
        number = int(self.primitive.read(buffer, offset))
        return frozenset(self.names.get(bit, bit) for bit in range(8 * self.size) if number >> bit & 1)

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise UsageError(f"{value!r} is not a collection of names")
        number = 0
        for choice in value:
            bit = _known(choice, self.bits) if isinstance(choice, str) else choice
            if not isinstance(bit, int) or not 0 <= bit < 8 * self.size:
                raise UsageError(f"{choice!r} is not a bit of {self.size} bytes")
            number |= 1 << bit
        self.primitive.write(buffer, offset, number)


def _known(name: str, numbers: Mapping[str, int]) -> int:
    if name not in numbers:
        raise UsageError(f"unknown value {name!r}: use {', '.join(numbers)}{did_you_mean(name, numbers)}")
    return numbers[name]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the schema has, and no message."""

    value: Value
    size: int = 0

    def read(self, buffer: Buffer, offset: int, version: int) -> Value:  # noqa: ARG002 - nothing is there
        return self.value

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:  # noqa: ARG002 - nothing is there
        if value is not None and value != self.value:
            raise UsageError(f"{value!r} is not the constant {self.value!r}")


@dataclass(frozen=True, slots=True)
class Member:
    """A part of a composite, or a fixed field of a block."""

    name: str
    offset: int
    encoding: Encoding
    since_version: int = 0
    is_optional: bool = False

    @property
    def end(self) -> int:
        """The first offset after it."""
        return self.offset + self.encoding.size

    def write(self, buffer: bytearray, begin: int, value: Value) -> None:
        """Raises `UsageError` with its name."""
        try:
            self.encoding.write(buffer, begin + self.offset, value)
        except UsageError as error:
            raise UsageError(f"{self.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Composite:
    """Named values at fixed offsets."""

    members: tuple[Member, ...]
    size: int

    def read(self, buffer: Buffer, offset: int, version: int) -> SbeValues:
        return SbeValues(
            {
                member.name: None
                if member.since_version > version
                else member.encoding.read(buffer, offset + member.offset, version)
                for member in self.members
            }
        )

    def write(self, buffer: bytearray, offset: int, value: Value) -> None:
        if not isinstance(value, Mapping):
            raise UsageError(f"{value!r} is not a mapping of {', '.join(member.name for member in self.members)}")
        require_known(value, [member.name for member in self.members])
        for member in self.members:
            member.write(buffer, offset, value.get(member.name))


def require_known(names: Iterable[str], known: Sequence[str]) -> None:
    """Raises `UsageError` for a name that is not among those of the schema."""
    for name in names:
        if name not in known:
            fields = f"use {', '.join(known)}" if known else "there is none"
            raise UsageError(f"unknown field {name!r}: {fields}{did_you_mean(name, known)}")
