"""Times for people: three digits, and no powers of ten in long runs."""

import math

import pytest

from upheaval.report import duration
from upheaval_node.types import MS, US, S


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"),
        (999, "999 ns"),
        (1.5 * US, "1.5 µs"),  # noqa: RUF001 - the micro sign of units
        (999.9996 * MS, "1 s"),
        (12.34 * S, "12.3 s"),
        (99.94 * S, "99.9 s"),
        (99.97 * S, "1 min 40 s"),
        (1230.1 * S, "20 min 30.1 s"),
        (1234.5 * S, "20 min 34.5 s"),
        (3661 * S, "61 min 1 s"),
        (math.inf, "inf s"),
        (math.nan, "nan ns"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(ns: float, text: str) -> None:
    assert duration(ns) == text
