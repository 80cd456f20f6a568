"""What is kept of a run that goes on is bounded: it goes when it is complete, or has waited too long."""

import json

from upheaval.checkers.promises import Promise
from upheaval.records import Function
from upheaval_pipeline.facts import ANSWER, EXTENT, FRAME, LATE_MS, Fact, Moment
from upheaval_pipeline.live_ranges import Range, range_of
from upheaval_pipeline.live_results import Key, key_of
from upheaval_pipeline.tables import POSITION_RANGE

EARLY = Moment(0, 0)
MEMBERS = 3


def frame(member: int, begin: int, number: int, value: int = 1, digest: int = 7) -> Fact:
    return Fact(FRAME, member, begin, begin + 32, digest, number, Function.WRITE, "k", json.dumps(value), None, -1)


def extent(member: int, begin: int, end: int) -> Fact:
    return Fact(EXTENT, member, begin, end, -1, -1, None, None, None, None, -1)


def answer(number: int, position: int, f: Function = Function.WRITE, result: int | None = None) -> Fact:
    value = "1" if f is Function.WRITE else "null"
    return Fact(ANSWER, -1, -1, position, -1, number, f, "k", value, json.dumps(result), 5)


def test_frames_go_when_all_members_were_compared_and_operations_when_they_are_answered() -> None:
    known = Range(MEMBERS)
    for member in range(MEMBERS):
        assert known.frames or not member
        known.judge(0, [frame(member, 0, 1), extent(member, 0, 32)])
    assert known.frames == {}
    assert list(known.entries) == ["1"]
    told = known.judge(0, [answer(1, 32)])
    assert (told.answered, told.judged, told.findings) == (1, 1, [])
    assert (known.entries, known.answers) == ({}, {})


def test_an_answer_waits_for_the_log_and_is_then_missed() -> None:
    known = Range(MEMBERS)
    assert known.judge(0, [answer(1, 64), frame(0, 0, 2), extent(0, 0, 32)]).judged == 0
    known = range_of(MEMBERS, known.to_json())
    (finding,) = known.judge(0, [frame(0, 32, 3), extent(0, 32, 64)]).findings
    assert (finding.promise, finding.operation, finding.position) == (Promise.ACKNOWLEDGED_NOT_LOST, 1, 64)


def test_the_first_frame_that_differs_is_told_once() -> None:
    known = Range(MEMBERS)
    known.judge(0, [frame(0, 0, 1), frame(0, 32, 2), frame(0, 64, 3), extent(0, 0, 96)])
    (finding,) = known.judge(0, [frame(1, 0, 1), frame(1, 32, 2, digest=8), extent(1, 0, 64)]).findings
    assert (finding.promise, finding.members, finding.position) == (Promise.LOGS_EQUAL, (0, 1), 32)
    assert known.judge(0, [frame(1, 64, 3, digest=8), extent(1, 64, 96)]).findings == []


def test_a_log_that_differs_is_none_to_compare_with() -> None:
    known = Range(MEMBERS)
    known.judge(0, [frame(0, 0, 1), extent(0, 0, 32)])
    known.judge(0, [frame(1, 0, 1, digest=8), frame(1, 32, 2, digest=8), extent(1, 0, 64)])
    told = known.judge(0, [frame(2, 0, 1), frame(2, 32, 3), extent(2, 0, 64), answer(3, 64)])
    assert (told.findings, told.judged) == ([], 1)


def test_a_frame_that_a_member_lacks_is_a_difference() -> None:
    known = Range(MEMBERS)
    known.judge(0, [frame(0, 0, 1), frame(0, 32, 2), extent(0, 0, 64)])
    (finding,) = known.judge(0, [frame(1, 0, 1), extent(1, 0, 64)]).findings
    assert finding.position == 32


def test_extents_count_in_their_range_alone() -> None:
    known = Range(MEMBERS)
    known.judge(1, [extent(0, POSITION_RANGE - 96, POSITION_RANGE + 64)])
    assert known.reach == [POSITION_RANGE, POSITION_RANGE + 64]


def test_what_waits_too_long_is_given_up_and_the_value_stays() -> None:
    known = Key()
    known.judge([frame(0, 0, 1, value=4)], EARLY)
    until_ms = known.waits_until_ms
    assert until_ms == 2 * LATE_MS
    known.judge([], Moment(until_ms - 1, until_ms))
    assert list(known.expected) == ["1"]
    known = key_of(known.to_json())
    late = Moment(until_ms, until_ms + LATE_MS)
    told = known.judge([frame(0, 32, 2, value=5)._replace(f=Function.READ), answer(2, 64, Function.READ, 4)], late)
    assert told.findings == []
    assert (known.expected, known.answers, known.waits_until_ms) == ({}, {}, None)


def test_an_answer_may_come_before_its_entry() -> None:
    known = Key()
    known.judge([frame(0, 0, 1, value=4), answer(2, 64, Function.READ, 3)], EARLY)
    known = key_of(known.to_json())
    (finding,) = known.judge([frame(0, 32, 2)._replace(f=Function.READ)], EARLY).findings
    assert (finding.promise, finding.operation, finding.position) == (Promise.LINEARIZABLE, 2, 64)
