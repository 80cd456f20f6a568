"""The distinct error log."""

import struct

import pytest
from hypothesis import given, strategies as st

from support.memory_storage import MemoryStorage
from upheaval_node.files.error_log import MAX_TEXT_LENGTH, ErrorLog, ErrorRecord, read_errors

HEADER = struct.Struct("<iiqq")


def new_log(length: int = 1024, offset: int = 64) -> tuple[MemoryStorage, ErrorLog]:
    storage = MemoryStorage()
    file = storage.open("errors", create=True)
    file.truncate(offset + length)
    return storage, ErrorLog(file, offset, length)


def test_repetition_raises_count_and_time_only() -> None:
    storage, log = new_log()
    for at, text in ((10, "a"), (20, "bb"), (30, "a")):
        assert log.record(at, text)
    assert read_errors(storage.content("errors")[64:]) == [ErrorRecord("a", 2, 10, 30), ErrorRecord("bb", 1, 20, 20)]


def test_record_layout() -> None:
    storage, log = new_log()
    log.record(7, "abc")
    log.record(8, "z")
    content = storage.content("errors")[64:]
    assert content[:27] == struct.pack("<iiqq", 27, 1, 7, 7) + b"abc"
    assert content[32:57] == struct.pack("<iiqq", 25, 1, 8, 8) + b"z"
    assert not any(storage.content("errors")[:64])


def test_a_full_log_takes_repetitions_only() -> None:
    storage, log = new_log(length=64)
    assert log.record(1, "12345678")
    assert log.record(2, "87654321")
    assert not log.record(3, "x")
    assert log.record(4, "12345678")
    assert [record.count for record in read_errors(storage.content("errors")[64:])] == [2, 1]
    assert len(storage.content("errors")) == 128


def test_long_and_foreign_text_is_cut_and_replaced() -> None:
    storage, log = new_log(length=20_000)
    log.record(1, "é" + "x" * 10_000)
    (record,) = read_errors(storage.content("errors")[64:])
    assert record.text == "?" + "x" * (MAX_TEXT_LENGTH - 1)


@pytest.mark.parametrize(
    "content", [b"", bytes(23), bytes(64), struct.pack("<iiqq", 23, 1, 1, 1), struct.pack("<iiqq", 99, 1, 1, 1)]
)
def test_what_is_no_whole_record_ends_the_log(content: bytes) -> None:
    assert read_errors(content) == []


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(content: bytes) -> None:
    assert len(read_errors(content)) <= len(content) // 24
