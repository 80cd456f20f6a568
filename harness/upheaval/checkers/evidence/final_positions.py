"""The promise about final positions: manifest, traces, recordings and history agree on where the log ends."""

from collections.abc import Mapping, Sequence
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.positions import LogBounds, TracedPositions, completed_ns, finals_of, lowest_commit
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.columns import IS_OK, History
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import FinalPosition, Manifest, Operation


def final_positions(
    manifest: Manifest,
    traced: TracedPositions,
    ends: Mapping[int, int],
    bounds: LogBounds,
    acknowledged: Operation | None,
    past_commit: int | None,
) -> Finding:
    """Whether manifest, traces, recordings and history agree on where the log ends.

    `ends` are the ends of the recordings. `acknowledged` is the result of `acknowledged_past_the_end`. `past_commit` is
    the position of the first client message past the commit position in the longest log.
    """
    finals = finals_of(manifest)
    try:
        for final in finals:
            _require_possible(final)
        if traced.is_lossy:
            return _found(finals, "power was cut at sync level 0: traces and recordings may be ahead of each other")
        _require_recorded(traced, ends, bounds)
        for final in finals:
            _require_nothing_later(final, traced, completed_ns(manifest), acknowledged)
        if finals:
            _require_traced(finals, traced, manifest.members)
            _require_no_more_traffic(bounds, past_commit)
    except Broken as broken:
        return broken.finding(Promise.FINAL_POSITIONS)
    committed = traced.committed
    traced_last = (
        "the traces have none"
        if committed is None
        else f"{committed.position} is the last one in the traces ({committed})"
    )
    return _found(
        finals, f"commit position of {len(finals)} members in the manifest: {lowest_commit(manifest)}; {traced_last}"
    )


def _found(finals: Sequence[FinalPosition], detail: str) -> Finding:
    if not finals:
        detail = "the manifest has no final positions: no converge phase"
        return Finding(Promise.FINAL_POSITIONS, Verdict.UNKNOWN, detail)
    return Finding(Promise.FINAL_POSITIONS, Verdict.VALID, detail)


def acknowledged_past_the_end(history: History, manifest: Manifest) -> Operation | None:
    """The first operation that was acknowledged before convergence at a position past the final one."""
    limit, end_ns = lowest_commit(manifest), completed_ns(manifest)
    if limit is None:
        return None
    for row, position in enumerate(history.positions):
        if position > limit and IS_OK[history.kinds[row]] and history.completed[row] < end_ns:
            return history.at(row)
    return None


def _require_possible(final: FinalPosition) -> None:
    if final.append_position < final.commit_position:
        detail = f"{_commit_of(final)} and append position {final.append_position}, which cannot be lower"
        raise Broken(Verdict.INVALID, detail, members=(final.member_id,), position=final.append_position)


def _require_nothing_later(
    final: FinalPosition, traced: TracedPositions, end_ns: int, acknowledged: Operation | None
) -> None:
    """Nothing past a final position may be committed, acknowledged or recorded before that was read."""
    who = (final.member_id,)
    reported = traced.committed_in_run
    if reported is not None and reported.position > final.commit_position:
        detail = f"{_commit_of(final)}, but position {reported.position} was committed by then ({reported})"
        raise Broken(Verdict.UNKNOWN, detail, members=who, position=reported.position)
    place = -1 if acknowledged is None or acknowledged.position is None else acknowledged.position
    if acknowledged is not None and place > final.commit_position:
        detail = f"{_commit_of(final)}, but {acknowledged} was acknowledged at position {place}"
        raise Broken(Verdict.UNKNOWN, detail, members=who, position=place, operation=acknowledged.id)
    for reported in traced.appended:
        if reported.member_id == final.member_id and reported.ns < end_ns and reported.position > final.append_position:
            detail = (
                f"the manifest has append position {final.append_position} of member {final.member_id}, which had "
                f"recorded up to position {reported.position} by then ({reported})"
            )
            raise Broken(Verdict.UNKNOWN, detail, members=who, position=reported.position)


def _require_recorded(traced: TracedPositions, ends: Mapping[int, int], bounds: LogBounds) -> None:
    """The recordings must reach the append positions that members reported, and a quorum of them the commit
    position.
    """
    for reported in traced.appended:
        end = ends.get(reported.member_id, reported.position)
        if end < reported.position:
            detail = (
                f"the recording of member {reported.member_id} ends at position {end}, it had recorded up to position "
                f"{reported.position} ({reported})"
            )
            raise Broken(Verdict.INVALID, detail, members=(reported.member_id,), position=end)
    committed, recorded = traced.committed, bounds.recorded
    if committed is not None and recorded is not None and recorded < committed.position:
        short = tuple(sorted(member_id for member_id, end in ends.items() if end < committed.position))
        listed = ", ".join(f"member {member_id} ends at {end}" for member_id, end in sorted(ends.items()))
        detail = (
            f"position {committed.position} was committed ({committed}), a quorum of recordings reaches position "
            f"{recorded} only: {listed}"
        )
        raise Broken(Verdict.INVALID, detail, members=short, position=recorded)


def _require_traced(finals: Sequence[FinalPosition], traced: TracedPositions, members: int) -> None:
    """Evidence other than the manifest must show the commit position."""
    if members > 1 and traced.is_whole:
        furthest = -1 if traced.committed is None else traced.committed.position
        for final in finals:
            if final.commit_position > furthest:
                where = (
                    f"no trace shows more than {furthest} ({traced.committed})"
                    if traced.committed
                    else "no trace shows any"
                )
                detail = f"{_commit_of(final)}, {where}"
                raise Broken(Verdict.UNKNOWN, detail, members=(final.member_id,), position=final.commit_position)


def _require_no_more_traffic(bounds: LogBounds, past_commit: int | None) -> None:
    """A quorum's recordings past the commit position may be committed, but the load had ended before."""
    if past_commit is not None and bounds.recorded is not None and past_commit <= bounds.recorded:
        detail = (
            f"a quorum of recordings has the message of a client at position {past_commit}, past position "
            f"{bounds.commit_position}, the last one known to be committed"
        )
        raise Broken(Verdict.UNKNOWN, detail, position=past_commit)


def _commit_of(final: FinalPosition) -> str:
    return f"the manifest has commit position {final.commit_position} of member {final.member_id}"


def _check(evidence: Evidence) -> list[Finding]:
    logs, manifest = evidence.logs, evidence.manifest
    past = acknowledged_past_the_end(evidence.operations, manifest)
    past_commit = None if logs.witness is None else logs.witness.past_commit
    return [final_positions(manifest, evidence.positions, logs.ends, logs.bounds, past, past_commit)]


FINAL_POSITIONS: Final = Checker("final-positions", (Promise.FINAL_POSITIONS,), OF_LOG | {Source.HISTORY}, _check)
