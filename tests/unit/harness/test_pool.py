"""Worker processes: results in order, and the end of one of them, of their parent, or of what it asks for."""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.pool_work import end_at_three, fail_at_two, leave_file, pause_at_two
from upheaval.campaign.pool import AHEAD_MAX, some_at_a_time
from upheaval.errors import EnvironmentFault
from upheaval.waits import wait_until

PATIENCE_S = 240
FILES_S = 120
PARENT = """
import sys
from upheaval.campaign.pool import some_at_a_time
with some_at_a_time(abs, 2) as run:
    print(list(run([-1, -2])), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _limited() -> Iterator[None]:
    """Workers that do not answer would hang the suite."""
    before = signal.signal(signal.SIGALRM, _time_is_over)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _time_is_over(*_: object) -> None:
    raise TimeoutError(f"no answer in {PATIENCE_S} s")


def wait_for_files(count: int, folder: Path) -> None:
    def seen() -> list[str]:
        return [path.name for path in folder.iterdir()]

    wait_until(lambda: len(seen()) >= count, timeout_s=FILES_S, describe=lambda: f"only items {seen()} are done")


def test_results_come_in_the_order_of_the_items() -> None:
    with some_at_a_time(abs, 3) as run:
        assert list(run(range(-20, 0))) == list(range(20, 0, -1))
        assert list(run([])) == []
        assert list(run([-1])) == [1]


def test_a_worker_that_is_ended_is_the_outcome_of_its_item_in_its_turn(tmp_path: Path) -> None:
    """As by the kernel when memory runs out."""
    with some_at_a_time(partial(end_at_three, tmp_path), 2) as run:
        results = run([1, 2, 3, 4])
        assert [next(results), next(results)] == [1, 2]
        with pytest.raises(EnvironmentFault, match="ended by SIGKILL, as when memory runs out"):
            next(results)
    assert multiprocessing.active_children() == []


def test_workers_go_on_while_no_result_is_asked_for(tmp_path: Path) -> None:
    with some_at_a_time(partial(leave_file, tmp_path), 2) as run:
        results = run(range(10))
        wait_for_files(10, tmp_path)
        assert list(results) == list(range(10))


def test_workers_go_so_far_ahead_and_no_further(tmp_path: Path) -> None:
    items = range(AHEAD_MAX + 10)
    with some_at_a_time(partial(leave_file, tmp_path), 2) as run:
        results = run(items)
        # Given to the workers after those that they go ahead.
        assert list(run([-1])) == [-1]
        wait_for_files(AHEAD_MAX + 1, tmp_path)
        assert {int(path.name) for path in tmp_path.iterdir()} == {-1, *items[:AHEAD_MAX]}
        assert list(results) == list(items)


def test_what_is_not_asked_for_is_not_waited_for() -> None:
    with some_at_a_time(pause_at_two, 2) as run:
        assert next(run([1, 2, 3])) == 1
    assert multiprocessing.active_children() == []


def test_what_an_item_raises_comes_in_its_turn_and_says_where() -> None:
    with some_at_a_time(fail_at_two, 2) as run:
        results = run([1, 2, 3])
        assert next(results) == -10
        with pytest.raises(ZeroDivisionError) as caught:
            next(results)
        assert "in fail_at_two" in "".join(caught.value.__notes__)
        assert list(run([3, 4])) == [10, 5]


def test_workers_end_with_a_parent_that_is_killed() -> None:
    """They have its output, too, which ends with the last of them."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "[1, 2]\n"
        parent.kill()
        assert parent.stdout.read() == ""
