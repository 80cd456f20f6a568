"""Spark and the in-process checker say the same, word for word, about calls to a service of a user's own."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import BuiltRun, built_calls, session_message
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.records import Outcome
from upheaval_pipeline.verify import verify


def lost(run: BuiltRun) -> None:
    for payloads in run.payloads:
        del payloads[-10]


def once_more(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(payloads[-1])


def never_sent(run: BuiltRun) -> None:
    run.operations[-30] = replace(run.operations[-30], outcome=Outcome.FAIL, complete_ns=None)


def from_somebody_else(run: BuiltRun) -> None:
    for payloads in run.payloads:
        payloads.append(session_message(b"who?"))


@pytest.mark.parametrize("beside_operations", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_good_runs_are_valid(tmp_path: Path, spark: Any, beside_operations: bool) -> None:
    built_calls(beside_operations=beside_operations).write(tmp_path)
    report = verify(spark, tmp_path)
    assert report.verdict is Verdict.VALID, report.findings
    assert report == verify_run(tmp_path)


@pytest.mark.parametrize(
    ("damage", "verdict"),
    [
        (lost, Verdict.INVALID),
        pytest.param(once_more, Verdict.UNKNOWN, marks=pytest.mark.nightly),
        pytest.param(never_sent, Verdict.UNKNOWN, marks=pytest.mark.nightly),
        (from_somebody_else, Verdict.UNKNOWN),
    ],
)
def test_damage_is_seen_by_both(
    tmp_path: Path, spark: Any, damage: Callable[[BuiltRun], None], verdict: Verdict
) -> None:
    built = built_calls()
    damage(built)
    built.write(tmp_path)
    report = verify(spark, tmp_path)
    assert report.verdict is verdict, report.findings
    assert report == verify_run(tmp_path)
