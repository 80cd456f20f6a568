"""The loop: wake-ups, timers, work from other threads."""

import threading
import time

from unit.runtime.parties import run_until
from upheaval_node.runtime.loop import Loop


def test_a_wake_up_ends_a_wait_without_end(loop: Loop) -> None:
    thread = threading.Thread(target=loop.wake)
    thread.start()
    assert loop.run_once(None) == 1
    thread.join()


def test_many_wake_ups_are_taken_as_one(loop: Loop) -> None:
    for _ in range(20_000):
        loop.wake()
    assert loop.run_once(None) == 1
    assert loop.run_once(0) == 0


def test_work_from_a_thread_runs_in_the_loops_thread_and_in_order(loop: Loop) -> None:
    seen: list[tuple[int, int]] = []

    def hand_over() -> None:
        for number in range(100):
            loop.call_from_thread(lambda number=number: seen.append((number, threading.get_ident())))  # type: ignore[misc]

    thread = threading.Thread(target=hand_over)
    thread.start()
    run_until(loop, lambda: len(seen) == 100)
    thread.join()
    assert seen == [(number, threading.get_ident()) for number in range(100)]


def test_work_for_soon_never_runs_inside_the_call(loop: Loop) -> None:
    seen: list[str] = []
    loop.call_soon(lambda: (seen.append("first"), loop.call_soon(lambda: seen.append("second"))))  # type: ignore[func-returns-value, arg-type]
    assert seen == []
    loop.run_once(None)
    assert seen == ["first"]
    loop.run_once(None)
    assert seen == ["first", "second"]


def test_timers_fire_in_order_of_their_time_and_not_before(loop: Loop) -> None:
    fired: list[tuple[str, int]] = []
    start_ns = time.monotonic_ns()
    loop.call_at(start_ns + 20_000_000, lambda: fired.append(("late", time.monotonic_ns())))
    loop.call_at(start_ns + 5_000_000, lambda: fired.append(("early", time.monotonic_ns())))
    loop.call_at(start_ns + 1_000_000, lambda: fired.append(("cancelled", 0))).cancel()
    run_until(loop, lambda: len(fired) == 2)
    assert [name for name, _ in fired] == ["early", "late"]
    assert fired[0][1] >= start_ns + 5_000_000
    assert fired[1][1] >= start_ns + 20_000_000


def test_a_wait_with_nothing_to_come_lasts_as_long_as_asked(loop: Loop) -> None:
    start_ns = time.monotonic_ns()
    assert loop.run_once(0.03) == 0
    assert loop.woke_ns - start_ns >= 29_000_000
