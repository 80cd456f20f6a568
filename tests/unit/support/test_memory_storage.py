"""What the storage of tests promises about power cuts."""

from random import Random

import pytest

from support.memory_storage import MemoryStorage
from upheaval_node.errors import StorageError


def made(storage: MemoryStorage, path: str = "d/f") -> None:
    storage.open(path, create=True)
    storage.sync_directory("d")


def test_reads_see_what_was_written_and_a_power_cut_leaves_what_was_synced() -> None:
    storage = MemoryStorage()
    made(storage)
    file = storage.open("d/f")
    file.write(2, [b"ab", b"c"])
    file.sync(1)
    file.write(0, [b"xyz"])
    file.truncate(4)
    assert (file.read(0, 10), file.size()) == (b"xyzb", 4)
    storage.power_cut()
    assert storage.content("d/f") == b"\0\0abc"


def test_level_0_syncs_nothing() -> None:
    storage = MemoryStorage()
    made(storage)
    file = storage.open("d/f")
    file.write(0, [b"abc"])
    file.sync(0)
    storage.power_cut()
    assert storage.content("d/f") == b""


def test_a_later_sync_covers_what_was_written_before_it_was_asked_for() -> None:
    storage = MemoryStorage()
    made(storage)
    file = storage.open("d/f")
    outcome: list[Exception | None] = []
    file.write(0, [b"abc"])
    file.sync_later(1, outcome.append)
    file.write(0, [b"xyz"])
    assert outcome == []
    assert storage.run_syncs() == 1
    assert outcome == [None]
    storage.power_cut()
    assert storage.content("d/f") == b"abc"


def test_a_sync_in_between_does_not_shift_what_a_later_one_covers() -> None:
    storage = MemoryStorage()
    made(storage)
    file = storage.open("d/f")
    file.write(0, [b"a"])
    file.sync_later(1, lambda _: None)
    file.sync(1)
    file.write(1, [b"b"])
    storage.run_syncs()
    storage.power_cut()
    assert storage.content("d/f") == b"a"


def test_names_are_durable_when_their_folder_was_synced() -> None:
    storage = MemoryStorage()
    made(storage)
    storage.open("d/new", create=True)
    storage.rename("d/f", "d/g")
    assert storage.names("d") == ["g", "new"]
    assert storage.names("") == ["d"]
    storage.power_cut()
    assert storage.names("d") == ["f"]
    storage.remove("d/f")
    storage.sync_directory("d")
    storage.power_cut()
    assert not storage.exists("d/f")


def test_a_random_power_cut_may_keep_part_of_what_was_not_synced() -> None:
    outcomes = set()
    for seed in range(40):
        storage = MemoryStorage()
        made(storage)
        file = storage.open("d/f")
        file.write(0, [b"a" * 1024])
        file.write(1024, [b"b" * 1024])
        storage.power_cut(Random(seed))
        outcomes.add(storage.content("d/f"))
    assert {b"", b"a" * 1024, b"a" * 512, b"a" * 1024 + b"b" * 1024} <= outcomes


def test_failures_are_storage_errors() -> None:
    storage = MemoryStorage()
    with pytest.raises(StorageError):
        storage.open("missing")
    with pytest.raises(StorageError):
        storage.remove("missing")
    with pytest.raises(StorageError):
        storage.rename("missing", "x")
    file = storage.open("f", create=True)
    outcome: list[Exception | None] = []
    file.sync_later(1, outcome.append)
    storage.error = "input/output error"
    with pytest.raises(StorageError):
        file.write(0, [b"x"])
    storage.run_syncs()
    assert isinstance(outcome[0], StorageError)
    storage.error = None
    file.close()
    with pytest.raises(StorageError):
        file.size()
