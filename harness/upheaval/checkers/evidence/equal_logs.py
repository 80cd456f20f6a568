"""The promises that every log reaches its final position, and that logs are equal up to the commit position."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker
from upheaval.checkers.evidence.logs import Difference, LogEnd, Missing, WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.columns import LogEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import FinalPosition


def completeness(
    ends: Mapping[int, LogEnd],
    finals: Sequence[FinalPosition],
    missing: Missing | None,
    following: Callable[[int, int], tuple[int, LogEntry] | None],
) -> Finding:
    """Whether each member's log reaches its final position.

    `following`: the first operation of the longest log after the end of a member's log, and the member with that log.
    """
    for final in finals:
        end = ends.get(final.member_id)
        if end is not None and end.position < final.append_position:
            why = f" ({end.fault})" if end.fault else ""
            detail = (
                f"the log of member {final.member_id} ends at position {end.position}, "
                f"its final position is {final.append_position}{why}"
            )
            who, entry = following(final.member_id, end.position) or (-1, None)
            if entry is not None:
                detail += f"; member {who} goes on with {entry} at position {entry.position}"
            return Finding(
                Promise.LOGS_COMPLETE,
                Verdict.INVALID,
                detail,
                members=(final.member_id,),
                position=end.position,
                operation=None if entry is None else entry.id,
            )
    if missing or not finals:
        return _no_logs(Promise.LOGS_COMPLETE, missing)
    reached = {end.position for end in ends.values()}
    return Finding(Promise.LOGS_COMPLETE, Verdict.VALID, f"{len(ends)} logs end at {_range(reached)}")


def _following(witness: WitnessLog | None, _member_id: int, position: int) -> tuple[int, LogEntry] | None:
    if witness is None:
        return None
    entries = witness.entries
    index = bisect_right(entries.positions, position)
    return None if index == len(entries) else (witness.member_id, entries.at(index))


def equality(
    logs: int, finals: Sequence[FinalPosition], missing: Missing | None, difference: Difference | None
) -> Finding:
    """Whether the logs are equal up to the commit position. `difference` is the first place where they are not.

    Logs may differ past the commit position. Without final positions the commit position is not known.
    """
    low = min((final.commit_position for final in finals), default=-1)
    if difference is not None:
        verdict = Verdict.INVALID if difference.position < low else Verdict.UNKNOWN
        about = difference.members, difference.position, difference.operation
        return Finding(Promise.LOGS_EQUAL, verdict, str(difference), *about)
    if missing or not finals:
        return _no_logs(Promise.LOGS_EQUAL, missing)
    return Finding(Promise.LOGS_EQUAL, Verdict.VALID, f"{logs} logs compared frame by frame up to position {low}")


def _no_logs(promise: Promise, missing: Missing | None) -> Finding:
    if missing is not None:
        return Finding(promise, Verdict.UNKNOWN, missing.why, members=(missing.member_id,))
    return Finding(promise, Verdict.UNKNOWN, "the manifest has no final positions: no converge phase")


def _range(positions: set[int]) -> str:
    low, high = min(positions), max(positions)
    return f"position {low}" if low == high else f"positions {low} to {high}"


def _check(evidence: Evidence) -> list[Finding]:
    logs, finals = evidence.logs, evidence.finals
    return [
        completeness(logs.logs, finals, logs.missing, partial(_following, logs.witness)),
        equality(len(logs.logs), finals, logs.missing, logs.difference),
    ]


EQUAL_LOGS: Final = Checker("equal-logs", (Promise.LOGS_COMPLETE, Promise.LOGS_EQUAL), OF_LOG, _check)
