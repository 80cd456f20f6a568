"""The catalog has Aeron's layout to the byte and survives damage."""

import contextlib
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.memory_storage import MemoryStorage
from upheaval_node.archive.catalog import (
    ALIGNMENT,
    DESCRIPTOR_HEADER_LENGTH,
    HEADER_LENGTH,
    Catalog,
    RecordingEntry,
    decode_catalog,
)
from upheaval_node.errors import DecodeError, StorageError, UsageError
from upheaval_node.protocol import archive_messages as am

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "golden.json").read_text())
GOLDEN_CATALOG = bytes.fromhex(GOLDEN["catalogFirst832Hex"])
PATH = "archive/archive.catalog"


class ProcessEndedError(Exception):
    """The process is killed in the middle of a change."""


def entry(**changes: object) -> RecordingEntry:
    values: dict[str, object] = {
        "recording_id": -1,
        "start_timestamp": 1000,
        "stop_timestamp": -1,
        "start_position": 0,
        "stop_position": -1,
        "initial_term_id": -5,
        "segment_length": 65536,
        "term_length": 65536,
        "mtu": 1408,
        "session_id": 77,
        "stream_id": 100,
        "stripped_channel": "aeron:ipc",
        "original_channel": "aeron:ipc?alias=log",
        "source_identity": "aeron:ipc",
    }
    return RecordingEntry(**{**values, **changes})  # type: ignore[arg-type]


def catalog(storage: MemoryStorage, capacity: int = 4096, sync_level: int = 0) -> Catalog:
    return Catalog(storage, "archive", capacity=capacity, sync_level=sync_level)


def test_the_golden_catalog_reads_as_what_aeron_wrote() -> None:
    contents = decode_catalog(GOLDEN_CATALOG)

    assert contents.next_recording_id == 3
    assert contents.alignment == 64
    assert contents.problems == ()
    assert [item.recording_id for item in contents.entries] == [0, 1, 2]
    log = contents.entries[0]
    assert (log.stop_position, log.term_length, log.mtu, log.stream_id) == (3872, 65536, 1408, 100)
    assert log.stripped_channel == "aeron:udp?tags=72|session-id=-996165283|alias=log"
    assert log.source_identity == "aeron:ipc"
    assert [item.stop_position for item in contents.entries[1:]] == [384, 576]


def test_the_same_recordings_give_aerons_bytes() -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    for item in decode_catalog(GOLDEN_CATALOG).entries:
        made.add(item)

    assert storage.content(PATH)[: len(GOLDEN_CATALOG)] == GOLDEN_CATALOG


def test_updates_in_place_are_what_a_reader_of_the_file_sees() -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    item = made.add(entry())
    made.record_stopped(item, 640, 2000)
    made.record_extended(item, control_session_id=4, correlation_id=5, session_id=6)

    read = decode_catalog(storage.content(PATH)).entries[0]
    assert (read.stop_position, read.stop_timestamp) == (-1, -1)
    assert (read.control_session_id, read.correlation_id, read.session_id) == (4, 5, 6)

    made.record_stopped(item, 1280, 3000)
    reopened = catalog(storage).get(0)
    assert reopened is not None
    assert (reopened.stop_position, reopened.stop_timestamp) == (1280, 3000)


def test_an_entry_that_grows_moves_those_after_it() -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    first, second = made.add(entry()), made.add(entry(original_channel="aeron:ipc?alias=second"))
    first.original_channel = "aeron:ipc?alias=" + "x" * 500
    made.replace(first, first)
    second.stop_position = 320
    made.replace(second, second)

    read = decode_catalog(storage.content(PATH))
    assert read.problems == ()
    assert read.entries[0].original_channel == first.original_channel
    assert read.entries[1].original_channel == "aeron:ipc?alias=second"
    assert read.entries[1].stop_position == 320


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 4), st.booleans())
def test_an_entry_that_grows_never_tears_the_others(seed: int, change: int, is_power_cut: bool) -> None:
    storage = MemoryStorage()
    made = catalog(storage, sync_level=1)
    first = made.add(entry())
    others = [made.add(entry(original_channel=f"aeron:ipc?alias={number}")) for number in range(20)]
    made.force(lambda _: None)
    storage.run_syncs()
    first.original_channel = "aeron:ipc?alias=" + "x" * 500
    changes = iter(range(change))

    def end() -> None:
        if next(changes, None) is None:
            raise ProcessEndedError

    storage.before_change = end
    with contextlib.suppress(ProcessEndedError):
        made.replace(first, first)
    storage.before_change = None
    if is_power_cut:
        storage.power_cut(Random(seed))

    reopened = catalog(storage, sync_level=1)
    assert reopened.problems == ()
    assert [item.original_channel for item in reopened.entries()][1:] == [item.original_channel for item in others]
    assert storage.names("archive") == ["archive.catalog"]


