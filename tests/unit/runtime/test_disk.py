"""The storage port over real files."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from unit.runtime.parties import child, read_line, run_until
from upheaval_node.errors import StorageError, UsageError
from upheaval_node.runtime.disk import DiskStorage
from upheaval_node.runtime.loop import Loop


@pytest.fixture
def storage(tmp_path: Path, loop: Loop) -> DiskStorage:
    return DiskStorage(str(tmp_path), loop)


def test_a_file_is_made_with_its_folders_only_when_asked(storage: DiskStorage) -> None:
    with pytest.raises(StorageError, match=r"cannot open a/b/c\.dat: no such file or directory \(ENOENT\)"):
        storage.open("a/b/c.dat")
    storage.open("a/b/c.dat", create=True).close()
    assert storage.exists("a/b/c.dat")
    assert storage.names("a/b") == ["c.dat"]
    assert storage.names("nowhere") == []


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 5000), st.lists(st.binary(max_size=200), max_size=5)), max_size=10))
def test_a_file_holds_what_was_written_last_at_every_offset(
    storage: DiskStorage, writes: list[tuple[int, list[bytes]]]
) -> None:
    file = storage.open("data", create=True)
    file.truncate(0)
    expected = bytearray()
    for offset, parts in writes:
        data = b"".join(parts)
        file.write(offset, parts)
        if data:
            expected.extend(bytes(max(0, offset + len(data) - len(expected))))
            expected[offset : offset + len(data)] = data
    assert file.size() == len(expected)
    assert file.read(0, len(expected) + 10) == expected
    file.close()


def test_many_parts_are_written_in_order(storage: DiskStorage) -> None:
    file = storage.open("many", create=True)
    parts = [index.to_bytes(4, "little") for index in range(5000)]
    file.write(3, parts)
    assert file.read(3, 20_000) == b"".join(parts)


def test_extending_leaves_zeros_and_cutting_forgets(storage: DiskStorage) -> None:
    file = storage.open("sparse", create=True)
    file.write(0, [b"head"])
    file.truncate(1 << 20)
    assert file.size() == 1 << 20
    assert file.read((1 << 20) - 4, 10) == bytes(4)
    file.truncate(2)
    file.truncate(4)
    assert file.read(0, 4) == b"he\0\0"


def test_rename_and_remove(storage: DiskStorage) -> None:
    storage.open("old", create=True).close()
    storage.rename("old", "new")
    storage.sync_directory("")
    assert storage.names("") == ["new"]
    storage.remove("new")
    assert not storage.exists("new")
    with pytest.raises(StorageError, match="ENOENT"):
        storage.remove("new")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b"])
def test_no_path_leads_out_of_the_members_folder(storage: DiskStorage, path: str) -> None:
    with pytest.raises(UsageError):
        storage.open(path, create=True)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_later_sync_reports_from_the_loop_and_not_before(storage: DiskStorage, loop: Loop, level: int) -> None:
    file = storage.open("log", create=True)
    file.write(0, [b"x"])
    done: list[Exception | None] = []
    file.sync_later(level, done.append)
    assert done == []
    run_until(loop, lambda: done)
    assert done == [None]


def test_syncs_are_reported_in_the_order_in_which_they_were_asked_for(storage: DiskStorage, loop: Loop) -> None:
    files = [storage.open(f"file-{index}", create=True) for index in range(3)]
    done: list[tuple[int, Exception | None]] = []
    for number in range(60):
        file = files[number % 3]
        file.write(number, [b"x"])
        file.sync_later(1 + number % 2, lambda error, number=number: done.append((number, error)))  # type: ignore[misc]
    run_until(loop, lambda: len(done) == 60)
    assert done == [(number, None) for number in range(60)]


def test_a_file_closed_during_a_sync_still_reports_and_then_frees_its_descriptor(
    storage: DiskStorage, loop: Loop
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = storage.open("closing", create=True)
    file.write(0, [bytes(1 << 20)])
    done: list[Exception | None] = []
    file.sync_later(2, done.append)
    file.close()
    file.close()
    run_until(loop, lambda: done)
    assert done == [None]
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(StorageError, match="closing is closed"):
        file.read(0, 1)


def test_a_failed_sync_is_reported_and_stays_failed(tmp_path: Path, loop: Loop) -> None:
    """A pipe cannot be synced: the nearest thing to a broken disk that needs no device of its own."""
    os.mkfifo(tmp_path / "pipe")
    file = DiskStorage(str(tmp_path), loop).open("pipe")
    done: list[Exception | None] = []
    file.sync_later(1, done.append)
    run_until(loop, lambda: done)
    assert isinstance(done[0], StorageError)
    assert str(done[0]) == "cannot sync pipe: invalid argument (EINVAL)"
    with pytest.raises(StorageError, match="EINVAL"):
        file.sync(2)


def test_a_full_device_is_a_storage_error(tmp_path: Path, loop: Loop) -> None:
    os.symlink("/dev/full", tmp_path / "full")
    file = DiskStorage(str(tmp_path), loop).open("full")
    with pytest.raises(StorageError, match=r"cannot write full: no space left on device \(ENOSPC\)"):
        file.write(0, [b"x"])


def test_a_write_that_fits_in_part_only_fails_and_keeps_the_part(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from upheaval_node.errors import StorageError
        from upheaval_node.runtime.disk import DiskStorage
        from upheaval_node.runtime.loop import Loop
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        file = DiskStorage(sys.argv[1], Loop()).open("limited", create=True)
        try:
            file.write(0, [bytes(600), bytes(600)])
        except StorageError as error:
            print(error, file.size(), flush=True)
    """
    with child(code, str(tmp_path)) as process:
        assert read_line(process) == b"cannot write limited: file too large (EFBIG) 1000"


def test_closing_the_storage_finishes_what_was_asked_for(storage: DiskStorage, loop: Loop) -> None:
    file = storage.open("last", create=True)
    done: list[Exception | None] = []
    for _ in range(10):
        file.sync_later(1, done.append)
    storage.close()
    run_until(loop, lambda: len(done) == 10)
    assert done == [None] * 10
