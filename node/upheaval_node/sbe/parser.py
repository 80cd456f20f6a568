"""Reads a schema: the XML of SBE 1.0, as `sbe-tool` takes it.

What is wrong with a schema is one line with the place: `protocol.xml:12: field 'price': unknown type 'Prise'`.
"""

import os
from pathlib import Path
from typing import Final

from upheaval_node.sbe.blocks import BLOCK_LENGTH, LENGTH, NUM_IN_GROUP, Block, Data, Group
from upheaval_node.sbe.encodings import CHAR, FLOATS, Composite, Constant, Encoding, Member, Scalar
from upheaval_node.sbe.errors import SchemaError
from upheaval_node.sbe.schema import SCHEMA_ID, TEMPLATE_ID, VERSION, SbeSchema
from upheaval_node.sbe.types import Types, charset, integer
from upheaval_node.sbe.xml_tree import Element, parse_tree, read_tree

_ROOT: Final = "messageSchema"
_HEADER: Final = (BLOCK_LENGTH, TEMPLATE_ID, SCHEMA_ID, VERSION)
_DIMENSIONS: Final = (BLOCK_LENGTH, NUM_IN_GROUP)
_ASCII: Final = "ascii"
_VAR_DATA: Final = "varData"
_BIG_ENDIAN: Final = "bigEndian"
_BYTE_ORDERS: Final = ("littleEndian", _BIG_ENDIAN)


def load_schema(path: str | os.PathLike[str]) -> SbeSchema:
    """The schema in an XML file. Raises `SchemaError` with file and line."""
    return _schema(read_tree(Path(path)))


def parse_schema(content: str | bytes, name: str = "schema") -> SbeSchema:
    """The schema of an XML text; `name` is what errors call it. Raises `SchemaError`."""
    return _schema(parse_tree(content.encode() if isinstance(content, str) else content, name))


def _schema(root: Element) -> SbeSchema:
    if root.tag != _ROOT:
        raise SchemaError(f"{root.place}: expected the element {_ROOT}, got {root.tag}")
    order = root.get("byteOrder", _BYTE_ORDERS[0])
    if order not in _BYTE_ORDERS:
        raise SchemaError(f"{root.place}: byteOrder {order!r}: use {' or '.join(_BYTE_ORDERS)}")
    types = Types(is_big_endian=order == _BIG_ENDIAN)
    for group in root.named("types"):
        types.add(group.children)
    header = _header(types, root, root.get("headerType", "messageHeader"), _HEADER)
    schema = SbeSchema(integer(root, "id"), integer(root, "version", 0), header, root.to_xml())
    for element in root.named("message"):
        try:
            schema.add(element.get("name"), integer(element, "id"), _block(types, element))
        except ValueError as error:
            raise SchemaError(f"{element.place}: {error}") from error
    if not schema.messages:
        raise SchemaError(f"{root.place}: the schema has no message")
    return schema


def _header(types: Types, element: Element, name: str, members: tuple[str, ...]) -> Composite:
    """A composite with the numbers that a header needs."""
    encoding = types.named(element, name)
    if not isinstance(encoding, Composite):
        raise SchemaError(f"{element.place}: type {name!r} is no composite")
    numbers = [member.name for member in encoding.members if _is_number(member.encoding)]
    for wanted in members:
        if wanted not in numbers:
            raise SchemaError(f"{element.place}: type {name!r} has no number {wanted!r}")
    return encoding


def _is_number(encoding: Encoding) -> bool:
    if isinstance(encoding, Constant):
        return isinstance(encoding.value, int)
    return isinstance(encoding, Scalar) and encoding.primitive.name not in (CHAR, *FLOATS)


def _block(types: Types, element: Element) -> Block:
    fields: list[Member] = []
    end = 0
    names: set[str] = set()
    for child in element.named("field", "group", "data"):
        name = child.get("name")
        if not name or name in names:
            raise SchemaError(f"{child.place}: {child.tag} {name!r}: expected a name that no other has")
        names.add(name)
        if child.tag == "field":
            fields.append(_field(types, child, end))
            end = fields[-1].end
    length = integer(element, BLOCK_LENGTH, end)
    if length < end:
        raise SchemaError(f"{element.place}: {element.get('name')!r}: blockLength {length}, its fields take {end}")
    groups = tuple(_group(types, child) for child in element.named("group"))
    return Block(length, tuple(fields), groups, tuple(_data(types, child) for child in element.named("data")))


def _field(types: Types, element: Element, end: int) -> Member:
    encoding: Encoding = types.field(element)
    offset = integer(element, "offset", end)
    if offset < end:
        raise SchemaError(f"{element.place}: field {element.get('name')!r}: offset {offset}, {end} bytes are taken")
    is_optional = element.get("presence") == "optional" or getattr(encoding, "is_optional", False)
    return Member(element.get("name"), offset, encoding, integer(element, "sinceVersion", 0), is_optional)


def _group(types: Types, element: Element) -> Group:
    header = _header(types, element, element.get("dimensionType", "groupSizeEncoding"), _DIMENSIONS)
    return Group(element.get("name"), header, _block(types, element), integer(element, "sinceVersion", 0))


def _data(types: Types, element: Element) -> Data:
    name = element.get("type")
    header = _header(types, element, name, (LENGTH,))
    content = types.element(name)
    variable = next((child for child in content.named("type") if child.get("name") == _VAR_DATA), None)
    if variable is None:
        raise SchemaError(f"{element.place}: type {name!r} has no member {_VAR_DATA!r}")
    text = charset(variable, _ASCII if variable.get("primitiveType") == CHAR else "")
    sized = Composite(tuple(member for member in header.members if member.name != _VAR_DATA), header.size)
    return Data(element.get("name"), sized, text, integer(element, "sinceVersion", 0))
