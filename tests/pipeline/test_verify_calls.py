"""Spark and the in-process checker say the same, word for word, about calls to a service of a user's own."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from support.built_runs import BuiltRun, built_calls, session_message
from support.judged_runs import JudgedRun
from upheaval.checkers.verdict import Verdict
from upheaval.records import Outcome


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


def good(beside_operations: bool, folder: Path) -> None:
    built_calls(beside_operations=beside_operations).write(folder)


def damaged(damage: Callable[[BuiltRun], None], folder: Path) -> None:
    built = built_calls()
    damage(built)
    built.write(folder)


@pytest.mark.parametrize("judged", [partial(good, False), partial(good, True)], indirect=True)
def test_good_runs_are_valid(judged: JudgedRun) -> None:
    assert judged.report.verdict is Verdict.VALID, judged.report.findings
    assert judged.report == judged.here


@pytest.mark.parametrize(
    ("judged", "verdict"),
    [
        pytest.param(partial(damaged, damage), verdict, id=damage.__name__)
        for damage, verdict in (
            (lost, Verdict.INVALID),
            (once_more, Verdict.UNKNOWN),
            (never_sent, Verdict.UNKNOWN),
            (from_somebody_else, Verdict.UNKNOWN),
        )
    ],
    indirect=["judged"],
)
def test_damage_is_seen_by_both(judged: JudgedRun, verdict: Verdict) -> None:
    assert judged.report.verdict is verdict, judged.report.findings
    assert judged.report == judged.here
