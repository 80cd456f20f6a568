"""The duty cycle: rounds, deadlines, stalls, the end."""

import time

import pytest

from upheaval_node.errors import TerminationError
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import MAX_ROUNDS, DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.types import NEVER_NS, Now


class Worker:
    """Has a given amount of work, or is due at an interval."""

    def __init__(self, work: int = 0, interval_ns: int = 0) -> None:
        self.work = work
        self.calls = 0
        self.fired: list[int] = []
        self.interval_ns = interval_ns
        self.deadline_ns = time.monotonic_ns() + interval_ns if interval_ns else NEVER_NS

    def do_work(self, now: Now) -> int:
        self.calls += 1
        if now.ns >= self.deadline_ns:
            self.fired.append(now.ns)
            self.deadline_ns = now.ns + self.interval_ns
            return 1
        if self.work:
            self.work -= 1
            return 1
        return 0

    def next_deadline_ns(self) -> int:
        return self.deadline_ns


def test_agents_run_in_turn_until_a_whole_round_did_nothing(loop: Loop) -> None:
    first, second = Worker(work=3), Worker(work=7)
    DutyCycle(loop, SystemClock(), [first, second]).run_once(0)
    assert (first.calls, second.calls) == (8, 8)


def test_an_agent_that_always_has_work_does_not_shut_out_input(loop: Loop) -> None:
    cycle = DutyCycle(loop, SystemClock(), [Worker(work=10 * MAX_ROUNDS)])
    loop.call_soon(lambda: seen.append("input"))
    seen: list[str] = []
    cycle.run_once(0)
    start = time.monotonic()
    cycle.run_once(5_000_000_000)
    assert seen == ["input"]
    assert time.monotonic() - start < 1 + cycle.longest_stall_ns / 1e9, "work that is left must not wait"


def test_an_idle_process_wakes_only_for_its_deadlines(loop: Loop) -> None:
    worker = Worker(interval_ns=20_000_000)
    cycle = DutyCycle(loop, SystemClock(), [worker])
    assert cycle.run_until(lambda: len(worker.fired) == 5, time.monotonic_ns() + 5_000_000_000)
    assert cycle.cycles <= 7


def test_others_are_told_after_work_and_after_input_that_no_agent_saw(loop: Loop) -> None:
    done: list[str] = []
    told: list[list[str]] = []
    worker = Worker()
    cycle = DutyCycle(loop, SystemClock(), [worker], after_work=lambda: told.append(list(done)))
    loop.call_soon(lambda: done.append("a sync completed"))
    cycle.run_once(0)
    assert told == [["a sync completed"]]
    worker.work = 1
    cycle.run_once(0)
    assert len(told) == 2


def test_a_stall_is_measured_and_reported(loop: Loop) -> None:
    stalls: list[int] = []

    class Sluggish(Worker):
        def do_work(self, now: Now) -> int:
            end = time.monotonic() + 0.06
            while time.monotonic() < end:
                pass
            return 0

    cycle = DutyCycle(loop, SystemClock(), [Sluggish()], on_stall=lambda _, ns: stalls.append(ns))
    cycle.run_once(0)
    assert stalls == [cycle.longest_stall_ns]
    assert 60_000_000 <= stalls[0] < 5_000_000_000


def test_a_stop_ends_a_wait_at_once(loop: Loop) -> None:
    cycle = DutyCycle(loop, SystemClock(), [Worker()])
    loop.call_at(time.monotonic_ns() + 5_000_000, cycle.request_stop)
    start = time.monotonic()
    cycle.run()
    assert time.monotonic() - start < 5


def test_what_an_agent_raises_ends_the_run(loop: Loop) -> None:
    class Ending(Worker):
        def do_work(self, now: Now) -> int:
            raise TerminationError("the end", expected=True)

    with pytest.raises(TerminationError):
        DutyCycle(loop, SystemClock(), [Ending()]).run()
