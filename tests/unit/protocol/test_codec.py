"""Properties of the codecs for any message, and their behaviour at the edges."""

import copy
import pickle
from enum import IntEnum

import pytest
from hypothesis import given, settings, strategies as st

from support.wire_data import SCHEMAS
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.protocol import archive_messages as am, cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, NULL_UINT8, MessageSchema
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.schema import BlockTable, FieldTable, load_schema, snake_case

INTEGERS = {
    "B": st.integers(0, 255),
    "b": st.integers(-128, 127),
    "i": st.integers(-(1 << 31), (1 << 31) - 1),
    "q": st.integers(-(1 << 63), (1 << 63) - 1),
}
TEXT = st.text(st.characters(max_codepoint=127), max_size=40)


def value_strategy(field: FieldTable) -> st.SearchStrategy[object]:
    if field.enum == "BooleanType":
        return st.booleans()
    return INTEGERS[field.code]


def block_strategy(table: BlockTable, cls: type[object], schema: MessageSchema, path: str) -> st.SearchStrategy[object]:
    values = {snake_case(field.name): value_strategy(field) for field in table.fields}
    for item in table.var_data:
        values[snake_case(item.name)] = TEXT if item.is_text else st.binary(max_size=40)
    for group in table.groups:
        entry = entry_class(f"{path}.{group.name}")
        entries = st.lists(block_strategy(group, entry, schema, ""), max_size=3).map(tuple)
        values[snake_case(group.name)] = entries
    return st.builds(cls, **values)


def entry_class(path: str) -> type[object]:
    name = "".join(part[0].upper() + part[1:] for part in path.split(".")).removesuffix("s")
    found = getattr(cm, name)
    assert isinstance(found, type)
    return found


ALL_MESSAGES = [(schema, template) for schema in SCHEMAS.values() for template in schema.table.messages]


def class_of(schema: MessageSchema, template: int) -> type[object]:
    known = schema.raw.plans[template]
    encoded = bytearray(schema.table.header_length) + bytes(known.table.block_length(schema.table.version))
    encoded += bytes(4 * (len(known.table.groups) + len(known.table.var_data)))
    encoded[:8] = b"".join(
        number.to_bytes(2, "little")
        for number in (
            known.table.block_length(schema.table.version),
            template,
            schema.table.schema_id,
            schema.table.version,
        )
    )
    return type(schema.decode(encoded))


@st.composite
def any_message(draw: st.DrawFn) -> tuple[MessageSchema, object]:
    schema, template = draw(st.sampled_from(ALL_MESSAGES))
    table = schema.table.messages[template].block
    return schema, draw(block_strategy(table, class_of(schema, template), schema, table.name))


@settings(max_examples=400, deadline=None)
@given(any_message())
def test_any_message_is_read_back_as_it_was_written(case: tuple[MessageSchema, Message]) -> None:
    schema, message = case
    encoded = schema.encode(message)
    assert schema.decode(encoded) == message
    assert schema.decode_with_end(b"xyz" + encoded + b"tail", 3) == (message, 3 + len(encoded))
    assert schema.decode(memoryview(encoded)) == message
    assert schema.decode_body(type(message), schema.encode_body(message)) == message


@settings(max_examples=200, deadline=None)
@given(any_message(), st.data())
def test_a_message_that_is_cut_short_is_malformed(case: tuple[MessageSchema, Message], data: st.DataObject) -> None:
    schema, message = case
    encoded = schema.encode(message)
    with pytest.raises(DecodeError):
        schema.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_left_out_fields_are_null_and_absent_texts_are_empty() -> None:
    assert cm.NewLeadershipTerm().commit_position == NULL_INT64
    assert cm.NewLeadershipTerm().app_version == 0
    assert cm.AppendPosition().flags == NULL_UINT8
    assert cm.SessionEvent().code == NULL_INT32
    assert cm.SessionConnectRequest().client_info == ""
    assert cm.BackupResponse().snapshots == ()
    assert am.RecordingDescriptor().source_identity == ""


