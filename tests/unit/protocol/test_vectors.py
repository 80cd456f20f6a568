"""Bytes that Aeron's generated codecs wrote are read to the same values, and written back to the same bytes."""

import struct
from collections import Counter
from dataclasses import replace
from random import Random

from support.wire_data import SCHEMAS, Vector, vectors
from upheaval_node.protocol.codec import NULL_INT32, RawBlock, RawCodec, RawMessage
from upheaval_node.protocol.message import Message


def raw_of(vector: Vector) -> RawMessage:
    raw = vector.schema.raw.decode(vector.encoded)
    assert raw is not None, vector.id
    return raw


def message_of(vector: Vector, encoded: bytes) -> Message:
    message = vector.schema.decode(encoded)
    assert message is not None, vector.id
    return message


def has_null_boolean(vector: Vector) -> bool:
    table = vector.schema.table.messages[vector.schema.raw.header(vector.encoded)[1]].block
    names = [field.name for field in table.fields if field.enum == "BooleanType"]
    return any(vector.block.fields[name] == NULL_INT32 for name in names)


def longer(vector: Vector, extra: bytes, version: int) -> bytes:
    """The message as a newer writer makes it, whose root block has `extra` after the fields that we know."""
    header = vector.schema.table.header_length
    end = header + vector.block_length
    changed = bytearray(vector.encoded[:end] + extra + vector.encoded[end:])
    struct.pack_into("<H", changed, 0, vector.block_length + len(extra))
    struct.pack_into("<H", changed, 6, version)
    return bytes(changed)


def test_all_vectors_are_there_and_every_message_of_every_schema_has_some() -> None:
    assert len(vectors()) == 920
    seen = Counter((v.schema.table.name, v.schema.raw.header(v.encoded)[1]) for v in vectors())
    assert set(seen) == {(name, template) for name, schema in SCHEMAS.items() for template in schema.table.messages}


def test_every_vector_decodes_to_the_stated_values() -> None:
    for vector in vectors():
        raw = raw_of(vector)
        assert raw.block == vector.block, vector.id
        assert (raw.version, raw.block_length) == (vector.version, vector.block_length), vector.id
        assert raw.encoded_length == len(vector.encoded), vector.id


def test_every_vector_encodes_back_to_the_same_bytes_from_the_stated_values() -> None:
    for vector in vectors():
        raw = replace(raw_of(vector), block=vector.block)
        assert vector.schema.raw.encode(raw) == vector.encoded, vector.id


def test_single_use_functions_agree_with_the_compiled_codec() -> None:
    vector = vectors()[0]
    codec = RawCodec(vector.schema.table)
    raw = codec.decode(vector.encoded)
    assert raw == raw_of(vector)
    assert codec.encode(raw) == vector.encoded


def test_every_vector_of_our_version_goes_through_its_dataclass_to_the_same_bytes() -> None:
    checked = 0
    for vector in vectors():
        # A null boolean reads as False, the one loss that the dataclasses allow themselves.
        if vector.kind != "older" and not has_null_boolean(vector):
            encoded = vector.schema.encode(message_of(vector, vector.encoded))
            header = vector.schema.table.header_length
            assert encoded[header:] == vector.encoded[header:], vector.id
            assert encoded[:8] == vector.encoded[:8], vector.id
            checked += 1
    assert checked > 850


def test_a_message_read_from_an_older_writer_survives_being_written_by_us() -> None:
    older = [vector for vector in vectors() if vector.kind == "older"]
    assert len(older) == 49
    for vector in older:
        message = message_of(vector, vector.encoded)
        assert vector.schema.decode(vector.schema.encode(message)) == message, vector.id


def test_the_dataclass_holds_the_values_of_the_vector() -> None:
    for vector in vectors():
        message = message_of(vector, vector.encoded)
        names = [*message.__match_args__]
        assert_holds(message, names, vector.block, vector.id)


def assert_holds(holder: object, names: list[str], block: RawBlock, vector_id: str) -> None:
    expected: list[object] = [*block.fields.values(), *block.groups.values(), *block.var_data.values()]
    for name, wanted in zip(names, expected, strict=True):
        value = getattr(holder, name)
        if isinstance(value, tuple):
            assert isinstance(wanted, list)
            assert len(value) == len(wanted), vector_id
            for entry, entry_block in zip(value, wanted, strict=True):
                assert_holds(entry, [*entry.__match_args__], entry_block, vector_id)
        elif isinstance(value, str):
            assert value.encode("ascii") == wanted, (vector_id, name)
        elif isinstance(value, bool):
            assert value == (wanted == 1), (vector_id, name)
        else:
            assert value == wanted, (vector_id, name)


def test_fields_of_a_newer_writer_after_the_known_ones_are_skipped() -> None:
    random = Random(17)
    for vector in vectors():
        if vector.kind != "older":
            newer = vector.schema.table.version + random.randrange(1, 100)
            extra = random.randbytes(random.randrange(1, 40))
            raw = vector.schema.raw.decode(longer(vector, extra, newer) + random.randbytes(random.randrange(0, 20)))
            assert raw is not None
            assert raw.block == vector.block, vector.id
            assert raw.version == newer


def test_a_newer_writer_is_read_into_the_same_dataclass() -> None:
    for vector in vectors():
        if vector.kind != "older":
            newer = longer(vector, b"\xaa" * 12, vector.schema.table.version + 1)
            assert message_of(vector, newer) == message_of(vector, vector.encoded), vector.id


def test_entries_of_a_newer_writer_are_stepped_over_by_their_encoded_length() -> None:
    checked = 0
    for vector in vectors():
        if vector.kind != "older" and any(vector.block.groups.values()):
            wanted = raw_of(vector)
            encoded = widened_groups(vector)
            raw = vector.schema.raw.decode(encoded)
            assert raw is not None
            assert raw.block == wanted.block, vector.id
            assert raw.encoded_length == len(encoded)
            checked += 1
    assert checked >= 10


def widened_groups(vector: Vector) -> bytes:
    """The message with eight more bytes at the end of the block of every group entry."""
    raw = raw_of(vector)
    plan = vector.schema.raw.plans[raw.template_id]
    table = vector.schema.table
    out = bytearray(vector.encoded[: table.header_length + raw.block_length])
    for group in plan.groups:
        entries = raw.block.groups[group.table.name]
        length = group.table.block_length(table.version)
        out += struct.pack("<HH", length + 8, len(entries))
        for entry in entries:
            out += struct.pack("<" + "".join(f.code for f in group.table.fields), *entry.fields.values())
            out += b"\xbb" * 8
            out += var_data(entry)
    return bytes(out + var_data(raw.block))


def var_data(block: RawBlock) -> bytes:
    return b"".join(struct.pack("<I", len(content)) + content for content in block.var_data.values())
