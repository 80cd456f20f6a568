"""Spark says of every bad run what the in-process checker says; in short, of one for each promise."""

from pathlib import Path
from typing import Any

import pytest

from support.bad_runs import BAD_RUNS, BadRun, copy_of_good_run
from upheaval.checkers.run import verify_run
from upheaval_pipeline.verify import verify

FIRST = {bad.promise: bad for bad in reversed(BAD_RUNS)}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(bad, id=bad.name, marks=() if FIRST[bad.promise] is bad else pytest.mark.nightly)
        for bad in BAD_RUNS
    ],
)
def test_both_engines_agree(bad: BadRun, tmp_path: Path, spark: Any) -> None:
    copy_of_good_run(bad.scenario, tmp_path)
    bad.damage(tmp_path)
    assert verify(spark, tmp_path).findings == verify_run(tmp_path).findings
