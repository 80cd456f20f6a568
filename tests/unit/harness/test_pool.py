"""Worker processes: results in order, and the end of one of them, of their parent, or of what it asks for."""

import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.pool_work import end_at_two, fail_at_two, pause_at_two
from upheaval.campaign.pool import some_at_a_time
from upheaval.errors import EnvironmentFault

PATIENCE_S = 240
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


def test_results_come_in_the_order_of_the_items() -> None:
    with some_at_a_time(abs, 3) as run:
        assert list(run(range(-20, 0))) == list(range(20, 0, -1))
        assert list(run([])) == []
        assert list(run([-1])) == [1]


def test_a_worker_that_is_ended_ends_the_search_with_a_reason() -> None:
    """As by the kernel when memory runs out. What came before is there."""
    with some_at_a_time(end_at_two, 2) as run:
        results = run([1, 2, 3, 4])
        assert next(results) == 1
        with pytest.raises(EnvironmentFault, match="ended by SIGKILL, as when memory runs out"):
            list(results)
    assert multiprocessing.active_children() == []


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
