"""A wait gives up only on a look that began after its time-out."""

import time

import pytest

from upheaval.errors import UnknownOutcome
from upheaval.waits import wait_until


def test_what_came_true_during_a_long_look_is_seen() -> None:
    deadline = time.monotonic() + 0.01
    looks: list[bool] = []

    def condition() -> bool:
        looks.append(time.monotonic() >= deadline)
        while time.monotonic() < deadline + 0.05:
            pass
        return looks[-1]

    assert wait_until(condition, timeout_s=0.01, describe=lambda: "it never holds")
    assert looks[-1]


def test_without_time_there_is_one_look() -> None:
    looks: list[bool] = []
    with pytest.raises(UnknownOutcome, match=r"^it never holds \(waited 0 s\)$"):
        wait_until(lambda: looks.append(True), timeout_s=0, describe=lambda: "it never holds")
    assert looks == [True]
