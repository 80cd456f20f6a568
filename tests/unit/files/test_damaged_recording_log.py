"""A damaged recording log is refused, and what a power cut leaves is dropped."""

import pytest
from hypothesis import given, settings, strategies as st

from support.memory_storage import MemoryStorage
from unit.files.test_recording_log import reloaded, terms
from upheaval_node.errors import DecodeError
from upheaval_node.files.layout import RECORDING_LOG
from upheaval_node.files.recording_log import RecordingLog


def record(kind: int, *, recording_id: int = 1, term: int = 0) -> bytes:
    numbers = [number.to_bytes(8, "little") for number in (recording_id, term, 0, 0, 0)]
    return b"".join(numbers) + b"\xff" * 4 + kind.to_bytes(4, "little") + bytes(16)


@pytest.mark.parametrize(
    "content",
    [
        record(3),
        record(0x7FFFFFFF),
        record(0) + record(0),
        record(0) + record(0, recording_id=2, term=1),
        record(2)[:48] + b"\xff\xff\xff\xff" + bytes(12),
        record(2)[:48] + (4045).to_bytes(4, "little") + bytes(12),
        record(2)[:48] + (4).to_bytes(4, "little") + b"\xffabc" + bytes(8),
    ],
)
def test_a_damaged_file_is_refused(content: bytes) -> None:
    storage = MemoryStorage()
    storage.put(RECORDING_LOG, content)
    with pytest.raises(DecodeError):
        RecordingLog(storage)


@pytest.mark.parametrize("tail", [b"x", bytes(63), record(2)[:48] + (100).to_bytes(4, "little") + bytes(12)])
def test_a_record_cut_off_at_the_end_is_dropped(tail: bytes) -> None:
    storage = MemoryStorage()
    storage.put(RECORDING_LOG, record(0) + tail)
    log = RecordingLog(storage)
    assert terms(log) == [(0, 0, 0)]
    assert log.append_term(1, 1, 5, 6).offset == 64
    assert terms(reloaded(storage)) == [(0, 0, 5), (1, 5, -1)]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("length", [64, 128, 4096])
def test_records_that_a_power_cut_left_as_zeros_are_dropped(level: int, length: int) -> None:
    storage = MemoryStorage()
    storage.put(RECORDING_LOG, record(0) + bytes(length))
    log = RecordingLog(storage, sync_level=level)
    assert terms(log) == [(0, 0, 0)]
    assert log.append_term(1, 1, 5, 6).offset == 64
    assert terms(reloaded(storage)) == [(0, 0, 5), (1, 5, -1)]


def test_what_comes_after_a_hole_counts_only_as_damage_where_files_are_synced() -> None:
    storage = MemoryStorage()
    content = record(0) + bytes(64) + record(0, term=2)
    storage.put(RECORDING_LOG, content)
    with pytest.raises(DecodeError, match=r"cluster/recording.log is damaged: record 1 is missing"):
        RecordingLog(storage, sync_level=1)
    assert storage.open(RECORDING_LOG).read(0, 999) == content
    assert terms(RecordingLog(storage)) == [(0, 0, 0)]
    assert terms(RecordingLog(storage, sync_level=1)) == [(0, 0, 0)]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 400))
def test_arbitrary_damage_is_refused_or_read(noise: bytes, at: int) -> None:
    content = bytearray(record(0) + record(1) + record(2)[:48] + b"\x03\0\0\0h:1" + bytes(9))
    content[at : at + len(noise)] = noise
    storage = MemoryStorage()
    storage.put(RECORDING_LOG, bytes(content))
    try:
        log = RecordingLog(storage)
    except DecodeError:
        return
    assert list(reloaded(storage).entries) == list(log.entries)
    assert len(log.entries) <= len(content) // 64
