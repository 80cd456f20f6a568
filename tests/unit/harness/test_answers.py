"""Answers are judged by when traces show their commit, and by who led: facts in, one result out."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from upheaval.checkers.evidence.term_facts import TermReader
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.protocol.answers import Answer, judge_answers
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Json, TraceEvent

MS = 10**6
Line = tuple[int, str, Mapping[str, Json]]


def elected(ms: int, leader: int, term: int = 1) -> Line:
    fields = {"leadership_term_id": term, "leader_member_id": leader, "source": "election"}
    return ms, "leadership_term", fields


def message(ms: int, event: str, name: str, position: int, term: int = 1, **fields: Json) -> Line:
    return ms, event, {"message": name, "leadership_term_id": term, "log_position": position, **fields}


def traced(*members: Sequence[Line]) -> list[TraceFacts]:
    found = []
    for member_id, lines in enumerate(members):
        facts, reader = TraceFacts(member_id, True), TermReader()
        for number, (ms, event, fields) in enumerate(lines, 1):
            reader.add(member_id, TraceEvent(number, ms * MS, event, {"component": "all", **fields}))
        facts.terms = reader.terms
        found.append(facts)
    return found


LEADER: Sequence[Line] = (
    elected(100, 0),
    message(190, "receive", "AppendPosition", 640, follower_member_id=1),
    message(200, "send", "CommitPosition", 640),
    (500, "election_state", {"state": "INIT"}),
)
FOLLOWER: Sequence[Line] = (elected(100, 0), message(210, "receive", "CommitPosition", 640))


def judged(invoke_ms: float, complete_ms: float, *members: Sequence[Line], position: int = 640, **more: Any) -> Result:
    answer = Answer(7, position, 1, int(invoke_ms * MS), int(complete_ms * MS))
    deaths = more.get("deaths", {})
    return judge_answers([answer], traced(*(members or (LEADER, FOLLOWER, ()))), deaths, more.get("incomplete", {}))


def found(result: Result) -> Finding:
    assert isinstance(result, Finding)
    return result


def test_the_reports_of_a_quorum_stand_for_the_word_of_the_leader() -> None:
    """A leader without a connection sends no CommitPosition; its services answer."""
    assert found(judged(150, 190)).verdict is Verdict.VALID
    finding = found(judged(150, 189.5))
    assert finding.verdict is Verdict.INVALID
    assert (finding.members, finding.position, finding.operation) == ((0,), 640, 7)
    answered_ns = int(189.5 * MS)
    assert finding.when_ns == (answered_ns, answered_ns)
    assert str(answered_ns) not in finding.detail
    assert "0.500 ms before any trace shows that its position was committed (member-0/trace.jsonl:2)" in finding.detail


def test_one_report_is_no_quorum_of_five() -> None:
    finding = found(judged(150, 195, LEADER, FOLLOWER, (), (), ()))
    assert finding.verdict is Verdict.INVALID
    assert "member-0/trace.jsonl:3" in finding.detail


def test_a_position_that_no_trace_calls_committed_is_unknown() -> None:
    finding = found(judged(150, 300, position=672))
    assert finding.verdict is Verdict.UNKNOWN
    assert "no trace shows that its position was committed in term 1" in finding.detail


def test_what_another_term_committed_shows_nothing() -> None:
    later = (elected(50, 0), message(60, "send", "CommitPosition", 6400, term=2))
    assert found(judged(150, 170, (*later, *LEADER), FOLLOWER, ())).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("complete_ms", "is_of_call", "verdict"),
    [(610, True, Verdict.VALID), (599, True, Verdict.UNKNOWN), (610, False, Verdict.UNKNOWN)],
)
def test_a_custom_service_may_answer_in_the_term_that_commits_the_request(
    complete_ms: int, is_of_call: bool, verdict: Verdict
) -> None:
    """By a message of its own: the leader of the request's term was gone before it committed the request."""
    later = (elected(550, 1, 2), message(600, "send", "CommitPosition", 704, term=2))
    answer = Answer(7, 672, 1, 450 * MS, complete_ms * MS, is_of_call=is_of_call)
    finding = found(judge_answers([answer], traced(LEADER, (*FOLLOWER, *later), ()), {}, {}))
    assert finding.verdict is verdict, finding.detail


