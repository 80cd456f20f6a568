"""Locks of folders and files, also where a file system has none."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from upheaval.errors import EnvironmentFault
from upheaval.records.folder_lock import held, locked


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_lets_the_block_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    for lock in (locked(tmp_path), held(tmp_path / "lock")):
        if number == errno.EIO:
            with pytest.raises(EnvironmentFault, match="cannot lock"), lock:
                pass
        else:
            with lock:
                pass


def test_a_descriptor_that_a_fork_still_has_holds_no_lock(tmp_path: Path) -> None:
    file, copies = tmp_path / "lock", []
    for _ in range(2):
        with held(file):
            copies += [
                os.dup(int(one.name)) for one in Path("/proc/self/fd").iterdir() if one.resolve() == file.resolve()
            ]
            with pytest.raises(BlockingIOError), held(file):
                pass
    assert copies
    for copy in copies:
        os.close(copy)
