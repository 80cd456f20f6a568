"""A schema that cannot be used is refused in one line with file and line; what is valid in SBE 1.0 is taken."""

import struct
from pathlib import Path

import pytest

from support.sbe_schemas import DIMENSIONS, HEADER, every_kind
from upheaval_node.sbe import SchemaError, load_schema, parse_schema


def schema(types: str = "", messages: str = '\n<message name="M" id="1"/>', attributes: str = 'id="1"') -> str:
    """Types and messages begin in lines 2 and 3."""
    head = f"<messageSchema {attributes}><types>{HEADER.format(more='')}{DIMENSIONS}"
    return f"{head}\n{types}</types>{messages}</messageSchema>"


def field(attributes: str, types: str = "") -> str:
    return schema(types, f'\n<message name="M" id="1"><field name="f" {attributes}/></message>')


def typed(types: str) -> str:
    return field('type="T"', types)


def message(content: str) -> str:
    return schema(messages=f'\n<message name="M" id="1">{content}</message>')


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("<messageSchema", "s.xml:1: unclosed token"),
        ("", "s.xml:1: no element found"),
        ("<a></b>", "s.xml:1: mismatched tag"),
        ("<schema/>", "s.xml:1: expected the element messageSchema, got schema"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "s.xml:1: a document type: remove it"),
        ("<a>" * 50, "s.xml:1: more than 40 elements in one another"),
        ('<messageSchema id="1"/>', "s.xml:1: messageSchema '': unknown type 'messageHeader'"),
        (schema(attributes=""), "s.xml:1: messageSchema '': id: expected a number from 0 on, got ''"),
        (schema(attributes='id="x"'), "s.xml:1: messageSchema '': id: expected a number from 0 on, got 'x'"),
        (schema(attributes='id="1" byteOrder="x"'), "s.xml:1: byteOrder 'x': use littleEndian or bigEndian"),
        (schema(messages=""), "s.xml:1: the schema has no message"),
        (
            schema('<type name="int8" primitiveType="int8"/>'),
            "s.xml:2: type 'int8': expected a type with a name of its own",
        ),
        (schema('<thing name="t"/>'), "s.xml:2: thing 't': expected a type with a name of its own"),
        (schema(messages='\n<message name="M" id="1"/>\n<message name="N" id="1"/>'), "s.xml:4: duplicate message 'N'"),
        (
            field('type="Prise"', '<type name="Price" primitiveType="int8"/>'),
            "s.xml:3: field 'f': unknown type 'Prise'; did you mean 'Price'?",
        ),
        (typed('<type name="T" primitiveType="int7"/>'), "s.xml:2: type 'T': primitiveType 'int7': use char, int8"),
        (typed('<composite name="T"><ref name="r" type="T"/></composite>'), "s.xml:2: type 'T' is part of itself"),
        (
            typed('<composite name="T"><thing/></composite>'),
            "s.xml:2: expected type, composite, enum, set or ref, got thing",
        ),
        (
            typed('<type name="T" primitiveType="int64" length="9999999"/>'),
            "s.xml:2: type 'T': more than 1048576 bytes",
        ),
        (
            typed('<type name="T" primitiveType="char" length="4" characterEncoding="x"/>'),
            "s.xml:2: unknown characterEncoding 'x'",
        ),
        (typed('<type name="T" primitiveType="int8" presence="constant">x</type>'), "s.xml:2: 'x' does not fit int8"),
        (
            typed('<enum name="T" encodingType="int8"><validValue name="A">x</validValue></enum>'),
            "s.xml:2: 'x' does not fit int8",
        ),
        (
            typed('<enum name="T" encodingType="char"><validValue name="A">xy</validValue></enum>'),
            "s.xml:2: 'xy' is not a character",
        ),
        (
            typed('<set name="T" encodingType="uint8"><choice name="A">8</choice></set>'),
            "s.xml:2: choice 'A': '8' is not a bit of uint8",
        ),
        (field('type="int8" presence="maybe"'), "s.xml:3: presence 'maybe': use required, optional, constant"),
        (
            field('type="int8" presence="constant" valueRef="T.A"'),
            "s.xml:3: valueRef 'T.A': expected a value of an enum",
        ),
        (
            field('type="int8"').replace('id="1"><field', 'id="1" blockLength="0"><field'),
            "s.xml:3: 'M': blockLength 0, its fields take 1",
        ),
        (
            message('<field name="a" type="int8"/><field name="a" type="int8"/>'),
            "s.xml:3: field 'a': expected a name that no other has",
        ),
        (
            message('<field name="a" type="int8"/><field name="b" offset="0" type="int8"/>'),
            "s.xml:3: field 'b': offset 0, 1 bytes are taken",
        ),
        (
            message('<group name="g" dimensionType="messageHeader"/>'),
            "s.xml:3: type 'messageHeader' has no number 'numInGroup'",
        ),
        (message('<data name="d" type="messageHeader"/>'), "s.xml:3: type 'messageHeader' has no number 'length'"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_its_line(content: str, line: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_schema(content, "s.xml")
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"cannot read .*none\.xml: No such file"):
        load_schema(tmp_path / "none.xml")


def test_included_types_are_part_of_the_schema_and_of_its_source(tmp_path: Path) -> None:
    types = '<types><type name="Price" primitiveType="int64"/></types>'
    (tmp_path / "common.xml").write_text(types, encoding="utf-8")
    main = schema(messages='<message name="M" id="1"><field name="price" type="Price"/></message>')
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="common.xml"/>'
    (tmp_path / "main.xml").write_text(main.replace("</types><message", f"</types>{include}<message"), encoding="utf-8")
    loaded = load_schema(tmp_path / "main.xml")
    payload = loaded.M(price=5).encode()
    assert parse_schema(loaded.source).decode(payload).price == 5


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="a.xml"/>'
    (tmp_path / "a.xml").write_text(f"<messageSchema>{include}</messageSchema>", encoding="utf-8")
    with pytest.raises(SchemaError, match=r"a\.xml:1: more than 50 files are included"):
        load_schema(tmp_path / "a.xml")


def test_the_source_of_a_schema_is_the_same_schema() -> None:
    first = parse_schema(every_kind("bigEndian"))
    again = parse_schema(first.source)
    assert again.source == first.source
    assert list(again.messages) == ["Everything", "Empty", "Counted"]
    payload = struct.pack(">HHHH", 120, 1, 7, 2) + bytes(range(120)) + bytes(20)
    assert str(again.decode(payload)) == str(first.decode(payload))
