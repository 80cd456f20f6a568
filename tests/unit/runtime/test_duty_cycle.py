"""The duty cycle: rounds, deadlines, stalls, the end."""

import itertools
import socket
import time
from collections.abc import Callable

import pytest

from upheaval_node.bell import Bell
from upheaval_node.errors import TerminationError
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import LONGEST_CYCLE_NS, DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.readiness import READABLE
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
    cycle = DutyCycle(loop, SystemClock(), [Worker(work=10_000_000)])
    loop.call_soon(lambda: seen.append("input"))
    seen: list[str] = []
    cycle.run_once(0)
    start = time.monotonic()
    cycle.run_once(60_000_000_000)
    assert seen == ["input"]
    assert time.monotonic() - start < 30, "work that is left must not wait"


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


def test_a_stall_in_the_cycle_that_ends_the_run_is_reported(loop: Loop) -> None:
    stalls: list[int] = []

    class Ending(Worker):
        def do_work(self, now: Now) -> int:
            end = time.monotonic() + 0.06
            while time.monotonic() < end:
                pass
            raise TerminationError("the end", expected=False)

    cycle = DutyCycle(loop, SystemClock(), [Ending()], on_stall=lambda _, ns: stalls.append(ns))
    with pytest.raises(TerminationError):
        cycle.run()
    assert stalls == [cycle.longest_stall_ns]
    assert stalls[0] >= 60_000_000


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


class Belled(Worker):
    """Wants to be called when its bell says so."""

    def __init__(self, interval_ns: int = 0) -> None:
        super().__init__(interval_ns=interval_ns)
        self.bell = Bell()


class Knocker:
    """A descriptor of a loop with input, which rings bells on request."""

    def __init__(self, loop: Loop, *, rings: bool) -> None:
        self.rung: Bell | None = None
        self._near, self._far = socket.socketpair()
        loop.register(self._near.fileno(), READABLE, self._on_ready, rings=rings)

    def knock(self) -> None:
        self._far.send(b"x")

    def __enter__(self) -> "Knocker":
        return self

    def __exit__(self, *_: object) -> None:
        self._near.close()
        self._far.close()

    def _on_ready(self, _events: int) -> None:
        self._near.recv(1)
        if self.rung is not None:
            self.rung.rung = True


def test_who_has_a_bell_is_called_when_that_was_rung(loop: Loop) -> None:
    belled, plain = Belled(), Worker()
    cycle = DutyCycle(loop, SystemClock(), [belled, plain])
    with Knocker(loop, rings=True) as knocker:
        cycle.run_once(0)
        calls, plain_calls = belled.calls, plain.calls
        knocker.knock()
        cycle.run_once(0)
        assert (belled.calls, plain.calls) == (calls, plain_calls + 1)
        knocker.rung = belled.bell
        knocker.knock()
        cycle.run_once(0)
        assert (belled.calls, plain.calls) == (calls + 1, plain_calls + 2)


@pytest.mark.parametrize("heeds_bells", [True, False])
def test_all_are_called_for_input_that_rings_for_nobody(loop: Loop, heeds_bells: bool) -> None:
    belled = Belled()
    cycle = DutyCycle(loop, SystemClock(), [belled], heeds_bells=heeds_bells)
    with Knocker(loop, rings=False) as quiet:
        cycle.run_once(0)
        happenings: list[Callable[[], object]] = [
            quiet.knock,
            loop.wake,
            lambda: loop.call_soon(lambda: None),
            lambda: loop.call_from_thread(lambda: None),
            lambda: loop.call_at(time.monotonic_ns(), lambda: None),
            lambda: None,  # a wait that ends without input
        ]
        for happen in happenings:
            calls = belled.calls
            happen()
            cycle.run_once(0)
            assert belled.calls == calls + 1


def test_nobody_is_passed_over_where_others_write_what_agents_read(loop: Loop) -> None:
    belled = Belled()
    cycle = DutyCycle(loop, SystemClock(), [belled], heeds_bells=False)
    with Knocker(loop, rings=True) as knocker:
        cycle.run_once(0)
        calls = belled.calls
        knocker.knock()
        cycle.run_once(0)
        assert belled.calls == calls + 1


def test_who_has_a_bell_is_called_at_its_deadline(loop: Loop) -> None:
    belled = Belled(interval_ns=20_000_000)
    cycle = DutyCycle(loop, SystemClock(), [belled])
    assert cycle.run_until(lambda: len(belled.fired) == 3, time.monotonic_ns() + 5_000_000_000)
    assert cycle.cycles <= 5


class Busy(Worker):
    """Always has work, each turn for a while."""

    def do_work(self, now: Now) -> int:
        end_ns = time.monotonic_ns() + LONGEST_CYCLE_NS // 5
        while time.monotonic_ns() < end_ns:
            pass
        return 1


def test_a_deadline_is_kept_beside_an_agent_that_always_has_work(loop: Loop) -> None:
    belled = Belled(interval_ns=20_000_000)
    cycle = DutyCycle(loop, SystemClock(), [belled, Busy()])
    assert cycle.run_until(lambda: len(belled.fired) == 5, time.monotonic_ns() + 5_000_000_000)
    gaps_ns = [after - before for before, after in itertools.pairwise(belled.fired)]
    assert min(gaps_ns) < 20_000_000 + 4 * LONGEST_CYCLE_NS + cycle.longest_stall_ns


def test_what_nobody_rings_for_is_seen_beside_input_that_rings(loop: Loop) -> None:
    belled = Belled()
    cycle = DutyCycle(loop, SystemClock(), [belled])
    with Knocker(loop, rings=True) as knocker:
        cycle.run_once(0)
        calls = belled.calls
        knocker.knock()
        loop.call_soon(lambda: None)
        cycle.run_once(0)
        assert belled.calls == calls + 1
        knocker.knock()
        loop.call_at(time.monotonic_ns(), lambda: None)
        cycle.run_once(0)
        assert belled.calls == calls + 2


def test_a_descriptor_rings_only_for_who_said_so(loop: Loop) -> None:
    belled = Belled()
    cycle = DutyCycle(loop, SystemClock(), [belled])
    near, far = socket.socketpair()
    with near, far:
        loop.register(near.fileno(), READABLE, lambda _: None, rings=True)
        loop.unregister(near.fileno())
        loop.register(near.fileno(), READABLE, lambda _: near.recv(1), rings=False)
        cycle.run_once(0)
        calls = belled.calls
        far.send(b"x")
        cycle.run_once(0)
        assert belled.calls == calls + 1
        loop.unregister(near.fileno())


def test_who_is_rung_between_cycles_is_not_waited_with(loop: Loop) -> None:
    belled = Belled()
    cycle = DutyCycle(loop, SystemClock(), [belled])
    cycle.run_once(0)
    belled.bell.rung = True
    calls = belled.calls
    start = time.monotonic()
    cycle.run_once(60_000_000_000)
    assert belled.calls == calls + 1
    assert time.monotonic() - start < 30
