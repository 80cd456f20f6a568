"""Spark and the in-process checker say the same of a run with a model and promises of the user's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.built_locks import locks_run, wrong_answer
from support.built_runs import BuiltRun
from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.verify import verify, verify_lake


def right(run: BuiltRun) -> None:
    """As it is."""


@pytest.mark.parametrize(
    ("model", "damage", "promise", "verdict"),
    [
        ("fenced_model:Locks", wrong_answer, Promise.LINEARIZABLE, Verdict.INVALID),
        ("fenced_promises", right, OwnPromise.of("a fencing token is never given twice"), Verdict.VALID),
    ],
)
def test_both_say_the_same(
    tmp_path: Path,
    spark: Any,
    model: str,
    damage: Callable[[BuiltRun], None],
    promise: Promise | OwnPromise,
    verdict: Verdict,
) -> None:
    run = locks_run(model)
    damage(run)
    run.write(tmp_path / "run")
    report = verify(spark, tmp_path / "run")
    assert report.verdict is verdict, str(report)
    assert report.finding(promise).verdict is verdict
    assert report == verify_run(tmp_path / "run")
    ingest(spark, [tmp_path / "run"], str(tmp_path / "lake"))
    assert verify_lake(spark, str(tmp_path / "lake"), "run-1").findings == report.findings
