"""The manifest's reasons why a run failed: what only its runner saw, and no other file shows.

This module knows the verdict of each.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from upheaval.checkers.checker import Checker
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise, promise_named
from upheaval.checkers.signature import Rule, Signature
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import RuleBroken

_VERDICTS: Final[Mapping[Promise, Verdict]] = {
    Promise.RUN_ENDED: Verdict.UNKNOWN,
    Promise.AS_DRAWN: Verdict.UNKNOWN,
    Promise.FOLDER_JUDGED: Verdict.UNKNOWN,
    Promise.INVARIANTS: Verdict.INVALID,
    Promise.TASKS_PASSED: Verdict.INVALID,
    Promise.TEST_PASSED: Verdict.INVALID,
}
_NOT_RECORDED: Final[Mapping[Promise, str]] = {
    Promise.RUN_ENDED: "the harness recorded no early end",
    Promise.AS_DRAWN: "campaigns record only what they drew and the run does not show",
    Promise.FOLDER_JUDGED: "campaigns record only runs that they could not judge",
    Promise.INVARIANTS: "campaigns and `invariants on` record only what breaks one",
    Promise.TASKS_PASSED: "users record only tasks that raised an error",
    Promise.TEST_PASSED: "pytest records only tests that failed",
}
"""Why there is nothing to judge."""
_WRITTEN: Final = (Promise.RUN_ENDED, Promise.TASKS_PASSED)
"""Every run of a scenario records these failures, so a demanded promise holds when it has none."""


def check_failures(evidence: Evidence) -> Iterator[Result]:
    """A finding on each promise for which the manifest has a failure."""
    demanded = evidence.manifest.demanded
    details: dict[Promise, list[str]] = {promise: [] for promise in _VERDICTS}
    rules: dict[Promise, RuleBroken | None] = {}
    for failure in evidence.manifest.failures:
        promise = promise_named(failure.promise)
        if promise is not None and promise in _VERDICTS:
            details[promise].append(failure.detail)
            rules.setdefault(promise, failure.rule)
        else:
            detail = f"the manifest has a failure of {failure.promise!r}, which this version does not know"
            details[Promise.RUN_ENDED].append(detail)
    for identifier in demanded:
        if promise_named(identifier) is None:
            detail = f"the manifest demands promise {identifier!r}, which this version does not know"
            details[Promise.RUN_ENDED].append(detail)
    for promise, named in details.items():
        if named:
            broken = rules.get(promise)
            members = () if broken is None or broken.member is None else (broken.member,)
            when_ns = None if broken is None or not broken.ns else (broken.ns, broken.ns)
            signature, detail = _signature(broken), "; ".join(named)
            yield Finding(promise, _VERDICTS[promise], detail, members, signature=signature, when_ns=when_ns)
        elif promise in _WRITTEN and promise in demanded:
            yield Finding(promise, Verdict.VALID, _NOT_RECORDED[promise])
        else:
            yield NotApplicable(promise, _NOT_RECORDED[promise])


def _signature(broken: RuleBroken | None) -> Signature | None:
    """None for a rule that this version does not know."""
    if broken is None or broken.rule not in list(Rule):
        return None
    return Signature(Rule(broken.rule), role=broken.role, state=broken.state)


FAILURES: Final = Checker("failures", tuple(_VERDICTS), frozenset(), check_failures)
