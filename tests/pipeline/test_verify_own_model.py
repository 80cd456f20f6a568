"""Spark and the in-process checker say the same of a run with a model and promises of the user's own."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.built_locks import locks_run, wrong_answer
from support.built_runs import BuiltRun
from support.judged_runs import JudgedRun
from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.verdict import Verdict


def right(run: BuiltRun) -> None:
    """As it is."""


def locks(model: str, damage: Callable[[BuiltRun], None], folder: Path) -> None:
    run = locks_run(model)
    damage(run)
    run.write(folder)


@pytest.mark.parametrize(
    ("judged", "promise", "verdict"),
    [
        (partial(locks, "fenced_model:Locks", wrong_answer), Promise.LINEARIZABLE, Verdict.INVALID),
        (
            partial(locks, "fenced_promises", right),
            OwnPromise.of("a fencing token is never given twice"),
            Verdict.VALID,
        ),
    ],
    indirect=["judged"],
)
def test_both_say_the_same(judged: JudgedRun, promise: Promise | OwnPromise, verdict: Verdict) -> None:
    assert judged.report.verdict is verdict, str(judged.report)
    assert judged.report.finding(promise).verdict is verdict
    assert judged.report == judged.here
