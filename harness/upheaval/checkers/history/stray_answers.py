"""The promise that each operation is answered once: an answer for which no client waits is late, not a duplicate.

Clients record such answers in `strays.jsonl`. An operation is answered once, in the session that took it. A new leader
does not answer operations that an earlier leader took. Further messages of a custom service are compared with a replay.
This module knows nothing of files.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.columns import IS_CALL, PlacedHistory
from upheaval.checkers.history.missing_answers import require_no_gap
from upheaval.checkers.liveness.client_times import liveness_ns
from upheaval.checkers.own.news import Heard, check_news
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import OWN_SYSTEM, Function, Outcome, Stray
from upheaval_node.types import S


def judge_strays(
    strays: Sequence[Stray], placed: PlacedHistory, require_all: Callable[[Sequence[Stray]], None] | None = None
) -> list[Result]:
    """Judge the stray answers of shipped services. `require_all` raises `Broken` for an answer that is missing."""
    late: set[int] = set()
    try:
        of_shipped = [stray for stray in strays if stray.text is None and stray.refusal is None]
        for stray in sorted(of_shipped, key=lambda stray: stray.received_ns):
            _require_late(stray, late, placed)
        if require_all is not None:
            require_all(of_shipped)
    except Broken as broken:
        return [broken.finding(Promise.ANSWERED_ONCE)]
    operations = sum(not IS_CALL[kind] for kind in placed.history.kinds)
    detail = f"{operations} operations, none was answered again; {len(late)} answers were late"
    return [Finding(Promise.ANSWERED_ONCE, Verdict.VALID, detail)]


def _require_late(stray: Stray, late: set[int], placed: PlacedHistory) -> None:
    """Check that a stray is the first answer to an operation that its session sent and gave up. Raises `Broken`."""
    where = f"session {stray.session} received at {stray.received_ns / S:.3f} s of the machine's clock"
    if stray.operation is None:
        raise Broken(Verdict.INVALID, f"{where} a message that answers nothing")
    operation, index = placed.history.get(stray.operation), placed.index_of(stray.operation)
    if operation is not None and operation.f is Function.CALL:
        operation = None
    logged = None if index < 0 else placed.entries.positions[index]
    position = stray.position if logged is None else logged

    def broken(what: str, verdict: Verdict = Verdict.INVALID) -> Broken:
        asked = f"operation id={stray.operation}" if operation is None else str(operation)
        return Broken(verdict, f"{where} an answer to {asked}{what}", position=position, operation=stray.operation)

    if operation is None:
        # If the operation is in the log, a client sent it, so the history is incomplete and proves nothing.
        raise broken(", which the history does not know", Verdict.INVALID if logged is None else Verdict.UNKNOWN)
    if operation.outcome is Outcome.FAIL:
        raise broken(", which was never sent")
    if operation.session != stray.session:
        raise broken(f", which was sent in session {operation.session}")
    if operation.outcome is Outcome.OK or stray.operation in late:
        raise broken(", which had been answered")
    if stray.received_ns < operation.invoke_ns:
        raise broken(", which was invoked only later")
    if logged is None:
        raise broken(f" at position {stray.position}, which is not in the log")
    if stray.position != logged:
        raise broken(f" as if at position {stray.position}, which is at position {logged}")
    late.add(stray.operation)


def _gaps(evidence: Evidence) -> Callable[[Sequence[Stray]], None] | None:
    """The rule about missing answers; None where the clients may not have recorded all answers.

    The egress of Aeron's members may have gaps.
    """
    manifest = evidence.manifest
    if manifest.system != OWN_SYSTEM or not evidence.has_all_of_clients:
        return None
    return lambda strays: require_no_gap(evidence.placed, strays, evidence.troubles, liveness_ns(manifest))


def with_news(answers: Result, news: Finding | str) -> Result:
    """The result on the answers of shipped services, worsened by that on the messages of a custom one."""
    if isinstance(news, str):
        gap = f"messages of a custom service were not judged: {news}"
        return answers if isinstance(answers, NotApplicable) else replace(answers, detail=f"{answers.detail}; {gap}")
    if isinstance(answers, NotApplicable) or news.verdict > answers.verdict:
        return news
    return replace(answers, detail=f"{answers.detail}; {news.detail}") if news.verdict is answers.verdict else answers


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    heard, has_shipped = Heard(evidence.sent_calls, evidence.strays), evidence.operations.has_shipped()
    if has_shipped and not heard.news():
        return [_of_shipped(evidence)]
    # A client records the answers of shipped services without their bytes, which then look missing.
    news = check_news(
        evidence.run,
        evidence.manifest,
        heard,
        log.member_id,
        log.end_position,
        has_faults=bool(evidence.faults) or has_shipped,
        java=evidence.java_replay,
    )
    if has_shipped:
        return [with_news(_of_shipped(evidence), news)]
    return [NotApplicable(Promise.ANSWERED_ONCE, news) if isinstance(news, str) else news]


def _of_shipped(evidence: Evidence) -> Result:
    """Judge the answers of shipped services."""
    if evidence.has_all_of_clients or evidence.strays:
        (result,) = judge_strays(evidence.strays, evidence.placed, _gaps(evidence))
        return result
    return NotApplicable(Promise.ANSWERED_ONCE, "the clients of the run recorded only the answers that they waited for")


STRAY_ANSWERS: Final = by_log(
    "stray-answers",
    (Promise.ANSWERED_ONCE,),
    _check,
    {Source.HISTORY, Source.SESSIONS, Source.STRAYS, Source.CODE, Source.CONTROLS, Source.CONFIGURATIONS},
)
