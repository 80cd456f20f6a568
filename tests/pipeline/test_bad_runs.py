"""Spark says of every bad run what the in-process checker says; in short, of one for each promise."""

from functools import partial
from pathlib import Path

import pytest

from support.bad_runs import BAD_RUNS, BadRun, copy_of_good_run
from support.judged_runs import JudgedRun

FIRST = {bad.promise: bad for bad in reversed(BAD_RUNS)}


def damaged(bad: BadRun, folder: Path) -> None:
    copy_of_good_run(bad.scenario, folder)
    bad.damage(folder)


@pytest.mark.parametrize(
    "judged",
    [
        pytest.param(partial(damaged, bad), id=bad.name, marks=() if FIRST[bad.promise] is bad else pytest.mark.nightly)
        for bad in BAD_RUNS
    ],
    indirect=True,
)
def test_both_engines_agree(judged: JudgedRun) -> None:
    assert judged.report == judged.here
