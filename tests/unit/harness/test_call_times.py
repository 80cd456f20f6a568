"""When the log took calls: which are known, and between which times of the host's clock."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.checkers.evidence.call_times import CallTimes, call_times
from upheaval.checkers.evidence.leader_clocks import ROUNDING_MS, LeaderClock, leader_clocks
from upheaval.checkers.history.calls import CallEntry
from upheaval.records import Function, Manifest, Operation, Outcome, RunFolder
from upheaval_chaos.host_faults import LONGEST_JUMP_MS
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import MS, NEVER_NS, S

AHEAD_MS = 10**9
"""Of the leader's wall clock, before the monotonic one."""
LED = LeaderClock(0, 2, AHEAD_MS, None, 5, "member-2/trace.jsonl", AHEAD_MS, 1 * S)
NANOSECONDS = 2
"""The code of a unit of the cluster's time."""


def entry(digest: str, at_ms: int, session: int = 7, term: int = 0) -> CallEntry:
    return CallEntry(at_ms, digest, session, term, AHEAD_MS + at_ms)


def call(number: int, digest: str, outcome: Outcome = Outcome.OK, session: int | None = 7) -> Operation:
    return Operation(number, number, Function.CALL, "request", digest, 0, None, outcome, session=session)


def known(calls: list[Operation], entries: list[CallEntry], *clocks: LeaderClock, unit: int = 0) -> CallTimes:
    return call_times(calls, entries, clocks or [LED], unit)


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


NEXT = replace(LED, leadership_term_id=1, member_id=1, begin_ms=AHEAD_MS + 5000, end_ms=AHEAD_MS + 9000)
LAST = replace(LED, leadership_term_id=2, begin_ms=AHEAD_MS + 9000)


def test_terms_without_a_usable_clock_leave_the_others_their_times() -> None:
    calls = [call(number, str(number), Outcome.UNKNOWN) for number in range(4)]
    entries = [entry("0", 1000), entry("1", 6000, term=1), entry("2", 9500, term=2)]
    moved = replace(NEXT, moved_ms=150)
    for clocks in ((LED, moved, LAST), (LED, LAST), (LED, NEXT, replace(NEXT, member_id=0), LAST)):
        times = known(calls, entries, *clocks)
        assert sorted(times.taken) == [0, 2]
        assert len(times.entries_ns) == 2
        # The log has the call of the middle term, at a time that is not known.
        assert times.missing == {3}


def test_when_entries_without_a_time_may_have_been_written_is_known() -> None:
    entries = [entry("1", 6000, term=1)]
    assert known([], entries, replace(LED, end_ms=AHEAD_MS + 5000), NEXT, LAST).untimed == []
    moved = replace(NEXT, moved_ms=150)
    assert known([], entries, moved).untimed == [(4850 * MS, 9150 * MS)]
    assert known([], entries, LED, LAST).untimed == [(0, NEVER_NS)]
    ended = replace(LAST, end_ms=AHEAD_MS + 12_000)
    assert known([], entries, replace(LED, begin_ms=AHEAD_MS + 500), ended).untimed == [(500 * MS, 12 * S)]


def test_without_any_clock_no_time_is_known() -> None:
    entries = [entry("a", 1), entry("b", 2, term=1)]
    times = call_times([call(1, "a"), call(2, "b", Outcome.UNKNOWN)], entries, [], 0)
    assert (list(times.entries_ns), times.taken, times.missing) == ([], {}, frozenset())
    assert times.untimed == [(0, NEVER_NS)] * 2


# --- clocks that faults move ---


def led(path: Path, *faults: FaultRecord) -> dict[int, int]:
    """How far the clock of each term may have been moved: member 0 leads from 1 to 20 s, and again from 60 to 80 s."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 1))
    for member_id in range(3):
        lines = [{"ts": 0, "epoch_ms": AHEAD_MS, "event": "process-start"}]
        for term, begin_s, end_s in ((0, 1, 20), (2, 60, 80)):
            for second, state in ((begin_s, "CLOSED"), (end_s, "CANVASS")):
                fields = {"state": state, "leadership_term_id": term, "leader_member_id": 0}
                epoch_ms = AHEAD_MS + second * 1000
                lines.append({"ts": second * S, "epoch_ms": epoch_ms, "event": "election_state", **fields})
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for fault in faults:
        run.add_fault(fault)
    return {clock.leadership_term_id: clock.moved_ms for clock in leader_clocks(run, 3)}


@pytest.mark.parametrize(
    ("begin_s", "end_s", "member_id", "moved"),
    [
        (5, 6, 0, {0}),
        (0, 70, 0, {0, 2}),
        (25, 30, 0, set()),
        (25, 59.5, 0, {2}),
        (19, None, 0, {0, 2}),
        (30, None, 0, {2}),
        (90, 99, 0, set()),
        (5, 70, 1, set()),
    ],
)
def test_a_jump_moves_the_clock_of_the_terms_within_it(
    begin_s: int, end_s: float | None, member_id: int, moved: set[int], tmp_path: Path
) -> None:
    end_ns = None if end_s is None else int(end_s * S)
    jump = FaultRecord("clock-jump", "", begin_s * S, begin_s * S, end_ns, end_ns, members=(member_id,))
    assert led(tmp_path, jump) == {term: LONGEST_JUMP_MS if term in moved else 0 for term in (0, 2)}
