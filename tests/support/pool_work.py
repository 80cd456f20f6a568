"""Work for `some_at_a_time`, by name, so that its processes find it."""

import os
import signal
from pathlib import Path
from typing import Final

from upheaval.records import write_atomically
from upheaval.waits import wait_until

PATIENCE_S: Final = 120


def end_at_three(folder: Path, number: int) -> int:
    """The first item ends after the third, whose process the parent has then waited for."""
    file = folder / "pid"
    if number == 1:
        wait_until(file.is_file, timeout_s=PATIENCE_S, describe=lambda: "the third item has not begun")
        process = Path("/proc", file.read_text())
        wait_until(lambda: not process.exists(), timeout_s=PATIENCE_S, describe=lambda: f"{process} has not ended")
    if number == 3:
        write_atomically(file, str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave_file(folder: Path, number: int) -> int:
    (folder / str(number)).touch()
    return number


def pause_at_two(number: int) -> int:
    if number == 2:
        signal.pause()
    return number


def fail_at_two(number: int) -> int:
    return 10 // (number - 2)
