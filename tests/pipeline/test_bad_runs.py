"""Spark says of every bad run what the in-process checker says; in short, of one for each scenario.

A task on Spark runs the same judge, so what differs between runs is what their folders hold.
"""

from functools import partial
from pathlib import Path

import pytest

from support.bad_runs import BAD_RUNS, BadRun, copy_of_good_run
from support.judged_runs import JudgedRun

OF_PROMISES = {bad.promise: bad for bad in reversed(BAD_RUNS)}
SHORT = {bad.scenario: bad for bad in OF_PROMISES.values()}


def damaged(bad: BadRun, folder: Path) -> None:
    copy_of_good_run(bad.scenario, folder)
    bad.damage(folder)


@pytest.mark.parametrize(
    "judged",
    [
        pytest.param(
            partial(damaged, bad), id=bad.name, marks=() if SHORT.get(bad.scenario) is bad else pytest.mark.nightly
        )
        for bad in BAD_RUNS
    ],
    indirect=True,
)
def test_both_engines_agree(judged: JudgedRun) -> None:
    assert judged.report == judged.here
