"""The types of a schema by their names, and their encodings."""

import codecs
from collections.abc import Iterable
from typing import Final

from upheaval_node.sbe.encodings import (
    CHAR,
    CODES,
    FLOATS,
    Array,
    ChoiceSet,
    Composite,
    Constant,
    Encoding,
    Enum,
    Member,
    Primitive,
    Scalar,
    Text,
    primitive,
)
from upheaval_node.sbe.errors import SchemaError
from upheaval_node.sbe.values import Name, Value
from upheaval_node.sbe.xml_tree import Element
from upheaval_node.suggestions import did_you_mean

KINDS: Final = ("type", "composite", "enum", "set")
CONSTANT: Final = "constant"
OPTIONAL: Final = "optional"
PRESENCES: Final = ("required", OPTIONAL, CONSTANT)
SIZE_MAX: Final = 1 << 20
"""Of one fixed field, in bytes: a longer one is a mistake in the schema."""


def integer(element: Element, name: str, default: int | None = None) -> int:
    """An attribute that is a number from 0 on; without a default it has to be there. Raises `SchemaError`."""
    text = element.get(name)
    if not text and default is not None:
        return default
    if not text.isascii() or not text.isdigit():
        what = f"{element.tag} {element.get('name')!r}: {name}"
        raise SchemaError(f"{element.place}: {what}: expected a number from 0 on, got {text!r}")
    return int(text)


def charset(element: Element, default: str = "") -> str:
    """Its characterEncoding as Python names it; empty for none. Raises `SchemaError` for an unknown one."""
    name = element.get("characterEncoding", default)
    try:
        return codecs.lookup(name).name if name else ""
    except LookupError as error:
        raise SchemaError(f"{element.place}: unknown characterEncoding {name!r}") from error


