"""A service answers every operation: which gaps between answers of a session are found, and which may be."""

import pytest

from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.history.columns import LogEntry, PlacedHistory
from upheaval.checkers.history.missing_answers import require_no_gap
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken
from upheaval.records import Function, Operation, Outcome, Stray
from upheaval_node.types import MS, S

SESSION = 7
LIVENESS_NS = 2 * S


def operation(number: int, *, is_answered: bool, session: int = SESSION, outcome: Outcome | None = None) -> Operation:
    """Invoked at `number` tenths of a second, answered 50 ms later or not at all."""
    invoke_ns = number * 100 * MS
    complete_ns = invoke_ns + 50 * MS if is_answered else None
    outcome = outcome or (Outcome.OK if is_answered else Outcome.UNKNOWN)
    return Operation(number, number, Function.READ, "k", None, invoke_ns, complete_ns, outcome, None, None, session)


def entry(number: int, *, term: int = 0, session: int = SESSION) -> LogEntry:
    return LogEntry(number * 64, number, Function.READ, "k", None, session=session, term=term)


ANSWERED = [operation(1, is_answered=True), operation(2, is_answered=False), operation(3, is_answered=True)]
ENTRIES = [entry(1), entry(2), entry(3)]


def gap(
    operations: list[Operation],
    entries: list[LogEntry],
    *,
    strays: tuple[Stray, ...] = (),
    troubles: tuple[Trouble, ...] = (),
    liveness_ns: int = LIVENESS_NS,
) -> int | None:
    """The position of the operation without an answer."""
    try:
        require_no_gap(PlacedHistory.of(operations, entries), strays, troubles, liveness_ns)
    except Broken as broken:
        return broken.finding(Promise.ANSWERED_ONCE).position
    return None


def test_an_operation_between_two_answered_ones_was_answered() -> None:
    with pytest.raises(
        Broken, match=r"id=2 .* at position 128 of session 7 was not answered, and operations id=1 before"
    ):
        require_no_gap(PlacedHistory.of(ANSWERED, ENTRIES), (), (), LIVENESS_NS)


def test_a_late_answer_is_an_answer() -> None:
    assert gap(ANSWERED, ENTRIES, strays=(Stray(SESSION, S, 2, 128),)) is None
    assert gap(ANSWERED, ENTRIES, strays=(Stray(SESSION + 1, S, 2, 128),)) is not None


def test_a_late_answer_shows_that_the_stream_went_on() -> None:
    operations = [ANSWERED[0], ANSWERED[1], operation(3, is_answered=False)]
    assert gap(operations, ENTRIES) is None
    assert gap(operations, ENTRIES, strays=(Stray(SESSION, S, 3, 192),)) is not None


def test_what_follows_the_last_answer_may_be_on_its_way() -> None:
    assert gap(ANSWERED[:2], ENTRIES[:2]) is None
    assert gap(ANSWERED[1:], ENTRIES[1:]) is None


def test_another_session_or_another_leader_has_another_stream() -> None:
    elsewhere = [ANSWERED[0], ANSWERED[1], operation(3, is_answered=True, session=8)]
    assert gap(elsewhere, [*ENTRIES[:2], entry(3, session=8)]) is None
    assert gap(ANSWERED, [*ENTRIES[:2], entry(3, term=1)]) is None
    assert gap(ANSWERED, [entry(1), entry(2, term=1), entry(3, term=1)]) is None


def test_an_operation_that_was_never_sent_has_no_answer() -> None:
    never = operation(2, is_answered=False, outcome=Outcome.FAIL)
    assert gap([ANSWERED[0], never, ANSWERED[2]], ENTRIES) is None


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "is_found"), [(0, 90, True), (0, 100, False), (340, 400, False), (360, 400, True)]
)
def test_a_fault_may_have_cut_the_stream(begin_ms: int, end_ms: int, *, is_found: bool) -> None:
    """The answers around the gap took from 100 to 350 ms."""
    trouble = Trouble(begin_ms * MS, end_ms * MS, (1,))
    assert (gap(ANSWERED, ENTRIES, troubles=(trouble,)) is not None) is is_found


@pytest.mark.parametrize(("liveness_ms", "is_found"), [(250, False), (251, True)])
def test_a_connection_may_have_ended_in_a_long_silence(liveness_ms: int, *, is_found: bool) -> None:
    assert (gap(ANSWERED, ENTRIES, liveness_ns=liveness_ms * MS) is not None) is is_found
