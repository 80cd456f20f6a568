"""Messages of a schema with every kind of field: written, read, shown, and refused."""

import copy
import math
import pickle
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from support.sbe_schemas import every_kind
from upheaval_node.errors import UsageError
from upheaval_node.sbe import SbeError, SbeMessage, SbeSchema, parse_schema

LITTLE = parse_schema(every_kind())
BIG = parse_schema(every_kind("bigEndian"))
SCHEMAS = {"little": LITTLE, "big": BIG}

_ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=6)
_TEXT = st.text(max_size=20)
_LEGS = st.lists(
    st.fixed_dictionaries(
        {
            "quantity": st.integers(0, 2**32 - 1),
            "fills": st.lists(st.fixed_dictionaries({"at": st.integers(-(2**63), 2**63 - 1)}), max_size=3),
            "note": _TEXT,
        }
    ),
    max_size=3,
)
FIELDS = st.fixed_dictionaries(
    {
        "id": st.integers(0, 2**64 - 1),
        "small": st.integers(-128, 127),
        "ratio": st.floats(allow_nan=False),
        "symbol": _ASCII,
        "numbers": st.lists(st.integers(-(2**15), 2**15 - 1), min_size=3, max_size=3),
        "side": st.sampled_from(["BUY", "SELL"]),
        "flags": st.sets(st.sampled_from(["HIDDEN", "URGENT", 3])),
        "amount": st.fixed_dictionaries({"mantissa": st.integers(-(2**63), 2**63 - 1)}),
        "engine": st.fixed_dictionaries(
            {
                "capacity": st.integers(0, 2**16 - 1),
                "price": st.fixed_dictionaries({"mantissa": st.integers(0, 99)}),
                "fuel": st.just("GAS") | st.just(17),
                "extras": st.sets(st.just("ROOF")),
                "inner": st.fixed_dictionaries({"code": st.characters(max_codepoint=255)}),
            }
        ),
    },
    optional={
        "share": st.none() | st.floats(width=32, allow_nan=False),
        "price": st.none() | st.integers(0, 2**63 - 1),
        "seven": st.none() | st.integers(8, 255),
        "state": st.none() | st.sampled_from(["NEW", "DONE"]),
        "late": st.none() | st.integers(0, 2**32 - 2),
        "legs": _LEGS,
        "tags": st.lists(st.fixed_dictionaries({"tag": st.integers(0, 255)}), max_size=3),
        "comment": _TEXT,
        "raw": st.binary(max_size=20),
    },
)

PLAIN: dict[str, Any] = {
    "id": 1,
    "small": -1,
    "ratio": 0.5,
    "symbol": "ABC",
    "numbers": [1, 2, 3],
    "side": "BUY",
    "flags": ["URGENT"],
    "amount": {"mantissa": 1250},
    "engine": {"capacity": 2, "price": {"mantissa": 5}, "fuel": "GAS", "extras": [], "inner": {"code": "x"}},
}


