"""When the log took calls: which are known, and between which times of the host's clock."""

from dataclasses import replace

from upheaval.checkers.evidence.call_times import CallTimes, call_times
from upheaval.checkers.evidence.leader_clocks import ROUNDING_MS, LeaderClock
from upheaval.checkers.history.calls import CallEntry
from upheaval.records import Function, Operation, Outcome
from upheaval_node.types import MS, S

AHEAD_MS = 10**9
"""Of the leader's wall clock, before the monotonic one."""
LED = LeaderClock(0, 2, AHEAD_MS, None, 5, "member-2/trace.jsonl", AHEAD_MS, 1 * S)
NANOSECONDS = 2
"""The code of a unit of the cluster's time."""


def entry(digest: str, at_ms: int, session: int = 7, term: int = 0) -> CallEntry:
    return CallEntry(at_ms, digest, session, term, AHEAD_MS + at_ms)


def call(number: int, digest: str, outcome: Outcome = Outcome.OK, session: int | None = 7) -> Operation:
    return Operation(number, number, Function.CALL, "request", digest, 0, None, outcome, session=session)


def known(calls: list[Operation], entries: list[CallEntry], clock: LeaderClock = LED, unit: int = 0) -> CallTimes:
    times = call_times(calls, entries, [clock], unit)
    assert times is not None
    return times


def test_an_entry_has_a_time_between_two_readings_of_the_clock() -> None:
    times = known([call(1, "a")], [entry("a", 2000)])
    taken = times.taken[1]
    slack_ns = (5 + ROUNDING_MS) * MS
    assert (taken.earliest_ns, taken.latest_ns) == (2 * S - slack_ns, 2 * S + slack_ns)
    assert (taken.position, taken.member_id, list(times.entries_ns)) == (2000, 2, [2 * S + slack_ns])


def test_the_time_is_in_the_unit_of_the_cluster() -> None:
    stamped = replace(entry("a", 0), timestamp=(AHEAD_MS + 2000) * MS)
    in_ms = known([call(1, "a")], [entry("a", 2000)]).taken[1]
    assert known([call(1, "a")], [stamped], unit=NANOSECONDS).taken == {1: replace(in_ms, position=0)}


def test_a_payload_that_is_there_twice_in_one_session_is_of_no_known_call() -> None:
    calls = [call(1, "a", Outcome.UNKNOWN), call(2, "a"), call(3, "b"), call(4, "c"), call(5, "c", session=8)]
    entries = [entry("a", 1), entry("b", 2), entry("b", 3), entry("c", 4), entry("c", 5, session=8)]
    times = known(calls, entries)
    assert sorted(times.taken) == [4, 5]
    assert not times.missing
    assert len(times.entries_ns) == len(entries)


def test_missing_is_what_was_sent_and_never_answered() -> None:
    outcomes = [Outcome.OK, Outcome.UNKNOWN, Outcome.FAIL]
    calls = [call(number, str(number), outcome) for number, outcome in enumerate(outcomes)]
    calls.append(call(9, "9", Outcome.UNKNOWN, session=None))
    assert known(calls, []).missing == {1}


def test_without_the_clock_of_each_leader_no_time_is_known() -> None:
    entries = [entry("a", 1), entry("b", 2, term=1)]
    assert call_times([], entries, [LED], 0) is None
    assert call_times([], entries[:1], [replace(LED, moved_ms=60_000)], 0) is None
    assert call_times([], entries[:1], [LED], 0) is not None
