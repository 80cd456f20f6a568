"""Temporary folders go with their owner, or with the next one after it was killed; those of live owners stay."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

import pytest

from upheaval.records import owned_folder

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from upheaval.records import owned_folder
with owned_folder("trial") as folder:
    (folder / "something").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_gone_at_the_end_also_of_a_failure(place: Path) -> None:
    def fail() -> None:
        with owned_folder("trial") as folder:
            (folder / "something").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(place.iterdir()) == []


def test_the_next_one_removes_what_a_killed_owner_left_and_nothing_else(place: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        held = Path(holder.stdout.readline().strip())
        with owned_folder("trial"):
            assert (held / "something").exists()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert held.exists()
    with owned_folder("other"):
        assert held.exists()
    with owned_folder("trial") as folder:
        assert list(place.iterdir()) == [folder]


def test_what_is_still_written_at_the_end_goes_too(place: Path) -> None:
    def write(folder: Path) -> None:
        for number in range(3000):
            try:
                (folder / f"late-{number}").touch()
            except OSError:
                return

    with owned_folder("late") as folder:
        writer = Thread(target=write, args=(folder,))
        writer.start()
    writer.join()
    assert list(place.iterdir()) == []