@pytest.mark.parametrize(
    ("invoke_ms", "complete_ms", "says"),
    [
        (90, 99, "was complete 1.000 ms before member 0 began to lead term 1"),
        (501, 502, "was invoked 1.000 ms after member 0 had ceased to lead term 1"),
    ],
)
@pytest.mark.parametrize("members", [(LEADER, FOLLOWER, ()), ((LEADER[0], LEADER[3]),)], ids=["three", "one"])
def test_only_who_leads_the_term_answers(
    members: Sequence[Sequence[Line]], invoke_ms: int, complete_ms: int, says: str
) -> None:
    finding = found(judged(invoke_ms, complete_ms, *members))
    assert finding.verdict is Verdict.INVALID
    assert says in finding.detail


def test_an_answer_may_be_on_its_way_when_its_leader_is_gone() -> None:
    assert found(judged(499, 900)).verdict is Verdict.VALID


def test_who_was_seen_to_be_gone_takes_nothing_any_more() -> None:
    lead = LEADER[:3]
    assert found(judged(450, 460, lead, FOLLOWER, ())).verdict is Verdict.VALID
    assert found(judged(450, 460, lead, FOLLOWER, (), deaths={0: [(390 * MS, 400 * MS)]})).verdict is Verdict.INVALID
    assert found(judged(450, 460, lead, FOLLOWER, (), deaths={0: [(10 * MS, 20 * MS)]})).verdict is Verdict.VALID


def test_lines_that_a_trace_lost_excuse_what_contradicts_the_rest() -> None:
    finding = found(judged(150, 180, incomplete={0: "member-0/trace.jsonl lost lines"}))
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.detail.endswith("; member-0/trace.jsonl lost lines")


def test_terms_of_an_earlier_run_are_counted_and_not_judged() -> None:
    answers = [Answer(1, 64, 0, 0, 1), Answer(7, 640, 1, 150 * MS, 250 * MS)]
    finding = found(judge_answers(answers, traced(LEADER, FOLLOWER, ()), {}, {}))
    assert finding.detail.endswith("; 1 of terms that no trace shows a leader of")
    assert isinstance(judge_answers(answers[:1], traced(LEADER, FOLLOWER, ()), {}, {}), NotApplicable)
    assert isinstance(judge_answers([], traced(LEADER, FOLLOWER, ()), {}, {}), NotApplicable)


@pytest.mark.parametrize(("is_first_message", "advises"), [(True, True), (False, False)])
def test_an_early_answer_that_no_rule_tells_from_news_comes_with_advice(is_first_message: bool, advises: bool) -> None:
    answer = Answer(7, 640, 1, 150 * MS, 160 * MS, is_first_message)
    finding = found(judge_answers([answer], traced(LEADER, FOLLOWER, ()), {}, {}))
    assert finding.verdict is Verdict.INVALID
    assert ("accepts=..." in finding.detail) is advises


COMMITS = st.lists(
    st.tuples(st.integers(100, 300), st.sampled_from(["sent", "heard", "report-1", "report-2"]), st.integers(1, 8)),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(COMMITS, st.lists(st.tuples(st.integers(1, 9), st.integers(0, 200)), min_size=1, max_size=8))
def test_answers_one_after_the_other_are_judged_as_each_alone(
    commits: Sequence[tuple[int, str, int]], times: Sequence[tuple[int, int]]
) -> None:
    """Whatever lines they share that show their commit."""
    of_leader, of_follower = [elected(100, 0)], [elected(100, 0)]
    for ms, what, step in sorted(commits):
        if what == "heard":
            of_follower.append(message(ms, "receive", "CommitPosition", 64 * step))
        elif what == "sent":
            of_leader.append(message(ms, "send", "CommitPosition", 64 * step))
        else:
            of_leader.append(message(ms, "receive", "AppendPosition", 64 * step, follower_member_id=int(what[-1])))
    traces = traced(of_leader, of_follower, ())
    answers = [
        Answer(number, 64 * step, 1, 100 * MS, (100 + ms) * MS) for number, (step, ms) in enumerate(sorted(times))
    ]
    alone = [found(judge_answers([answer], traces, {}, {})) for answer in answers]
    first = next((each for each in alone if each.verdict is not Verdict.VALID), None)
    together = found(judge_answers(answers, traces, {}, {}))
    assert together == first or (first is None and together.verdict is Verdict.VALID)
