"""Offers over aeron:ipc: frames, terms, fragments, runs of frames, and results."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from support.media_world import World, collect, drain_blocks, offer
from upheaval_node.errors import UsageError
from upheaval_node.media.api import (
    BACK_PRESSURED,
    CLOSED,
    MAX_POSITION_EXCEEDED,
    NOT_CONNECTED,
    Image,
    Publication,
    Subscription,
)
from upheaval_node.protocol.frames import FLAG_BEGIN, FLAG_END, TYPE_PAD, walk
from upheaval_node.types import FRAME_HEADER_LENGTH, align

TERM = 64 * 1024


def frame(payload: bytes, flags: int = 0xC0) -> bytes:
    """A DATA frame with nonsense where `offer_frames` patches."""
    header = struct.pack("<iBBHiiiiq", 32 + len(payload), 0, flags, 1, -1, -2, -3, -4, 77)
    return header + payload + bytes(-len(payload) % 32)


def ipc(extra: str = "") -> tuple[World, Publication, Subscription]:
    world = World()
    driver = world.driver()
    publication = driver.add_publication(f"aeron:ipc?alias=test{extra}", 10)
    subscription = driver.add_subscription("aeron:ipc", 10)
    world.settle()
    return world, publication, subscription


def the_image(subscription: Subscription) -> Image:
    (image,) = subscription.images
    return image


def check_blocks(image: Image) -> list[tuple[int, int]]:
    """Consume everything and check each header against its position; returns (position, type) of the frames."""
    seen: list[tuple[int, int]] = []
    shift = image.term_length.bit_length() - 1
    for block in drain_blocks(image):
        assert block.start >> shift == (block.end - 1) >> shift, "a block crosses a term"
        for offset, header in walk(block.data):
            position = block.start + offset
            assert header.term_offset == position & (image.term_length - 1)
            term_id = image.initial_term_id + (position >> shift)
            assert header.term_id == (term_id + 2**31) % 2**32 - 2**31
            assert (header.session_id, header.stream_id) == (image.session_id, image.stream_id)
            seen.append((position, header.type))
    return seen


def test_offer_without_subscribers_is_not_connected_and_after_close_closed() -> None:
    world = World()
    publication = world.driver().add_publication("aeron:ipc", 10)
    world.settle()
    assert publication.offer(b"x") == NOT_CONNECTED
    assert publication.claim_position(1) == NOT_CONNECTED
    assert publication.offer_frames(bytearray(frame(b"x"))) == NOT_CONNECTED
    assert publication.position == 0
    publication.close()
    assert publication.offer(b"x") == CLOSED


def test_parts_of_an_offer_become_one_message_and_positions_follow() -> None:
    _, publication, subscription = ipc()
    assert publication.claim_position(70) == 128
    assert publication.offer(b"a" * 32, bytearray(b"b"), memoryview(b"c" * 37)) == 128
    assert collect(subscription) == [b"a" * 32 + b"b" + b"c" * 37]
    assert the_image(subscription).position == publication.position == 128


@pytest.mark.parametrize("length", [0, 1, 1376, 1377, 2752, 2753, 8191, 8192])
def test_any_length_up_to_the_maximum_arrives_whole(length: int) -> None:
    _, publication, subscription = ipc()
    payload = bytes(i % 251 for i in range(length))
    claimed = publication.claim_position(length)
    assert publication.offer(payload) == claimed
    assert collect(subscription) == [payload]
    assert the_image(subscription).position == claimed


def test_a_message_beyond_the_maximum_is_the_callers_error() -> None:
    _, publication, _ = ipc()
    assert publication.max_message_length == TERM // 8
    with pytest.raises(UsageError):
        publication.offer(bytes(TERM // 8 + 1))
    with pytest.raises(UsageError):
        publication.claim_position(TERM // 8 + 1)


def test_a_message_that_does_not_fit_the_term_goes_to_the_next_after_padding() -> None:
    _, publication, subscription = ipc(f"|init-term-id=2147483647|term-id=2147483647|term-offset={TERM - 96}")
    assert publication.initial_term_id == 2147483647
    assert publication.claim_position(100) == TERM + 160
    assert publication.offer(b"x" * 100) == TERM + 160
    image = the_image(subscription)
    assert check_blocks(image) == [(TERM - 96, TYPE_PAD), (TERM, 1)]


def test_a_message_that_fits_the_term_exactly_needs_no_padding() -> None:
    _, publication, subscription = ipc(f"|init-term-id=5|term-id=5|term-offset={TERM - 96}")
    assert publication.offer(b"x" * 64) == TERM
    assert publication.offer(b"y" * 64) == TERM + 96
    assert check_blocks(the_image(subscription)) == [(TERM - 96, 1), (TERM, 1)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 8192), min_size=1, max_size=60))
def test_any_mix_of_lengths_over_many_terms_arrives_in_order(lengths: list[int]) -> None:
    _, publication, subscription = ipc()
    received: list[bytes] = []
    expected = [struct.pack("<i", index) + bytes(max(length - 4, 0)) for index, length in enumerate(lengths)]
    for payload in expected:
        claimed = publication.claim_position(len(payload))
        assert publication.offer(payload) == claimed
        received += collect(subscription)
    assert received == expected


def test_a_stalled_subscriber_exerts_back_pressure_at_half_a_term() -> None:
    _, publication, subscription = ipc()
    results = [publication.offer(bytes(1000)) for _ in range(100)]
    assert results[-1] == BACK_PRESSURED
    assert TERM // 2 <= publication.position < TERM // 2 + 1032
    assert publication.offer_frames(bytearray(frame(b"x"))) == BACK_PRESSURED
    assert len(collect(subscription)) == results.index(BACK_PRESSURED)
    assert publication.offer(bytes(1000)) > 0


def test_the_end_of_the_last_term_is_the_end_of_the_publication() -> None:
    last = (1 << 31) - 1
    _, publication, _ = ipc(f"|init-term-id=0|term-id={last}|term-offset={TERM - 64}")
    assert publication.claim_position(64) == MAX_POSITION_EXCEEDED
    assert publication.offer(bytes(64)) == MAX_POSITION_EXCEEDED
    assert publication.offer(bytes(32)) == TERM << 31
    assert publication.offer(b"") == MAX_POSITION_EXCEEDED


def test_a_run_of_frames_is_patched_and_keeps_payload_flags_and_reserved_value() -> None:
    _, publication, subscription = ipc()
    assert publication.offer(b"first") == 64
    assert publication.offer_frames(bytearray(frame(b"a" * 64) + frame(b"b") + frame(b"")), 3) == 64 + 96 + 64 + 32
    seen: list[tuple[bytes, int, int]] = []
    image = the_image(subscription)
    image.poll(lambda m: seen.append((bytes(m.payload), m.reserved_value, m.position)), 10)
    assert seen == [(b"first", 0, 64), (b"a" * 64, 77, 160), (b"b", 77, 224), (b"", 77, 256)]


def test_a_run_is_split_at_the_end_of_the_term() -> None:
    _, publication, subscription = ipc(f"|init-term-id=5|term-id=5|term-offset={TERM - 32 * 9}")
    run = bytearray(frame(b"m" * 64) * 100)
    assert publication.offer_frames(run, 100) == TERM + 97 * 96
    image = the_image(subscription)
    positions = check_blocks(image)
    assert positions[2:4] == [(TERM - 96, 1), (TERM, 1)]
    _, publication, subscription = ipc(f"|init-term-id=5|term-id=5|term-offset={TERM - 32 * 8}")
    assert publication.offer_frames(bytearray(frame(b"m" * 64) * 100), 100) == TERM + 98 * 96
    assert check_blocks(the_image(subscription))[2:4] == [(TERM - 64, TYPE_PAD), (TERM, 1)]


def test_a_fragmented_message_in_a_run_is_not_split_over_two_terms() -> None:
    _, publication, subscription = ipc(f"|init-term-id=5|term-id=5|term-offset={TERM - 160}")
    run = frame(b"a") + frame(b"b" * 64, FLAG_BEGIN) + frame(b"c" * 64, FLAG_END)
    assert publication.offer_frames(bytearray(run)) == TERM + 192
    assert collect(subscription) == [b"a", b"b" * 64 + b"c" * 64]


def test_a_run_may_end_with_padding_that_fits_the_term() -> None:
    _, publication, subscription = ipc(f"|init-term-id=5|term-id=5|term-offset={TERM - 256}")
    padding = struct.pack("<iBBHiiiiq", 160, 0, 0xC0, 0, 0, 0, 0, 0, 0)
    assert publication.offer_frames(bytearray(frame(b"m" * 64) + padding)) == TERM
    assert publication.offer(b"next") == TERM + 64
    with pytest.raises(UsageError):
        publication.offer_frames(bytearray(struct.pack("<iBBHiiiiq", TERM, 0, 0xC0, 0, 0, 0, 0, 0, 0)))
    image = the_image(subscription)
    assert check_blocks(image) == [(TERM - 256, 1), (TERM - 160, TYPE_PAD), (TERM, 1)]


@pytest.mark.parametrize(
    "block",
    [
        b"x" * 31,
        bytes(32),
        frame(b"x" * 64)[:64],
        frame(b"x" * 1377),
        struct.pack("<iBBHiiiiq", 32, 0, 0xC0, 5, 0, 0, 0, 0, 0),
        struct.pack("<iBBHiiiiq", -32, 0, 0xC0, 1, 0, 0, 0, 0, 0),
        struct.pack("<iBBHiiiiq", 32, 1, 0xC0, 1, 0, 0, 0, 0, 0),
    ],
)
def test_a_run_that_is_none_is_the_callers_error(block: bytes) -> None:
    _, publication, _ = ipc()
    with pytest.raises(UsageError):
        publication.offer_frames(bytearray(block))
    assert publication.position == 0


def test_the_same_session_cannot_be_published_twice() -> None:
    driver = World().driver()
    publication = driver.add_publication("aeron:ipc", 10, session_id=4000)
    with pytest.raises(UsageError):
        driver.add_publication("aeron:ipc", 10, session_id=4000)
    publication.close()
    driver.add_publication("aeron:ipc", 10, session_id=4000)


@pytest.mark.parametrize(
    "channel",
    [
        "aeron:ipc?term-length=65535",
        "aeron:ipc?term-length=2g",
        "aeron:ipc?mtu=33",
        "aeron:ipc?mtu=32",
        "aeron:ipc?init-term-id=1",
        "aeron:ipc?init-term-id=2|term-id=1|term-offset=0",
        "aeron:ipc?init-term-id=1|term-id=1|term-offset=31",
        "aeron:tcp",
        "aeron:udp?endpoint=a:1",
        "aeron:tcp?control-mode=response",
        "aeron-spy:aeron:ipc",
        "tcp:foo",
    ],
)
def test_unusable_publication_channels_are_the_callers_error(channel: str) -> None:
    with pytest.raises(UsageError):
        World().driver().add_publication(channel, 10)


def test_frames_of_many_offers_are_whole_and_aligned() -> None:
    world, publication, subscription = ipc()
    lengths: Sequence[int] = range(0, 1300, 37)
    offer(world, publication, *(bytes(length) for length in lengths))
    expected = 0
    for position, _ in check_blocks(the_image(subscription)):
        assert position == expected
        expected += align(FRAME_HEADER_LENGTH + lengths[0], 32)
        lengths = lengths[1:]