class Types:
    """The elements of types by name; each is made into an encoding where it is used."""

    def __init__(self, *, is_big_endian: bool) -> None:
        self._primitives = {name: primitive(name, is_big_endian=is_big_endian) for name in CODES}
        self._elements: dict[str, Element] = {}
        self._open: list[str] = []

    def add(self, elements: Iterable[Element]) -> None:
        """Add types. Raises `SchemaError` for one that has no name, or whose name is taken."""
        for element in elements:
            name = element.get("name")
            if element.tag == "types":
                # An included file brings them in an element of its own.
                self.add(element.children)
            elif element.tag not in KINDS or not name or name in self._elements or name in CODES:
                raise SchemaError(f"{element.place}: {element.tag} {name!r}: expected a type with a name of its own")
            else:
                self._elements[name] = element

    def element(self, name: str) -> Element:
        """That of a type that `named` knows."""
        return self._elements[name]

    def named(self, user: Element, name: str) -> Encoding:
        """The encoding of a type that `user` names. Raises `SchemaError`."""
        if name in self._primitives:
            return self._of_type(user, user, self._primitives[name])
        if name not in self._elements:
            hint = did_you_mean(name, [*self._elements, *CODES])
            raise SchemaError(f"{user.place}: {user.tag} {user.get('name')!r}: unknown type {name!r}{hint}")
        if name in self._open:
            raise SchemaError(f"{user.place}: type {name!r} is part of itself")
        self._open.append(name)
        try:
            return self._encoding(self._elements[name], user)
        finally:
            self._open.pop()

    def field(self, element: Element) -> Encoding:
        """The encoding of a field of a message. Raises `SchemaError`."""
        encoding = self.named(element, element.get("type"))
        if self._presence(element) != CONSTANT or isinstance(encoding, Constant):
            return encoding
        return Constant(self._referred(element, element.get("valueRef")))

    def _encoding(self, element: Element, user: Element) -> Encoding:
        match element.tag:
            case "composite":
                return self._composite(element)
            case "enum":
                return self._enum(element, user)
            case "set":
                return self._set(element)
        return self._of_type(element, user, self._primitive(element, "primitiveType"))

    def _primitive(self, element: Element, attribute: str) -> Primitive:
        """The primitive type that an attribute names, as such or by a type that is one."""
        name = element.get(attribute)
        if name in self._elements:
            name = self._elements[name].get("primitiveType")
        if name not in self._primitives:
            hint = did_you_mean(name, CODES)
            what = f"{element.tag} {element.get('name')!r}"
            raise SchemaError(f"{element.place}: {what}: {attribute} {name!r}: use {', '.join(CODES)}{hint}")
        return self._primitives[name]

    def _of_type(self, element: Element, user: Element, kind: Primitive) -> Encoding:
        presence = CONSTANT if self._presence(element) == CONSTANT else self._presence(user, self._presence(element))
        if presence == CONSTANT and (element is not user or element.tag == "type"):
            return Constant(self._constant(element, kind))
        count = integer(element, "length", 1) if element.tag == "type" else 1
        if count * kind.size > SIZE_MAX:
            raise SchemaError(f"{element.place}: type {element.get('name')!r}: more than {SIZE_MAX} bytes")
        if count != 1:
            return Text(count, charset(element, "ascii")) if kind.name == CHAR else Array(kind, count)
        null = element.get("nullValue") or user.get("nullValue")
        return Scalar(kind, self._number(element, kind, null) if null else kind.default_null, presence == OPTIONAL)

    def _presence(self, element: Element, default: str = PRESENCES[0]) -> str:
        presence = element.get("presence", default)
        if presence not in PRESENCES:
            raise SchemaError(f"{element.place}: presence {presence!r}: use {', '.join(PRESENCES)}")
        return presence

    def _constant(self, element: Element, kind: Primitive) -> Value:
        text = element.text.strip()
        if element.get("valueRef"):
            return self._referred(element, element.get("valueRef"))
        return text if kind.name == CHAR else self._number(element, kind, text)

    def _number(self, element: Element, kind: Primitive, text: str) -> int | float:
        try:
            if kind.name in FLOATS:
                return float(text)
            return ord(text) if kind.name == CHAR and len(text) == 1 and not text.isdigit() else int(text)
        except ValueError as error:
            raise SchemaError(f"{element.place}: {text!r} does not fit {kind.name}") from error

    def _referred(self, element: Element, reference: str) -> str:
        """The name of an enum's value, of `Enum.value`."""
        enum, _, name = reference.partition(".")
        known = self._elements.get(enum)
        values = [] if known is None or known.tag != "enum" else [value.get("name") for value in known.children]
        if name not in values:
            raise SchemaError(f"{element.place}: valueRef {reference!r}: expected a value of an enum, as in Side.BUY")
        return Name(name)

    def _enum(self, element: Element, user: Element) -> Encoding:
        kind = self._primitive(element, "encodingType")
        numbers: dict[str, int] = {}
        for value in element.named("validValue"):
            text = value.text.strip()
            if kind.name == CHAR:
                if len(text) != 1 or not text.isascii():
                    raise SchemaError(f"{value.place}: {text!r} is not a character")
                numbers[value.get("name")] = ord(text)
            else:
                numbers[value.get("name")] = int(self._number(value, kind, text))
        null = element.get("nullValue") or user.get("nullValue")
        null_number = int(self._number(element, kind, null) if null else kind.default_null)
        return Enum(kind, null_number, numbers, {number: Name(name) for name, number in numbers.items()})

    def _set(self, element: Element) -> Encoding:
        kind = self._primitive(element, "encodingType")
        bits: dict[str, int] = {}
        for choice in element.named("choice"):
            text = choice.text.strip()
            if not text.isascii() or not text.isdigit() or int(text) >= 8 * kind.size or kind.name in FLOATS:
                raise SchemaError(
                    f"{choice.place}: choice {choice.get('name')!r}: {text!r} is not a bit of {kind.name}"
                )
            bits[choice.get("name")] = int(text)
        return ChoiceSet(kind, bits, {bit: Name(name) for name, bit in bits.items()})

    def _composite(self, element: Element) -> Composite:
        members: list[Member] = []
        end = 0
        for child in element.children:
            member = self._member(child, end)
            if member.offset < end or any(member.name == other.name for other in members):
                raise SchemaError(f"{child.place}: {child.tag} {member.name!r}: its bytes or its name are taken")
            members.append(member)
            end = member.end
        return Composite(tuple(members), end)

    def _member(self, element: Element, end: int) -> Member:
        if element.tag not in (*KINDS, "ref"):
            raise SchemaError(f"{element.place}: expected {', '.join(KINDS)} or ref, got {element.tag}")
        encoding = (
            self.named(element, element.get("type")) if element.tag == "ref" else self._encoding(element, element)
        )
        offset, since = integer(element, "offset", end), integer(element, "sinceVersion", 0)
        return Member(element.get("name"), offset, encoding, since)
