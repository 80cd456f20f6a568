"""Bytes that Aeron's generated codecs wrote are read by their schemas to the same values, and written back."""

import struct
from collections.abc import Mapping
from typing import Any

import pytest

from support.sbe_schemas import schema_of_table
from support.wire_data import SCHEMAS, Vector, vectors
from upheaval_node.protocol.codec import NULL_INT32, RawBlock
from upheaval_node.sbe import SbeSchema, parse_schema


@pytest.fixture(scope="module")
def schemas() -> dict[str, SbeSchema]:
    return {name: parse_schema(schema_of_table(name), name) for name in SCHEMAS}


def agrees(values: Mapping[str, Any], block: RawBlock, vector: Vector) -> bool:
    """A null enum is None here and its number there, as is a field that the writer's version lacks."""
    enums = vector.schema.table.enums
    names = {name: dict(enum.values) for name, enum in enums.items()}
    numbers = {name: number for enum in names.values() for name, number in enum.items()}
    for name, value in block.fields.items():
        read = values[name]
        if isinstance(read, str):
            assert any(enum.get(read) == value for enum in names.values()), (vector.id, name, read, numbers)
        elif read is None:
            assert value == NULL_INT32 or vector.kind == "older", (vector.id, name)
        else:
            assert read == value, (vector.id, name)
    for name, content in block.var_data.items():
        text = values[name]
        assert (text.encode("ascii") if isinstance(text, str) else text or b"") == content, (vector.id, name)
    for name, entries in block.groups.items():
        assert len(values[name]) == len(entries)
        assert all(agrees(one, other, vector) for one, other in zip(values[name], entries, strict=True))
    return True


def test_every_vector_has_the_values_that_aerons_decoders_read(schemas: dict[str, SbeSchema]) -> None:
    checked = [agrees(schemas[v.schema.table.name].decode(v.encoded), v.block, v) for v in vectors()]
    assert len(checked) == 920


def test_every_vector_of_the_newest_version_is_written_back(schemas: dict[str, SbeSchema]) -> None:
    written = 0
    for vector in vectors():
        schema = schemas[vector.schema.table.name]
        kind = next(
            k for k in schema.messages.values() if k.template_id == struct.unpack_from("<H", vector.encoded, 2)[0]
        )
        # Mark files have blocks that are longer than their fields.
        if vector.version == schema.version and vector.block_length == kind.block.length:
            encoded = schema.decode(vector.encoded).encode()
            header = schema.header.size
            assert encoded[:8] == vector.encoded[:8], vector.id
            assert encoded[header:] == vector.encoded[header:], vector.id
            written += 1
    assert written > 700
