"""Liveness of a component as a lock that ends with its process."""

import signal
from pathlib import Path

import pytest

from unit.runtime.parties import child, read_line
from upheaval_node.errors import UsageError
from upheaval_node.runtime.mark_lock import MarkLock, is_locked

HOLDER = """
    import sys
    from upheaval_node.runtime.mark_lock import MarkLock
    lock = MarkLock(sys.argv[1])
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_is_released_by_the_kill_of_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster" / "mark.dat")
    with child(HOLDER, path) as process:
        assert read_line(process) == b"held"
        assert is_locked(path)
        with pytest.raises(UsageError, match="runs already"):
            MarkLock(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not is_locked(path)
        MarkLock(path).release()


def test_the_lock_is_released_by_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "mark.dat")
    assert not is_locked(path), "a file that is missing"
    lock = MarkLock(path)
    assert is_locked(path)
    lock.release()
    lock.release()
    assert not is_locked(path)


def test_asking_does_not_take_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "mark.dat")
    MarkLock(path).release()
    for _ in range(3):
        assert not is_locked(path)
    MarkLock(path).release()
