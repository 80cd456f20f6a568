"""The promises about a history that its log decides.

No acknowledged operation is lost, none is applied twice, every client entry in the log is in the history, and the order
of the log explains the answers.

Operations of shipped services are found in the log by their ids, calls of a user's service by their payloads. Each
promise gets one finding on both, the worse one.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history import calls as of_calls, witness
from upheaval.checkers.own.own_model import check_own_answers, check_own_model
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Operation

_NEEDS: Final = frozenset((Source.HISTORY, Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER))
_BY_ANSWERS: Final = _NEEDS | {Source.STRAYS}
"""Messages that answer no call cast doubt on which message answered which call."""
OfShipped = Callable[[Evidence], Finding]
OfCalls = Callable[[Evidence], Iterable[Finding]]


def _judged(
    promise: Promise, of_shipped: OfShipped, of_calls_too: OfCalls, needs: frozenset[Source] = _NEEDS
) -> Checker:
    """Make the checker of a promise that both operations of shipped services and calls can break."""

    def check(evidence: Evidence) -> list[Result]:
        log, why = _log(evidence)
        if log is None:
            return [_unjudgeable(promise, why, evidence)]
        findings = []
        if _has_shipped(evidence, log):
            findings.append(of_shipped(evidence))
        if evidence.calls:
            findings.extend(of_calls_too(evidence))
        return [_worse(findings)]

    return Checker(promise, (promise,), needs, check)


def _calls_not_lost(evidence: Evidence) -> Iterable[Finding]:
    yield _broken_of(Promise.ACKNOWLEDGED_NOT_LOST, evidence) or of_calls.not_lost(evidence.counted_calls)
    yield from _doubted(Promise.ACKNOWLEDGED_NOT_LOST, evidence)


def _calls_once(evidence: Evidence) -> Iterable[Finding]:
    yield _broken_of(Promise.APPLIED_ONCE, evidence) or of_calls.once(evidence.counted_calls)


def _broken_of(promise: Promise, evidence: Evidence) -> Finding | None:
    """The first finding by session: in other sessions, calls with the same payload do not count."""
    return next((finding for finding in evidence.placed_calls.broken if finding.promise is promise), None)


def _doubted(promise: Promise, evidence: Evidence) -> Iterable[Finding]:
    """Yield an unknown verdict if it is unclear which message answered which call."""
    if evidence.attribution.doubt:
        yield Finding(promise, Verdict.UNKNOWN, evidence.attribution.doubt)


def _has_shipped(evidence: Evidence, log: WitnessLog) -> bool:
    """Whether history or log has operations of shipped services."""
    return evidence.operations.has_shipped() or len(log.entries) > 0


def _log(evidence: Evidence) -> tuple[WitnessLog | None, str]:
    """The log to judge by, or None and the reason."""
    if evidence.whole_log is None:
        return None, evidence.why_no_log
    return (evidence.whole_log, "") if len(evidence.operations) else (None, "no history")


def _unjudgeable(promise: Promise, why: str, evidence: Evidence) -> Finding:
    log = evidence.logs.witness
    start = None if log is None else log.start_position or None
    return Finding(promise, Verdict.UNKNOWN, why, position=start)


def _worse(findings: Iterable[Finding]) -> Finding:
    """The worst finding. Equally bad ones become one, with the details of all."""
    first, *others = findings
    for other in others:
        if first.verdict is other.verdict:
            first = replace(first, detail=f"{first.detail}; {other.detail}")
        else:
            first = max(first, other, key=lambda finding: finding.verdict)
    return first


def _check_linearizable(evidence: Evidence) -> Iterable[Result]:
    """Judge shipped operations by their models and calls by the user's model, with the user's own promises."""
    log, why = _log(evidence)
    if log is None:
        return [_unjudgeable(Promise.LINEARIZABLE, why, evidence)]
    committed = evidence.logs.bounds.commit_position
    end = log.end_position if committed is None else min(log.end_position, committed)
    of_model = check_own_model(evidence.run, evidence.manifest, evidence.placed_calls, log.calls, log.member_id, end)
    by_model = [finding for finding in of_model if finding.promise == Promise.LINEARIZABLE]
    if by_model:
        by_model.extend(_doubted(Promise.LINEARIZABLE, evidence))
    promised = [finding for finding in of_model if finding.promise != Promise.LINEARIZABLE]
    lost = witness.lost_rows(evidence.placed)
    if lost:
        findings = [_not_explained(len(lost), evidence.operations.at(lost[0])), *by_model]
    elif _has_shipped(evidence, log):
        findings = [witness.linearizable(evidence.placed), *by_model]
    else:
        findings = by_model
    if by_model or (findings and not evidence.calls):
        return [_worse(findings), *promised]
    by_service = check_own_answers(
        evidence.run,
        evidence.manifest,
        evidence.calls,
        evidence.placed_calls,
        log.calls,
        log.member_id,
        end,
        evidence.java_replay,
    )
    if isinstance(by_service, Finding):
        return [_worse([*findings, by_service, *_doubted(Promise.LINEARIZABLE, evidence)]), *promised]
    why = f"no answer of calls was judged: {by_service}"
    if not findings:
        return [NotApplicable(Promise.LINEARIZABLE, why, is_gap=True), *promised]
    worst = _worse(findings)
    return [replace(worst, detail=f"{worst.detail}; {why}"), *promised]


def _not_explained(lost: int, first: Operation) -> Finding:
    """A log that lacks acknowledged operations does not show the order in which they took effect."""
    detail = (
        f"the log lacks {lost} acknowledged operations, the first is {first}: its order explains no answer "
        "(`upheaval check` searches for another order)"
    )
    return Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, detail, position=first.position, operation=first.id)


ACKNOWLEDGED: Final = _judged(
    Promise.ACKNOWLEDGED_NOT_LOST,
    lambda evidence: witness.acknowledged_not_lost(evidence.placed, evidence.logs.bounds),
    _calls_not_lost,
    _BY_ANSWERS,
)
APPLIED_ONCE: Final = _judged(
    Promise.APPLIED_ONCE,
    lambda evidence: witness.applied_once(evidence.placed),
    _calls_once,
)
HISTORY: Final = _judged(
    Promise.HISTORY_COMPLETE,
    lambda evidence: witness.history_complete(evidence.placed),
    lambda evidence: [of_calls.explained(evidence.counted_calls)],
)
LINEARIZABLE: Final = Checker(
    "linearizable", (Promise.LINEARIZABLE,), _BY_ANSWERS | {Source.CODE, Source.CONFIGURATIONS}, _check_linearizable
)
