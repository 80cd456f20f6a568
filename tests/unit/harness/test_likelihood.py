"""From which moment on a failure could no longer be avoided, from the shares of timings that show it."""

from itertools import pairwise

import pytest

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.likelihood import Point, breaks, inevitable, moments
from upheaval.campaign.tries import Try
from upheaval.runtimes.simulated.world import START_NS

WANTED = Fingerprint("invalid", "invariants", "commit-went-back", "FOLLOWER", "CANVASS")


def points(*broken: int) -> list[Point]:
    return [Point(number * 100, 4, count) for number, count in enumerate(broken)]


@pytest.mark.parametrize(
    ("broken", "span"),
    [
        ((0, 1, 4, 4), (100, 200)),
        ((4, 4, 4), (None, 0)),
        ((4, 3, 4), (100, 200)),
        ((0, 2, 3), None),
        ((4,), (None, 0)),
        ((0,), None),
    ],
)
def test_it_is_inevitable_after_the_last_moment_with_a_timing_that_avoids_it(
    broken: tuple[int, ...], span: tuple[int | None, int] | None
) -> None:
    assert inevitable(points(*broken)) == span


def test_moments_are_evenly_spaced_from_the_start_to_the_failure() -> None:
    sixteen = moments(START_NS + 1500, 16)
    assert (len(sixteen), sixteen[0], sixteen[-1]) == (16, START_NS, START_NS + 1500)
    assert {later - earlier for earlier, later in pairwise(sixteen)} == {100}
    assert moments(START_NS + 1500, 1) == [START_NS]


@pytest.mark.parametrize(
    ("shown", "counts"),
    [
        ([WANTED], True),
        ([Fingerprint("invalid", "invariants", "vote-twice")], True),
        ([Fingerprint("unknown", "invariants")], False),
        ([Fingerprint("invalid", "linearizable")], False),
        ([], False),
    ],
)
def test_a_timing_counts_that_breaks_the_same_promise_in_whichever_way(shown: list[Fingerprint], counts: bool) -> None:
    assert breaks(Try(tuple(shown)), WANTED) is counts
