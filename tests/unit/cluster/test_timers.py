"""The table of timers: order, replacement, cancelling, and what ends them where another member leads."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.cluster.timers import EXPIRIES_PER_POLL, Timers


def expired(timers: Timers, time: int) -> list[int]:
    fired: list[int] = []

    def take(correlation_id: int) -> bool:
        fired.append(correlation_id)
        return True

    while timers.expire(time, take):
        pass
    return fired


@pytest.mark.parity("HP-03", "HP-07")
def test_timers_expire_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    for correlation_id, deadline in ((1, 30), (2, 10), (3, 20), (4, 10)):
        timers.request(correlation_id, deadline)
    assert timers.next_deadline == 10
    assert expired(timers, 9) == []
    assert expired(timers, 20) == [2, 4, 3]
    assert list(timers) == [(1, 30)]


@pytest.mark.parity("HP-15")
def test_a_timer_of_the_same_id_is_replaced() -> None:
    timers = Timers()
    timers.request(1, 10)
    timers.request(1, 50)
    assert expired(timers, 49) == []
    assert expired(timers, 50) == [1]
    assert expired(timers, 99) == []


@pytest.mark.parity("HP-10")
def test_a_cancelled_timer_does_not_expire() -> None:
    timers = Timers()
    timers.request(1, 10)
    assert timers.cancel(1)
    assert not timers.cancel(1)
    assert expired(timers, 99) == []
    assert timers.next_deadline is None


@pytest.mark.parity("HP-16")
def test_one_poll_expires_so_many_at_most() -> None:
    timers = Timers()
    for correlation_id in range(50):
        timers.request(correlation_id, 0)
    assert timers.expire(1, lambda _: True) == EXPIRIES_PER_POLL == 20
    assert len(timers) == 30


@pytest.mark.parity("HP-04")
def test_what_the_log_does_not_take_expires_again() -> None:
    timers = Timers()
    for correlation_id in (1, 2):
        timers.request(correlation_id, 5)
    refused: list[int] = []

    def refuse(correlation_id: int) -> bool:
        refused.append(correlation_id)
        return False

    assert timers.expire(5, refuse) == 0
    assert refused == [1]
    assert expired(timers, 5) == [1, 2]


def expired_at(timers: Timers, time: int, *positions: int) -> None:
    """Expire all that is due; the first expiry ends at the first position of the log, and so on."""
    places = iter(positions)
    assert timers.expire(time, lambda _: next(places)) == len(positions)


def test_an_expiry_that_is_undone_leaves_the_timer_with_its_deadline() -> None:
    timers = Timers()
    for correlation_id in (1, 2, 3):
        timers.request(correlation_id, 10 * correlation_id)
    expired_at(timers, 30, 64, 128, 192)
    timers.restore(64)
    assert not timers.has_uncommitted
    assert list(timers) == [(2, 20), (3, 30)]
    assert expired(timers, 19) == []


def test_an_expiry_that_is_committed_stays() -> None:
    timers = Timers()
    timers.request(1, 10)
    expired_at(timers, 10, 64)
    timers.on_committed(63)
    assert timers.has_uncommitted
    timers.on_committed(64)
    timers.restore(0)
    assert list(timers) == []


def test_what_a_service_asks_meanwhile_outlives_an_undone_expiry() -> None:
    timers = Timers()
    timers.request(1, 10)
    timers.request(2, 10)
    expired_at(timers, 10, 64, 128)
    assert not timers.cancel(1)
    timers.request(2, 50)
    timers.restore(0)
    assert list(timers) == [(2, 50)]


def test_an_expiry_in_the_log_ends_a_timer_of_a_snapshot() -> None:
    timers = Timers()
    for correlation_id in (7, 8):
        timers.load(correlation_id, 10)
    timers.on_event(7)
    assert list(timers) == [(8, 10)]


def test_an_expiry_that_is_read_ahead_leaves_the_requests_to_their_service() -> None:
    """Which of them it is for is only clear where the service reads it, and takes that one back."""
    timers = Timers()
    timers.load(7, 5)
    timers.request(7, 10)
    timers.on_event(7)
    timers.on_event(7)
    assert timers.cancel(7)
    timers.request(7, 20)
    assert expired(timers, 99) == [7]


def test_an_expiry_of_a_timer_of_a_snapshot_that_is_undone_is_that_of_the_snapshot_again() -> None:
    timers = Timers()
    timers.load(7, 10)
    expired_at(timers, 10, 64)
    timers.restore(0)
    timers.on_event(7)
    assert list(timers) == []


@pytest.mark.parity("HP-25")
@given(st.lists(st.tuples(st.sampled_from("sce"), st.integers(0, 5), st.integers(0, 9)), max_size=3000))
def test_the_heap_agrees_with_a_plain_table(steps: list[tuple[str, int, int]]) -> None:
    timers = Timers()
    plain: dict[int, int] = {}
    for kind, correlation_id, deadline in steps:
        if kind == "s":
            timers.schedule(correlation_id, deadline)
            plain[correlation_id] = deadline
        elif kind == "c":
            assert timers.cancel(correlation_id) == (plain.pop(correlation_id, None) is not None)
        else:
            due = {key for key, each in plain.items() if each <= deadline}
            assert set(expired(timers, deadline)) == due
            for key in due:
                del plain[key]
    assert dict(timers) == plain
    assert timers.next_deadline == min(plain.values(), default=None)
