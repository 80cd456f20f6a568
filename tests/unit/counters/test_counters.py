"""Counters in the layout of cnc.dat."""

import struct

import pytest
from hypothesis import given, strategies as st

from upheaval_node import counters as c
from upheaval_node.errors import UsageError


def buffers(count: int) -> tuple[memoryview, memoryview]:
    return memoryview(bytearray(count * 128)), memoryview(bytearray(count * 512))


def test_records_have_the_layout_of_aeron() -> None:
    values, metadata = buffers(4)
    counters = c.Counters(values, metadata)
    counters.allocate(1, b"", "first")
    counters.allocate(203, b"key", "label", -5, registration_id=11, owner_id=12, reference_id=13)
    assert struct.unpack_from("<qqqq", values, 128) == (-5, 11, 12, 13)
    assert struct.unpack_from("<iiq", metadata, 512) == (1, 203, (1 << 63) - 1)
    assert bytes(metadata[512 + 16 : 512 + 128]) == b"key".ljust(112, b"\0")
    assert struct.unpack_from("<i", metadata, 512 + 128) == (5,)
    assert bytes(metadata[512 + 132 : 512 + 137]) == b"label"


def test_values_are_set_and_read() -> None:
    counter = c.Counters.in_memory(4).allocate(1, b"", "x", 7)
    assert counter.get() == 7
    counter.set(-(1 << 63))
    assert counter.get() == -(1 << 63)
    assert counter.set_max(3)
    assert not counter.set_max(3)
    assert not counter.set_max(2)
    assert counter.get() == 3
    assert counter.increment() == 3
    assert counter.increment(5) == 4
    assert counter.compare_and_set(9, 1)
    assert not counter.compare_and_set(9, 2)
    assert counter.get() == 1


def test_changes_count_only_values_that_differ() -> None:
    counters = c.Counters.in_memory(4)
    counter = counters.allocate(1, b"", "x", 7)
    before = counters.changes
    counter.set(7)
    counter.set_max(6)
    counter.compare_and_set(1, 2)
    assert counters.changes == before
    counter.set(8)
    counter.set_max(9)
    assert counters.changes == before + 2


def test_counters_are_found_by_type_key_and_registration() -> None:
    counters = c.Counters.in_memory(8)
    first = counters.allocate(100, struct.pack("<q", 5) + b"tail", "a", registration_id=1)
    second = counters.allocate(100, struct.pack("<q", 6), "b", registration_id=2)
    third = counters.allocate(100, struct.pack("<q", 6), "c", registration_id=3)
    assert found_id(counters.find(100)) == first.id
    assert found_id(counters.find(100, c.recording_key_prefix(6))) == second.id
    assert found_id(counters.find(100, c.recording_key_prefix(6), 3)) == third.id
    assert counters.find(100, c.recording_key_prefix(7)) is None
    assert counters.find(99) is None


def found_id(counter: c.Counter | None) -> int:
    assert counter is not None
    return counter.id


def test_each_sees_all_and_label_and_key_are_readable() -> None:
    counters = c.Counters.in_memory(8)
    seen: list[tuple[int, int, int, bytes, str]] = []
    for number in range(3):
        counters.allocate(200 + number, bytes([number + 1]), f"label {number}", number)
    counters.for_each(
        lambda counter, type_id, key, label: seen.append((counter.id, counter.get(), type_id, key[:1], label))
    )
    assert seen == [(n, n, 200 + n, bytes([n + 1]), f"label {n}") for n in range(3)]
    assert (counters.label(1), counters.type_id(1), len(counters.key(1))) == ("label 1", 201, 112)


def test_a_freed_counter_is_gone_and_views_of_it_notice() -> None:
    counters = c.Counters.in_memory(4)
    counter = counters.allocate(1, b"key", "x", 7)
    view = counters.find(1)
    assert view is not None
    before = view.is_closed
    counter.close()
    counter.close()
    assert (before, view.is_closed) == (False, True)
    assert counters.find(1) is None
    assert counters.get(counter.id) is None
    assert counters.key(counter.id) == bytes(112)
    assert counters.state(counter.id) == c.STATE_RECLAIMED


