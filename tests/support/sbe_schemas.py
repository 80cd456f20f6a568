"""Schemas in the XML of SBE: those of Aeron, written from our tables of them, and one that has every kind of field."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from xml.sax.saxutils import quoteattr

HEADER = (
    '<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>'
    '<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>'
    '<type name="version" primitiveType="uint16"/>{more}</composite>'
)
DIMENSIONS = (
    '<composite name="groupSizeEncoding"><type name="blockLength" primitiveType="uint16"/>'
    '<type name="numInGroup" primitiveType="uint16"/></composite>'
)
_LONG_HEADER = 16
_DATA = (
    '<composite name="varDataEncoding"><type name="length" primitiveType="uint32"/>'
    '<type name="varData" primitiveType="uint8" length="0"/></composite>'
    '<composite name="varAsciiEncoding"><type name="length" primitiveType="uint32"/>'
    '<type name="varData" primitiveType="uint8" length="0" characterEncoding="US-ASCII"/></composite>'
)

EVERY_KIND = f"""<?xml version="1.0" encoding="UTF-8"?>
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="kinds" id="7" version="2" byteOrder="ORDER">
    <types>
        {HEADER.format(more="")}
        {DIMENSIONS}
        <composite name="text">
            <type name="length" primitiveType="uint16"/>
            <type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/>
        </composite>
        <composite name="blob">
            <type name="length" primitiveType="uint8"/>
            <type name="varData" primitiveType="uint8" length="0"/>
        </composite>
        <type name="Symbol" primitiveType="char" length="6" characterEncoding="US-ASCII"/>
        <type name="Numbers" primitiveType="int16" length="3"/>
        <type name="Venue" primitiveType="char" presence="constant" length="4">XAMS</type>
        <type name="MaybePrice" primitiveType="int64" presence="optional"/>
        <type name="Seven" primitiveType="uint8" presence="optional" nullValue="7"/>
        <enum name="Side" encodingType="char">
            <validValue name="BUY">B</validValue><validValue name="SELL">S</validValue></enum>
        <enum name="State" encodingType="uint8">
            <validValue name="NEW">0</validValue><validValue name="DONE">1</validValue></enum>
        <set name="Flags" encodingType="uint16"><choice name="HIDDEN">0</choice><choice name="URGENT">9</choice></set>
        <composite name="Decimal">
            <type name="mantissa" primitiveType="int64"/>
            <type name="exponent" primitiveType="int8" presence="constant">-2</type>
        </composite>
        <composite name="Engine">
            <type name="capacity" primitiveType="uint16"/>
            <ref name="price" type="Decimal" offset="4"/>
            <enum name="fuel" encodingType="uint8"><validValue name="GAS">1</validValue></enum>
            <set name="extras" encodingType="uint8"><choice name="ROOF">3</choice></set>
            <composite name="inner"><type name="code" primitiveType="char"/></composite>
        </composite>
    </types>
    <sbe:message name="Everything" id="1" blockLength="120">
        <field name="id" id="1" type="uint64"/>
        <field name="small" id="2" type="int8"/>
        <field name="ratio" id="3" type="double"/>
        <field name="share" id="4" type="float" presence="optional"/>
        <field name="symbol" id="5" type="Symbol"/>
        <field name="numbers" id="6" type="Numbers"/>
        <field name="venue" id="7" type="Venue"/>
        <field name="price" id="8" type="MaybePrice" offset="40"/>
        <field name="seven" id="9" type="Seven"/>
        <field name="side" id="10" type="Side"/>
        <field name="state" id="11" type="State" presence="optional"/>
        <field name="flags" id="12" type="Flags"/>
        <field name="amount" id="13" type="Decimal"/>
        <field name="engine" id="14" type="Engine"/>
        <field name="always" id="15" type="Side" presence="constant" valueRef="Side.SELL"/>
        <field name="late" id="16" type="uint32" presence="optional" sinceVersion="1"/>
        <group name="legs" id="20" dimensionType="groupSizeEncoding">
            <field name="quantity" id="21" type="uint32"/>
            <group name="fills" id="22" dimensionType="groupSizeEncoding">
                <field name="at" id="23" type="int64"/>
            </group>
            <data name="note" id="24" type="text"/>
        </group>
        <group name="tags" id="25" dimensionType="groupSizeEncoding" sinceVersion="1">
            <field name="tag" id="26" type="uint8"/>
        </group>
        <data name="comment" id="30" type="text"/>
        <data name="raw" id="31" type="blob" sinceVersion="2"/>
    </sbe:message>
    <sbe:message name="Empty" id="2"/>
    <sbe:message name="Counted" id="3">
        <group name="nothings" id="1" dimensionType="groupSizeEncoding">
            <group name="more" id="2" dimensionType="groupSizeEncoding"/>
        </group>
    </sbe:message>
</sbe:messageSchema>
"""


def every_kind(byte_order: str = "littleEndian") -> str:
    """The schema with every kind of field."""
    return EVERY_KIND.replace("ORDER", byte_order)


def schema_of_table(name: str) -> str:
    """The XML that a table of `upheaval_node.protocol` describes."""
    table = json.loads(files("upheaval_node.protocol").joinpath(f"{name}.json").read_text(encoding="utf-8"))
    is_long = table["composites"]["messageHeader"]["length"] == _LONG_HEADER
    more = '<type name="frameLength" primitiveType="int32"/><type name="padding" primitiveType="int32"/>'
    types = [HEADER.format(more=more if is_long else ""), DIMENSIONS, _DATA, *map(_enum, table["enums"].items())]
    messages = [
        f'<message name="{item["name"]}" id="{item["templateId"]}">{_block(item)}</message>'
        for item in table["messages"]
    ]
    identity = f'id="{table["schemaId"]}" version="{table["schemaVersion"]}"'
    return f"<messageSchema {identity}><types>{''.join(types)}</types>{''.join(messages)}</messageSchema>"


def _enum(item: tuple[str, Mapping[str, Any]]) -> str:
    name, enum = item
    values = [f"<validValue name={quoteattr(each['name'])}>{each['value']}</validValue>" for each in enum["values"]]
    return f'<enum name="{name}" encodingType="int32">{"".join(values)}</enum>'


def _block(block: Mapping[str, Any]) -> str:
    parts = [
        f'<field name="{field["name"]}" type="{field.get("enum") or field["wireType"]}" offset="{field["offset"]}" '
        f'sinceVersion="{field["sinceVersion"]}"/>'
        for field in block["fields"]
    ]
    parts += [
        f'<group name="{group["name"]}" sinceVersion="{group["sinceVersion"]}">{_block(group)}</group>'
        for group in block["groups"]
    ]
    parts += [
        f'<data name="{item["name"]}" type="{item["encoding"]}" sinceVersion="{item["sinceVersion"]}"/>'
        for item in block["varData"]
    ]
    return "".join(parts)