def test_a_force_during_a_change_of_the_file_is_answered() -> None:
    storage = MemoryStorage()
    made = catalog(storage, sync_level=1)
    first = made.add(entry())
    done: list[Exception | None] = []
    made.force(done.append)
    first.original_channel = "aeron:ipc?alias=" + "x" * 500
    made.replace(first, first)
    made.force(done.append)
    storage.run_syncs()
    storage.run_syncs()

    assert done == [None, None]
    assert storage.count_open == 1


def test_an_entry_that_shrinks_keeps_its_place() -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    first, second = made.add(entry(original_channel="aeron:ipc?alias=" + "x" * 300)), made.add(entry())
    offset = second.offset
    first.original_channel = "aeron:ipc"
    made.replace(first, first)

    read = decode_catalog(storage.content(PATH))
    assert read.entries[0].original_channel == "aeron:ipc"
    assert read.entries[1].offset == offset


def test_the_descriptor_message_decodes_with_the_ids_of_the_request() -> None:
    made = catalog(MemoryStorage())
    item = made.add(entry())

    message = am.SCHEMA.decode(made.descriptor_message(item, 11, 12))
    assert isinstance(message, am.RecordingDescriptor)
    assert (message.control_session_id, message.correlation_id, message.recording_id) == (11, 12, 0)
    assert (message.stream_id, message.original_channel) == (100, "aeron:ipc?alias=log")


def test_the_file_grows_beyond_its_capacity() -> None:
    storage = MemoryStorage()
    made = catalog(storage, capacity=1024)
    for _ in range(40):
        made.add(entry())

    assert len(storage.content(PATH)) > 40 * 192
    assert [item.recording_id for item in catalog(storage).entries()] == list(range(40))


def test_ids_are_not_given_twice_when_the_header_is_behind() -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    made.add(entry())
    made.add(entry())
    behind = bytearray(storage.content(PATH))
    behind[8:16] = bytes(8)
    storage.put(PATH, bytes(behind))

    assert catalog(storage).add(entry()).recording_id == 2


def test_the_next_entry_takes_the_place_of_one_that_the_end_of_the_process_tore() -> None:
    """Found by seed 13208 of the campaign: two entries had one id, and readers of the file found the torn one."""
    storage = MemoryStorage()
    made = catalog(storage)
    made.add(entry())
    made.add(entry())
    before = storage.content(PATH)
    added = made.add(entry())
    end = added.offset + DESCRIPTOR_HEADER_LENGTH + added.length
    whole = storage.content(PATH)[added.offset : end]
    for written in range(1, len(whole)):
        torn = whole[:written].ljust(len(whole), b"\0")
        storage.put(PATH, before[: added.offset] + torn + before[end:])
        again = catalog(storage).add(entry())
        contents = decode_catalog(storage.content(PATH))
        assert contents.problems == (), written
        assert again.recording_id == (2 if again.offset == added.offset else 3)
        assert [item.recording_id for item in contents.entries] == list(range(again.recording_id + 1))


def test_an_entry_for_which_there_is_no_room_leaves_no_hole_that_hides_later_ones() -> None:
    """Found by seed 14231 of the campaign."""
    storage = MemoryStorage()
    made = catalog(storage)
    made.add(entry())
    storage.error = "no space left on device"
    with pytest.raises(StorageError):
        made.add(entry(original_channel="aeron:ipc?alias=refused"))
    storage.error = None
    added = made.add(entry(original_channel="aeron:ipc?alias=taken"))
    contents = decode_catalog(storage.content(PATH))
    assert contents.problems == ()
    assert [item.original_channel for item in contents.entries] == ["aeron:ipc?alias=log", "aeron:ipc?alias=taken"]
    assert contents.next_recording_id == added.recording_id + 1 == 2


