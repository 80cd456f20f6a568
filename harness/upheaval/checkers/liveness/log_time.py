"""The promise about the cluster's time: entries of a leadership term have times that their leader's clock showed.

Every line of a member's trace has the member's wall clock beside the monotonic one. So the trace says when a member led
by the clock that it writes into the log, and how far that clock was moved meanwhile. No other clock counts: members'
clocks may differ, and cluster time may jump from one leader to the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from upheaval.checkers.checker import by_log
from upheaval.checkers.evidence.events import TermTimes, units_of_ms
from upheaval.checkers.evidence.leader_clocks import ROUNDING_MS, LeaderClock
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict


def judge_time(times: Mapping[int, TermTimes], clocks: Iterable[LeaderClock], time_unit: int) -> list[Result]:
    """Judge the times of the log's entries."""
    unit = units_of_ms(time_unit)
    by_term: dict[int, list[LeaderClock]] = {}
    for clock in clocks:
        by_term.setdefault(clock.leadership_term_id, []).append(clock)
    judged = sorted(times.keys() & by_term.keys())
    if not judged:
        return [NotApplicable(Promise.TIME_KEPT, "no leader of the log's terms left a trace of when it led")]
    try:
        for term in judged:
            _require_kept(term, times[term], by_term[term], unit)
    except Broken as broken:
        return [broken.finding(Promise.TIME_KEPT)]
    detail = f"entries of {len(judged)} of {len(times)} terms have times at which their leader led"
    return [Finding(Promise.TIME_KEPT, Verdict.VALID, detail)]


def _require_kept(term: int, times: TermTimes, clocks: Sequence[LeaderClock], unit: int) -> None:
    allowed_ms = sum(clock.moved_ms for clock in clocks) + ROUNDING_MS
    begin, clock = min(clocks, key=lambda clock: clock.begin_ms), clocks[-1]
    back, position = times.step_back
    if back > allowed_ms * unit:
        what = f"{back / unit:g} ms earlier than an entry before it, while the clock of member {clock.member_id}"
        raise _broken(term, position, f"{what} was moved by {allowed_ms - ROUNDING_MS} ms at most", clock)
    early, position = times.earliest
    if early < (begin.begin_ms - allowed_ms) * unit:
        what = f"{begin.begin_ms - early / unit:g} ms before member {begin.member_id} began to lead"
        raise _broken(term, position, what, begin)
    late, position = times.latest
    ends = [clock.end_ms for clock in clocks if clock.end_ms is not None]
    if len(ends) == len(clocks) and late > (max(ends) + allowed_ms) * unit:
        what = f"{late / unit - max(ends):g} ms after member {clock.member_id} had ceased to lead"
        raise _broken(term, position, what, clock)


def _broken(term: int, position: int, what: str, clock: LeaderClock) -> Broken:
    detail = f"the entry of term {term} at position {position} has a time {what} ({clock.where})"
    return Broken(Verdict.INVALID, detail, members=(clock.member_id,), position=position)


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    return judge_time(log.events.times, evidence.clocks, log.events.time_unit)


TIME: Final = by_log("log-time", (Promise.TIME_KEPT,), _check)
