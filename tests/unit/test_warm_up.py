"""When the rate of a load is steady, after which it is measured."""

import pytest

from bench.warm_up import LIMIT_S, WarmUp, is_steady
from upheaval_node.types import S


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([], False),
        ([100, 100], False),
        ([0, 0, 0], False),
        ([100, 104, 98], True),
        ([100, 120, 110], False),
        ([10, 50, 100, 101, 102], True),
    ],
)
def test_a_rate_stands_when_windows_in_a_row_are_about_equal(rates: list[float], expected: bool) -> None:
    assert is_steady(rates) is expected


def test_a_load_that_grows_is_warm_when_it_grows_no_more() -> None:
    warm_up, answered, over = WarmUp(0), 0, []
    for second, rate in enumerate((1000, 3000, 6000, 9000, 10_000, 10_100, 10_050), 1):
        answered += rate
        over.append(warm_up.is_over(second * S, answered))
    assert over == [False] * 6 + [True]


def test_the_rate_of_a_window_that_was_looked_at_late_is_by_its_length() -> None:
    warm_up = WarmUp(0)
    looked_at = [(1, 1000), (4, 4000), (5, 5000)]
    assert [warm_up.is_over(second * S, answered) for second, answered in looked_at] == [False, False, True]
    assert not WarmUp(0).is_over(S - 1, 1000)


def test_a_rate_that_never_stands_is_measured_after_the_limit() -> None:
    warm_up, answered = WarmUp(0), 0
    for second in range(1, LIMIT_S):
        answered += 1000 * (1 + second % 2)
        assert not warm_up.is_over(second * S, answered)
    assert warm_up.is_over(LIMIT_S * S, answered + 1000)
