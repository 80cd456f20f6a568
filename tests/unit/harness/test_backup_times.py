"""What a backup had at a time was committed then: from facts alone."""

import pytest

from upheaval.checkers.evidence.positions import CommittedOverTime
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.backups import GRACE_NS, Held, require_committed
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval_node.types import S

COMMITTED = CommittedOverTime([(3 * S, 640), (1 * S, 64), (2 * S, 320), (2 * S, 96), (4 * S, 320)])


@pytest.mark.parametrize(
    ("ns", "position"),
    [(0, -1), (1 * S - 1, -1), (1 * S, 64), (2 * S, 320), (3 * S - 1, 320), (3 * S, 640), (9 * S, 640)],
)
def test_what_is_committed_grows_by_the_first_line_that_says_so(ns: int, position: int) -> None:
    assert COMMITTED.by(ns) == position


def broken(*held: Held, stalls: tuple[tuple[int, int], ...] = ()) -> Finding | None:
    try:
        assert require_committed("backup-0", held, COMMITTED, stalls) == len(held)
    except Broken as error:
        return error.finding(Promise.BACKED_UP)
    return None


@pytest.mark.parametrize(("ns", "position"), [(2 * S, 320), (3 * S - GRACE_NS, 640), (9 * S, 640), (1 * S, 32)])
def test_what_was_committed_then_is_good(ns: int, position: int) -> None:
    assert broken(Held(ns, position, "x:1")) is None


@pytest.mark.parametrize(
    ("ns", "position", "known"), [(2 * S, 640, 320), (3 * S - GRACE_NS - 1, 640, 320), (9 * S, 672, 640), (0, 0, -1)]
)
def test_what_was_not_is_named_with_position_and_time(ns: int, position: int, known: int) -> None:
    finding = broken(Held(2 * S, 320, "x:1"), Held(ns, position, "backup-0/trace.jsonl:7"))
    assert finding is not None
    assert (finding.verdict, finding.position) == (Verdict.INVALID, position)
    assert finding.detail == (
        f"backup-0 had the log up to position {position} at {ns // 1_000_000} ms (backup-0/trace.jsonl:7), and the "
        f"traces show no more than {known} committed by then"
    )


@pytest.mark.parametrize(
    ("begin_ns", "is_excused"),
    [
        (2 * S, True),
        (2 * S + GRACE_NS, True),
        (1 * S, True),
        (2 * S + GRACE_NS + 1, False),
        (1 * S - 1, False),
        (30 * S, False),
    ],
)
def test_a_stall_at_that_time_lets_a_line_have_an_earlier_time(begin_ns: int, is_excused: bool) -> None:
    stall = begin_ns, begin_ns + 1 * S
    assert (broken(Held(2 * S, 640, "x:1"), stalls=(stall,)) is None) is is_excused
