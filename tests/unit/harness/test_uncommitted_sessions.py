"""Sessions that clients knew and the log does not have: a deposed leader had announced an opening that it lost."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.described import require_sessions
from upheaval.checkers.evidence.events import SessionFacts
from upheaval.checkers.evidence.term_facts import Lead, TermFacts
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.history.columns import History
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import Function, Operation, Outcome, SessionCause, SessionEnd
from upheaval_node.types import S

COMMITTED = SessionFacts(8, [320], open_term=1)
LATER = SessionFacts(31, [900], open_term=2)
LOST = SessionEnd(22, 1, 23 * S, SessionCause.LOST, 1)
DEPOSED = TraceFacts(0, is_there=True, terms={1: TermFacts([Lead(3 * S, 10, 21 * S)])})
LEADER = TraceFacts(1, is_there=True, terms={2: TermFacts([Lead(20 * S, 10)])})
OF_AERON = (TraceFacts(0, is_there=True), TraceFacts(1, is_there=True))
"""Members that do not trace who leads."""
LOST_REQUEST = Operation(5, 9, Function.APPEND, "l3.0", 385, 21 * S, None, Outcome.UNKNOWN, None, None, 22)
ANSWERED = replace(LOST_REQUEST, complete_ns=22 * S, outcome=Outcome.OK, position=400)


def found(
    *ends: SessionEnd, operations: tuple[Operation, ...] = (), traces: tuple[TraceFacts, ...] = (DEPOSED, LEADER)
) -> Finding | None:
    opened = {facts.session_id: facts for facts in (COMMITTED, LATER)}
    try:
        require_sessions(History.of(operations), ends, opened, traces, terms=(0, 1, 2))
    except Broken as broken:
        return broken.finding(Promise.EVIDENCE_BOUND)
    return None


def accused(end: SessionEnd) -> Finding:
    detail = f"sessions.jsonl has the end of session {end.session}, which the log never opened"
    return Finding(Promise.EVIDENCE_BOUND, Verdict.INVALID, detail)


def test_a_session_that_a_deposed_leader_did_not_commit_is_not_accused() -> None:
    assert found(LOST, operations=(LOST_REQUEST,)) is None


def test_a_session_that_was_lost_before_its_client_asked_anything_is_not_accused() -> None:
    assert found(LOST) is None


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(replace(LOST, leadership_term_id=2, followed_term_id=2), id="its leader was not deposed"),
        pytest.param(replace(LOST, leadership_term_id=0, followed_term_id=0), id="no trace has a leader of its term"),
        pytest.param(replace(LOST, ended_ns=2 * S), id="it ended before its leader led"),
        pytest.param(replace(LOST, followed_term_id=2), id="the next leader knew it"),
        pytest.param(replace(LOST, session=7), id="its leader committed one with a higher id"),
        pytest.param(replace(LOST, session=8 + 1_000 + 2_000_001), id="its leader had no time for so many"),
    ],
)
def test_a_session_that_no_deposed_leader_can_have_opened_is_found(end: SessionEnd) -> None:
    assert found(end) == accused(end)


AGAIN = SessionEnd(COMMITTED.session_id, 1, 25 * S, SessionCause.CLIENT, 2)
"""Of a session that the log opened in term 1."""


@pytest.mark.parametrize("traces", [(DEPOSED, LEADER), OF_AERON], ids=["our node", "Aeron"])
def test_the_leader_of_a_later_term_may_answer_a_session_request(traces: tuple[TraceFacts, ...]) -> None:
    for term in (1, 2):
        assert found(replace(AGAIN, leadership_term_id=term), traces=traces) is None


@pytest.mark.parametrize("traces", [(DEPOSED, LEADER), OF_AERON], ids=["our node", "Aeron"])
@pytest.mark.parametrize("term", [0, 8])
def test_a_session_is_not_opened_in_a_term_that_cannot_have_it(term: int, traces: tuple[TraceFacts, ...]) -> None:
    finding = found(replace(AGAIN, leadership_term_id=term), traces=traces)
    detail = f"sessions.jsonl has the end of session 8, which the log never opened in term {term}, but in term 1"
    assert finding == Finding(Promise.EVIDENCE_BOUND, Verdict.INVALID, detail)


def test_an_id_that_a_deposed_leader_lost_is_given_again() -> None:
    assert found(replace(LOST, session=LATER.session_id), operations=(replace(ANSWERED, session=31),)) is None


def test_an_answer_of_a_shipped_service_without_its_position_is_unknown() -> None:
    finding = found(operations=(replace(ANSWERED, position=None),))
    assert finding is not None
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.detail == "history.jsonl has operation id=5, which was answered, without its position"


def test_a_leader_takes_an_id_for_each_request_that_it_has_time_for() -> None:
    assert found(replace(LOST, session=8 + 1_000 + 2_000_000)) is None


def test_a_session_with_an_answer_was_committed() -> None:
    assert found(LOST, operations=(ANSWERED,)) == accused(LOST)


def test_a_leader_that_no_other_followed_committed_its_sessions() -> None:
    assert found(LOST, traces=(DEPOSED,)) == accused(LOST)


def test_a_session_that_a_deposed_leader_of_aeron_did_not_commit_is_not_accused() -> None:
    assert found(LOST, operations=(LOST_REQUEST,), traces=OF_AERON) is None


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(replace(LOST, leadership_term_id=2, followed_term_id=2), id="the log has no later term"),
        pytest.param(replace(LOST, followed_term_id=2), id="the next leader knew it"),
        pytest.param(replace(LOST, session=8 + 1_001), id="so many do not arrive at once"),
    ],
)
def test_a_session_that_no_deposed_leader_of_aeron_can_have_opened_is_found(end: SessionEnd) -> None:
    assert found(end, traces=OF_AERON) == accused(end)