def test_a_catalog_that_could_not_grow_has_the_length_of_its_file() -> None:
    storage = MemoryStorage()
    made = catalog(storage, capacity=4096)
    first = made.add(entry())
    long = "aeron:ipc?alias=" + "x" * 3_900
    storage.error = "no space left on device"
    with pytest.raises(StorageError):
        made.record_channel(first, long, "aeron:ipc")
    assert len(storage.content(PATH)) == 4096
    storage.error = None
    made.add(entry(original_channel=long))
    # Half as long again, so that not every entry makes the file longer.
    assert len(storage.content(PATH)) == 4096 + 2048


def test_a_damaged_last_entry_that_was_written_to_its_end_keeps_its_place_and_its_id() -> None:
    storage = MemoryStorage()
    made = catalog(storage)
    for _ in range(3):
        made.add(entry())
    damaged = bytearray(storage.content(PATH))
    last = decode_catalog(bytes(damaged)).entries[-1]
    term_length = last.offset + DESCRIPTOR_HEADER_LENGTH + 64
    damaged[term_length : term_length + 4] = bytes(4)
    storage.put(PATH, bytes(damaged))
    opened = catalog(storage)
    assert opened.problems == ("catalog entry at 416: recording 2: term length 0, MTU 1408",)
    assert opened.add(entry()).recording_id == 3
    assert [item.offset for item in decode_catalog(storage.content(PATH)).entries] == [32, 224, 608]


def test_a_catalog_of_another_major_version_is_refused() -> None:
    storage = MemoryStorage()
    storage.put(PATH, (4 << 16).to_bytes(4, "little") + GOLDEN_CATALOG[4:])
    with pytest.raises(DecodeError):
        catalog(storage)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageError):
        catalog(MemoryStorage()).add(entry(source_identity="x" * 5000))


@given(st.binary(max_size=600))
def test_whatever_the_bytes_are_decoding_gives_entries_problems_or_a_decode_error(noise: bytes) -> None:
    image = GOLDEN_CATALOG[:HEADER_LENGTH] + noise
    contents = decode_catalog(image)
    assert contents.used_length <= len(image) + ALIGNMENT
    try:
        entries = decode_catalog(noise).entries
    except DecodeError:
        return
    assert all(item.recording_id >= 0 for item in entries)


@given(st.integers(0, 831), st.integers(0, 255))
def test_one_damaged_byte_never_hides_an_entry_before_it(offset: int, value: int) -> None:
    image = bytearray(GOLDEN_CATALOG)
    image[offset] = value
    try:
        contents = decode_catalog(bytes(image))
    except DecodeError:
        assert offset < HEADER_LENGTH
        return
    whole = [item.recording_id for item in decode_catalog(GOLDEN_CATALOG).entries if item.offset + 256 <= offset]
    assert [item.recording_id for item in contents.entries][: len(whole)] == whole


def test_a_force_that_is_asked_for_during_another_is_covered_by_the_next() -> None:
    storage = MemoryStorage()
    made = catalog(storage, sync_level=1)
    done: list[str] = []
    made.add(entry())
    made.force(lambda _: done.append("first"))
    made.add(entry())
    made.force(lambda _: done.append("second"))
    made.force(lambda _: done.append("third"))

    storage.run_syncs()
    assert done == ["first"]
    storage.run_syncs()
    assert done == ["first", "second", "third"]
    storage.power_cut()
    assert len(list(catalog(storage).entries())) == 2


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 12))
def test_a_power_cut_never_loses_a_forced_entry(seed: int, count: int) -> None:
    storage = MemoryStorage()
    made = catalog(storage, sync_level=1)
    for _ in range(count):
        made.add(entry())
    made.force(lambda _: None)
    storage.run_syncs()
    made.add(entry())
    storage.power_cut(Random(seed))

    reopened = catalog(storage, sync_level=1)
    assert [item.recording_id for item in reopened.entries()][:count] == list(range(count))
    assert reopened.next_recording_id >= count


def test_whoever_waits_for_a_force_after_the_end_of_the_archive_gets_an_error() -> None:
    storage = MemoryStorage()
    made = catalog(storage, sync_level=1)
    results: list[str] = []
    made.force(lambda error: results.append(type(error).__name__))
    made.force(lambda error: results.append(type(error).__name__))
    made.close()
    storage.run_syncs()
    assert results == ["NoneType", "StorageError"]
