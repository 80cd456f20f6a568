"""Every promise has one answer: a checker that is silent, answers twice or raises makes its promises unknown."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run, operation_index, payload_index
from upheaval.checkers.checker import Checker
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.judge import CRASH_FILE, judge, verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.table import CHECKERS
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Result, Verdict
from upheaval.records import RunFolder

NAMES = [checker.name for checker in CHECKERS]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    folder = tmp_path_factory.mktemp("good") / "run"
    good_run(200).write(folder)
    return Evidence(RunFolder(folder, at_rest=True))


def instead(name: str, change: Callable[[Checker], Checker]) -> Sequence[Checker]:
    return [change(checker) if checker.name == name else checker for checker in CHECKERS]


def answered(report: Report) -> Counter[str]:
    return Counter(str(each.promise) for each in (*report.findings, *report.unchecked))


def test_every_promise_has_one_row_and_one_answer(evidence: Evidence) -> None:
    rows = Counter(promise for checker in CHECKERS for promise in checker.promises)
    assert rows == Counter(dict.fromkeys(Promise, 1))
    assert len(set(NAMES)) == len(NAMES)
    assert answered(judge(evidence)) == Counter(dict.fromkeys(map(str, Promise), 1))
    assert judge(evidence).verdict is Verdict.VALID


def silent(checker: Checker) -> Checker:
    return replace(checker, check=lambda _: [])


def raising(checker: Checker) -> Checker:
    def check(_: Evidence) -> Iterable[Result]:
        raise ZeroDivisionError("a defect")

    return replace(checker, check=check)


def raising_late(checker: Checker) -> Checker:
    """After its first answer, as a generator does."""

    def check(evidence: Evidence) -> Iterable[Result]:
        yield from list(checker.check(evidence))[:1]
        raise ZeroDivisionError("a defect")

    return replace(checker, check=check)


def doubled(checker: Checker) -> Checker:
    return replace(checker, check=lambda evidence: [*checker.check(evidence), *checker.check(evidence)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mutate", [silent, raising, raising_late, doubled])
def test_a_row_that_fails_makes_each_of_its_promises_unknown(
    name: str, mutate: Callable[[Checker], Checker], evidence: Evidence
) -> None:
    (row,) = (checker for checker in CHECKERS if checker.name == name)
    report = judge(evidence, instead(name, mutate))
    assert report.verdict is Verdict.UNKNOWN
    assert answered(report) == Counter(dict.fromkeys(map(str, Promise), 1))
    unknown = [finding for finding in report.findings if finding.verdict is Verdict.UNKNOWN]
    assert {finding.promise for finding in unknown} == set(row.promises)
    assert all(name in finding.detail for finding in unknown)


def test_a_crash_keeps_its_traceback_in_the_folder(tmp_path: Path) -> None:
    good_run(120).write(tmp_path)
    report = judge(Evidence(RunFolder(tmp_path, at_rest=True)), instead("traffic", raising))
    assert report.finding(Promise.ENOUGH_TRAFFIC).detail == (
        f"checker 'traffic' raised ZeroDivisionError: a defect (traceback in {CRASH_FILE})"
    )
    assert "in check" in (tmp_path / CRASH_FILE).read_text()
    assert verify_run(tmp_path).verdict is Verdict.VALID


def test_an_answer_to_the_promise_of_another_row_makes_that_unknown(evidence: Evidence) -> None:
    def check(_: Evidence) -> Iterable[Result]:
        return [
            Finding(Promise.RUN_CONVERGED, Verdict.VALID, "converged"),
            NotApplicable(Promise.MONEY_CONSERVED, "no ledger"),
        ]

    report = judge(evidence, instead("convergence", lambda checker: replace(checker, check=check)))
    assert report.finding(Promise.MONEY_CONSERVED).verdict is Verdict.UNKNOWN
    assert report.finding(Promise.RUN_CONVERGED).verdict is Verdict.VALID


def test_a_broken_promise_stays_broken_whatever_else_is_answered(tmp_path: Path) -> None:
    run = good_run(200)
    lost = run.operations[operation_index(run, lambda _: True, after=100)]
    for log in run.payloads:
        del log[payload_index(log, lost.id)]
    run.write(tmp_path)
    evidence = Evidence(RunFolder(tmp_path, at_rest=True))

    def contradict(checker: Checker) -> Checker:
        good = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.VALID, "all there")
        return replace(checker, check=lambda evidence: [good, *checker.check(evidence)])

    report = judge(evidence, instead(str(Promise.ACKNOWLEDGED_NOT_LOST), contradict))
    assert report.finding(Promise.ACKNOWLEDGED_NOT_LOST).verdict is Verdict.INVALID
    assert report.finding(Promise.ACKNOWLEDGED_NOT_LOST).operation == lost.id


def test_a_demanded_promise_that_does_not_apply_is_unknown(tmp_path: Path) -> None:
    run = good_run(200)
    run.manifest = replace(run.manifest, demanded=(Promise.STATES_AGREE, Promise.LINEARIZABLE))
    run.write(tmp_path)
    report = verify_run(tmp_path)
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.VALID
    assert report.finding(Promise.STATES_AGREE) == Finding(
        Promise.STATES_AGREE, Verdict.UNKNOWN, "not checked: no recording log names a snapshot"
    )
