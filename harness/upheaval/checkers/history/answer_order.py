"""The promise about the order of answers: those of a session come in the order in which the log has its operations.

A service applies the log in its order and answers a session on one stream. A client that hears of a new leader waits no
longer for what it sent to the one before, so its answers keep the order over a failover, too.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from upheaval.checkers.checker import Checker, Source, of_whole_log
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.witness import LogEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Operation, Stray
from upheaval_node.types import MS


def judge_answer_order(
    operations: Mapping[int, Operation], entries: Iterable[LogEntry], strays: Iterable[Stray] = ()
) -> list[Result]:
    """One result on operations by their ids and the entries of the log, in its order.

    Answers that came late keep the order of those to entries of their term: another leader has another stream.
    """
    late = {stray.operation: stray for stray in strays}
    latest: dict[tuple[int, int | None], tuple[Operation, int]] = {}
    answers = 0
    for entry in entries:
        operation = operations.get(entry.id)
        if operation is None or operation.session is None:
            continue
        stray = late.get(entry.id)
        if operation.complete_ns is not None:
            answered_ns = operation.complete_ns
            streams: tuple[int | None, ...] = (None, entry.term)
        elif stray is not None and stray.session == operation.session:
            answered_ns, streams = stray.received_ns, (entry.term,)
        else:
            continue
        answers += 1
        for stream in streams:
            last, last_ns = latest.get((operation.session, stream), (operation, answered_ns))
            if answered_ns < last_ns:
                detail = (
                    f"{operation} at position {entry.position} of session {operation.session} was answered "
                    f"{(last_ns - answered_ns) / MS:.3f} ms before operation id={last.id}, which the log has before it"
                )
                return [_invalid(detail, entry)]
            latest[operation.session, stream] = operation, answered_ns
    if not answers:
        why = "the history has no answered operation of a shipped service with its session"
        return [NotApplicable(Promise.ANSWERS_IN_ORDER, why)]
    sessions = len({session for session, _ in latest})
    detail = f"{answers} answers of {sessions} sessions, each in the order of the log"
    return [Finding(Promise.ANSWERS_IN_ORDER, Verdict.VALID, detail)]


def _invalid(detail: str, entry: LogEntry) -> Finding:
    return Finding(Promise.ANSWERS_IN_ORDER, Verdict.INVALID, detail, position=entry.position, operation=entry.id)


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    return judge_answer_order(evidence.by_id, log.entries, evidence.strays)


ANSWER_ORDER: Final = Checker(
    "answer-order",
    (Promise.ANSWERS_IN_ORDER,),
    frozenset((Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER)) | {Source.HISTORY, Source.STRAYS},
    of_whole_log((Promise.ANSWERS_IN_ORDER,), _check),
)
