"""Liveness of a component as a lock that ends with its process."""

import signal
import struct
import subprocess
from itertools import count
from pathlib import Path

import pytest

from unit.runtime.member_processes import wait_until
from unit.runtime.parties import child, read_line
from upheaval_node.runtime.mark_lock import AlreadyRunning, MarkLock, is_locked

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
        with pytest.raises(AlreadyRunning, match=r"held by a process, which has not ended .* \(waited \d+\.\d s\)"):
            MarkLock(path, timeout_s=0.05)
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


STARTER = """
    import sys
    from upheaval_node.runtime.mark_lock import MarkLock
    print("starts", flush=True)
    lock = MarkLock(sys.argv[1])
    print("took it", flush=True)
"""


def write_owner(path: str, activity_timestamp_ms: int, pid: int) -> None:
    """As either kind of mark file has it: at byte 16 the sign of life, at byte 32 the process id."""
    Path(path).write_bytes(struct.pack("<16xqqq", activity_timestamp_ms, 0, pid))


def wait_until_asking(process: "subprocess.Popen[bytes]", path: str) -> None:
    """Until the process has the file open, which it asks for the lock of."""
    fds = Path(f"/proc/{process.pid}/fd")
    wait_until(lambda: any(fd.is_symlink() and str(fd.readlink()) == path for fd in fds.iterdir()))


@pytest.mark.parametrize("last_sign", [1_000, -1], ids=["killed", "ended-in-order"])
def test_a_lock_that_is_let_go_of_after_the_start_began_is_taken(tmp_path: Path, last_sign: int) -> None:
    """A killed process leaves the process table before the kernel releases its locks."""
    path = str(tmp_path / "mark.dat")
    write_owner(path, 1_000, 1)
    with child(HOLDER, path) as holder:
        assert read_line(holder) == b"held"
        with child(STARTER, path) as starter:
            assert read_line(starter) == b"starts"
            wait_until_asking(starter, path)
            write_owner(path, last_sign, 1)
            holder.kill()
            assert read_line(starter) == b"took it"


def test_a_holder_that_shows_life_is_named_and_not_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "mark.dat")
    write_owner(path, 1_000, 4711)
    with child(HOLDER, path) as holder:
        assert read_line(holder) == b"held"
        with child(STARTER, path) as starter:
            assert read_line(starter) == b"starts"
            wait_until_asking(starter, path)
            signs = count(2_000)

            def has_ended() -> bool:
                """A sign of life that came before the first look of the starter shows nothing."""
                write_owner(path, next(signs), 4711)
                return starter.poll() is not None

            wait_until(has_ended)
            assert starter.returncode == 1
        with pytest.raises(AlreadyRunning, match=r"held by process 4711, which has not ended"):
            MarkLock(path, timeout_s=0)
