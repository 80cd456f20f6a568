"""Mutated and random bytes never raise anything but `DecodeError`, and never make a decoder hold much memory."""

import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from random import Random

from support.wire_data import Vector, vectors
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.protocol import frames
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.codec import MessageSchema

MUTATIONS = 200_000
EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x40000000, 0x40000001, 0x7FFFFFFF, 0xFFFFFFFF)

# Objects of a decoded entry are larger than its bytes, but by no more than this factor.
MEMORY_FACTOR = 64
MEMORY_BASE = 32 * 1024


def flip_bits(random: Random, data: bytearray) -> None:
    for _ in range(random.randrange(1, 9)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def truncate(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def set_extreme(random: Random, data: bytearray) -> None:
    """Overwrite what may be a length, a count, a version or an id."""
    code, size = random.choice((("<H", 2), ("<I", 4)))
    value = random.choice(EXTREMES) & ((1 << 8 * size) - 1)
    if len(data) >= size:
        struct.pack_into(code, data, random.randrange(len(data) - size + 1), value)


def set_header(random: Random, data: bytearray) -> None:
    """Another block length, template or version in front of a valid body."""
    field = random.choice((0, 2, 6))
    struct.pack_into("<H", data, field, random.choice((random.randrange(128), random.choice(EXTREMES) & 0xFFFF)))


def randomise_tail(random: Random, data: bytearray) -> None:
    start = random.randrange(len(data))
    data[start:] = random.randbytes(random.randrange(0, 64))


def grow(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    data[at:at] = random.randbytes(random.randrange(1, 16))


MUTATORS: tuple[Callable[[Random, bytearray], None], ...] = (
    flip_bits,
    truncate,
    set_extreme,
    set_header,
    randomise_tail,
    grow,
)


def mutated(random: Random, sources: tuple[Vector, ...]) -> tuple[MessageSchema, bytes]:
    vector = random.choice(sources)
    data = bytearray(vector.encoded)
    for _ in range(random.randrange(1, 3)):
        if data:
            random.choice(MUTATORS)(random, data) if len(data) > 8 else flip_bits(random, data)
    return vector.schema, bytes(data)


def outcome(decode: Callable[[], object]) -> str:
    try:
        return "none" if decode() is None else "message"
    except DecodeError:
        return "error"


def test_200000_mutated_messages_decode_or_raise_decode_error() -> None:
    random = Random(20_260_801)
    sources = vectors()
    seen: Counter[str] = Counter()
    for number in range(MUTATIONS):
        schema, data = mutated(random, sources)
        decode = schema.decode if number % 4 else schema.raw.decode
        seen[outcome(lambda decode=decode, data=data: decode(data))] += 1  # type: ignore[misc]
    assert sum(seen.values()) == MUTATIONS
    assert min(seen["message"], seen["error"], seen["none"]) > MUTATIONS // 200, seen


def test_raw_and_message_level_agree_on_what_is_malformed() -> None:
    random = Random(3)
    for _ in range(20_000):
        schema, data = mutated(random, vectors())
        raw = outcome(lambda schema=schema, data=data: schema.raw.decode(data))  # type: ignore[misc]
        message = outcome(lambda schema=schema, data=data: schema.decode(data))  # type: ignore[misc]
        # The message level refuses more: text that is not ASCII, booleans that are neither.
        assert raw == message or (raw, message) == ("message", "error"), data.hex()


def test_random_bytes_after_every_header_decode_or_raise_decode_error() -> None:
    random = Random(4)
    for _ in range(30_000):
        vector = random.choice(vectors())
        data = vector.encoded[: vector.schema.table.header_length] + random.randbytes(random.randrange(0, 300))
        assert outcome(lambda schema=vector.schema, data=data: schema.decode(data)) in ("message", "error")  # type: ignore[misc]


def test_what_decodes_can_be_encoded_and_read_back() -> None:
    random = Random(5)
    checked = 0
    for _ in range(20_000):
        schema, data = mutated(random, vectors())
        try:
            message = schema.decode(data)
        except DecodeError:
            continue
        if message is not None:
            assert schema.decode(schema.encode(message)) == message
            checked += 1
    assert checked > 1000


def test_memory_held_while_decoding_stays_within_a_multiple_of_the_input() -> None:
    random = Random(6)
    tracemalloc.start()
    try:
        for _ in range(2_000):
            schema, data = mutated(random, vectors())
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            outcome(lambda schema=schema, data=data: schema.decode(data))  # type: ignore[misc]
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak <= MEMORY_BASE + MEMORY_FACTOR * len(data), data.hex()
    finally:
        tracemalloc.stop()


def test_a_group_count_that_the_buffer_cannot_hold_is_refused_before_anything_is_read() -> None:
    schema = next(v.schema for v in vectors() if "BackupResponse" in v.id)
    for block_length in (0, 1, 43, 44, 65535):
        header = struct.pack("<HHHH", 60, 78, 111, 17) + bytes(60) + struct.pack("<HH", block_length, 65535)
        assert outcome(lambda header=header: schema.decode(header + bytes(100))) == "error"  # type: ignore[misc]


def test_random_frames_unpack_or_raise_decode_error() -> None:
    random = Random(7)
    unpackers: tuple[Callable[[bytes], object], ...] = (
        frames.unpack_common,
        frames.unpack_data_header,
        frames.unpack_setup,
        frames.unpack_status,
        frames.unpack_response_setup,
        lambda data: list(frames.walk(data)),
    )
    valid = frames.Setup(64, 5, 6, 7, 8, 65536, 1408).pack() + bytes(8)
    seen: Counter[str] = Counter()
    for _ in range(20_000):
        data = bytearray(valid if random.random() < 0.5 else random.randbytes(random.randrange(0, 100)))
        if data:
            flip_bits(random, data)
        for unpack in unpackers:
            seen[outcome(lambda unpack=unpack, data=bytes(data): unpack(data))] += 1  # type: ignore[misc]
    assert min(seen["message"], seen["error"]) > 1000


def test_random_text_parses_as_a_channel_or_raises_usage_error() -> None:
    random = Random(8)
    pieces = ("aeron:", "aeron-spy:", "tcp", "udp", "ipc", "?", "|", "=", "endpoint", "a:1", "\0", "é", "", "k", "-")
    parsed = 0
    for _ in range(20_000):
        text = "".join(random.choices(pieces, k=random.randrange(0, 12)))
        try:
            channel = Channel.parse(text)
        except UsageError:
            continue
        assert Channel.parse(str(channel)) == channel
        parsed += 1
    assert parsed > 10
