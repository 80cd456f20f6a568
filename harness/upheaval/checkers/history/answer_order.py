"""The promise about the order of answers: a session receives its answers in the order of its operations in the log.

A service applies the log in order and answers a session on one stream. A client that learns of a new leader stops
waiting for what it sent to the old one, so its answers keep their order over a failover, too.
"""

from collections.abc import Iterable
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.history.columns import ABSENT, PlacedHistory
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Stray
from upheaval_node.types import MS


def judge_answer_order(placed: PlacedHistory, strays: Iterable[Stray] = ()) -> list[Result]:
    """Judge the order of answers.

    Late answers are only compared with answers to entries of the same term: another leader has another stream.
    """
    late = {stray.operation: stray for stray in strays}
    history, entries = placed.history, placed.entries
    latest: dict[tuple[int, int | None], tuple[int, int]] = {}
    answers = 0
    for row, number, position, term in zip(placed.rows, entries.ids, entries.positions, entries.terms, strict=True):
        session = None if row < 0 else history.sessions[row]
        if session is None:
            continue
        answered_ns = history.completed[row]
        streams: tuple[int | None, ...] = (None, term)
        if answered_ns == ABSENT:
            stray = late.get(number)
            if stray is None or stray.session != session:
                continue
            answered_ns, streams = stray.received_ns, (term,)
        answers += 1
        for stream in streams:
            last, last_ns = latest.get((session, stream), (row, answered_ns))
            if answered_ns < last_ns:
                detail = (
                    f"{history.at(row)} at position {position} of session {session} was answered "
                    f"{(last_ns - answered_ns) / MS:.3f} ms before operation id={history.ids[last]}, which the log has "
                    "before it"
                )
                invalid = Finding(
                    Promise.ANSWERS_IN_ORDER, Verdict.INVALID, detail, position=position, operation=number
                )
                return [invalid]
            latest[session, stream] = row, answered_ns
    if not answers:
        why = "the history has no answered operation of a shipped service with its session"
        return [NotApplicable(Promise.ANSWERS_IN_ORDER, why)]
    sessions = len({session for session, _ in latest})
    detail = f"{answers} answers of {sessions} sessions, each in the order of the log"
    return [Finding(Promise.ANSWERS_IN_ORDER, Verdict.VALID, detail)]


ANSWER_ORDER: Final = by_log(
    "answer-order",
    (Promise.ANSWERS_IN_ORDER,),
    lambda evidence, _: judge_answer_order(evidence.placed, evidence.strays),
    {Source.HISTORY, Source.STRAYS},
)