def test_the_worked_example_of_a_keep_alive_gives_its_bytes() -> None:
    encoded = cm.SCHEMA.encode(cm.SessionKeepAlive(leadership_term_id=3, cluster_session_id=42))
    assert encoded.hex(" ") == "10 00 05 00 6f 00 11 00 03 00 00 00 00 00 00 00 2a 00 00 00 00 00 00 00"
    assert cm.SCHEMA.raw.header(encoded)[1] == 5


def test_enum_fields_hold_members_and_numbers_that_are_unknown() -> None:
    known = cm.SCHEMA.decode(cm.SCHEMA.encode(cm.SessionEvent(code=cm.EventCode.REDIRECT)))
    assert isinstance(known, cm.SessionEvent)
    assert known.code is cm.EventCode.REDIRECT
    unknown = cm.SCHEMA.decode(cm.SCHEMA.encode(cm.SessionEvent(code=77)))
    assert isinstance(unknown, cm.SessionEvent)
    assert unknown.code == 77
    assert not isinstance(unknown.code, IntEnum)


def test_a_boolean_that_is_neither_true_nor_false_is_malformed() -> None:
    encoded = bytearray(cm.SCHEMA.encode(cm.Vote(vote=True)))
    offset = encoded.rindex(b"\x01\x00\x00\x00")
    encoded[offset] = 2
    with pytest.raises(DecodeError):
        cm.SCHEMA.decode(encoded)


def test_text_outside_ascii_is_written_as_question_marks_and_refused_when_read() -> None:
    encoded = cm.SCHEMA.encode(cm.SessionEvent(detail="naïve"))
    decoded = cm.SCHEMA.decode(encoded)
    assert isinstance(decoded, cm.SessionEvent)
    assert decoded.detail == "na?ve"
    with pytest.raises(DecodeError):
        cm.SCHEMA.decode(encoded.replace(b"na?ve", b"na\xefve"))


def test_an_unknown_template_is_none_and_a_foreign_schema_an_error() -> None:
    encoded = bytearray(cm.SCHEMA.encode(cm.SessionKeepAlive(1, 2)))
    encoded[2:4] = (9999).to_bytes(2, "little")
    assert cm.SCHEMA.decode(encoded) is None
    with pytest.raises(DecodeError):
        am.SCHEMA.decode(encoded)
    with pytest.raises(DecodeError):
        cm.SCHEMA.raw.header(am.SCHEMA.encode(am.KeepAliveRequest(1, 2)))


@pytest.mark.parametrize("offset", [-1, 24, 1000])
def test_an_offset_outside_the_buffer_is_an_error(offset: int) -> None:
    encoded = cm.SCHEMA.encode(cm.SessionKeepAlive(1, 2))
    with pytest.raises(DecodeError):
        cm.SCHEMA.decode(encoded, offset)
    with pytest.raises(DecodeError):
        cm.SCHEMA.decode_body(cm.SessionKeepAlive, encoded, offset)


def test_a_value_that_does_not_fit_its_field_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        cm.SCHEMA.encode(cm.CommitPosition(1 << 63, 0, 0))
    with pytest.raises(UsageError):
        cm.SCHEMA.encode(cm.AppendPosition(flags=256))


def test_a_message_of_another_schema_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        cm.SCHEMA.encode(am.KeepAliveRequest(1, 2))


def test_messages_are_frozen_values() -> None:
    message = cm.CommitPosition(1, 2, 3)
    with pytest.raises(AttributeError):
        message.leadership_term_id = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del message.leadership_term_id
    assert not hasattr(message, "__dict__")
    assert pickle.loads(pickle.dumps(message)) == copy.copy(message) == message
    assert list(message.__match_args__) == ["leadership_term_id", "log_position", "leader_member_id"]


def test_an_unknown_schema_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        load_schema("../cluster-codecs")
