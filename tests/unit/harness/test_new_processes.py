"""Processes are found by their environment from the moment they start."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from upheaval.system.process_table import RUN_ID_VARIABLE, process_of, processes_of

# A search that takes an empty environment for the end misses 26 % of new processes on an idle machine, and 88 % beside
# four busy ones.
STARTS = 60


@pytest.fixture
def started() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_process_is_found_as_soon_as_it_was_started(started: list[int]) -> None:
    run_id = f"run-of-{os.getpid()}"
    for _ in range(STARTS):
        started.append(os.posix_spawnp("sleep", ["sleep", "300"], {**os.environ, RUN_ID_VARIABLE: run_id}))
        assert process_of(started[-1], run_id) is not None
    assert [process.pid for process in processes_of(run_id)] == sorted(started)


def test_a_process_is_found_while_it_becomes_another_program(started: list[int]) -> None:
    run_id = f"run-of-{os.getpid()}"
    again = 'test "$1" -eq 0 && exec sleep 300; exec sh -c "$0" "$0" $(($1 - 1))'
    started.append(os.posix_spawnp("sh", ["sh", "-c", again, again, "200"], {**os.environ, RUN_ID_VARIABLE: run_id}))
    command = Path(f"/proc/{started[0]}/comm")
    while command.read_text(encoding="ascii") != "sleep\n":
        assert process_of(started[0], run_id) is not None


def test_a_process_without_environment_delays_no_search(started: list[int]) -> None:
    started.append(os.posix_spawnp("sleep", ["sleep", "300"], {}))
    assert process_of(started[0], "run") is None
    start = time.monotonic()
    for _ in range(10):
        assert process_of(started[0], "run") is None
    # Ten waits for an environment would take 50 s.
    assert time.monotonic() - start < 40
