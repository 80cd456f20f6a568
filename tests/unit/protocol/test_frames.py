"""Frame layouts, their checks, and position arithmetic."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.protocol import frames
from upheaval_node.protocol.fragments import append_message, padding_header

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SHIFTS = st.integers(16, 30)
ALIGNED = st.integers(0, (1 << 25)).map(lambda n: n * 32)


@given(SHIFTS, INT32, st.integers(0, (1 << 31) - 1), st.data())
def test_position_and_term_arithmetic_are_inverse(shift: int, initial: int, count: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, (1 << shift) - 1))
    position = (count << shift) + offset
    term_id = frames.term_id_at(position, shift, initial)
    assert -(1 << 31) <= term_id < 1 << 31
    assert frames.term_offset_at(position, shift) == offset
    assert frames.compute_position(term_id, offset, shift, initial) == position


def test_term_ids_wrap_around() -> None:
    assert frames.compute_position(-(1 << 31), 64, 16, (1 << 31) - 1) == 65536 + 64
    assert frames.term_id_at(65536, 16, (1 << 31) - 1) == -(1 << 31)


@pytest.mark.parametrize("length", [0, 1, 65535, 32768, 65536 * 3, 1 << 31, -65536])
def test_impossible_term_lengths_are_refused(length: int) -> None:
    assert not frames.is_valid_term_length(length)
    with pytest.raises(UsageError):
        frames.position_bits_to_shift(length)


def test_shift_is_the_logarithm_of_the_term_length() -> None:
    assert [frames.position_bits_to_shift(1 << n) for n in range(16, 31)] == list(range(16, 31))


def test_limits_follow_from_the_term_length() -> None:
    assert frames.max_message_length(64 * 1024) == 8192
    assert frames.max_message_length(1 << 30) == 16 * 1024 * 1024
    assert frames.max_position(65536) == 1 << 47


@given(INT32, INT32, INT32, SHIFTS, st.integers(0, 1000), st.integers(1, 2047), INT32)
def test_setup_survives_packing(
    session: int, stream: int, initial: int, shift: int, later: int, mtu: int, ttl: int
) -> None:
    active = frames.term_id_at(later << shift, shift, initial)
    setup = frames.Setup(32 * (later % 7), session, stream, initial, active, 1 << shift, 32 * mtu, ttl, 0x40)
    assert frames.unpack_setup(b"??" + setup.pack(), 2) == setup
    assert setup.position == (later << shift) + 32 * (later % 7)


@pytest.mark.parametrize(
    "change",
    [
        {"term_length": 65537},
        {"term_length": 0},
        {"term_offset": 65536},
        {"term_offset": -32},
        {"term_offset": 31},
        {"mtu": 31},
        {"mtu": 65536},
        {"mtu": 0},
        {"active_term_id": 6},
    ],
)
def test_setup_with_impossible_values_is_refused(change: dict[str, int]) -> None:
    setup = frames.Setup(64, 1, 2, 7, 7, 65536, 1408)
    assert frames.unpack_setup(setup.pack()) == setup
    with pytest.raises(DecodeError):
        frames.unpack_setup(setup._replace(**change).pack())


@given(INT32, INT32, INT32, ALIGNED, st.integers(0, 1 << 30), INT64, st.none() | INT64)
def test_status_message_survives_packing(
    session: int, stream: int, term: int, offset: int, window: int, receiver: int, tag: int | None
) -> None:
    packed = frames.StatusMessage(session, stream, term, offset, window, receiver, 0x80, tag).pack()
    assert len(packed) == (frames.SM_LENGTH if tag is None else frames.SM_GROUP_LENGTH)
    found = frames.unpack_status(packed)
    assert (found.session_id, found.stream_id, found.consumption_term_id) == (session, stream, term)
    assert (found.consumption_term_offset, found.receiver_window) == (offset, window)
    assert (found.receiver_id, found.flags, found.group_tag) == (receiver, 0x80, tag)


@pytest.mark.parametrize(("offset", "window"), [(33, 128), (64, -1)])
def test_status_message_with_impossible_values_is_refused(offset: int, window: int) -> None:
    with pytest.raises(DecodeError):
        frames.unpack_status(frames.StatusMessage(1, 2, 3, offset, window, 9).pack())


@given(INT32, INT32, INT32)
def test_response_setup_survives_packing(session: int, stream: int, response: int) -> None:
    frame = frames.ResponseSetup(session, stream, response)
    assert len(frame.pack()) == frames.RSP_SETUP_LENGTH
    assert frames.unpack_response_setup(frame.pack()) == frame


@given(INT32, INT32, INT32, INT32, INT64)
def test_data_header_survives_packing_and_matches_word_indexes(
    offset: int, session: int, stream: int, term: int, reserved: int
) -> None:
    header = frames.DataHeader(100, 0xC0, frames.TYPE_DATA, offset, session, stream, term, reserved)
    packed = header.pack()
    assert frames.unpack_data_header(packed) == header
    words = memoryview(packed).cast("i")
    assert words[frames.VERSION_FLAGS_TYPE_WORD] == frames.DATA_UNFRAGMENTED
    assert words[frames.SESSION_ID_WORD] == session


def test_padding_header_is_that_of_a_padding_frame() -> None:
    header = padding_header(length=64, term_offset=0, session_id=1, stream_id=2, term_id=3)
    assert frames.unpack_data_header(header).type == frames.TYPE_PAD


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        bytes(7),
        frames.DataHeader(-1, 0xC0, 1, 0, 0, 0, 0).pack(),
        frames.DataHeader(31, 0xC0, 1, 0, 0, 0, 0).pack(),
        frames.DataHeader(64, 0xC0, 3, 0, 0, 0, 0).pack(),
        frames.DataHeader(64, 0xC0, 1, 0, 0, 0, 0).pack()[:31],
        b"\x40\0\0\0\x01" + bytes(27),
    ],
)
def test_malformed_data_headers_are_refused(packed: bytes) -> None:
    with pytest.raises(DecodeError):
        frames.unpack_data_header(packed)


def test_frames_of_another_type_are_refused() -> None:
    setup = frames.Setup(64, 1, 2, 7, 7, 65536, 1408).pack() + bytes(8)
    for unpack in (frames.unpack_status, frames.unpack_response_setup, frames.unpack_data_header):
        with pytest.raises(DecodeError):
            unpack(setup)


def test_walk_finds_every_frame_and_stops_at_what_was_not_written() -> None:
    block = bytearray()
    for text in (b"a", b"", b"x" * 100):
        append_message(
            block, [text], max_payload_length=1376, term_offset=len(block), session_id=1, stream_id=2, term_id=3
        )
    padding_offset = len(block)
    block += padding_header(length=640, term_offset=len(block), session_id=1, stream_id=2, term_id=3)
    found = list(frames.walk(block))
    assert [(offset, header.frame_length) for offset, header in found] == [
        (0, 33),
        (64, 32),
        (96, 132),
        (padding_offset, 640),
    ]
    assert list(frames.walk(bytes(block[:64]) + bytes(64))) == found[:1]
    with pytest.raises(DecodeError):
        list(frames.walk(block[: 96 + 64]))
