"""Records prove blocks: gaps, old laps and wrong bytes end the proof."""

from random import Random
from zlib import crc32

import pytest
from hypothesis import given, strategies as st

from upheaval_node.archive.block_journal import CAPACITY, LENGTH, BlockRecord, proven_end, read_records
from upheaval_node.errors import DamageError


def ring_of(records: list[BlockRecord]) -> bytearray:
    ring = bytearray(LENGTH)
    for record in records:
        data = record.pack()
        ring[record.offset : record.offset + len(data)] = data
    return ring


def chain(count: int, first: int = 0) -> list[BlockRecord]:
    """Records of `count` blocks of 64 bytes, each filled with its number."""
    return [
        BlockRecord(n, (n - first) * 64, (n - first + 1) * 64, 64, crc32(content(n - first)))
        for n in range(first, first + count)
    ]


def content(number: int) -> bytes:
    return (number + 1).to_bytes(8, "little") * 8


def test_an_empty_ring_proves_nothing() -> None:
    assert read_records(bytes(LENGTH)) == []
    assert read_records(b"") == []
    assert read_records(b"\xff" * LENGTH) == []


@given(st.integers(1, 3 * CAPACITY))
def test_the_newest_lap_is_read(count: int) -> None:
    records = chain(count)
    assert read_records(bytes(ring_of(records))) == records[-CAPACITY:]


@given(st.integers(2, 2 * CAPACITY), st.integers(1, 50))
def test_what_follows_a_lost_record_does_not_count(count: int, back: int) -> None:
    records = chain(count)
    lost = max(count - back, 1, count - CAPACITY + 1)
    kept = [record for record in records if record.sequence != lost]
    found = read_records(bytes(ring_of(kept)))

    if lost == count - 1:
        assert found[-1] == records[lost - 1]
    else:
        assert found[-1].sequence == lost - 1
    assert found == records[found[0].sequence : lost]


@given(st.integers(1, 40), st.integers(0, 39 * 64), st.integers(1, 255))
def test_a_wrong_byte_ends_the_proof_at_its_block(count: int, place: int, change: int) -> None:
    records = chain(count)
    stored = bytearray(b"".join(content(number) for number in range(count)))
    place %= len(stored)
    assert proven_end(records, lambda position, length: bytes(stored[position : position + length])) == count * 64
    stored[place] ^= change
    assert proven_end(records, lambda position, length: bytes(stored[position : position + length])) == place // 64 * 64


@given(st.integers(2, 40), st.integers(0, 39), st.integers(1, 40))
def test_a_wrong_byte_in_what_was_durable_is_damage_and_no_end(count: int, place: int, unsynced: int) -> None:
    """The last record says how many of them were not durable when it was written."""
    place, unsynced = place % count, min(unsynced, count)
    records = chain(count)
    records[-1] = records[-1]._replace(unsynced=unsynced)
    assert read_records(bytes(ring_of(records))) == records
    stored = bytearray(b"".join(content(number) for number in range(count)))
    stored[place * 64] ^= 1

    def read(position: int, length: int) -> bytes:
        return bytes(stored[position : position + length])

    if place < count - unsynced:
        with pytest.raises(DamageError, match=f"from {place * 64} to {place * 64 + 64} "):
            proven_end(records, read)
    else:
        assert proven_end(records, read) == place * 64


def test_missing_bytes_end_the_proof() -> None:
    assert proven_end(chain(3), lambda position, length: content(position // 64)[: 64 if position < 128 else 63]) == 128


@given(st.binary(max_size=4000), st.integers(0, 1 << 30))
def test_garbage_is_no_record(noise: bytes, seed: int) -> None:
    ring = ring_of(chain(3))
    start = Random(seed).randrange(3 * 40, LENGTH - len(noise))
    ring[start : start + len(noise)] = noise
    assert read_records(bytes(ring)) == chain(3)
