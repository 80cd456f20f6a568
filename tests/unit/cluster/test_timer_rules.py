"""The table of timers, case by case: cancelling, moving and expiring in every order."""

import pytest

from unit.cluster.test_timers import expired
from upheaval_node.cluster.timers import Timers


def timers_of(*deadlines: int) -> Timers:
    """Timers 0, 1, ... with these deadlines."""
    timers = Timers()
    for correlation_id, deadline in enumerate(deadlines):
        timers.schedule(correlation_id, deadline)
    return timers


@pytest.mark.parity("HP-02")
def test_without_timers_nothing_expires() -> None:
    fired: list[int] = []
    assert Timers().expire(1 << 60, lambda each: fired.append(each) is None) == 0
    assert fired == []


@pytest.mark.parity("HP-05", "HP-06")
def test_a_timer_expires_once_and_is_gone() -> None:
    timers = timers_of(5)
    assert expired(timers, 5) == [0]
    assert expired(timers, 1000) == []
    assert (len(timers), timers.next_deadline) == (0, None)


@pytest.mark.parity("HP-08", "HP-09")
@pytest.mark.parametrize("timers", [timers_of(), timers_of(3, 4)])
def test_a_timer_that_is_not_there_is_not_cancelled(timers: Timers) -> None:
    assert timers.cancel(17) is False


@pytest.mark.parity("HP-11")
def test_the_last_one_can_be_cancelled() -> None:
    timers = timers_of(1, 2, 3)
    assert timers.cancel(2)
    assert expired(timers, 100) == [0, 1]


@pytest.mark.parity("HP-12")
def test_a_timer_can_be_cancelled_when_others_have_expired() -> None:
    timers = timers_of(1, 2, 3, 4)
    assert expired(timers, 2) == [0, 1]
    assert timers.cancel(3)
    assert expired(timers, 100) == [2]


@pytest.mark.parity("HP-13")
def test_the_same_deadline_again_changes_nothing() -> None:
    timers = timers_of(7)
    timers.schedule(0, 7)
    assert list(timers) == [(0, 7)]
    assert expired(timers, 7) == [0]


@pytest.mark.parity("HP-14")
def test_a_timer_moves_to_the_front() -> None:
    timers = timers_of(10, 20, 30)
    timers.schedule(2, 5)
    assert expired(timers, 9) == [2]
    assert expired(timers, 100) == [0, 1]


@pytest.mark.parity("HP-17")
def test_those_that_have_not_expired_are_listed_in_their_order() -> None:
    timers = timers_of(30, 10, 20, 40)
    expired(timers, 10)
    timers.cancel(3)
    assert list(timers) == [(2, 20), (0, 30)]


@pytest.mark.parity("HP-18")
def test_others_are_cancelled_while_one_expires() -> None:
    timers = timers_of(1, 1, 5)
    fired: list[int] = []

    def fire(correlation_id: int) -> bool:
        fired.append(correlation_id)
        timers.cancel(2)
        return True

    assert timers.expire(1, fire) == 2
    assert fired == [0, 1]
    assert expired(timers, 100) == []


@pytest.mark.parity("HP-19", "HP-20")
@pytest.mark.parametrize(("moved_to", "order"), [(1, [3, 0, 2]), (99, [0, 2, 3])])
def test_one_moves_and_another_is_cancelled(moved_to: int, order: list[int]) -> None:
    timers = timers_of(10, 20, 30, 40)
    timers.schedule(3, moved_to)
    assert timers.cancel(1)
    assert expired(timers, 1000) == order


@pytest.mark.parity("HP-21")
def test_what_has_expired_cannot_be_cancelled() -> None:
    timers = timers_of(1)
    expired(timers, 1)
    assert timers.cancel(0) is False


@pytest.mark.parity("HP-22")
def test_deadlines_keep_their_order_whatever_was_asked_between() -> None:
    timers = timers_of(5, 4, 3, 2, 1)
    timers.schedule(9, 3)
    timers.cancel(3)
    assert expired(timers, 1000) == [4, 2, 9, 1, 0]