def test_a_reused_id_does_not_pass_for_the_counter_it_was() -> None:
    counters = c.Counters.in_memory(1)
    old = counters.allocate(1, b"", "old")
    old.close()
    new = counters.allocate(1, b"", "new", 5)
    assert new.id == old.id
    assert old.is_closed
    assert not new.is_closed
    old.close()
    assert not new.is_closed


def test_ids_are_reused_late_and_all_of_them() -> None:
    counters = c.Counters.in_memory(c.REUSE_DISTANCE * 2 + 8)
    recent: list[int] = []
    for _ in range(1000):
        counter = counters.allocate(1, b"", "x")
        assert counter.id not in recent[-c.REUSE_DISTANCE :]
        recent.append(counter.id)
        counter.close()
    held = [counters.allocate(1, b"", "x") for _ in range(counters.capacity)]
    assert len({counter.id for counter in held}) == counters.capacity
    with pytest.raises(UsageError):
        counters.allocate(1, b"", "one too many")
    held[3].close()
    assert counters.allocate(1, b"", "x").id == held[3].id


def test_ranges_are_disjoint_and_foreign_counters_cannot_be_freed() -> None:
    values, metadata = buffers(16)
    c.Counters(values, metadata).reserve_up_to(8)
    low, high = c.Counters(values, metadata, 0, 8), c.Counters(values, metadata, 8, 12)
    mine = high.allocate(1, b"", "x")
    assert mine.id == 8
    assert [low.allocate(1, b"", "y").id for _ in range(8)] == list(range(8))
    with pytest.raises(UsageError):
        low.allocate(1, b"", "z")
    with pytest.raises(UsageError):
        low.free(mine.id)
    with pytest.raises(UsageError):
        c.Counters(values, metadata, 13, 12)


def test_keys_are_limited_and_labels_cut() -> None:
    counters = c.Counters.in_memory(2)
    with pytest.raises(UsageError):
        counters.allocate(1, bytes(113), "x")
    counter = counters.allocate(1, b"k" * 112, "é" + "x" * 400)
    assert counters.label(counter.id) == "?" + "x" * 379
    assert counters.key(counter.id) == b"k" * 112


@pytest.mark.parametrize("counter_id", [-1, 2, 100])
def test_an_id_outside_the_buffers_is_no_counter(counter_id: int) -> None:
    assert c.Counters.in_memory(2).get(counter_id) is None


def test_keys_and_labels_of_aeron() -> None:
    assert c.cluster_key(3) == struct.pack("<i", 3)
    assert c.cluster_key(3, 1) == struct.pack("<ii", 3, 1)
    assert c.cluster_label("Cluster commit-pos:", 0) == "Cluster commit-pos: - clusterId=0"
    assert c.cluster_label("Cluster Container Errors", 0, 2) == "Cluster Container Errors - clusterId=0 serviceId=2"
    assert c.recording_position_key(7, -2, "h:1", 5) == struct.pack("<qii", 7, -2, 3) + b"h:1" + struct.pack("<q", 5)
    assert len(c.recording_position_key(7, -2, "x" * 500, 5)) == c.MAX_KEY_LENGTH
    assert c.recording_position_label(7, -2, 100, "aeron:ipc", 5) == "rec-pos: 7 -2 100 aeron:ipc - archiveId=5"
    key = c.recovery_state_key(3, 640, 9, 0, [11, 12])
    assert struct.unpack("<qqqiiqq", key) == (3, 640, 9, 0, 2, 11, 12)


@given(st.lists(st.one_of(st.integers(0, 20), st.none()), max_size=60))
def test_allocated_counters_are_exactly_those_that_are_visited(steps: list[int | None]) -> None:
    counters = c.Counters.in_memory(16)
    live: list[c.Counter] = []
    for step in steps:
        if step is None and len(live) < counters.capacity:
            live.append(counters.allocate(1, b"", "x", len(live)))
        elif step is not None and live:
            live.pop(step % len(live)).close()
        visited: set[int] = set()
        counters.for_each(lambda counter, *_, visited=visited: visited.add(counter.id))
        assert visited == {counter.id for counter in live}
