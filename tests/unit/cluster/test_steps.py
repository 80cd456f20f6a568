"""Sequences of steps that are polled."""

import pytest

from upheaval_node.errors import PeerError
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import Now


def later(ticks: int, *, fails: bool = False) -> StepGenerator[int]:
    now = Now(0, 0)
    for _ in range(ticks):
        now = yield
    if fails:
        raise PeerError("refused")
    return now.ns


def test_a_sequence_is_done_with_its_result_once_it_has_ended() -> None:
    steps = Steps(later(2))
    assert not steps.poll(Now(1, 0))
    assert not steps.poll(Now(2, 0))
    assert steps.poll(Now(3, 0))
    assert steps.result == 3
    assert steps.poll(Now(4, 0))


def test_a_sequence_that_failed_is_never_done() -> None:
    steps = Steps(later(1, fails=True))
    assert not steps.poll(Now(1, 0))
    for _ in range(2):
        with pytest.raises(PeerError, match="refused"):
            steps.poll(Now(2, 0))
    assert not steps.is_done