def plain(value: Any) -> Any:
    """A value as the strategies have it."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name not in ("exponent", "venue", "always")}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return {*value} if isinstance(value, frozenset) else value


def as_dict(value: Any) -> Any:
    if hasattr(value, "keys"):
        return {name: as_dict(value[name]) for name in value}
    return [as_dict(item) for item in value] if isinstance(value, tuple) else value


@settings(max_examples=60, deadline=None)
@given(fields=FIELDS, order=st.sampled_from(sorted(SCHEMAS)))
def test_what_is_written_is_read(fields: dict[str, Any], order: str) -> None:
    schema = SCHEMAS[order]
    message = schema.Everything(**fields)
    read = schema.decode(message.encode())
    assert read == message
    assert read.encode() == message.encode()
    unset = {"legs": [], "tags": [], "comment": "", "raw": b""}
    values = plain(as_dict(read))
    assert values == {name: plain(fields.get(name, unset.get(name))) for name in values}
    assert (read.venue, read.always, read.amount.exponent) == ("XAMS", "SELL", -2)


def test_the_bytes_are_those_of_the_specification() -> None:
    for schema, order in ((LITTLE, "<"), (BIG, ">")):
        encoded = schema.Everything(**PLAIN).encode()
        assert struct.unpack_from(f"{order}HHHH", encoded) == (120, 1, 7, 2)
        assert struct.unpack_from(f"{order}QbdI", encoded, 8)[:3] == (1, -1, 0.5)
        assert encoded[8 + 21 : 8 + 27] == b"ABC\0\0\0"
        assert struct.unpack_from(f"{order}3h", encoded, 8 + 27) == (1, 2, 3)
        # An optional price without a value, at the offset that the schema names; then 7, and the character of BUY.
        assert struct.unpack_from(f"{order}qBc", encoded, 8 + 40) == (-(2**63), 7, b"B")
        # An optional enum without a value; the bit of URGENT; the mantissa.
        assert struct.unpack_from(f"{order}BHq", encoded, 8 + 50) == (255, 1 << 9, 1250)


def test_a_message_is_shown_by_its_fields() -> None:
    legs = [{"quantity": 3, "fills": [{"at": 9}], "note": "a\nb"}]
    message = LITTLE.Everything(**PLAIN, legs=legs, raw=b"\x00\xff", state="DONE")
    assert str(message) == (
        'Everything(id=1, small=-1, ratio=0.5, share=null, symbol="ABC", numbers=[1, 2, 3], venue="XAMS", price=null, '
        "seven=null, side=BUY, state=DONE, flags={URGENT}, amount=12.50, "
        'engine=(capacity=2, price=0.05, fuel=GAS, extras={}, inner=(code="x")), always=SELL, late=null, '
        'legs=[(quantity=3, fills=[(at=9)], note="a\\nb")], tags=[], comment="", raw=0x00ff)'
    )
    assert (message.side, message["side"], message.legs[0].fills[0].at) == ("BUY", "BUY", 9)
    assert pickle.loads(pickle.dumps(message.engine)) == copy.copy(message.engine) == message.engine


def older(message: SbeMessage, version: int, block_length: int, groups: int) -> bytes:
    """The message as a writer of that version makes it: a shorter block, and so many bytes after it."""
    encoded = message.encode()
    return (
        struct.pack("<HHHH", block_length, 1, 7, version) + encoded[8 : 8 + block_length] + encoded[128 : 128 + groups]
    )


def test_what_an_older_writer_lacks_has_no_value() -> None:
    message = LITTLE.Everything(**PLAIN, late=5, tags=[{"tag": 1}], comment="c", raw=b"r")
    late = next(field for field in LITTLE.Everything.block.fields if field.name == "late")
    read = LITTLE.decode(older(message, 0, late.offset, 4) + b"\x01\x00c")
    assert (read.late, read.tags, read.comment, read.raw) == (None, (), "c", None)
    assert read.id == 1


def test_what_a_newer_writer_adds_is_left_out() -> None:
    encoded = LITTLE.Empty().encode()
    newer = struct.pack("<HHHH", 5, 2, 7, 9) + b"other" + b"data"
    assert LITTLE.decode(newer) == LITTLE.decode(encoded)
    assert str(LITTLE.decode(newer)) == "Empty() and 4 bytes after it"


def test_text_that_is_none_stays_bytes() -> None:
    encoded = bytearray(LITTLE.Everything(**PLAIN, comment="ab").encode())
    encoded[-2] = 0xFF
    assert LITTLE.decode(encoded).comment == b"a\xff"
    encoded[8 + 21 : 8 + 27] = b"A\0B\0\0\0"
    assert LITTLE.decode(encoded).symbol == b"A\0B\0\0\0"


def test_numbers_without_a_name_stay_numbers() -> None:
    encoded = bytearray(LITTLE.Everything(**PLAIN).encode())
    encoded[8 + 49] = ord("X")
    assert LITTLE.decode(encoded).side == ord("X")
    assert math.isnan(struct.unpack_from("<f", encoded, 8 + 17)[0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sym": "A"}, "Everything: unknown field 'sym': use id, small, "),
        ({"symbols": "A"}, "; did you mean 'symbol'?"),
        ({"id": -1}, "Everything: id: -1 does not fit uint64"),
        ({"id": None}, "Everything: id: None does not fit uint64"),
        ({"ratio": "x"}, "Everything: ratio: 'x' does not fit double"),
        ({"symbol": "ABCDEFG"}, "Everything: symbol: 'ABCDEFG' is not a text of at most 6 bytes"),
        ({"symbol": "é"}, "Everything: symbol: 'é' is not a text in ascii"),
        ({"symbol": 5}, "Everything: symbol: 5 is neither text nor bytes"),
        ({"numbers": [1]}, "Everything: numbers: [1] is not a sequence of 3 numbers"),
        ({"side": "BYU"}, "Everything: side: unknown value 'BYU': use BUY, SELL"),
        ({"flags": ["LOUD"]}, "Everything: flags: unknown value 'LOUD': use HIDDEN, URGENT"),
        ({"flags": [16]}, "Everything: flags: 16 is not a bit of 2 bytes"),
        ({"flags": 3}, "Everything: flags: 3 is not a collection of names"),
        ({"venue": "XPAR"}, "Everything: venue: 'XPAR' is not the constant 'XAMS'"),
        ({"amount": 5}, "Everything: amount: 5 is not a mapping of mantissa, exponent"),
        ({"engine": {"size": 5}}, "Everything: engine: unknown field 'size': use capacity, price, "),
        ({"legs": 5}, "Everything: legs: 5 is not a sequence of entries"),
        ({"legs": [5]}, "Everything: legs: entry 0: 5 is not a mapping of quantity, fills, note"),
        ({"legs": [{"note": "x"}]}, "Everything: legs: entry 0: missing quantity"),
        ({"legs": [{"quantity": -5}]}, "Everything: legs: entry 0: quantity: -5 does not fit uint32"),
        ({"raw": bytes(256)}, "Everything: raw: length: 256 does not fit uint8"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        LITTLE.Everything(**{**PLAIN, **fields})
    assert message in str(refused.value)


def test_a_field_that_is_missing_is_named() -> None:
    with pytest.raises(
        UsageError, match=r"^Everything: missing small, ratio, symbol, numbers, side, flags, amount, engine$"
    ):
        LITTLE.Everything(id=1)


def test_a_message_that_is_unknown_is_named() -> None:
    with pytest.raises(AttributeError, match=r"no message 'Emtpy' in the schema: .*; did you mean 'Empty'"):
        LITTLE.Emtpy()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "0 bytes are too few for a message header of 8"),
        (b"{}", "2 bytes are too few for a message header of 8"),
        (struct.pack("<HHHH", 0, 1, 8, 2), "schema id 8, expected 7"),
        (struct.pack("<HHHH", 0, 99, 7, 2), "unknown template id 99"),
        (struct.pack("<HHHH", 4, 1, 7, 2), "Everything: block: 4 bytes at offset 8, 0 are left"),
        (struct.pack("<HHHH", 4, 1, 7, 2) + bytes(4), "Everything: id: ends after the block of 4 bytes"),
        (
            struct.pack("<HHHH", 0, 3, 7, 2) + struct.pack("<HH", 0, 60_000),
            "Counted: nothings: 60000 entries of 0 bytes at offset 12 are not there",
        ),
    ],
)
def test_bytes_that_are_no_message_have_a_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(SbeError) as refused:
        LITTLE.decode(payload)
    assert str(refused.value) == reason


def test_groups_of_a_message_have_no_more_entries_than_it_has_bytes() -> None:
    # Each entry of the outer group takes four bytes, and says that it has 500 entries of none.
    count = 500
    payload = struct.pack("<HHHH", 0, 3, 7, 2) + struct.pack("<HH", 0, count) + struct.pack("<HH", 0, count) * count
    with pytest.raises(SbeError, match="more: 500 entries of 0 bytes"):
        LITTLE.decode(payload)


def text_or_reason(schema: SbeSchema, payload: bytes | bytearray | memoryview) -> str:
    """Anything else than a reason that is raised ends the test."""
    try:
        return str(schema.decode(payload))
    except SbeError as error:
        return str(error)


@settings(max_examples=150, deadline=None)
@given(
    payload=st.binary(max_size=400), version=st.integers(0, 3), template=st.integers(1, 3), length=st.integers(0, 160)
)
@example(payload=b"\xff" * 400, version=2, template=1, length=120)
def test_random_bytes_are_a_message_or_have_a_reason(payload: bytes, version: int, template: int, length: int) -> None:
    for schema, order in ((LITTLE, "<"), (BIG, ">")):
        for content in (payload, struct.pack(f"{order}HHHH", length, template, 7, version) + payload):
            assert text_or_reason(schema, memoryview(content))


@settings(max_examples=60, deadline=None)
@given(fields=FIELDS, place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_a_damaged_message_is_one_or_has_a_reason(fields: dict[str, Any], place: int, byte: int, cut: int) -> None:
    content = bytearray(LITTLE.Everything(**fields).encode())
    content[place % len(content)] = byte
    for damaged in (content, content[: cut % len(content)]):
        assert text_or_reason(LITTLE, damaged)
