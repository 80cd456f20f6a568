"""Each entry is of its term; each operation is in the session that took it, in its order, one at a time a slot."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.events import LogEvents
from upheaval.checkers.evidence.spans import MemberSpans, Span
from upheaval.checkers.history.clients import clients_of, cuts_of, judge_clients, judge_terms
from upheaval.checkers.history.columns import LogEntry, PlacedHistory
from upheaval.checkers.known_bugs import recognised
from upheaval.checkers.signature import CLIENTS_CUT, LEADER, Rule, Signature
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict
from upheaval.records import Function, Operation, Outcome, SessionCause, SessionEnd
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import S

OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN


def op(
    number: int, process: int, invoke: int, complete: int | None, outcome: Outcome = OK, session: int = 7
) -> Operation:
    return Operation(number, process, Function.READ, "k", None, invoke, complete, outcome, None, None, session)


def at(number: int, position: int, session: int = 7, term: int = 3) -> LogEntry:
    return LogEntry(position, number, Function.READ, "k", None, session=session, term=term)


def said(operations: list[Operation], entries: list[LogEntry]) -> str:
    """What is wrong; empty when nothing is."""
    (finding,) = judge_clients(clients_of(PlacedHistory.of(operations, entries)))
    return finding.detail if finding.verdict is Verdict.INVALID else ""


@pytest.mark.parametrize(
    ("operations", "earlier"),
    [
        ([op(1, 0, 10, 20), op(2, 0, 20, 30)], None),
        ([op(1, 0, 10, 20), op(2, 0, 19, 30)], 1),
        ([op(2, 0, 19, 25), op(1, 0, 10, 26)], 1),
        ([op(1, 0, 10, None, UNKNOWN), op(2, 0, 90, 95)], 1),
        ([op(1, 0, 10, None, UNKNOWN), op(2, 1, 90, 95)], None),
        ([op(1, 0, 10, None, FAIL), op(2, 0, 11, 95)], None),
        ([op(1, 0, 10, 20), op(2, 0, 15, None, FAIL)], 1),
    ],
)
def test_a_slot_has_one_operation_outstanding(operations: list[Operation], earlier: int | None) -> None:
    wrong = said(operations, [])
    if earlier is None:
        assert wrong == ""
    else:
        assert f"was invoked while operation id={earlier} of client slot 0 was outstanding" in wrong


def test_of_several_the_first_line_is_named_and_calls_are_left_out() -> None:
    both = [op(1, 0, 10, 20), op(2, 1, 10, 20), op(4, 1, 12, 40), op(3, 0, 11, 50)]
    assert "operation id=2 of client slot 1" in said(both, [])
    calls = [replace(each, f=Function.CALL, value="0" * 64) for each in both]
    assert [type(each) for each in judge_clients(clients_of(PlacedHistory.of(calls, [])))] == [NotApplicable]


def test_an_operation_is_in_the_session_that_took_it() -> None:
    operations = [op(1, 0, 10, 20), op(2, 1, 11, 20, session=8)]
    assert said(operations, [at(1, 64), at(2, 128, 8)]) == ""
    assert "was sent in session 8 and is in session 7 at position 128" in said(operations, [at(1, 64), at(2, 128)])


def test_a_session_keeps_the_order_in_which_its_operations_were_invoked() -> None:
    operations = [op(1, 0, 10, 20), op(2, 1, 11, 20), op(3, 2, 9, 20, session=8)]
    assert said(operations, [at(1, 64), at(2, 128), at(3, 192, 8)]) == ""
    wrong = said(operations, [at(2, 64), at(1, 128), at(3, 192, 8)])
    assert "at position 128 was invoked before operation id=2 of session 7, which is before it" in wrong


def test_a_history_without_sessions_is_judged_by_its_slots_alone() -> None:
    old = [replace(op(number, number, 10 - number, 20), session=None) for number in range(3)]
    entries = [at(number, 64 * number, 99) for number in range(3)]
    (finding,) = judge_clients(clients_of(PlacedHistory.of(old, entries)))
    assert finding.verdict is Verdict.VALID
    assert finding.detail == "3 client slots; 0 operations are in the session that took them"


def left(session: int, ended_ns: int, cause: SessionCause = SessionCause.CLIENT) -> SessionEnd:
    return SessionEnd(session, 0, ended_ns, cause, 0)


@pytest.mark.parametrize(
    ("ends", "wrong"),
    [
        ([left(7, 20)], ""),
        ([left(7, 19)], "was answered in session 7 after its client had left it at 0.000 s of the machine's clock"),
        ([left(7, 9)], "was invoked in session 7 after its client had left it at 0.000 s of the machine's clock"),
        ([left(7, 9, SessionCause.SILENT)], "was invoked in session 7"),
        ([left(8, 9)], ""),
        # The opening of the first one was not committed, so that another one got its id.
        ([left(7, 30), left(7, 5)], ""),
    ],
)
def test_a_client_asks_nothing_in_a_session_that_it_has_left(ends: list[SessionEnd], wrong: str) -> None:
    (finding,) = judge_clients(clients_of(PlacedHistory.of([op(1, 0, 10, 20)], [at(1, 64)]), ends))
    assert (finding.verdict is Verdict.INVALID) is bool(wrong)
    assert isinstance(finding, Finding)
    assert wrong in finding.detail


def test_each_session_is_written_down_where_clients_write_down_all() -> None:
    operations, entries = [op(1, 0, 10, 20), op(2, 1, 30, None, UNKNOWN, session=8)], [at(1, 64)]
    for ends, past, missing in (
        ([left(7, 40), left(8, 40)], 0, None),
        ([left(7, 40)], 0, 2),
        ([left(8, 40)], 0, 1),
        ([left(8, 40)], 64, None),
        ([left(8, 40)], None, None),
    ):
        (finding,) = judge_clients(clients_of(PlacedHistory.of(operations, entries), ends, all_written_past=past))
        assert isinstance(finding, Finding)
        assert (finding.verdict, finding.operation) == (
            (Verdict.VALID, None) if missing is None else (Verdict.UNKNOWN, missing)
        )


def events(*terms: tuple[str, int]) -> LogEvents:
    found = LogEvents()
    for index, (kind, term) in enumerate(terms):
        found.add_term(kind, 64 * (index + 1), term, begins=kind == "begin")
    return found


@pytest.mark.parametrize(
    ("terms", "wrong"),
    [
        ([("begin", 0), ("message", 0), ("begin", 3), ("message", 3)], ""),
        ([("message", 0), ("begin", 0)], "message at position 64 is of term 0, where no term has begun"),
        (
            [("begin", 0), ("begin", 1), ("message", 0), ("message", 2)],
            "at position 192 is of term 0, where the log is",
        ),
        ([("begin", 0), ("message", 1)], "message at position 128 is of term 1, where the log is in term 0"),
        ([("begin", 1), ("begin", 1)], "begin at position 128 is of term 1, where the log is in term 1"),
        ([("begin", 2), ("begin", 1)], "begin at position 128 is of term 1, where the log is in term 2"),
    ],
)
def test_each_entry_is_of_the_term_in_which_it_lies(terms: list[tuple[str, int]], wrong: str) -> None:
    found = events(*terms)
    (finding,) = judge_terms(found.with_term, found.stray)
    assert (finding.verdict is Verdict.INVALID) is bool(wrong)
    assert wrong in finding.detail


def test_a_log_without_entries_of_a_term_has_no_line() -> None:
    assert [type(each) for each in judge_terms(0, None)] == [NotApplicable]


@pytest.mark.parametrize(
    ("missing", "terms", "is_wrong"),
    [
        (op(2, 1, 11, None, UNKNOWN), (3, 3), True),
        (op(2, 1, 11, None, UNKNOWN), (3, 4), False),
        (op(2, 1, 11, None, UNKNOWN, session=8), (3, 3), False),
        (op(2, 1, 11, 12, FAIL), (3, 3), False),
        # The order of two that were invoked at one moment is not known.
        (op(2, 1, 10, None, UNKNOWN), (3, 3), False),
        (op(2, 1, 12, None, UNKNOWN), (3, 3), False),
        (op(2, 1, 13, None, UNKNOWN), (3, 3), False),
    ],
)
def test_a_term_has_all_of_a_session_up_to_its_last_operation(
    missing: Operation, terms: tuple[int, int], is_wrong: bool
) -> None:
    operations = [op(1, 0, 10, 20), missing, op(3, 2, 12, 20)]
    wrong = said(operations, [at(1, 64, term=terms[0]), at(3, 192, term=terms[1])])
    assert ("of session 7 is not in the log, which has the session at positions 64 and 192 of term 3" in wrong) == (
        is_wrong
    )


@pytest.mark.parametrize(
    ("process", "terms", "is_wrong"),
    [(1, (3,), True), (1, (3, 3), True), (1, (2, 3), False), (0, (2, 3), True)],
    ids=["one session", "written twice", "another client's session of that id", "a slot of the log's session"],
)
def test_an_id_of_a_session_that_was_never_committed_is_given_again(
    process: int, terms: tuple[int, ...], is_wrong: bool
) -> None:
    """Campaign, chained seed 7500816: the client of the first one goes on to send to the leader that lost its term."""
    operations = [op(1, 0, 10, 20), op(2, process, 21, None, UNKNOWN), op(3, 2, 22, 30)]
    ends = [SessionEnd(7, term, 40 + term, SessionCause.LOST) for term in terms]
    placed = PlacedHistory.of(operations, [at(1, 64), at(3, 192)])
    (finding,) = judge_clients(clients_of(placed, ends))
    assert (finding.verdict is Verdict.INVALID) == is_wrong


CUT = FaultRecord("blackhole", "links", 5 * S, 5 * S, 18 * S, 18 * S, members=(1,), links=("clients->1",))
PAUSED = replace(CUT, what="pause", links=())


@pytest.mark.parametrize(
    ("faults", "entry"),
    [
        ([], ""),
        ([CUT], CLIENTS_CUT),
        ([replace(CUT, heal_begin_ns=None, heal_end_ns=None)], CLIENTS_CUT),
        ([PAUSED], CLIENTS_CUT),
        ([replace(PAUSED, component="consensus")], CLIENTS_CUT),
        ([replace(PAUSED, component="archive")], CLIENTS_CUT),
        ([replace(PAUSED, component="service")], ""),
        ([replace(CUT, heal_end_ns=14 * S)], ""),
        ([replace(CUT, inject_begin_ns=13 * S, inject_end_ns=13 * S, heal_end_ns=30 * S)], ""),
        ([replace(CUT, what="slow")], ""),
        ([replace(CUT, links=("1->clients",))], ""),
        ([replace(CUT, links=("clients->0",)), replace(PAUSED, members=(0,))], ""),
        ([FaultRecord("kill", "member-0", 5 * S, 5 * S, 18 * S, 18 * S, members=(0,))], ""),
    ],
    ids=[
        *("none", "cut", "not healed", "paused", "module paused", "driver paused", "service paused", "short", "later"),
        *("slow", "answers", "another member", "kill"),
    ],
)
def test_a_gap_in_a_session_shows_whether_its_leader_was_cut_off(faults: list[FaultRecord], entry: str) -> None:
    operations = [op(1, 0, 4 * S, 5 * S), op(2, 1, 11 * S, None, UNKNOWN), op(3, 2, 19 * S, 20 * S)]
    placed = PlacedHistory.of(operations, [at(1, 64), at(3, 192)])
    members = [MemberSpans(0), MemberSpans(1, led=[Span(1, "CLOSED", 1, 3 * S)])]
    (finding,) = judge_clients(clients_of(placed), cuts_of(faults, members))
    assert isinstance(finding, Finding)
    assert finding.signature == Signature(Rule.SESSION_GAP, role=LEADER, entry=entry)
    (marked,) = recognised([finding], ["aeron:1.47.4"])
    assert marked.known_issue == (1788 if entry else None)
