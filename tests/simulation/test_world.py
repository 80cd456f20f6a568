"""The virtual clock and its events."""

import pytest
from hypothesis import given, strategies as st

from upheaval.runtimes.simulated.errors import SimulationError
from upheaval.runtimes.simulated.world import START_NS, World


@given(st.lists(st.integers(0, 50), max_size=60))
def test_events_run_in_order_of_time_then_of_planning(delays: list[int]) -> None:
    world = World(1)
    ran: list[tuple[int, int]] = []
    for index, delay in enumerate(delays):
        world.after(delay, lambda index=index: ran.append((world.now_ns, index)))  # type: ignore[misc]
    world.run_for(100)
    assert ran == sorted((START_NS + delay, index) for index, delay in enumerate(delays))


def test_streams_of_one_subject_repeat_and_of_two_subjects_differ() -> None:
    draws = [World(7).stream("network").random(), World(7).stream("network").random()]
    assert draws[0] == draws[1]
    assert draws[0] != World(7).stream("disk").random()
    assert draws[0] != World(8).stream("network").random()


def test_a_wait_ends_when_its_condition_holds() -> None:
    world = World(1)
    seen: list[int] = []
    world.after(5_000_000, lambda: seen.append(world.now_ns))
    assert world.run_until(lambda: bool(seen), 10_000_000)
    assert world.now_ns < START_NS + 6_000_000


def test_a_wait_that_is_not_fulfilled_ends_at_its_deadline() -> None:
    world = World(1)
    assert not world.run_until(lambda: False, 10_000_000)
    assert world.now_ns == START_NS + 10_000_000


def test_events_without_end_at_one_instant_are_an_error() -> None:
    world = World(1)

    def again() -> None:
        world.after(0, again)

    again()
    with pytest.raises(SimulationError, match="seed 1"):
        world.run_for(1)
