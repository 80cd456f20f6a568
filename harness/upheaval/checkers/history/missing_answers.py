"""The rule that a service answers every operation: no gap between two answers of a session, while nothing disturbs it.

A service applies the log in order and answers a session on one ordered stream. So if the answers to two operations of a
session arrived, those to all operations between them in the log arrived too, unless their leader or their stream
changed. This module knows nothing of files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.history.columns import ABSENT, IS_CALL, IS_FAIL, PlacedHistory
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import Stray


@dataclass(slots=True)
class _Stream:
    """The answers of one leader to one session: the last answered row, and the entries after it without answers."""

    answered: int = -1
    unanswered: list[int] = field(default_factory=list)


def require_no_gap(
    placed: PlacedHistory, strays: Iterable[Stray], troubles: Sequence[Trouble], liveness_ns: int
) -> None:
    """Raises `Broken` for the first operation without an answer between two that were answered.

    Both were answered within `liveness_ns`, the shortest life of a silent connection, and in none of `troubles`. So the
    stream was the same.
    """
    history, entries = placed.history, placed.entries
    late = {(stray.session, stray.operation): stray.received_ns for stray in strays}
    streams: dict[tuple[int, int | None], _Stream] = {}
    for index, row in enumerate(placed.rows):
        session = None if row < 0 else history.sessions[row]
        if session is None or IS_CALL[history.kinds[row]] or IS_FAIL[history.kinds[row]]:
            continue
        stream = streams.setdefault((session, entries.terms[index]), _Stream())
        answered_ns = history.completed[row]
        if answered_ns == ABSENT:
            answered_ns = late.get((session, entries.ids[index]), ABSENT)
        if answered_ns == ABSENT:
            stream.unanswered.append(index)
            continue
        if stream.unanswered and stream.answered >= 0:
            begin_ns = history.invoked[stream.answered]
            is_calm = not any(trouble.is_within(begin_ns, answered_ns) for trouble in troubles)
            if is_calm and answered_ns - begin_ns < liveness_ns:
                raise _broken(placed, stream.unanswered[0], stream.answered, row)
        stream.answered = row
        stream.unanswered.clear()


def _broken(placed: PlacedHistory, index: int, before: int, after: int) -> Broken:
    history, position = placed.history, placed.entries.positions[index]
    operation = history.at(placed.rows[index])
    detail = (
        f"{operation} at position {position} of session {operation.session} was not answered, and operations "
        f"id={history.ids[before]} before it and id={history.ids[after]} after it in the log were"
    )
    return Broken(Verdict.INVALID, detail, position=position, operation=operation.id)
